"""/threads/{thread_id}/runs/{run_id}/workspace-changes"""

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, JsonValue

from deerflow.domain.changes import ChangeStatus, FileChange, LeftOut, WorkspaceChanges
from deerflow.gateway.dependencies import TheHarness, Who

router = APIRouter(tags=["runs"])

EXAMPLE: dict[str, JsonValue] = {
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
    """How many files are different."""

    added: int
    changed: int
    removed: int
    renamed: int


class ChangedFile(BaseModel):
    """A file that is different; `left_out` says why there is no diff."""

    path: str
    status: ChangeStatus
    size_before: int | None
    size: int | None
    previous_path: str | None
    is_link: bool
    lines_added: int | None
    lines_removed: int | None
    diff: str | None
    left_out: LeftOut | None

    @classmethod
    def of(cls, change: FileChange, *, with_diff: bool) -> "ChangedFile":
        fields = {name: getattr(change, name) for name in FileChange.__slots__}
        return cls(**fields if with_diff else {**fields, "diff": None})


class RunChanges(BaseModel):
    """What a run did to the files of its thread. `files` may be fewer than `counts` says: then `is_truncated`."""

    model_config = ConfigDict(json_schema_extra={"example": EXAMPLE})

    thread_id: str
    run_id: str
    is_final: bool
    counts: Counts
    files: list[ChangedFile] | None
    is_truncated: bool
    problem: str | None
    """Why they are not known, if they are not."""


@router.get("/threads/{thread_id}/runs/{run_id}/workspace-changes", summary="What a run did to files")
async def get_workspace_changes(
    thread_id: str,
    run_id: str,
    harness: TheHarness,
    who: Who,
    include_files: bool = True,
    include_diff: bool = False,
) -> RunChanges:
    """Files that a run has added, changed, removed or renamed; of one under way, those so far."""
    run = await harness.runs.get(thread_id, run_id, who)
    found = await harness.artifacts.changes_of(run)
    files = [ChangedFile.of(each, with_diff=include_diff) for each in found.files] if include_files else None
    return RunChanges(
        thread_id=thread_id,
        run_id=run_id,
        is_final=run.status.is_final,
        counts=counts_of(found),
        files=files,
        is_truncated=len(found.files) < found.total,
        problem=found.problem,
    )


def counts_of(changes: WorkspaceChanges) -> Counts:
    """How many files are different, in the shape of the API."""
    return Counts(added=changes.added, changed=changes.changed, removed=changes.removed, renamed=changes.renamed)
