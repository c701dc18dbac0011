"""A thread's files: entries, changes made by a run, and uploads."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePosixPath
from typing import Literal, Protocol, runtime_checkable

USER_DATA = "/mnt/user-data"
WORKSPACE = f"{USER_DATA}/workspace"
UPLOADS = f"{USER_DATA}/uploads"
OUTPUTS = f"{USER_DATA}/outputs"


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A regular file; `path` is absolute, as the agent sees it."""

    path: str
    size: int
    modified_at: datetime


@dataclass(frozen=True, slots=True)
class FolderEntry:
    """A file or folder in a folder; `path` is absolute, as the agent sees it."""

    path: str
    is_folder: bool
    size: int
    modified_at: datetime


@dataclass(frozen=True, slots=True)
class Folder:
    """The entries of a folder, folders first; `is_truncated` when some are left out."""

    path: str
    entries: Sequence[FolderEntry]
    is_truncated: bool = False


@runtime_checkable  # LangChain validates the run context with isinstance
class ThreadFiles(Protocol):
    """The files below `/mnt/user-data` of one thread; no other path can be reached.

    Every method raises `FileProblem`, whose text is written for the model.
    """

    async def stat(self, path: str) -> FileEntry: ...
    async def read(self, path: str, limit: int | None = None) -> bytes: ...
    async def write(self, path: str, content: bytes) -> None: ...
    async def list(self, folder: str) -> Sequence[FileEntry]: ...


ChangeStatus = Literal["added", "changed", "removed", "renamed"]
DiffOmission = Literal["binary", "too large", "no copy", "several names"]
"""The reason for a missing diff.

`binary`: not text; `too large`: the file or its diff is too long; `no copy`: the old content is unknown;
`several names`: the file has more than one hard link and may belong to another user.
"""


@dataclass(frozen=True, slots=True)
class FileChange:
    """One changed file; a symbolic link counts as a file that contains its target."""

    path: str
    """Absolute, as the agent sees it; bytes that are not valid UTF-8 are written as `\\xff`."""
    status: ChangeStatus
    size_before: int | None = None
    size: int | None = None
    previous_path: str | None = None
    """The path before the file was renamed."""
    is_link: bool = False
    lines_added: int | None = None
    lines_removed: int | None = None
    diff: str | None = None
    left_out: DiffOmission | None = None


@dataclass(frozen=True, slots=True)
class WorkspaceChanges:
    """All changed files, sorted by path, with totals that also count those not listed."""

    files: tuple[FileChange, ...] = ()
    added: int = 0
    changed: int = 0
    removed: int = 0
    renamed: int = 0
    problem: str | None = None
    """The reason why the changes could not be determined."""

    def __bool__(self) -> bool:
        return self.total > 0 or self.problem is not None

    @property
    def total(self) -> int:
        return self.added + self.changed + self.removed + self.renamed

    @classmethod
    def from_files(cls, files: list[FileChange], listed: int) -> "WorkspaceChanges":
        """Return the first `listed` changes by path, with totals over all of them."""
        counts = Counter(each.status for each in files)
        in_order = sorted(files, key=lambda each: each.path)
        return cls(tuple(in_order[:listed]), counts["added"], counts["changed"], counts["removed"], counts["renamed"])


ConversionState = Literal["converted", "converting", "failed", "pending", "none"]
"""`pending`: can be tried (again); `none`: the file needs no conversion."""


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading in a converted document; the first line is 1."""

    line: int
    level: int
    title: str


@dataclass(frozen=True, slots=True)
class Outline:
    """The structure of a converted document, for reading only the relevant lines."""

    lines: int
    headings: tuple[Heading, ...] = ()
    kind: Literal["page", "slide", "sheet"] | None = None
    """The unit that `parts` counts; None when the document has no parts."""
    parts: int = 0
    beginning: tuple[str, ...] = ()
    """The first lines, when there are no headings."""


@dataclass(frozen=True, slots=True)
class UploadedFile:
    """A file in the uploads folder of a thread; `filename` is relative to that folder."""

    filename: str
    size: int
    modified: datetime
    original_filename: str | None = None
    """The name given by the sender; None when no user uploaded it."""
    conversion: ConversionState = "none"
    note: str | None = None
    """The reason for a missing Markdown version, written for the sender."""
    markdown_file: str | None = None
    outline: Outline | None = None

    @property
    def path(self) -> str:
        """Return the absolute path, as the agent sees it."""
        return f"{UPLOADS}/{self.filename}"

    @property
    def extension(self) -> str:
        return PurePosixPath(self.filename).suffix.lower()

    @property
    def markdown_path(self) -> str | None:
        """Return the absolute path of the Markdown version, as the agent sees it."""
        return f"{UPLOADS}/{self.markdown_file}" if self.markdown_file else None


@dataclass(frozen=True, slots=True)
class SkippedFile:
    """A file that was sent and rejected."""

    filename: str
    reason: str


@dataclass(frozen=True, slots=True)
class UploadResult:
    """The result of an upload: stored and rejected files."""

    files: Sequence[UploadedFile]
    skipped: Sequence[SkippedFile] = ()


@runtime_checkable  # LangChain validates the run context with isinstance
class ThreadUploads(Protocol):
    """The uploads of one thread, as a run sees them."""

    async def list(self) -> Sequence[UploadedFile]:
        """Return all uploads, newest first."""
        ...

    async def wait_for_conversions(self, filenames: Sequence[str]) -> Mapping[str, UploadedFile]:
        """Wait, for a limited time, until the named files are converted; return those that exist."""
        ...
