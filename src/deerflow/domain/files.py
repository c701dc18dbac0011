"""A thread's files, as agents and the parts that serve them see them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, runtime_checkable

USER_DATA = "/mnt/user-data"
WORKSPACE = f"{USER_DATA}/workspace"
UPLOADS = f"{USER_DATA}/uploads"
OUTPUTS = f"{USER_DATA}/outputs"


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One regular file; `path` is absolute, as the agent sees it."""

    path: str
    size: int
    modified_at: datetime


@dataclass(frozen=True, slots=True)
class FolderEntry:
    """A file or a folder in a folder; `path` is absolute, as the agent sees it."""

    path: str
    is_folder: bool
    size: int
    modified_at: datetime


@dataclass(frozen=True, slots=True)
class Folder:
    """What is in a folder, folders first; `is_truncated` when that is not all."""

    path: str
    entries: Sequence[FolderEntry]
    is_truncated: bool = False


@runtime_checkable  # LangChain validates the run context with isinstance
class ThreadFiles(Protocol):
    """The files below `/mnt/user-data` of one thread. Nothing else can be reached, whatever the path says.

    Every method raises `FileProblem`, whose text is written for the model.
    """

    async def stat(self, path: str) -> FileEntry: ...
    async def read(self, path: str, limit: int | None = None) -> bytes: ...
    async def write(self, path: str, content: bytes) -> None: ...
    async def list(self, folder: str) -> Sequence[FileEntry]: ...
