"""Entries of MCP servers as others may see them: without secrets, which come back to their places by themselves."""

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from deerflow.config.reading.secrets import CREDENTIALS_IN_URL, MASK, is_secret
from deerflow.domain.errors import InvalidRequest

Entry = Mapping[str, Any]
Path = tuple[str | int, ...]

NAMES_A_VARIABLE = re.compile(r"(?:(?:Bearer|Basic|Token) )?\$(?:[A-Za-z_][A-Za-z0-9_]*|\{[A-Za-z_][A-Za-z0-9_]*\})")
"""A value that says where a secret is, and not what it is."""
SECRET_PARTS = frozenset({"env", "headers", "extra_token_params"})
"""Whatever is in these may be secret, whatever it is called."""
DEEPEST = 10
MASKED_ADDRESS = MASK.replace("*", "%2A")


def masked_entry(entry: Entry) -> dict[str, Any]:
    """An entry as it may be shown."""
    return {key: masked_part(value, (key,)) for key, value in entry.items()}


def masked_part(value: Any, path: Path) -> Any:
    """A part of an entry as it may be shown."""
    if isinstance(value, Mapping):
        return {key: masked_part(item, (*path, key)) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return masked_arguments(value) if path == ("args",) else [masked_part(each, (*path, 0)) for each in value]
    if value is None or isinstance(value, bool | int | float):
        return value
    if NAMES_A_VARIABLE.fullmatch(str(value)):
        return value
    if SECRET_PARTS.intersection(map(str, path[:-1])) or is_secret(path):
        return MASK
    return masked_address(value) if isinstance(value, str) else value


def masked_arguments(arguments: Sequence[Any]) -> list[Any]:
    """The arguments of a command without what follows a flag that is named like a secret."""
    shown: list[Any] = []
    follows_secret = False
    for argument in arguments:
        text = str(argument)
        flag, equals, value = text.partition("=")
        names_secret = is_secret((flag.lstrip("-"),))
        if follows_secret and not text.startswith("-") and not NAMES_A_VARIABLE.fullmatch(text):
            shown.append(MASK)
        elif equals and value and names_secret and not NAMES_A_VARIABLE.fullmatch(value):
            shown.append(f"{flag}={MASK}")
        else:
            shown.append(masked_address(argument) if isinstance(argument, str) else argument)
        follows_secret = names_secret and not equals and text.startswith("-")
    return shown


def masked_address(text: str) -> str:
    """A text without the secrets that addresses carry: a password, or a key in the query."""
    clean = CREDENTIALS_IN_URL.sub(MASK, text)
    try:
        parts = urlsplit(clean)
        fields = parse_qsl(parts.query, keep_blank_values=True, max_num_fields=100)
    except ValueError:
        return clean
    if not any(is_secret((name,)) for name, _ in fields):
        return clean
    query = urlencode([(name, MASK if is_secret((name,)) else value) for name, value in fields])
    return urlunsplit(parts._replace(query=query.replace(MASKED_ADDRESS, MASK)))


def restored_entry(name: str, sent: Entry, stored: Entry | None) -> dict[str, Any]:
    """An entry that was shown and comes back, with the secrets that it was shown without.

    Raises:
        InvalidRequest: A secret is left out, and none is stored for its place.
    """
    shown = masked_entry(stored) if stored is not None else {}
    return {key: restored(item, (name, key), shown.get(key), (stored or {}).get(key)) for key, item in sent.items()}


def restored(sent: Any, path: Path, shown: Any, stored: Any) -> Any:
    """A part of an entry with its secrets."""
    if len(path) > DEEPEST:
        raise InvalidRequest(f"{path[0]} is nested too deeply")
    if sent == shown and stored is not None:
        return stored
    if isinstance(sent, Mapping):
        known, kept = (each if isinstance(each, Mapping) else {} for each in (shown, stored))
        return {key: restored(item, (*path, key), known.get(key), kept.get(key)) for key, item in sent.items()}
    if isinstance(sent, list):
        return [restored(each, (*path, "*"), *counterpart(each, shown, stored)) for each in sent]
    if isinstance(sent, str) and MASK in sent:
        where = ".".join(map(str, path))
        raise InvalidRequest(f"{where} is masked, and there is no stored value for it: write the value itself")
    return sent


def counterpart(sent: Any, shown: Any, stored: Any) -> tuple[Any, Any]:
    """What is shown and stored of an argument; it may have moved, but what is shown of it tells which it was."""
    if isinstance(shown, list) and isinstance(stored, list | tuple) and sent in shown:
        return sent, stored[shown.index(sent)]
    return None, None
