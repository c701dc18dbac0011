"""Citations in Markdown, `[citation:Title](URL)`; work grows with the length of the text, and no faster."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

BEGIN = re.compile(r"\[citation:[ \t]*", re.IGNORECASE)
LINK = re.compile(r"(?<!!)\[(?!citation:)", re.IGNORECASE)
MAX_TITLE, MAX_URL = 500, 4_000
NO_URL = re.compile(r"[\s<>]")


@dataclass(frozen=True, slots=True)
class Mark:
    """A citation, and where it stands in the text."""

    begin: int
    end: int
    title: str
    url: str
    """Empty when it has none."""


def citations_in(text: str) -> Iterator[Mark]:
    """Every citation, in order."""
    yield from _marks(text, BEGIN)


def links_in(text: str) -> Iterator[Mark]:
    """Every other link, in order; images are none."""
    yield from (mark for mark in _marks(text, LINK) if mark.url)


def _marks(text: str, begin: re.Pattern[str]) -> Iterator[Mark]:
    place = 0
    while found := begin.search(text, place):
        mark = _mark(text, found)
        yield mark
        place = mark.end


def _mark(text: str, found: re.Match[str]) -> Mark:
    """What begins here; its parts are looked for only so far, so that no text is read again and again."""
    start = found.end()
    limit = min(len(text), start + MAX_TITLE)
    middle = text.find("](", start, limit)
    if middle < 0 or BEGIN.search(text, start, middle):  # the address of another is none of ours
        closing = text.find("]", start, limit)
        return Mark(found.start(), closing + 1 if closing >= 0 else start, text[start : max(closing, start)], "")
    end = _url_end(text, middle + 2)
    inside = text[middle + 2 : end].strip()
    url = inside[1:].partition(">")[0] if inside.startswith("<") else NO_URL.split(inside, maxsplit=1)[0]
    return Mark(found.start(), min(end + 1, len(text)), " ".join(text[start:middle].split()), url)


def _url_end(text: str, start: int) -> int:
    """Where the parenthesis closes that was opened before `start`, or the line ends."""
    depth = 0
    for place in range(start, min(len(text), start + MAX_URL)):
        char = text[place]
        if char == "\n":
            return place
        if char == "(":
            depth += 1
        elif char == ")":
            if not depth:
                return place
            depth -= 1
    return min(len(text), start + MAX_URL)
