"""Files of threads, for users: open, download as archive, edit."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

from deerflow.domain.errors import FileProblem, UnusableFile
from deerflow.domain.files import WorkspaceChanges
from deerflow.domain.identity import Principal
from deerflow.domain.runs import RunRecord
from deerflow.domain.threads import ThreadRecord
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


@dataclass(frozen=True, slots=True)
class ThreadArtifacts:
    """Files, snapshots and thumbnails of one thread."""

    files: LocalThreadFiles
    snapshots: Snapshots
    thumbnails: Thumbnails

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
