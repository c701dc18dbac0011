"""Snapshots of the web pages that agents have fetched, as evidence for reports."""

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

import orjson

from deerflow.domain.errors import NotFound
from deerflow.domain.identity import Principal
from deerflow.domain.web_pages import FetchedPage, PageSnapshot, canonicalize_url
from deerflow.persistence.engine.database import Database
from deerflow.services import queries as rows
from deerflow.services.queries import PageLimits, PageTotals

MAX_PROBLEM_CHARS = 500


@dataclass(frozen=True, slots=True)
class WebPageService:
    """Web pages of threads. Every method is restricted to the threads of `who`, and raises `NotFound` for others."""

    database: Database
    limits: PageLimits = PageLimits()

    async def list(self, thread_id: str, who: Principal, limit: int, offset: int) -> Sequence[PageSnapshot]:
        """Return the pages of a thread, oldest first."""
        query = partial(rows.list_pages, owner=who.user_id, thread_id=thread_id, limit=limit, offset=offset)
        return await self.database.read(query)

    async def get_totals(self, thread_id: str, who: Principal) -> PageTotals:
        """Return number and size of the pages of a thread."""
        return await self.database.read(partial(rows.count_pages, owner=who.user_id, thread_id=thread_id))

    async def get(self, thread_id: str, who: Principal, snapshot_id: str) -> tuple[PageSnapshot, str]:
        """Return a page with its text."""
        query = partial(rows.find_page, owner=who.user_id, thread_id=thread_id, snapshot_id=snapshot_id)
        return await self.database.read(query)

    async def get_by_url(self, thread_id: str, who: Principal, url: str) -> tuple[PageSnapshot, str]:
        """Return the latest snapshot of a URL with its text, or raise `NotFound`."""
        known = await self.database.read(partial(rows.list_pages, owner=who.user_id, thread_id=thread_id))
        found = await asyncio.to_thread(find_by_url, url, known)
        stored = [page for page in found if page.problem is None and page.is_kept]
        if not stored:
            why = "could not be read" if found else "was not read"
            raise NotFound(f"the page {url!r} {why} in thread {thread_id!r}")
        return await self.get(thread_id, who, stored[-1].snapshot_id)

    async def copy(self, thread_id: str, copy_id: str, user_id: str) -> None:
        """Copy the pages of a thread to another."""
        await self.database.write(partial(rows.copy_pages, owner=user_id, thread_id=thread_id, copy_id=copy_id))

    def for_thread(self, thread_id: str, user_id: str) -> "ThreadWebPages":
        """Return the pages of a thread for use by its runs."""
        return ThreadWebPages(self.database, thread_id, user_id, self.limits)


@dataclass(frozen=True, slots=True)
class ThreadWebPages:
    """Web pages of one thread, as its runs use them."""

    database: Database
    thread_id: str
    user_id: str
    limits: PageLimits

    async def save(self, page: FetchedPage) -> PageSnapshot | None:
        """Store a fetched page; return None when the thread has too many pages."""
        text = page.text.replace("\0", "\ufffd")
        snapshot = await asyncio.to_thread(to_page_snapshot, page, text)
        change = partial(rows.store_page, owner=self.user_id, thread_id=self.thread_id, page=snapshot, text=text)
        return await self.database.write(partial(change, limits=self.limits))

    async def list(self) -> Sequence[PageSnapshot]:
        """Return every page that was fetched or failed to load, oldest first."""
        return await self.database.read(partial(rows.list_pages, owner=self.user_id, thread_id=self.thread_id))

    async def read_texts(self, hashes: Sequence[str]) -> dict[str, str]:
        """Return the stored texts by hash."""
        query = partial(rows.read_texts, owner=self.user_id, thread_id=self.thread_id, hashes=hashes)
        return await self.database.read(query)


def find_by_url(url: str, pages: Sequence[PageSnapshot]) -> Sequence[PageSnapshot]:
    """Return the snapshots of one URL."""
    wanted = canonicalize_url(url)
    return [page for page in pages if wanted in (canonicalize_url(page.asked_url), canonicalize_url(page.url))]


def to_page_snapshot(page: FetchedPage, text: str) -> PageSnapshot:
    """Return the snapshot of a page; a page that is fetched again unchanged has the same id."""
    text_hash = hash_content(text.encode("utf-8", "replace")) if page.problem is None else None
    problem = page.problem[:MAX_PROBLEM_CHARS] if page.problem else None
    content = (page.asked_url, page.url, page.title, page.content_type, text_hash)
    return PageSnapshot(
        hash_content(orjson.dumps([*content, problem])),
        *content,
        chars=len(text),
        problem=problem,
        fetched_at=datetime.now(UTC),
    )


def hash_content(content: bytes) -> str:
    """Return the SHA-256 hash in hexadecimal."""
    return hashlib.sha256(content).hexdigest()
