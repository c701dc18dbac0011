"""Files that are open for reading: whatever becomes of their paths meanwhile, they stay what they were opened as."""

import io
import os
import time
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from deerflow.sandbox.copies import is_settled
from deerflow.sandbox.files import READ, check_regular, explaining, modified_at, opened
from deerflow.sandbox.places import Spot
from deerflow.sandbox.tree import Entry


class Readable(Protocol):
    """Something with a content that can be read piece by piece. `read` and `close` may block."""

    @property
    def name(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def modified_at(self) -> datetime: ...
    @property
    def tag(self) -> str:
        """Another one as soon as the content is."""
        ...

    @property
    def is_settled(self) -> bool:
        """Whether `tag` can be trusted to the byte: a file that was changed just now may change again and keep it."""
        ...

    def read(self, offset: int, length: int) -> bytes: ...
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class OpenedFile:
    """A regular file; its size is the one it had when it was opened."""

    name: str
    size: int
    modified_at: datetime
    tag: str
    is_settled: bool
    file: io.FileIO = field(repr=False)

    def read(self, offset: int, length: int) -> bytes:
        """A piece of the content; less than asked for where the file has become shorter."""
        return os.pread(self.file.fileno(), min(length, max(self.size - offset, 0)), offset)

    def close(self) -> None:
        """Let go of the file."""
        self.file.close()


@dataclass(frozen=True, slots=True)
class Content:
    """A content in memory."""

    name: str
    content: bytes
    modified_at: datetime
    tag: str
    is_settled: bool = True

    @property
    def size(self) -> int:
        return len(self.content)

    def read(self, offset: int, length: int) -> bytes:
        """A piece of the content."""
        return self.content[offset : offset + length]

    def close(self) -> None:
        """There is nothing to let go of."""


def open_file(spot: Spot) -> OpenedFile:
    """Open a file for reading.

    Raises:
        FileProblem: It is not a regular file of the thread's.
    """
    with explaining(spot), opened(spot, READ) as descriptor:
        status = check_regular(os.fstat(descriptor), spot)
        entry = Entry.of(status)
        return OpenedFile(
            name=spot.names[-1],
            size=entry.size,
            modified_at=modified_at(status),
            tag=f"{entry.inode:x}-{entry.size:x}-{entry.mtime_ns:x}-{entry.ctime_ns:x}",
            is_settled=is_settled(entry, time.time_ns()),
            file=io.FileIO(os.dup(descriptor)),
        )
