"""Files of threads, for users: open, download as archive, edit; and the web pages that agents have fetched."""

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

import orjson

from deerflow.domain.errors import FileProblem, NotFound, UnusableFile
from deerflow.domain.files import WorkspaceChanges
from deerflow.domain.identity import Principal
from deerflow.domain.runs import RunRecord
from deerflow.domain.threads import ThreadRecord
from deerflow.domain.web_pages import FetchedPage, PageSnapshot, canonicalize_url
from deerflow.persistence.engine.database import Database
from deerflow.runtime.runs.file_changes import FileChanges
from deerflow.runtime.threads.threads import Threads
from deerflow.sandbox.archives import ZipBundle, collect_bundle, read_member, split_at_archive
from deerflow.sandbox.file_access import (
    EditedFile,
    FileLocks,
    ReadableFile,
    encode_text,
    open_file,
    replace_if_unchanged,
)
from deerflow.sandbox.files.files import LocalThreadFiles, stat_file
from deerflow.sandbox.files.mounts import ResolvedPath, resolve_path
from deerflow.sandbox.local.usage import DiskQuota
from deerflow.sandbox.snapshots.snapshots import Snapshots
from deerflow.sandbox.thumbnails import Thumbnails
from deerflow.services import queries as rows
from deerflow.services.queries import PageLimits, PageTotals

if TYPE_CHECKING:
    from deerflow.sandbox.previews.previews import Previews, StoredPreview

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


@dataclass(frozen=True, slots=True)
class ThreadArtifacts:
    """Files, snapshots, thumbnails and previews of one thread."""

    files: LocalThreadFiles
    snapshots: Snapshots
    thumbnails: Thumbnails
    previews: "Previews"

    def resolve(self, path: str) -> ResolvedPath:
        """Resolve a path within the mounts."""
        return resolve_path(self.files.mounts, path)

    def open(self, path: str) -> ReadableFile:
        """Open a file, or a member of an archive."""
        parts = split_at_archive(path)
        if parts is None:
            return open_file(self.resolve(path))
        self.resolve(path)  # rejects invalid paths
        try:
            archive = open_file(self.resolve(parts[0]))
        except FileProblem:  # it may be a directory with such a name
            return open_file(self.resolve(path))
        try:
            return read_member(archive, parts[1])
        finally:
            archive.close()

    def measure_growth(self, path: str, content: bytes) -> int:
        """Return the bytes that a file grows by with a new content."""
        try:
            return len(content) - stat_file(self.resolve(path)).size
        except FileProblem:  # there is no such file; `edit` says so if it cannot be created
            return len(content)

    def edit(self, path: str, content: bytes, expected_sha256: str | None) -> EditedFile:
        """Edit a file on behalf of the user: undoing a run does not revert it."""
        resolved = self.resolve(path)
        with self.snapshots.adopt_user_changes([resolved.path]):
            return replace_if_unchanged(resolved, content, expected_sha256, self.files.owner)


class ArtifactService:
    """Files of all threads. Every method is restricted to the threads of `who`."""

    def __init__(
        self,
        threads: Threads,
        open_thread: Callable[[ThreadRecord], ThreadArtifacts],
        locks: FileLocks,
        changes: FileChanges,
        disk_quota: DiskQuota,
    ) -> None:
        self._threads = threads
        self._open_thread = open_thread
        self._locks = locks
        self._changes = changes
        self._disk_quota = disk_quota

    async def open(self, thread_id: str, who: Principal, path: str) -> ReadableFile:
        """Open a file for reading; the caller closes it.

        Raises:
            NotFound: The thread does not exist.
            FileProblem: The file does not exist, or is not served.
        """
        thread = self._open_thread(await self._threads.get(thread_id, who))
        return await asyncio.to_thread(thread.open, path)

    async def thumbnail(self, thread_id: str, who: Principal, path: str, side: int) -> ReadableFile:
        """Return a thumbnail of an image, whose longer side is about `side` pixels.

        Raises:
            NotFound: The thread does not exist.
            FileProblem: The file does not exist, or is not a supported image.
        """
        thread = self._open_thread(await self._threads.get(thread_id, who))
        return await thread.thumbnails.get(thread.resolve(path), side)

    async def preview(self, thread_id: str, who: Principal, path: str) -> "StoredPreview":
        """Return the preview of an Office file or a zip archive, as JSON.

        Raises:
            NotFound: The thread does not exist.
            FileProblem: The file does not exist, or has no preview; the text gives the reason.
        """
        thread = self._open_thread(await self._threads.get(thread_id, who))
        return await thread.previews.get(thread.resolve(path))

    async def bundle(self, thread_id: str, who: Principal, paths: Sequence[str]) -> ZipBundle:
        """Return several files and directories as a zip archive, created while it is read.

        Raises:
            NotFound: The thread does not exist.
            FileProblem: Some files do not exist; the message names all of them.
            TooLarge: They are too many, or too large.
        """
        thread = self._open_thread(await self._threads.get(thread_id, who))
        return await asyncio.to_thread(collect_bundle, [thread.resolve(path) for path in paths])

    async def edit(
        self, thread_id: str, who: Principal, path: str, content: str, expected_sha256: str | None
    ) -> EditedFile:
        """Replace a text file if its content has the expected hash; create it if no hash is given.

        Raises:
            NotFound: The thread does not exist.
            Conflict: The file has changed; the message has its hash.
            InvalidRequest: It cannot be edited, or is not a text.
            TooLarge: The thread has no space left for it.
        """
        record = await self._threads.get(thread_id, who)
        thread = self._open_thread(record)
        encoded = encode_text(content)
        if split_at_archive(path) is not None:
            raise UnusableFile(f"cannot edit {path!r}: it is inside an archive")
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._locks.lock(thread_id, path))
            if (growth := await asyncio.to_thread(thread.measure_growth, path, encoded)) > 0:
                reservation = await stack.enter_async_context(self._disk_quota.open(record.owner, thread_id))
                await stack.enter_async_context(reservation.take(growth))
            edited = await asyncio.to_thread(thread.edit, path, encoded, expected_sha256)
        await self._threads.confirm(thread_id, who)
        return edited

    async def get_changes(self, run: RunRecord) -> WorkspaceChanges:
        """Return the file changes of a run, those so far if it is active."""
        return await self._changes.of(run)
