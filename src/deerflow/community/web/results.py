"""What web tools find, the same whoever finds it."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import orjson

MAX_SNIPPET_CHARS = 1_000
NOTHING_FOUND = "Nothing was found. Try fewer or other words."


@dataclass(frozen=True, slots=True)
class Hit:
    """A page that a search has found."""

    title: str
    url: str
    snippet: str = ""
    published: str | None = None
    """When, as the provider writes it."""


@dataclass(frozen=True, slots=True)
class Picture:
    """An image that a search has found; `url` is the page it is on."""

    title: str
    url: str
    image_url: str
    thumbnail_url: str | None = None
    width: int | None = None
    height: int | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """A page as Markdown."""

    url: str
    title: str
    text: str
    content_type: str = "text/markdown"
    """What it was before."""
    note: str = ""
    """What is to be known about the text, for instance that it is not all."""


def as_json(query: str, provider: str, found: Sequence[Hit] | Sequence[Picture]) -> str:
    """What a search tool answers: one object, with what is not known left out."""
    usable = [one for one in found if one.url.startswith(("http://", "https://"))]
    answer: dict[str, object] = {"query": query, "provider": provider, "results": [_plain(one) for one in usable]}
    if not usable:
        answer["note"] = NOTHING_FOUND
    return orjson.dumps(answer, option=orjson.OPT_INDENT_2).decode()


def _plain(found: Hit | Picture) -> dict[str, object]:
    return {key: _tidy(value) for key, value in asdict(found).items() if value is not None}


def _tidy(value: object) -> object:
    """Text in one line, and not too long."""
    if not isinstance(value, str):
        return value
    text = " ".join(value.split())
    return text if len(text) <= MAX_SNIPPET_CHARS else f"{text[: MAX_SNIPPET_CHARS - 1]}…"
