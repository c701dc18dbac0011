"""Receiver for uploads: files are staged and published together, and a failed upload leaves nothing behind.

Code in the sandbox may change the uploads folder at any time. All access therefore goes through the open folder, and
existing names are never written to.
"""

import asyncio
import errno
import os
import re
import stat
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import PurePosixPath
from typing import BinaryIO, ParamSpec, Self, TypeVar
from uuid import uuid4

from deerflow.config.sections.storage import UploadsConfig
from deerflow.domain.errors import StorageFull, StorageUnavailable, TooLarge
from deerflow.domain.files import UPLOADS, SkippedFile
from deerflow.sandbox.files.files import CREATE_FLAGS, UPLOAD_PREFIX, open_parent_for_writing
from deerflow.sandbox.files.mounts import Mount, ResolvedPath, set_owner
from deerflow.sandbox.local.usage import MIN_FILE_BYTES, DiskReservation

P = ParamSpec("P")
T = TypeVar("T")

BUFFER_BYTES = 1024 * 1024
"""Size of the write buffer."""


@dataclass(slots=True)
class IncomingFile:
    """A file that is being received."""

    original: str
    staged: str
    file: BinaryIO
    size: int = 0
    buffer: bytearray = field(default_factory=bytearray)


@dataclass(frozen=True, slots=True)
class ReceivedFile:
    """A published file."""

    name: str
    original: str


class UploadReceiver:
    """Context manager for one upload: `begin`, `write` and `end` for each file, then `publish`."""

    def __init__(
        self,
        mount: Mount,
        owner: int | None,
        limits: UploadsConfig,
        reservation: DiskReservation,
        adopt_changes: Callable[[Iterable[str]], AbstractContextManager[None]] = lambda _: nullcontext(),
    ) -> None:
        """Create a receiver. `adopt_changes` wraps the publication, to record the paths as changes by the user."""
        self._reservation = reservation
        self._mount = mount
        self._adopt_changes = adopt_changes
        self._owner = owner
        self._limits = limits
        self._stack = AsyncExitStack()
        self._folder: UploadFolder | None = None
        self._incoming: IncomingFile | None = None
        self._complete: list[IncomingFile] = []
        self._count = 0
        self._total = 0
        self.skipped: list[SkippedFile] = []

    async def __aenter__(self) -> Self:
        with translate_os_errors():
            await run_to_completion(self._open)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await run_to_completion(self._clear)
        await self._stack.aclose()

    async def begin(self, original: str) -> None:
        """Start a new file.

        Raises:
            TooLarge: There are too many files, or the thread has no space left.
        """
        self._count += 1
        if self._count > self._limits.max_files:
            raise TooLarge(
                f"an upload can have at most {self._limits.max_files} files; send the others in another upload"
            )
        with translate_os_errors():
            async with self._reservation.take(MIN_FILE_BYTES):
                await run_to_completion(self._stage, original)

    async def write(self, data: bytes) -> None:
        """Write data to the current file. The data of a file that is too large is discarded.

        Raises:
            TooLarge: The files are too large in total, or for the space that is left to the thread.
        """
        self._total += len(data)
        if self._total > self._limits.max_total_size:
            raise TooLarge(
                f"an upload can have at most {self._limits.max_total_size} bytes in total; send less at once"
            )
        incoming = self._incoming
        if incoming is None:
            return
        incoming.size += len(data)
        if incoming.size > self._limits.max_file_size:
            await self.skip(incoming.original, f"it has more than {self._limits.max_file_size} bytes")
            return
        incoming.buffer += data
        if len(incoming.buffer) >= BUFFER_BYTES:
            with translate_os_errors():
                async with self._reservation.take(len(incoming.buffer)):
                    await run_to_completion(flush, incoming)

    async def end(self) -> None:
        """Complete the current file.

        Raises:
            TooLarge: The thread has no space left for it.
        """
        if self._incoming is not None:
            with translate_os_errors():
                async with self._reservation.take(len(self._incoming.buffer)):
                    await run_to_completion(self._finish)

    async def skip(self, original: str, reason: str) -> None:
        """Skip a file, with a reason."""
        self.skipped.append(SkippedFile(original, reason))
        await run_to_completion(self._drop)

    async def publish(self) -> Sequence[ReceivedFile]:
        """Publish the files under their final names."""
        with translate_os_errors():
            return await run_to_completion(self._publish)

    def _open(self) -> None:
        self._folder = self._stack.enter_context(open_upload_folder(self._mount, self._owner))
        self._folder.clear_stale()

    def _stage(self, original: str) -> None:
        assert self._folder is not None and self._incoming is None
        self._incoming = IncomingFile(original, *self._folder.stage())

    def _finish(self) -> None:
        incoming = self._incoming
        assert incoming is not None
        flush(incoming)
        os.fsync(incoming.file.fileno())
        incoming.file.close()
        self._complete.append(incoming)
        self._incoming = None

    def _drop(self) -> None:
        incoming, self._incoming = self._incoming, None
        if incoming is not None and self._folder is not None:
            incoming.file.close()
            self._folder.discard(incoming.staged)

    def _publish(self) -> list[ReceivedFile]:
        assert self._folder is not None
        received: list[ReceivedFile] = []
        paths: list[str] = []
        with self._adopt_changes(paths):
            try:
                for each in self._complete:
                    name = self._folder.publish(each.staged, clean_name(each.original))
                    received.append(ReceivedFile(name, each.original))
            except OSError:
                for each_received in received:  # all or none, because the client will retry the whole upload
                    self._folder.discard(each_received.name)
                raise
            paths += [f"{UPLOADS}/{each.name}" for each in received]
        return received

    def _clear(self) -> None:
        """Remove staged files."""
        with suppress(OSError):
            self._drop()
        for each in self._complete:
            with suppress(OSError):
                assert self._folder is not None
                self._folder.discard(each.staged)


def flush(incoming: IncomingFile) -> None:
    """Write the buffer to the file."""
    remaining = memoryview(bytes(incoming.buffer))
    incoming.buffer.clear()
    while remaining:
        remaining = remaining[incoming.file.write(remaining) :]


async def run_to_completion(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a function in a thread. On cancellation, wait for it to complete, so that its files are not closed early."""
    task = asyncio.ensure_future(asyncio.to_thread(function, *args, **kwargs))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise


MAX_BYTES = 200
"""Maximum length of a name, which leaves room for a number or another suffix."""
MAX_SUFFIX = 20
DEFAULT_NAME = "upload"
JOINERS = "\u200c\u200d"
"""Invisible joiners that are kept, because words and emoji need them."""
DEVICE_NAMES = re.compile(r"(?i)(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(\..*)?")
"""Device names on Windows, with any suffix."""


def clean_name(original: str) -> str:
    """Return a safe file name: the last path component without misleading characters."""
    last = re.split(r"[/\\]", original)[-1]
    visible = "".join(" " if character.isspace() else character for character in last if is_visible(character))
    name = unicodedata.normalize("NFC", visible).strip(". ") or DEFAULT_NAME
    if DEVICE_NAMES.fullmatch(name):
        name = f"_{name}"
    return shorten_name(name)


def generate_names(name: str) -> Iterator[str]:
    """Yield `name`, then numbered alternatives: `report_1.pdf`, `report_2.pdf` …"""
    yield name
    stem, suffix = split_suffix(name)
    for number in count(1):
        yield f"{stem}_{number}{suffix}"


def is_visible(character: str) -> bool:
    """Return True for visible characters and joiners."""
    return character in JOINERS or character.isspace() or unicodedata.category(character) not in INVISIBLE_CATEGORIES


INVISIBLE_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Control and format characters, surrogates, private use and unassigned."""


def shorten_name(name: str) -> str:
    """Return `name` cut to `MAX_BYTES`, keeping its suffix."""
    if len(name.encode()) <= MAX_BYTES:
        return name
    stem, suffix = split_suffix(name)
    if len(suffix) > MAX_SUFFIX:
        stem, suffix = name, ""
    limit = MAX_BYTES - len(suffix.encode())
    return stem.encode()[:limit].decode(errors="ignore").rstrip(". ") + suffix


def split_suffix(name: str) -> tuple[str, str]:
    """Return the stem and the suffix of a name."""
    suffix = PurePosixPath(name).suffix
    return name.removesuffix(suffix), suffix


STAGED_SUFFIX = ".part"
STALE_S = 24 * 3600.0
"""Age after which a staged file is considered abandoned."""
MAX_TRIES = 10_000
DISK_FULL_ERRORS = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True, slots=True)
class UploadFolder:
    """An open uploads folder. New files belong to `owner`. All methods block."""

    descriptor: int
    owner: int | None

    def stage(self) -> tuple[str, BinaryIO]:
        """Create a hidden staging file and return its name and file object."""
        name = create_staged_name()
        file = os.fdopen(os.open(name, CREATE_FLAGS, 0o644, dir_fd=self.descriptor), "wb", buffering=0)
        set_owner(self.owner, file.fileno())
        return name, file

    def publish(self, staged: str, wanted: str) -> str:
        """Rename a staged file to the wanted name, or a numbered one if it is taken. Return the final name."""
        check_staged(os.stat(staged, dir_fd=self.descriptor, follow_symlinks=False))
        for name in self._candidate_names(wanted):
            try:
                # Reserves the name atomically. The rename below replaces only this empty file.
                os.close(os.open(name, CREATE_FLAGS, 0o644, dir_fd=self.descriptor))
            except FileExistsError:
                continue
            try:
                os.rename(staged, name, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)
            except OSError:
                with suppress(OSError):  # it may have been replaced by a folder
                    self.discard(name)
                raise
            os.fsync(self.descriptor)
            return name
        raise FileExistsError(errno.EEXIST, f"too many files are named {wanted!r}")

    def discard(self, name: str) -> None:
        """Remove a file if it exists."""
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self.descriptor)

    def clear_stale(self) -> None:
        """Remove abandoned staging files."""
        with os.scandir(self.descriptor) as entries:
            for each in entries:
                with suppress(OSError):
                    is_ours = each.name.startswith(UPLOAD_PREFIX) and each.name.endswith(STAGED_SUFFIX)
                    if is_ours and time.time() - each.stat(follow_symlinks=False).st_mtime > STALE_S:
                        os.unlink(each.name, dir_fd=self.descriptor)

    def _candidate_names(self, wanted: str) -> Iterator[str]:
        for _, name in zip(range(MAX_TRIES), generate_names(wanted), strict=False):
            yield name


@contextmanager
def open_upload_folder(mount: Mount, owner: int | None) -> Iterator[UploadFolder]:
    """Open the uploads folder, and create it if needed."""
    with open_parent_for_writing(ResolvedPath(mount, (UPLOAD_PREFIX,)), owner) as (descriptor, _):
        yield UploadFolder(descriptor, owner)


@contextmanager
def translate_os_errors() -> Iterator[None]:
    """Convert operating system errors to `StorageFull` and `StorageUnavailable`."""
    try:
        yield
    except OSError as error:
        if error.errno in DISK_FULL_ERRORS:
            raise StorageFull("cannot save the upload: the disk of the server is full") from error
        raise StorageUnavailable(f"cannot save the upload: {(error.strerror or str(error)).lower()}") from error


def create_staged_name() -> str:
    """Return a new unique name for a hidden staging file."""
    return f"{UPLOAD_PREFIX}{uuid4().hex}{STAGED_SUFFIX}"


def check_staged(status: os.stat_result) -> None:
    """Raise OSError unless the file is regular and has a single link."""
    if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
        raise OSError(errno.EPERM, "it was replaced while it was written")
