"""/threads/{thread_id}/files: the folders of a thread"""

from datetime import datetime
from pathlib import PurePosixPath
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict

from deerflow.domain.files import OUTPUTS, USER_DATA, FolderEntry
from deerflow.gateway.dependencies import TheHarness, Who
from deerflow.sandbox.folders import look_into

router = APIRouter(tags=["files"])


class FileOrFolder(BaseModel):
    """Something in a folder; `path` is as the agent names it."""

    name: str
    path: str
    kind: Literal["file", "folder"]
    size: int
    modified_at: datetime

    @classmethod
    def of(cls, entry: FolderEntry) -> "FileOrFolder":
        return cls(
            name=PurePosixPath(entry.path).name,
            path=entry.path,
            kind="folder" if entry.is_folder else "file",
            size=entry.size,
            modified_at=entry.modified_at,
        )


class FolderListing(BaseModel):
    """What is in a folder, folders first; `is_truncated` when that is not all."""

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


Where = Annotated[
    str,
    Query(
        description="The folder, as the agent names it.",
        openapi_examples={"all": {"value": USER_DATA}, "outputs": {"value": OUTPUTS}},
    ),
]


@router.get("/threads/{thread_id}/files", summary="Look into a folder")
async def list_files(thread_id: str, harness: TheHarness, who: Who, path: Where = USER_DATA) -> FolderListing:
    """What is in a folder of the thread, one level deep; links are left out."""
    thread = await harness.threads.get(thread_id, who)
    folder = await look_into(harness.files_of(thread), path)
    entries = [FileOrFolder.of(entry) for entry in folder.entries]
    return FolderListing(path=folder.path, entries=entries, is_truncated=folder.is_truncated)
