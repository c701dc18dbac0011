"""Files of a thread: /threads/{thread_id}/files, and the file changes of a run: …/runs/{run_id}/workspace-changes."""

from datetime import datetime
from pathlib import PurePosixPath
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, JsonValue

from deerflow.domain.files import (
    OUTPUTS,
    USER_DATA,
    ChangeStatus,
    DiffOmission,
    FileChange,
    FolderEntry,
    WorkspaceChanges,
)
from deerflow.gateway.dependencies import CurrentUser, HarnessDep
from deerflow.sandbox.file_access import list_folder_entries

router = APIRouter(tags=["files"])


class FileOrFolder(BaseModel):
    """Entry of a folder; `path` is the path in the sandbox."""

    name: str
    path: str
    kind: Literal["file", "folder"]
    size: int
    modified_at: datetime

    @classmethod
    def from_domain(cls, entry: FolderEntry) -> "FileOrFolder":
        return cls(
            name=PurePosixPath(entry.path).name,
            path=entry.path,
            kind="folder" if entry.is_folder else "file",
            size=entry.size,
            modified_at=entry.modified_at,
        )


class FolderListing(BaseModel):
    """Entries of a folder, folders first; `is_truncated` if some are omitted."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "path": OUTPUTS,
                "entries": [
                    {
                        "name": "report.md",
                        "path": f"{OUTPUTS}/report.md",
                        "kind": "file",
                        "size": 1204,
                        "modified_at": "2026-05-01T09:30:00Z",
                    }
                ],
                "is_truncated": False,
            }
        }
    )

    path: str
    entries: list[FileOrFolder]
    is_truncated: bool


FolderPath = Annotated[
    str,
    Query(
        description="Path of the folder in the sandbox.",
        openapi_examples={"all": {"value": USER_DATA}, "outputs": {"value": OUTPUTS}},
    ),
]


@router.get("/threads/{thread_id}/files", summary="List a folder")
async def list_files(
    thread_id: str, harness: HarnessDep, user: CurrentUser, path: FolderPath = USER_DATA
) -> FolderListing:
    """List a folder of the thread, one level deep; links are omitted."""
    thread = await harness.threads.get(thread_id, user)
    folder = await list_folder_entries(harness.files_of(thread), path)
    entries = [FileOrFolder.from_domain(entry) for entry in folder.entries]
    return FolderListing(path=folder.path, entries=entries, is_truncated=folder.is_truncated)


changes_router = APIRouter(tags=["runs"])

CHANGES_EXAMPLE: dict[str, JsonValue] = {
    "thread_id": "t1",
    "run_id": "r1",
    "is_final": True,
    "counts": {"added": 1, "changed": 0, "removed": 0, "renamed": 0},
    "files": [
        {
            "path": "/mnt/user-data/outputs/report.md",
            "status": "added",
            "size_before": None,
            "size": 9,
            "previous_path": None,
            "is_link": False,
            "lines_added": 1,
            "lines_removed": 0,
            "diff": "--- /dev/null\n+++ b/mnt/user-data/outputs/report.md\n@@ -0,0 +1 @@\n+# Report\n",
            "left_out": None,
        }
    ],
    "is_truncated": False,
    "problem": None,
}


class Counts(BaseModel):
    """Number of changed files."""

    added: int
    changed: int
    removed: int
    renamed: int


class ChangedFile(BaseModel):
    """Changed file; `left_out` says why there is no diff."""

    path: str
    status: ChangeStatus
    size_before: int | None
    size: int | None
    previous_path: str | None
    is_link: bool
    lines_added: int | None
    lines_removed: int | None
    diff: str | None
    left_out: DiffOmission | None

    @classmethod
    def from_domain(cls, change: FileChange, *, with_diff: bool) -> "ChangedFile":
        fields = {name: getattr(change, name) for name in FileChange.__slots__}
        return cls(**fields if with_diff else {**fields, "diff": None})


class RunChanges(BaseModel):
    """File changes of a run. If `files` has fewer entries than `counts`, `is_truncated` is set."""

    model_config = ConfigDict(json_schema_extra={"example": CHANGES_EXAMPLE})

    thread_id: str
    run_id: str
    is_final: bool
    counts: Counts
    files: list[ChangedFile] | None
    is_truncated: bool
    problem: str | None
    """Reason why the changes are unknown, if they are."""


@changes_router.get("/threads/{thread_id}/runs/{run_id}/workspace-changes", summary="Get the file changes of a run")
async def get_workspace_changes(
    thread_id: str,
    run_id: str,
    harness: HarnessDep,
    user: CurrentUser,
    include_files: bool = True,
    include_diff: bool = False,
) -> RunChanges:
    """Get the files that a run has added, changed, removed or renamed; of an active run, those so far."""
    run = await harness.runs.get(thread_id, run_id, user)
    found = await harness.artifacts.get_changes(run)
    files = [ChangedFile.from_domain(each, with_diff=include_diff) for each in found.files] if include_files else None
    return RunChanges(
        thread_id=thread_id,
        run_id=run_id,
        is_final=run.status.is_final,
        counts=build_counts(found),
        files=files,
        is_truncated=len(found.files) < found.total,
        problem=found.problem,
    )


def build_counts(changes: WorkspaceChanges) -> Counts:
    """Return the counts in the shape of the API."""
    return Counts(added=changes.added, changed=changes.changed, removed=changes.removed, renamed=changes.renamed)
