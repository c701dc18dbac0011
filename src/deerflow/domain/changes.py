"""What a run did to the files of its thread."""

from collections import Counter
from dataclasses import dataclass
from typing import Literal

ChangeStatus = Literal["added", "changed", "removed", "renamed"]
LeftOut = Literal["binary", "too large", "no copy", "several names"]
"""Why there is no diff: it is no text, it or its diff is too long, what it was is not known, it may be another's."""


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file that is different; a link counts as a file that holds where it leads."""

    path: str
    """Absolute, as the agent sees it; bytes that are no text are written as `\\xff`."""
    status: ChangeStatus
    size_before: int | None = None
    size: int | None = None
    previous_path: str | None = None
    """Where it was before, if it was renamed."""
    is_link: bool = False
    lines_added: int | None = None
    lines_removed: int | None = None
    diff: str | None = None
    left_out: LeftOut | None = None


@dataclass(frozen=True, slots=True)
class WorkspaceChanges:
    """Everything that is different, by path, and how much that is, also where not all are listed."""

    files: tuple[FileChange, ...] = ()
    added: int = 0
    changed: int = 0
    removed: int = 0
    renamed: int = 0
    problem: str | None = None
    """Why they could not be found out."""

    def __bool__(self) -> bool:
        return self.total > 0 or self.problem is not None

    @property
    def total(self) -> int:
        return self.added + self.changed + self.removed + self.renamed

    @classmethod
    def of(cls, files: list[FileChange], listed: int) -> "WorkspaceChanges":
        """The first `listed` of these changes, and how many there are."""
        counts = Counter(each.status for each in files)
        in_order = sorted(files, key=lambda each: each.path)
        return cls(tuple(in_order[:listed]), counts["added"], counts["changed"], counts["removed"], counts["renamed"])
