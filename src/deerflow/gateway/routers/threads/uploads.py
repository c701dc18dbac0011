"""Uploads: /threads/{thread_id}/uploads."""

from contextlib import aclosing
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from pydantic import BaseModel, ConfigDict, JsonValue

from deerflow.config.sections.storage import UploadsConfig
from deerflow.domain.errors import TooLarge
from deerflow.domain.files import ConversionState, Outline
from deerflow.gateway.dependencies import CurrentUser, HarnessDep, ThreadReader, ThreadWriter
from deerflow.gateway.files import PartBegins, PartData, PartEnds, PartEvent, read_parts
from deerflow.uploads.receiver import UploadReceiver
from deerflow.uploads.uploads import serialize_limits, serialize_upload_result, serialize_uploads

router = APIRouter(prefix="/threads/{thread_id}/uploads", tags=["uploads"])
limits_router = APIRouter(prefix="/uploads", tags=["uploads"])

FIELD = "files"
MULTIPART_OVERHEAD = 1024 * 1024
"""Maximum size of a body in addition to the files."""
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
    """Upload; `path` is its path in the sandbox. `conversion_note` says why a document has no Markdown."""

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
    """File that was not stored, with the reason."""

    filename: str
    reason: str


class UploadAnswer(BaseModel):
    """Result of an upload; `success` means that all files were stored."""

    success: bool
    files: list[Upload]
    message: str
    skipped_files: list[Skipped]


class Uploaded(BaseModel):
    """Uploads of a thread, newest first."""

    files: list[Upload]
    count: int


class UploadLimits(BaseModel):
    """Limits of one request; sizes are in bytes."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"max_files": 10, "max_file_size": 52_428_800, "max_total_size": 104_857_600}}
    )

    max_files: int
    max_file_size: int
    max_total_size: int


class UploadDeleted(BaseModel):
    """Result of a deletion."""

    model_config = ConfigDict(json_schema_extra={"example": {"success": True, "message": "deleted 'report.pdf'"}})

    success: bool
    message: str


@router.post("", openapi_extra=MULTIPART)
async def upload_files(thread_id: str, request: Request, harness: HarnessDep, user: ThreadWriter) -> UploadAnswer:
    """Upload files to a thread. Documents are converted to Markdown; long conversions continue in the background."""
    thread = await harness.threads.get(thread_id, user)
    uploads, settings = harness.core.uploads, harness.core.uploads.settings.current
    check_announced_size(request, settings)
    try:
        async with uploads.receive(thread) as reception:
            parts = read_parts(request, settings.stall_seconds, settings.timeout_seconds)
            async with aclosing(parts):  # type: ignore[type-var]
                async for event in parts:
                    await receive_part(event, reception)
            received = await uploads.complete(thread, reception)
    finally:
        await harness.threads.confirm(thread_id, user)
    return UploadAnswer.model_validate(serialize_upload_result(received, thread_id))


@router.get("/list")
async def list_uploads(thread_id: str, harness: HarnessDep, user: ThreadReader) -> Uploaded:
    """List the uploads of a thread, newest first."""
    thread = await harness.threads.get(thread_id, user)
    files = await harness.core.uploads.list(thread.owner, thread_id)
    return Uploaded.model_validate(serialize_uploads(files, thread_id))


@router.get("/limits")
async def get_upload_limits(thread_id: str, harness: HarnessDep, user: ThreadReader) -> UploadLimits:
    """Get the limits of one upload."""
    await harness.threads.get(thread_id, user)
    return UploadLimits.model_validate(serialize_limits(harness.core.uploads.settings.current))


@limits_router.get("/limits")
async def get_limits(harness: HarnessDep, user: CurrentUser) -> UploadLimits:
    """Get the limits of one upload, before there is a thread."""
    return UploadLimits.model_validate(serialize_limits(harness.core.uploads.settings.current))


@router.delete("/{filename:file}")
async def delete_upload(
    thread_id: str,
    filename: Annotated[str, Path(examples=["report.pdf"])],
    harness: HarnessDep,
    user: ThreadWriter,
) -> UploadDeleted:
    """Delete an upload and the Markdown converted from it."""
    thread = await harness.threads.get(thread_id, user)
    await harness.core.uploads.delete(thread.owner, thread_id, filename)
    return UploadDeleted(success=True, message=f"deleted {filename!r}")


def check_announced_size(request: Request, limits: UploadsConfig) -> None:
    """Reject a body whose announced size is too large; a false announcement is detected while reading."""
    length = request.headers.get("content-length", "0")
    if length.isdecimal() and int(length) > limits.max_total_size + MULTIPART_OVERHEAD:
        raise TooLarge(f"upload is larger than {limits.max_total_size} bytes; send fewer files at once")


async def receive_part(event: PartEvent, reception: UploadReceiver) -> None:
    """Store a part of the body; fields that are not files are ignored."""
    match event:
        case PartBegins(name=name, filename=filename) if filename and name == FIELD:
            await reception.begin(filename)
        case PartBegins(filename=filename) if filename:  # forms send an empty name if no file was chosen
            await reception.skip(filename, f"not in the field {FIELD!r}")
        case PartData(data=data):
            await reception.write(data)
        case PartEnds():
            await reception.end()
