"""The files of threads, for people: opened, bundled, edited."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from deerflow.domain.changes import WorkspaceChanges
from deerflow.domain.errors import FileProblem, UnusableFile
from deerflow.domain.principal import Principal
from deerflow.domain.runs import RunRecord
from deerflow.domain.threads import ThreadRecord
from deerflow.runtime.runs.file_changes import FileChanges
from deerflow.runtime.threads import Threads
from deerflow.sandbox.archives import read_member, split_at_archive
from deerflow.sandbox.bundles import Bundle, gather
from deerflow.sandbox.editing import EditedFile, encode_text, replace_if_same
from deerflow.sandbox.files import LocalThreadFiles
from deerflow.sandbox.locks import FileLocks
from deerflow.sandbox.opened import Readable, open_file
from deerflow.sandbox.places import Spot, find_spot
from deerflow.sandbox.snapshots import Snapshots
from deerflow.sandbox.thumbnails import Thumbnails


@dataclass(frozen=True, slots=True)
class Shelf:
    """What is at hand of one thread."""

    files: LocalThreadFiles
    snapshots: Snapshots
    thumbnails: Thumbnails

    def spot(self, path: str) -> Spot:
        """Where a path leads."""
        return find_spot(self.files.places, path)

    def open(self, path: str) -> Readable:
        """A file, or a file in an archive."""
        parts = split_at_archive(path)
        if parts is None:
            return open_file(self.spot(path))
        self.spot(path)  # refuses what no path of a file can be
        try:
            archive = open_file(self.spot(parts[0]))
        except FileProblem:  # it may be a folder that is called so
            return open_file(self.spot(path))
        try:
            return read_member(archive, parts[1])
        finally:
            archive.close()

    def edit(self, path: str, content: bytes, expected_sha256: str | None) -> EditedFile:
        """Change a file in a person's name: undoing a run leaves it alone."""
        spot = self.spot(path)
        with self.snapshots.users_change([spot.path]):
            return replace_if_same(spot, content, expected_sha256, self.files.owner)


class Artifacts:
    """Every method sees only threads that belong to `who`."""

    def __init__(
        self, threads: Threads, shelf_of: Callable[[ThreadRecord], Shelf], locks: FileLocks, changes: FileChanges
    ) -> None:
        self._threads = threads
        self._shelf_of = shelf_of
        self._locks = locks
        self._changes = changes

    async def open(self, thread_id: str, who: Principal, path: str) -> Readable:
        """A file to read from; whoever asks for it closes it.

        Raises:
            NotFound: There is no such thread.
            FileProblem: There is no such file, or it is not one that is served.
        """
        shelf = self._shelf_of(await self._threads.get(thread_id, who))
        return await asyncio.to_thread(shelf.open, path)

    async def thumbnail(self, thread_id: str, who: Principal, path: str, side: int) -> Readable:
        """A small picture of a large one, with a longer side of about `side` pixels.

        Raises:
            NotFound: There is no such thread.
            FileProblem: There is no such file, or no picture can be made of it; the text says why.
        """
        shelf = self._shelf_of(await self._threads.get(thread_id, who))
        return await shelf.thumbnails.of(shelf.spot(path), side)

    async def bundle(self, thread_id: str, who: Principal, paths: Sequence[str]) -> Bundle:
        """Several files and folders as one zip file, made while it is read.

        Raises:
            NotFound: There is no such thread.
            FileProblem: Some of the files are not there; all of them are named.
            TooLarge: They are too many, or too large.
        """
        shelf = self._shelf_of(await self._threads.get(thread_id, who))
        return await asyncio.to_thread(gather, [shelf.spot(path) for path in paths])

    async def edit(
        self, thread_id: str, who: Principal, path: str, content: str, expected_sha256: str | None
    ) -> EditedFile:
        """Replace a text file if its content has the expected hash; make one if none is expected.

        Raises:
            NotFound: There is no such thread.
            Conflict: The file is another one by now; the text says its hash.
            InvalidRequest: It is not a file that can be edited, or not a text.
        """
        shelf = self._shelf_of(await self._threads.get(thread_id, who))
        encoded = encode_text(content)
        if split_at_archive(path) is not None:
            raise UnusableFile(f"{path!r} is in an archive, whose files cannot be edited")
        async with self._locks.lock(thread_id, path):
            edited = await asyncio.to_thread(shelf.edit, path, encoded, expected_sha256)
        await self._threads.confirm(thread_id, who)
        return edited

    async def changes_of(self, run: RunRecord) -> WorkspaceChanges:
        """What a run has done to the files of its thread; as far as it has come, if it is under way."""
        return await self._changes.of(run)
