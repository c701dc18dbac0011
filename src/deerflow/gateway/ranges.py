"""What a client already has of a file, and which part of it it wants (RFC 9110)."""

import re
from dataclasses import dataclass

ONE_RANGE = re.compile(r"bytes=[ \t]*([0-9]*)[ \t]*-[ \t]*([0-9]*)[ \t]*", re.IGNORECASE)
ETAG = re.compile(r'(?:W/)?"[\x21\x23-\x7e\x80-\xff]*"')
MOST_DIGITS = 19
"""No file is as long as a number with more of them."""


class NotSatisfiable(Exception):
    """The file has nothing of what is asked for."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """The headers in which a client says what it has and what it wants."""

    range: str | None = None
    if_range: str | None = None
    if_none_match: str | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """Some bytes of a file, from `begin` up to `end`, which is not one of them."""

    begin: int
    end: int


def entity_tag(tag: str, *, is_settled: bool) -> str:
    """The name of a content; a weak one where the content may change and keep it."""
    return f'"{tag}"' if is_settled else f'W/"{tag}"'


def is_known(conditions: Conditions, etag: str) -> bool:
    """Whether the client has the content already."""
    if conditions.if_none_match is None:
        return False
    if conditions.if_none_match.strip() == "*":
        return True
    return etag.removeprefix("W/") in {each.removeprefix("W/") for each in ETAG.findall(conditions.if_none_match)}


def wanted_part(conditions: Conditions, etag: str, size: int) -> Part | None:
    """The part that is asked for; None when it is the whole.

    Several parts at once, and what is no range, are answered with the whole, as the standard allows: a client that
    wants many small or overlapping parts gets no more than one file for it.

    Raises:
        NotSatisfiable: The file ends before that part begins.
    """
    if conditions.range is None or not has_the_same(conditions.if_range, etag):
        return None
    found = ONE_RANGE.fullmatch(conditions.range.strip())
    if found is None or found.groups() == ("", ""):
        return None
    first, last = (number(each) for each in found.groups())
    if first is None:
        if not last or not size:
            raise NotSatisfiable
        return Part(max(size - last, 0), size)
    if last is not None and last < first:
        return None
    if first >= size:
        raise NotSatisfiable
    return Part(first, size if last is None else min(last + 1, size))


def has_the_same(if_range: str | None, etag: str) -> bool:
    """Whether a part of the content fits what the client has; only a strong name can tell, a date cannot."""
    return if_range is None or (if_range.strip() == etag and not etag.startswith("W/"))


def number(digits: str) -> int | None:
    """What digits say, None when there are none; a number longer than any file is cut, before it takes time to read."""
    if not digits:
        return None
    short = digits.lstrip("0") or "0"
    return int(short) if len(short) <= MOST_DIGITS else 10**MOST_DIGITS
