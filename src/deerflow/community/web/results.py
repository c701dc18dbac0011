"""Results of web tools and their format for the model; long pages are returned in chunks."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import orjson

from deerflow.community.web.http import Rejected

MAX_SNIPPET_CHARS = 1_000
NO_RESULTS = "Nothing was found. Try fewer or other words."


@dataclass(frozen=True, slots=True)
class WebSearchHit:
    """A page found by a search."""

    title: str
    url: str
    snippet: str = ""
    published: str | None = None
    """Publication date as the provider formats it."""


@dataclass(frozen=True, slots=True)
class ImageHit:
    """An image found by a search; `url` is the page it is on."""

    title: str
    url: str
    image_url: str
    thumbnail_url: str | None = None
    width: int | None = None
    height: int | None = None


@dataclass(frozen=True, slots=True)
class PageContent:
    """A page as Markdown."""

    url: str
    title: str
    text: str
    content_type: str = "text/markdown"
    """Original content type."""
    note: str = ""
    """Note about the text, for example that it is not complete."""


def format_results(query: str, provider: str, found: Sequence[WebSearchHit] | Sequence[ImageHit]) -> str:
    """Return the JSON answer of a search tool, without unknown fields."""
    usable = [one for one in found if one.url.startswith(("http://", "https://"))]
    answer: dict[str, object] = {"query": query, "provider": provider, "results": [_to_dict(one) for one in usable]}
    if not usable:
        answer["note"] = NO_RESULTS
    return orjson.dumps(answer, option=orjson.OPT_INDENT_2).decode()


def _to_dict(found: WebSearchHit | ImageHit) -> dict[str, object]:
    return {key: _clean_text(value) for key, value in asdict(found).items() if value is not None}


def _clean_text(value: object) -> object:
    """Return a text on one line, cut to the maximum length."""
    if not isinstance(value, str):
        return value
    text = " ".join(value.split())
    return text if len(text) <= MAX_SNIPPET_CHARS else f"{text[: MAX_SNIPPET_CHARS - 1]}…"


MAX_RECENT_CHARS = 4_000_000
BREAK_RANGE = 0.2
"""Last part of a chunk in which a line break is preferred as its end."""


def format_page(page: PageContent, offset: int, max_chars: int) -> str:
    """Return the answer of a fetch tool: title, URL, a chunk of the text, and how to continue.

    Raises:
        Rejected: The offset is beyond the end.
    """
    total = len(page.text)
    if offset and offset >= total:
        raise Rejected(f"the page has {total} characters, so there is nothing at offset {offset}")
    end = find_chunk_end(page.text, offset, max_chars)
    head = f"# {' '.join(page.title.split()) or 'Untitled'}\nSource: {page.url}\n\n"
    notes = [f"[{page.note}]"] if page.note else []
    if offset or end < total:
        go_on = f" Go on with offset={end}." if end < total else " This is the end."
        notes.append(f"[Characters {offset} to {end} of {total}.{go_on}]")
    text = page.text[offset:end] or "(the page has no text)"
    return head + text + "".join(f"\n\n{note}" for note in notes)


def find_chunk_end(text: str, offset: int, max_chars: int) -> int:
    """Return the end of the chunk at `offset`: after a line break if there is one in its last part."""
    end = min(len(text), offset + max_chars)
    if end == len(text):
        return end
    line_end = text.rfind("\n", end - int(max_chars * BREAK_RANGE), end)
    return line_end + 1 if line_end > offset else end


class RecentPages:
    """Cache of long pages that are being read, so that chunks fit and the site is not asked again."""

    def __init__(self, max_chars: int = MAX_RECENT_CHARS) -> None:
        self._max_chars = max_chars
        self._pages: OrderedDict[str, PageContent] = OrderedDict()

    def add(self, url: str, page: PageContent) -> None:
        """Cache a page; the least recently used ones are dropped."""
        self._pages[url] = page
        self._pages.move_to_end(url)
        while sum(len(kept.text) for kept in self._pages.values()) > self._max_chars:
            self._pages.popitem(last=False)

    def find(self, url: str) -> PageContent | None:
        """Return the cached page, or None."""
        if url in self._pages:
            self._pages.move_to_end(url)
        return self._pages.get(url)
