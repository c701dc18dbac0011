"""Takes in the files of one upload: none is kept before all have come, and what goes wrong leaves nothing behind."""

import asyncio
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, nullcontext, suppress
from dataclasses import dataclass, field
from typing import BinaryIO, ParamSpec, Self, TypeVar

from deerflow.config.uploads import UploadsConfig
from deerflow.domain.errors import TooLarge
from deerflow.domain.files import UPLOADS
from deerflow.domain.uploads import SkippedFile
from deerflow.sandbox.places import Place
from deerflow.uploads.folder import UploadFolder, explaining_failure, opened_folder
from deerflow.uploads.names import clean_name

P = ParamSpec("P")
T = TypeVar("T")

WRITTEN_AT_ONCE = 1024 * 1024
"""So much is gathered before a thread is asked to write it."""


@dataclass(slots=True)
class Arriving:
    """A file of which more may come."""

    original: str
    staged: str
    file: BinaryIO
    size: int = 0
    waiting: bytearray = field(default_factory=bytearray)


@dataclass(frozen=True, slots=True)
class Arrived:
    """A file that is kept, under `name`."""

    name: str
    original: str


class Reception:
    """Used as a context: `begin`, `write` and `end` for one file after the other, `keep` when all have come."""

    def __init__(
        self,
        place: Place,
        owner: int | None,
        limits: UploadsConfig,
        marked: Callable[[Iterable[str]], AbstractContextManager[None]] = lambda _: nullcontext(),
    ) -> None:
        """`marked` is the moment in which files appear at these paths, by the hand of a person."""
        self._place = place
        self._marked = marked
        self._owner = owner
        self._limits = limits
        self._stack = AsyncExitStack()
        self._folder: UploadFolder | None = None
        self._arriving: Arriving | None = None
        self._whole: list[Arriving] = []
        self._count = 0
        self._total = 0
        self.skipped: list[SkippedFile] = []

    async def __aenter__(self) -> Self:
        with explaining_failure():
            await to_the_end(self._open)
        return self

    async def __aexit__(self, *ending: object) -> None:
        await to_the_end(self._clear)
        await self._stack.aclose()

    async def begin(self, original: str) -> None:
        """A file comes next.

        Raises:
            TooLarge: It is one too many.
        """
        self._count += 1
        if self._count > self._limits.max_files:
            raise TooLarge(f"one upload can have {self._limits.max_files} files; send the others in another one")
        with explaining_failure():
            await to_the_end(self._stage, original)

    async def write(self, data: bytes) -> None:
        """More of the file. What comes of one that is too large is thrown away.

        Raises:
            TooLarge: All files together are.
        """
        self._total += len(data)
        if self._total > self._limits.max_total_size:
            raise TooLarge(f"one upload can have {self._limits.max_total_size} bytes in all; send less at once")
        arriving = self._arriving
        if arriving is None:
            return
        arriving.size += len(data)
        if arriving.size > self._limits.max_file_size:
            await self.skip(arriving.original, f"it has more than {self._limits.max_file_size} bytes")
            return
        arriving.waiting += data
        if len(arriving.waiting) >= WRITTEN_AT_ONCE:
            with explaining_failure():
                await to_the_end(write_out, arriving)

    async def end(self) -> None:
        """The file is whole."""
        if self._arriving is not None:
            with explaining_failure():
                await to_the_end(self._finish)

    async def skip(self, original: str, reason: str) -> None:
        """Do not keep a file."""
        self.skipped.append(SkippedFile(original, reason))
        await to_the_end(self._drop)

    async def keep(self) -> Sequence[Arrived]:
        """Give the files their names; from then on everybody sees them."""
        with explaining_failure():
            return await to_the_end(self._publish)

    def _open(self) -> None:
        self._folder = self._stack.enter_context(opened_folder(self._place, self._owner))
        self._folder.clear_stale()

    def _stage(self, original: str) -> None:
        assert self._folder is not None and self._arriving is None
        self._arriving = Arriving(original, *self._folder.stage())

    def _finish(self) -> None:
        arriving = self._arriving
        assert arriving is not None
        write_out(arriving)
        os.fsync(arriving.file.fileno())
        arriving.file.close()
        self._whole.append(arriving)
        self._arriving = None

    def _drop(self) -> None:
        arriving, self._arriving = self._arriving, None
        if arriving is not None and self._folder is not None:
            arriving.file.close()
            self._folder.discard(arriving.staged)

    def _publish(self) -> list[Arrived]:
        assert self._folder is not None
        arrived: list[Arrived] = []
        paths: list[str] = []
        with self._marked(paths):
            try:
                for each in self._whole:
                    name = self._folder.publish(each.staged, clean_name(each.original))
                    arrived.append(Arrived(name, each.original))
            except OSError:
                for each_kept in arrived:  # all or none: whoever sent them will send them again
                    self._folder.discard(each_kept.name)
                raise
            paths += [f"{UPLOADS}/{each.name}" for each in arrived]
        return arrived

    def _clear(self) -> None:
        """Remove what is not kept."""
        with suppress(OSError):
            self._drop()
        for each in self._whole:
            with suppress(OSError):
                assert self._folder is not None
                self._folder.discard(each.staged)


def write_out(arriving: Arriving) -> None:
    """Write what has been gathered."""
    left = memoryview(bytes(arriving.waiting))
    arriving.waiting.clear()
    while left:
        left = left[arriving.file.write(left) :]


async def to_the_end(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Do `work` in a thread. Whoever is cancelled meanwhile waits for it, so that nothing is closed under its hands."""
    working = asyncio.ensure_future(asyncio.to_thread(work, *args, **kwargs))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait({working})
        raise
