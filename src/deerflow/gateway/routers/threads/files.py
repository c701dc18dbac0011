"""Files of a thread, file changes of its runs, and the web pages that agents have read in it.

/threads/{thread_id}/files, …/runs/{run_id}/workspace-changes and …/web-pages.
"""

from datetime import datetime
from pathlib import PurePosixPath
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from fastapi.responses import PlainTextResponse
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
from deerflow.domain.web_pages import PageSnapshot
from deerflow.gateway.dependencies import HarnessDep, ThreadReader
from deerflow.gateway.files import HEADERS
from deerflow.sandbox.file_access import list_folder_entries

router = APIRouter(tags=["files"])
web_pages_router = APIRouter(prefix="/threads/{thread_id}/web-pages", tags=["threads"])


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
    thread_id: str, harness: HarnessDep, user: ThreadReader, path: FolderPath = USER_DATA
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
    user: ThreadReader,
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


class WebPage(BaseModel):
    """Snapshot of a web page; `problem` says why it could not be read."""

    snapshot_id: str
    asked_url: str
    url: str
    title: str
    content_type: str
    text_hash: str | None
    chars: int
    problem: str | None
    fetched_at: datetime
    is_kept: bool

    @classmethod
    def from_domain(cls, page: PageSnapshot) -> "WebPage":
        return cls.model_validate(page, from_attributes=True)


class WebPages(BaseModel):
    """Web pages of a thread, oldest first, with its totals and limits."""

    pages: list[WebPage]
    total: int
    total_chars: int
    max_pages: int
    max_chars: int


class WebPageText(WebPage):
    """Web page with its text as Markdown."""

    text: str


@web_pages_router.get("", summary="List the web pages read in a thread")
async def list_web_pages(
    thread_id: str,
    harness: HarnessDep,
    user: ThreadReader,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    offset: Annotated[int, Query(ge=0, le=1_000_000)] = 0,
) -> WebPages:
    """List all web pages that agents have read or failed to read, oldest first."""
    kept = harness.resources.web_pages
    found = await kept.list(thread_id, user, limit, offset)
    held = await kept.get_totals(thread_id, user)
    return WebPages(
        pages=[WebPage.from_domain(page) for page in found],
        total=held.pages,
        total_chars=held.chars,
        max_pages=kept.limits.pages,
        max_chars=kept.limits.chars,
    )


@web_pages_router.get("/at", response_class=PlainTextResponse, summary="Get the text of a web page by URL")
async def get_web_page_at(
    thread_id: str,
    harness: HarnessDep,
    user: ThreadReader,
    url: Annotated[str, Query(min_length=1, max_length=4000, examples=["https://example.org/birds"])],
) -> PlainTextResponse:
    """Get the text of a cited page, as of the last time an agent read it."""
    _, text = await harness.resources.web_pages.get_by_url(thread_id, user, url)
    return PlainTextResponse(text, headers=HEADERS)


@web_pages_router.get("/{snapshot_id}", summary="Get a web page")
async def get_web_page(thread_id: str, snapshot_id: str, harness: HarnessDep, user: ThreadReader) -> WebPageText:
    """Get a web page with its text, as of the time an agent read it."""
    page, text = await harness.resources.web_pages.get(thread_id, user, snapshot_id)
    return WebPageText(**WebPage.from_domain(page).model_dump(), text=text)


@web_pages_router.get("/{snapshot_id}/text", response_class=PlainTextResponse, summary="Get the text of a web page")
async def get_web_page_text(
    thread_id: str, snapshot_id: str, harness: HarnessDep, user: ThreadReader
) -> PlainTextResponse:
    """Get the text as plain text."""
    page, text = await harness.resources.web_pages.get(thread_id, user, snapshot_id)
    return PlainTextResponse(page.problem or text, headers=HEADERS)
