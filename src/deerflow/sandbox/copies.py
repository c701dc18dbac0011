"""Copies of files as they were before a run, each under a name that says which content it is.

Where the file system can share blocks between files, copies share them.
"""

import errno
import fcntl
import logging
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from deerflow.sandbox.files import READ
from deerflow.sandbox.tree import Entry, Found

logger = logging.getLogger(__name__)

MAX_FILE_BYTES = 64 * 1024 * 1024
MAX_BYTES = 1024 * 1024 * 1024
PIECE = 1024 * 1024
SMALL = 4 * 1024
EMPTY = ""
"""In place of the name of a copy, for a file without content."""
SETTLED_NS = 100_000_000
"""The clock of the file system ticks so seldom that a younger file may change again and keep its time."""
SHARE_BLOCKS = 0x40049409
"""What Linux calls FICLONE."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much is kept; of what goes beyond there is only a note."""

    file_bytes: int = MAX_FILE_BYTES
    bytes: int = MAX_BYTES


@dataclass(frozen=True, slots=True)
class Manifest:
    """The files before a run: each entry with the name of its copy, None where none could be kept."""

    run_id: str
    begun_ns: int
    entries: Mapping[str, tuple[Entry, str | None]]

    def is_untouched(self, path: str, now: Entry) -> bool:
        """Whether what is at a path now is what was there."""
        before, content = self.entries[path]
        return before.is_same(now) and (not content or is_settled(before, self.begun_ns))


class Keeper:
    """Keeps copies of what a walk finds."""

    def __init__(self, contents: Path, last: Manifest | None, limits: Limits, begun_ns: int) -> None:
        """Copies of the snapshot before this one are whole; others may be what a process left that died."""
        self._contents = contents
        self._whole = {content for _, content in last.entries.values()} if last is not None else set()
        self._limits = limits
        self._begun_ns = begun_ns
        self._used: set[str | None] = set()
        self._bytes = 0

    def keep(self, walk: Iterator[Found]) -> dict[str, tuple[Entry, str | None]]:
        """A copy of each file. One that has names elsewhere is left alone: it might be none of the sandbox's."""
        kept: dict[str, tuple[Entry, str | None]] = {}
        names: Counter[int] = Counter()
        several: list[Found] = []
        for found in walk:
            content = self._copy(found) if found.entry.is_file else None
            kept[found.path] = (found.entry, content)
            if found.entry.is_file and found.links > 1:
                names[found.entry.inode] += 1
                several.append(found)
        for found in several:
            if names[found.entry.inode] < found.links:
                self._used.discard(kept[found.path][1])
                kept[found.path] = (found.entry, None)
        return kept

    def unused(self) -> set[str]:
        """Copies that no file of this snapshot needs."""
        return {each.name for each in self._contents.iterdir()} - self._used

    def _copy(self, found: Found) -> str | None:
        entry = found.entry
        if not entry.size:
            return EMPTY
        if entry.size > self._limits.file_bytes or self._bytes + entry.size > self._limits.bytes:
            return None
        name = f"{entry.inode:x}-{entry.ctime_ns:x}-{entry.size:x}"
        if not is_settled(entry, self._begun_ns):
            name = f"{name}-{uuid4().hex}"
        if name not in self._whole:
            try:
                self._make(found, name)
            except OSError as problem:  # it vanished, is not for us, or the disk is full
                logger.warning("no copy of %r could be kept: %s", found.path, problem)
                return None
        self._bytes += entry.size
        self._used.add(name)
        return name

    def _make(self, found: Found, name: str) -> None:
        source = os.open(found.name, READ | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=found.folder)
        try:
            if os.fstat(source).st_ino != found.entry.inode:
                raise OSError(errno.ESTALE, "is another one already")
            target = os.open(self._contents / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            try:
                copy_content(source, target, min(found.entry.size, self._limits.file_bytes))
            finally:
                os.close(target)
        finally:
            os.close(source)


def is_settled(entry: Entry, at_ns: int) -> bool:
    """Whether a file that had changed again by then would have another time."""
    return entry.ctime_ns < at_ns - SETTLED_NS


def has_content(found: Found, copy: Path) -> bool:
    """Whether a file that a walk is at has the content of a copy."""
    try:
        descriptor = os.open(found.name, READ | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=found.folder)
        with os.fdopen(descriptor, "rb") as file, copy.open("rb") as other:
            while piece := file.read(PIECE):
                if piece != other.read(PIECE):
                    return False
            return not other.read(1)
    except OSError:
        return False


def copy_from(file: Path, target: int) -> None:
    """Fill a new file with the content of another."""
    source = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        copy_content(source, target, os.fstat(source).st_size)
    finally:
        os.close(source)


def copy_content(source: int, target: int, size: int) -> None:
    """Fill a new file with the first bytes of another: shared where possible, else copied by the kernel."""
    if size > SMALL:
        with suppress(OSError):
            fcntl.ioctl(target, SHARE_BLOCKS, source)
            return
    while size > 0 and (copied := os.sendfile(target, source, None, size)):
        size -= copied
