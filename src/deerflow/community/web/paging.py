"""Long pages, a piece at a time: the pieces together are the page."""

from collections import OrderedDict

from deerflow.community.web.problems import Rejected
from deerflow.community.web.results import Page

MAX_RECENT_CHARS = 4_000_000
LAST_PART = 0.2
"""In this part of a piece a line that ends is a good place to stop."""


def shown(page: Page, offset: int, max_chars: int) -> str:
    """What a fetching tool answers: title, address, a piece of the text, and how to go on.

    Raises:
        Rejected: There is nothing at this offset.
    """
    total = len(page.text)
    if offset and offset >= total:
        raise Rejected(f"the page has {total} characters, so there is nothing at offset {offset}")
    end = piece_end(page.text, offset, max_chars)
    head = f"# {' '.join(page.title.split()) or 'Untitled'}\nSource: {page.url}\n\n"
    notes = [f"[{page.note}]"] if page.note else []
    if offset or end < total:
        go_on = f" Go on with offset={end}." if end < total else " This is the end."
        notes.append(f"[Characters {offset} to {end} of {total}.{go_on}]")
    text = page.text[offset:end] or "(the page has no text)"
    return head + text + "".join(f"\n\n{note}" for note in notes)


def piece_end(text: str, offset: int, max_chars: int) -> int:
    """Where the piece that begins at `offset` ends: behind a line if there is one in its last part."""
    end = min(len(text), offset + max_chars)
    if end == len(text):
        return end
    line_end = text.rfind("\n", end - int(max_chars * LAST_PART), end)
    return line_end + 1 if line_end > offset else end


class RecentPages:
    """Long pages that somebody is in the middle of: the pieces fit, and the site is not asked again for each."""

    def __init__(self, max_chars: int = MAX_RECENT_CHARS) -> None:
        self._max_chars = max_chars
        self._pages: OrderedDict[str, Page] = OrderedDict()

    def keep(self, url: str, page: Page) -> None:
        """Remember a page; those that were not looked at for long make room."""
        self._pages[url] = page
        self._pages.move_to_end(url)
        while sum(len(kept.text) for kept in self._pages.values()) > self._max_chars:
            self._pages.popitem(last=False)

    def find(self, url: str) -> Page | None:
        """The page as it was when it was begun, if that is still known."""
        if url in self._pages:
            self._pages.move_to_end(url)
        return self._pages.get(url)
