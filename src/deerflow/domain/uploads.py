"""Files a person gave to a thread, and what became of documents among them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePosixPath
from typing import Literal, Protocol, runtime_checkable

from deerflow.domain.files import UPLOADS

ConversionState = Literal["converted", "converting", "failed", "pending", "none"]
"""`pending`: it could be tried (again); `none`: the file is read as it is."""


@dataclass(frozen=True, slots=True)
class Heading:
    """Where something begins in a converted document; the first line is 1."""

    line: int
    level: int
    title: str


@dataclass(frozen=True, slots=True)
class Outline:
    """How a converted document is built, so that the right lines of it can be read."""

    lines: int
    headings: tuple[Heading, ...] = ()
    kind: Literal["page", "slide", "sheet"] | None = None
    """What it consists of, if of parts."""
    parts: int = 0
    beginning: tuple[str, ...] = ()
    """Its first lines, where it has no headings."""


@dataclass(frozen=True, slots=True)
class UploadedFile:
    """A file in the uploads of a thread; `filename` is its path from there."""

    filename: str
    size: int
    modified: datetime
    original_filename: str | None = None
    """What its sender called it; None when no person sent it."""
    conversion: ConversionState = "none"
    note: str | None = None
    """Why there is no Markdown of it, for the person who sent it."""
    markdown_file: str | None = None
    outline: Outline | None = None

    @property
    def path(self) -> str:
        """Where the agent finds it."""
        return f"{UPLOADS}/{self.filename}"

    @property
    def extension(self) -> str:
        return PurePosixPath(self.filename).suffix.lower()

    @property
    def markdown_path(self) -> str | None:
        """Where the agent finds it as Markdown."""
        return f"{UPLOADS}/{self.markdown_file}" if self.markdown_file else None


@dataclass(frozen=True, slots=True)
class SkippedFile:
    """A file that was sent and not kept."""

    filename: str
    reason: str


@dataclass(frozen=True, slots=True)
class Received:
    """What came of an upload."""

    files: Sequence[UploadedFile]
    skipped: Sequence[SkippedFile] = ()


@runtime_checkable  # LangChain validates the run context with isinstance
class ThreadUploads(Protocol):
    """The uploads of one thread, as a run sees them."""

    async def list(self) -> Sequence[UploadedFile]:
        """All of them, newest first."""
        ...

    async def settle(self, filenames: Sequence[str]) -> Mapping[str, UploadedFile]:
        """Those of these names that are there, after a bounded wait for what is still being converted."""
        ...
