"""/threads/{thread_id}/uploads: files people give to an agent"""

from contextlib import aclosing
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from pydantic import BaseModel, ConfigDict, JsonValue

from deerflow.config.uploads import UploadsConfig
from deerflow.domain.errors import TooLarge
from deerflow.domain.uploads import ConversionState, Outline
from deerflow.gateway.dependencies import TheHarness, Who
from deerflow.gateway.multipart import PartBegins, PartData, PartEnds, PartEvent, read_parts
from deerflow.uploads.reception import Reception
from deerflow.uploads.shapes import show_limits, show_list, show_received

router = APIRouter(prefix="/threads/{thread_id}/uploads", tags=["uploads"])

FIELD = "files"
WRAPPING = 1024 * 1024
"""So much may a body have besides the files."""
MULTIPART: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": [FIELD],
                    "properties": {FIELD: {"type": "array", "items": {"type": "string", "format": "binary"}}},
                },
                "example": {FIELD: ["# Notes\n\nWhat is to be done."]},
            }
        },
    }
}

THREAD = "7d6c3f0a-1f0e-4f7b-9a3d-0d6f7f7c2b11"
FOLDER = "/mnt/user-data/uploads"
EXAMPLE: dict[str, JsonValue] = {
    "filename": "report.pdf",
    "size": 182_044,
    "path": f"{FOLDER}/report.pdf",
    "virtual_path": f"{FOLDER}/report.pdf",
    "artifact_url": f"/api/threads/{THREAD}/artifacts{FOLDER}/report.pdf",
    "extension": ".pdf",
    "modified": "2026-01-31T09:30:00Z",
    "original_filename": "report.pdf",
    "conversion": "converted",
    "conversion_note": None,
    "markdown_file": "report.md",
    "markdown_path": f"{FOLDER}/report.md",
    "markdown_virtual_path": f"{FOLDER}/report.md",
    "markdown_artifact_url": f"/api/threads/{THREAD}/artifacts{FOLDER}/report.md",
    "outline": {
        "lines": 412,
        "headings": [{"line": 1, "level": 1, "title": "Summary (page 1)"}],
        "kind": "page",
        "parts": 12,
        "beginning": [],
    },
}


class Upload(BaseModel):
    """An upload; `path` is where the agent finds it. Why a document has no Markdown is in `conversion_note`."""

    model_config = ConfigDict(json_schema_extra={"example": EXAMPLE})

    filename: str
    size: int
    path: str
    virtual_path: str
    artifact_url: str
    extension: str
    modified: datetime
    original_filename: str | None
    conversion: ConversionState
    conversion_note: str | None
    markdown_file: str | None
    markdown_path: str | None
    markdown_virtual_path: str | None
    markdown_artifact_url: str | None
    outline: Outline | None


class Skipped(BaseModel):
    """A file that was sent and not kept."""

    filename: str
    reason: str


class UploadAnswer(BaseModel):
    """What came of an upload; `success` means that every file was kept."""

    success: bool
    files: list[Upload]
    message: str
    skipped_files: list[Skipped]


class Uploaded(BaseModel):
    """All uploads of a thread, newest first."""

    files: list[Upload]
    count: int


class UploadLimits(BaseModel):
    """How much one request may bring; sizes are in bytes."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"max_files": 10, "max_file_size": 52_428_800, "max_total_size": 104_857_600}}
    )

    max_files: int
    max_file_size: int
    max_total_size: int


class UploadDeleted(BaseModel):
    """That an upload is gone."""

    model_config = ConfigDict(json_schema_extra={"example": {"success": True, "message": "deleted 'report.pdf'"}})

    success: bool
    message: str


@router.post("", openapi_extra=MULTIPART)
async def upload_files(thread_id: str, request: Request, harness: TheHarness, who: Who) -> UploadAnswer:
    """Give files to a thread. Documents become Markdown beside them; what takes long goes on after the answer."""
    thread = await harness.threads.get(thread_id, who)
    uploads, settings = harness.uploads, harness.uploads.settings()
    refuse_oversized(request, settings)
    try:
        async with uploads.receiving(thread) as reception:
            parts = read_parts(request, settings.stall_seconds, settings.timeout_seconds)
            async with aclosing(parts):  # type: ignore[type-var]
                async for event in parts:
                    await take_in(event, reception)
            received = await uploads.keep(thread, reception)
    finally:
        await harness.threads.confirm(thread_id, who)
    return UploadAnswer.model_validate(show_received(received, thread_id))


@router.get("/list")
async def list_uploads(thread_id: str, harness: TheHarness, who: Who) -> Uploaded:
    """The uploads of a thread, newest first."""
    thread = await harness.threads.get(thread_id, who)
    files = await harness.uploads.list(thread.owner, thread_id)
    return Uploaded.model_validate(show_list(files, thread_id))


@router.get("/limits")
async def get_upload_limits(thread_id: str, harness: TheHarness, who: Who) -> UploadLimits:
    """How much one upload may have."""
    await harness.threads.get(thread_id, who)
    return UploadLimits.model_validate(show_limits(harness.uploads.settings()))


@router.delete("/{filename:file}")
async def delete_upload(
    thread_id: str,
    filename: Annotated[str, Path(examples=["report.pdf"])],
    harness: TheHarness,
    who: Who,
) -> UploadDeleted:
    """Remove an upload, with the Markdown made from it."""
    thread = await harness.threads.get(thread_id, who)
    await harness.uploads.delete(thread.owner, thread_id, filename)
    return UploadDeleted(success=True, message=f"deleted {filename!r}")


def refuse_oversized(request: Request, limits: UploadsConfig) -> None:
    """Take nothing of a body that says itself that it is too large; one that lies is found out while it comes."""
    length = request.headers.get("content-length", "0")
    if length.isdecimal() and int(length) > limits.max_total_size + WRAPPING:
        raise TooLarge(f"one upload can have {limits.max_total_size} bytes in all; send less at once")


async def take_in(event: PartEvent, reception: Reception) -> None:
    """Hand a piece of the body on; fields that are no files are passed over."""
    match event:
        case PartBegins(name=name, filename=filename) if filename and name == FIELD:
            await reception.begin(filename)
        case PartBegins(filename=filename) if filename:  # a form sends an empty one where no file was chosen
            await reception.skip(filename, f"it came in another field than {FIELD!r}")
        case PartData(data=data):
            await reception.write(data)
        case PartEnds():
            await reception.end()
