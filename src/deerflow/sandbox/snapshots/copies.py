"""Copies of files as they were before a run, named by their content version.

Copies share blocks with the originals where the file system supports it.
"""

import errno
import logging
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from deerflow.config.loader.files import O_CLOEXEC, O_NOFOLLOW
from deerflow.sandbox.files.files import READ_FLAGS
from deerflow.sandbox.files.traversal import FileStat, TreeEntry

if sys.platform != "win32":
    import fcntl

logger = logging.getLogger(__name__)

MAX_FILE_BYTES = 64 * 1024 * 1024
MAX_BYTES = 1024 * 1024 * 1024
CHUNK_BYTES = 1024 * 1024
SMALL_FILE = 4 * 1024
NO_CONTENT = ""
"""Name of the copy of an empty file."""
MIN_AGE_NS = 100_000_000
"""Age below which a file may change again within the same timestamp of the file system."""
FICLONE = 0x40049409
"""Linux ioctl that shares blocks between files."""


@dataclass(frozen=True, slots=True)
class SnapshotLimits:
    """Limits of a snapshot; files beyond them are listed without a copy."""

    file_bytes: int = MAX_FILE_BYTES
    bytes: int = MAX_BYTES


@dataclass(frozen=True, slots=True)
class SnapshotManifest:
    """Files before a run: each stat with the name of its copy, or None if there is no copy."""

    run_id: str
    begun_ns: int
    entries: Mapping[str, tuple[FileStat, str | None]]

    def is_untouched(self, path: str, now: FileStat) -> bool:
        """Return True if the entry at a path has not changed."""
        before, content = self.entries[path]
        return before.is_same(now) and (not content or is_settled(before, self.begun_ns))


class CopyStore:
    """Store of file copies."""

    def __init__(self, contents: Path, last: SnapshotManifest | None, limits: SnapshotLimits, begun_ns: int) -> None:
        """Create it. Copies of the last snapshot are complete; others may be leftovers of a process that died."""
        self._contents = contents
        self._complete = {content for _, content in last.entries.values()} if last is not None else set()
        self._limits = limits
        self._begun_ns = begun_ns
        self._used: set[str | None] = set()
        self._bytes = 0

    def save(self, walk: Iterator[TreeEntry]) -> dict[str, tuple[FileStat, str | None]]:
        """Copy each file of a walk. Files with links elsewhere are skipped: they may not belong to the sandbox."""
        saved: dict[str, tuple[FileStat, str | None]] = {}
        names: Counter[int] = Counter()
        hard_linked: list[TreeEntry] = []
        for found in walk:
            content = self._copy(found) if found.stat.is_file else None
            saved[found.path] = (found.stat, content)
            if found.stat.is_file and found.links > 1:
                names[found.stat.inode] += 1
                hard_linked.append(found)
        for found in hard_linked:
            if names[found.stat.inode] < found.links:
                self._used.discard(saved[found.path][1])
                saved[found.path] = (found.stat, None)
        return saved

    def unused(self) -> set[str]:
        """Return the copies that this snapshot does not need."""
        return {each.name for each in self._contents.iterdir()} - self._used

    def _copy(self, found: TreeEntry) -> str | None:
        entry = found.stat
        if not entry.size:
            return NO_CONTENT
        if entry.size > self._limits.file_bytes or self._bytes + entry.size > self._limits.bytes:
            return None
        name = f"{entry.inode:x}-{entry.ctime_ns:x}-{entry.size:x}"
        if not is_settled(entry, self._begun_ns):
            name = f"{name}-{uuid4().hex}"
        if name not in self._complete:
            try:
                self._make(found, name)
            except OSError as problem:  # removed, not permitted, or the disk is full
                logger.warning("could not copy %r for the snapshot: %s", found.path, problem)
                return None
        self._bytes += entry.size
        self._used.add(name)
        return name

    def _make(self, found: TreeEntry, name: str) -> None:
        source = os.open(found.name, READ_FLAGS | O_NOFOLLOW | O_CLOEXEC, dir_fd=found.folder)
        try:
            if os.fstat(source).st_ino != found.stat.inode:
                raise OSError(errno.ESTALE, "replaced by another file")
            target = os.open(self._contents / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | O_CLOEXEC, 0o600)
            try:
                copy_content(source, target, min(found.stat.size, self._limits.file_bytes))
            finally:
                os.close(target)
        finally:
            os.close(source)


def is_settled(entry: FileStat, at_ns: int) -> bool:
    """Return True if a later change of the file would have a new timestamp."""
    return entry.ctime_ns < at_ns - MIN_AGE_NS


def has_content(found: TreeEntry, copy: Path) -> bool:
    """Return True if a file of a walk has the content of a copy."""
    try:
        descriptor = os.open(found.name, READ_FLAGS | O_NOFOLLOW | O_CLOEXEC, dir_fd=found.folder)
        with os.fdopen(descriptor, "rb") as file, copy.open("rb") as other:
            while chunk := file.read(CHUNK_BYTES):
                if chunk != other.read(CHUNK_BYTES):
                    return False
            return not other.read(1)
    except OSError:
        return False


def copy_from(file: Path, target: int) -> None:
    """Copy the content of a file to a new file."""
    source = os.open(file, os.O_RDONLY | O_CLOEXEC)
    try:
        copy_content(source, target, os.fstat(source).st_size)
    finally:
        os.close(source)


def copy_content(source: int, target: int, size: int) -> None:
    """Copy the first `size` bytes to a new file: by sharing blocks where possible, else in the kernel."""
    if sys.platform != "linux":  # others cannot copy between files in the kernel, or do it by other calls
        while size > 0 and (content := os.read(source, min(size, CHUNK_BYTES))):
            size -= os.write(target, content)
        return
    if size > SMALL_FILE:
        with suppress(OSError):
            fcntl.ioctl(target, FICLONE, source)
            return
    while size > 0 and (copied := os.sendfile(target, source, None, size)):
        size -= copied
