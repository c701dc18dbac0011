"""Pages that agents have read: kept as they were, for whoever wants to see what a report rests on."""

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

import orjson

from deerflow.domain.errors import NotFound
from deerflow.domain.pages import PageSnapshot, ReadPage, same_page
from deerflow.domain.principal import Principal
from deerflow.persistence import pages as rows
from deerflow.persistence.database import Database
from deerflow.persistence.pages import Held, PageLimits

MAX_PROBLEM_CHARS = 500


@dataclass(frozen=True, slots=True)
class WebPages:
    """Every method sees only what belongs to `who`, and raises `NotFound` for a thread that does not."""

    database: Database
    limits: PageLimits = PageLimits()

    async def list(self, thread_id: str, who: Principal, limit: int, offset: int) -> Sequence[PageSnapshot]:
        """The pages of a thread, oldest first."""
        query = partial(rows.list_pages, owner=who.user_id, thread_id=thread_id, limit=limit, offset=offset)
        return await self.database.read(query)

    async def held(self, thread_id: str, who: Principal) -> Held:
        """How much of the web a thread holds."""
        return await self.database.read(partial(rows.held_by, owner=who.user_id, thread_id=thread_id))

    async def get(self, thread_id: str, who: Principal, snapshot_id: str) -> tuple[PageSnapshot, str]:
        """A page with its text."""
        query = partial(rows.find_page, owner=who.user_id, thread_id=thread_id, snapshot_id=snapshot_id)
        return await self.database.read(query)

    async def at(self, thread_id: str, who: Principal, url: str) -> tuple[PageSnapshot, str]:
        """The page at an address with its text, as it was read last, or `NotFound`."""
        known = await self.database.read(partial(rows.list_pages, owner=who.user_id, thread_id=thread_id))
        found = await asyncio.to_thread(read_at, url, known)
        kept = [page for page in found if page.problem is None and page.is_kept]
        if not kept:
            why = "could not be read" if found else "was not read"
            raise NotFound(f"the page {url!r} {why} in thread {thread_id!r}")
        return await self.get(thread_id, who, kept[-1].snapshot_id)

    async def copy(self, thread_id: str, copy_id: str, user_id: str) -> None:
        """Give a thread the pages of another."""
        await self.database.write(partial(rows.copy_pages, owner=user_id, thread_id=thread_id, copy_id=copy_id))

    def of_thread(self, thread_id: str, user_id: str) -> "PagesOfThread":
        """The pages of a thread, for its runs."""
        return PagesOfThread(self.database, thread_id, user_id, self.limits)


@dataclass(frozen=True, slots=True)
class PagesOfThread:
    """The pages of one thread, for its runs."""

    database: Database
    thread_id: str
    user_id: str
    limits: PageLimits

    async def keep(self, page: ReadPage) -> PageSnapshot | None:
        """Keep what came of reading a page; None when the thread holds too many already."""
        text = page.text.replace("\0", "\ufffd")
        snapshot = await asyncio.to_thread(snapshot_of, page, text)
        change = partial(rows.keep_page, owner=self.user_id, thread_id=self.thread_id, page=snapshot, text=text)
        return await self.database.write(partial(change, limits=self.limits))

    async def all(self) -> Sequence[PageSnapshot]:
        """Every page that was read, and every one that could not be, oldest first."""
        return await self.database.read(partial(rows.list_pages, owner=self.user_id, thread_id=self.thread_id))

    async def texts(self, hashes: Sequence[str]) -> dict[str, str]:
        """Texts by their hashes, as far as they are kept."""
        query = partial(rows.read_texts, owner=self.user_id, thread_id=self.thread_id, hashes=hashes)
        return await self.database.read(query)


def read_at(url: str, pages: Sequence[PageSnapshot]) -> Sequence[PageSnapshot]:
    """The pages of one address."""
    wanted = same_page(url)
    return [page for page in pages if wanted in (same_page(page.asked_url), same_page(page.url))]


def snapshot_of(page: ReadPage, text: str) -> PageSnapshot:
    """What is told of a page; the same page read again is the same snapshot."""
    text_hash = hashed(text.encode("utf-8", "replace")) if page.problem is None else None
    problem = page.problem[:MAX_PROBLEM_CHARS] if page.problem else None
    told = (page.asked_url, page.url, page.title, page.content_type, text_hash)
    return PageSnapshot(
        hashed(orjson.dumps([*told, problem])), *told, chars=len(text), problem=problem, fetched_at=datetime.now(UTC)
    )


def hashed(content: bytes) -> str:
    """SHA-256, in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()
