"""File access of API clients: open files for reading, list folders, replace files.

An open file stays the same file whatever happens to its path.
"""

import asyncio
import hashlib
import io
import logging
import os
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Protocol
from uuid import uuid4
from weakref import WeakValueDictionary

from deerflow.domain.errors import Conflict, InvalidRequest, TooLarge
from deerflow.domain.files import OUTPUTS, USER_DATA, WORKSPACE, Folder, FolderEntry
from deerflow.sandbox.files.files import (
    READ_FLAGS,
    LocalThreadFiles,
    NoSuchFile,
    check_regular,
    explain_errors,
    get_modified_at,
    open_path,
    write_file,
)
from deerflow.sandbox.files.mounts import ResolvedPath
from deerflow.sandbox.files.traversal import FileStat
from deerflow.sandbox.snapshots.copies import is_settled

logger = logging.getLogger(__name__)

CHUNK_BYTES = 1024 * 1024


class ReadableFile(Protocol):
    """Content that is read in chunks. `read` and `close` may block."""

    @property
    def name(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def modified_at(self) -> datetime: ...
    @property
    def tag(self) -> str:
        """Version tag that changes with the content."""
        ...

    @property
    def is_settled(self) -> bool:
        """True if `tag` is reliable: a file changed just now may change again within the same timestamp."""
        ...

    def read(self, offset: int, length: int) -> bytes: ...
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class OpenFile:
    """Open regular file; `size` is its size when it was opened."""

    name: str
    size: int
    modified_at: datetime
    tag: str
    is_settled: bool
    file: io.FileIO = field(repr=False)

    def read(self, offset: int, length: int) -> bytes:
        """Return a chunk of the content; shorter if the file was truncated."""
        return os.pread(self.file.fileno(), min(length, max(self.size - offset, 0)), offset)

    def close(self) -> None:
        """Close the file."""
        self.file.close()


@dataclass(frozen=True, slots=True)
class InMemoryFile:
    """Readable content held in memory."""

    name: str
    content: bytes
    modified_at: datetime
    tag: str
    is_settled: bool = True

    @property
    def size(self) -> int:
        return len(self.content)

    def read(self, offset: int, length: int) -> bytes:
        """Return a chunk of the content."""
        return self.content[offset : offset + length]

    def close(self) -> None:
        """Do nothing: no resource is held."""


class ServedFile(io.FileIO):
    """File that is closed with its last user: a client may disconnect before the response begins to be sent."""

    def __del__(self) -> None:
        self.close()


def open_file(resolved: ResolvedPath) -> OpenFile:
    """Open a file for reading.

    Raises:
        FileProblem: The path is not a regular file of the thread.
    """
    with explain_errors(resolved), open_path(resolved, READ_FLAGS) as descriptor:
        status = check_regular(os.fstat(descriptor), resolved)
        entry = FileStat.from_stat_result(status)
        return OpenFile(
            name=resolved.parts[-1],
            size=entry.size,
            modified_at=get_modified_at(status),
            tag=f"{entry.inode:x}-{entry.size:x}-{entry.mtime_ns:x}-{entry.ctime_ns:x}",
            is_settled=is_settled(entry, time.time_ns()),
            file=ServedFile(os.dup(descriptor)),
        )


MAX_ENTRIES = 1000
EPOCH = datetime.fromtimestamp(0, UTC)


def hash_content(file: ReadableFile, prefix: bytes = b"") -> str:
    """Return the SHA-256 of the content of a file, after a prefix."""
    digest = hashlib.sha256(prefix)
    offset = 0
    while chunk := file.read(offset, CHUNK_BYTES):
        offset += len(chunk)
        digest.update(chunk)
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class FileCache:
    """Folder of results that can be computed again; the oldest are removed above the limits."""

    folder: Path
    max_files: int
    max_bytes: int

    def load(self, name: str) -> bytes | None:
        """Return a stored result, or None."""
        try:
            return (self.folder / name).read_bytes()
        except OSError:
            return None

    def store(self, name: str, content: bytes) -> None:
        """Store a result; a failure to do so is logged."""
        try:
            self.folder.mkdir(mode=0o700, exist_ok=True)
            unfinished = self.folder / f".{uuid4().hex}"
            unfinished.write_bytes(content)
            unfinished.replace(self.folder / name)
            newest = sorted(self.folder.iterdir(), key=lambda each: each.stat().st_mtime_ns, reverse=True)
            size = 0
            for number, each in enumerate(newest):
                size += each.stat().st_size
                if number >= self.max_files or (number and size > self.max_bytes):
                    each.unlink(missing_ok=True)
        except OSError as problem:
            logger.warning("a result in %s could not be cached: %s", self.folder.name, problem)


async def list_folder_entries(files: LocalThreadFiles, path: str) -> Folder:
    """Return the entries of a folder; `/mnt/user-data` has exactly the three folders of a thread.

    Raises:
        FileProblem: The folder does not exist.
    """
    if path.rstrip("/") == USER_DATA:
        return Folder(USER_DATA, [FolderEntry(mount.path, True, 0, EPOCH) for mount in files.mounts])
    return await files.folder(path, MAX_ENTRIES)


MAX_TEXT = 2 * 1024 * 1024
EDITABLE = (WORKSPACE, OUTPUTS)


@dataclass(frozen=True, slots=True)
class EditedFile:
    """A file after a write; `path` is absolute, as the agent sees it."""

    path: str
    sha256: str
    size: int


def encode_text(content: str) -> bytes:
    """Encode a text as UTF-8; line endings are kept.

    Raises:
        TooLarge: The text is too long to be edited as a whole.
        InvalidRequest: The text contains a lone surrogate.
    """
    try:
        encoded = content.encode()
    except UnicodeEncodeError:
        raise InvalidRequest("content: lone surrogates are not allowed") from None
    if len(encoded) > MAX_TEXT:
        raise TooLarge(f"content: a text of at most {MAX_TEXT // 1024**2} MB can be edited, not {len(encoded)} bytes")
    return encoded


def replace_if_unchanged(
    resolved: ResolvedPath, content: bytes, expected_sha256: str | None, owner: int | None
) -> EditedFile:
    """Write a file atomically if its content has the expected hash, or create it if no hash is expected.

    Raises:
        Conflict: The file has changed.
        InvalidRequest: The file is not in an editable folder.
        FileProblem: The file cannot be read or written.
    """
    if resolved.mount.path not in EDITABLE:
        raise InvalidRequest(f"{resolved.path!r} cannot be edited: only files in {' and '.join(EDITABLE)} can")
    found = compute_current_hash(resolved)
    if found != expected_sha256:
        raise Conflict(f"{resolved.path!r} {describe_conflict(found)}; reload it before changing it")
    write_file(resolved, content, owner)
    return EditedFile(resolved.path, hashlib.sha256(content).hexdigest(), len(content))


def compute_current_hash(resolved: ResolvedPath) -> str | None:
    """Return the SHA-256 of a file's content, or None if there is no file."""
    try:
        file = open_file(resolved)
    except NoSuchFile:
        return None
    try:
        if file.size > MAX_TEXT:
            raise TooLarge(
                f"{resolved.path!r} has {file.size} bytes; files of at most {MAX_TEXT // 1024**2} MB can be edited"
            )
        return hashlib.sha256(file.read(0, file.size)).hexdigest()
    finally:
        file.close()


def describe_conflict(found: str | None) -> str:
    """Return why the file differs from the expected one."""
    return "is not there (any more)" if found is None else f"has changed: its sha256 is {found}"


class FileLocks:
    """Locks per file and thread, kept while a task holds or awaits them."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    def lock(self, thread_id: str, path: str) -> asyncio.Lock:
        """Return the lock of a file."""
        return self._locks.setdefault((thread_id, str(PurePosixPath(path))), asyncio.Lock())
