"""Artifacts: files of a thread, their thumbnails and previews. Agents made them, so their content is not trusted.

Previews are web pages of an agent in a frame. Content that a page gives a frame (`srcdoc`, a blob) inherits the strict
policy of that page, under which no script would run. Previews have a policy of their own instead: inline scripts and
styles, no origin, and no network access.

A page may always navigate its own frame, and only the document around the frame can forbid it. The preview is that
document, and the file is the `srcdoc` of a frame inside it, which may show nothing else.
"""

from base64 import b64encode
from collections.abc import Sequence
from html import escape
from pathlib import PurePosixPath
from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, Header, Path, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import iterate_in_threadpool
from starlette.responses import Response, StreamingResponse

from deerflow.domain.errors import FileProblem
from deerflow.domain.files import OUTPUTS
from deerflow.domain.identity import Principal
from deerflow.domain.threads import ThreadRecord
from deerflow.gateway.dependencies import HarnessDep, ThreadReader, ThreadWriter
from deerflow.gateway.files import (
    HEADERS,
    Conditions,
    file_headers,
    file_response,
    format_etag,
    is_not_modified,
)
from deerflow.harness import Harness
from deerflow.sandbox.previews.previews import AnyPreview

MAX_PATHS = 1000
SHA256 = "^[0-9a-f]{64}$"
PLAN_SHA256 = "c3964bb3b70a957ec9b233c7dd3653f6ba17701ab00facf88ae1393dc6155577"
"""Hash of `# Plan` with a line break, the content of the first example."""
EXAMPLE_PATH = "mnt/user-data/outputs/report.md"
BINARY: dict[str, Any] = {"schema": {"type": "string", "format": "binary"}}
FILE: dict[int | str, dict[str, Any]] = {
    200: {"description": "The file.", "content": {"text/plain": BINARY, "application/octet-stream": BINARY}},
    206: {"description": "The requested range.", "content": {"application/octet-stream": BINARY}},
    304: {"description": "Not modified."},
    416: {"description": "Range outside the file."},
}
PICTURE: dict[int | str, dict[str, Any]] = {
    200: {"description": "The thumbnail.", "content": {"image/webp": BINARY}},
    304: {"description": "Not modified."},
    422: {"description": "No thumbnail can be made; `detail` says why."},
}
PREVIEW: dict[int | str, dict[str, Any]] = {
    304: {"description": "Not modified."},
    422: {"description": "There is no preview; `error` and `detail` say why."},
}
ZIP: dict[int | str, dict[str, Any]] = {200: {"description": "The zip file.", "content": {"application/zip": BINARY}}}


router = APIRouter(prefix="/threads/{thread_id}", tags=["artifacts"])


class EditFile(BaseModel):
    """Body of an edit."""

    model_config = ConfigDict(extra="forbid")

    content: str
    expected_sha256: Annotated[str, Field(pattern=SHA256)] | None = None
    """Hash of the content that was edited; without it a new file is created, if none exists."""


class Edited(BaseModel):
    """File after an edit; its `sha256` is needed for the next edit."""

    path: str
    sha256: str
    size: int


class BundleFiles(BaseModel):
    """Body of a request for a zip file."""

    model_config = ConfigDict(extra="forbid")

    paths: Annotated[list[str], Field(min_length=1, max_length=MAX_PATHS)] = [OUTPUTS]
    """Paths of files and folders in the sandbox."""


async def get_conditions(
    range: Annotated[str | None, Header(description="Byte range, e.g. `bytes=0-99`.")] = None,
    if_range: Annotated[str | None, Header()] = None,
    if_none_match: Annotated[str | None, Header()] = None,
) -> Conditions:
    """Return the conditional headers of the request."""
    return Conditions(range, if_range, if_none_match)


RequestConditions = Annotated[Conditions, Depends(get_conditions)]
ArtifactPath = Annotated[
    str,
    Path(
        description="Path in the sandbox, without its leading slash.",
        openapi_examples={"report": {"summary": "File of the agent", "value": EXAMPLE_PATH}},
    ),
]


@router.get("/artifacts/{path:file}", response_class=Response, responses=FILE, summary="Get a file")
async def get_artifact(
    thread_id: str,
    path: ArtifactPath,
    harness: HarnessDep,
    user: ThreadReader,
    wanted: RequestConditions,
    download: bool = False,
) -> Response:
    """Get a file or a range of it, also in an archive: `x.skill/SKILL.md`. Only images and text are shown inline."""
    file = await harness.artifacts.open(thread_id, user, f"/{path}")
    return await file_response(file, wanted, download=download)


@router.head(
    "/artifacts/{path:file}", response_class=Response, summary="Get the headers of a file", include_in_schema=False
)
async def look_at_artifact(
    thread_id: str,
    path: ArtifactPath,
    harness: HarnessDep,
    user: ThreadReader,
    wanted: RequestConditions,
    download: bool = False,
) -> Response:
    """Get the headers of a file."""
    file = await harness.artifacts.open(thread_id, user, f"/{path}")
    return await file_response(file, wanted, download=download, only_headers=True)


@router.get("/thumbnails/{path:file}", response_class=Response, responses=PICTURE, summary="Get a thumbnail")
async def get_thumbnail(
    thread_id: str,
    path: ArtifactPath,
    harness: HarnessDep,
    user: ThreadReader,
    wanted: RequestConditions,
    size: Annotated[
        int, Query(ge=1, le=1024, description="Longer side in pixels, rounded up to 64, 128 … 1024.")
    ] = 256,
) -> Response:
    """Get a WebP thumbnail of a PNG, JPEG, GIF or WebP, rendered in the thread's sandbox."""
    drawn = await harness.artifacts.thumbnail(thread_id, user, f"/{path}", size)
    return await file_response(drawn, wanted)


@router.get(
    "/file-previews/{path:file}", response_model=AnyPreview, responses=PREVIEW, summary="Preview an Office file"
)
async def get_file_preview(
    thread_id: str, path: ArtifactPath, harness: HarnessDep, user: ThreadReader, wanted: RequestConditions
) -> Response:
    """Get slides as pictures, the text of a document, the cells of a workbook, or the files of a zip archive.

    The file is parsed in the thread's sandbox.
    """
    preview = await harness.artifacts.preview(thread_id, user, f"/{path}")
    etag = format_etag(preview.tag, is_settled=True)
    headers = {**HEADERS, "ETag": etag}
    if is_not_modified(wanted, etag):
        return Response(status_code=304, headers=headers)
    return Response(preview.content, media_type="application/json", headers=headers)


@router.put("/artifacts/{path:file}", summary="Edit a text file")
async def edit_artifact(
    thread_id: str,
    path: ArtifactPath,
    body: Annotated[
        EditFile,
        Body(
            openapi_examples={
                "new": {"summary": "Create a file", "value": {"content": "# Plan\n", "expected_sha256": None}},
                "edit": {
                    "summary": "Edit a file",
                    "value": {"content": "# Plan B\n", "expected_sha256": PLAN_SHA256},
                },
            }
        ),
    ],
    harness: HarnessDep,
    user: ThreadWriter,
) -> Edited:
    """Replace a text file in `outputs` or `workspace`; 409 with the current hash if it was changed since."""
    edited = await harness.artifacts.edit(thread_id, user, f"/{path}", body.content, body.expected_sha256)
    return Edited(path=edited.path, sha256=edited.sha256, size=edited.size)


@router.get("/artifacts.zip", response_class=Response, responses=ZIP, summary="Download several files")
async def download_artifacts(
    thread_id: str,
    harness: HarnessDep,
    user: ThreadReader,
    path: Annotated[
        list[str],
        Query(
            min_length=1, max_length=MAX_PATHS, openapi_examples={"all": {"summary": "A folder", "value": [OUTPUTS]}}
        ),
    ] = [OUTPUTS],  # noqa: B006  # FastAPI copies it
) -> Response:
    """Download files and folders as one zip file; by default all of `outputs`."""
    return await zip_response(harness, thread_id, user, path)


@router.post("/artifacts/zip", response_class=Response, responses=ZIP, summary="Download many files")
async def bundle_artifacts(
    thread_id: str,
    body: Annotated[
        BundleFiles, Body(openapi_examples={"all": {"summary": "A folder", "value": {"paths": [OUTPUTS]}}})
    ],
    harness: HarnessDep,
    user: ThreadReader,
) -> Response:
    """Download files and folders as one zip file, with the paths in the body."""
    return await zip_response(harness, thread_id, user, body.paths)


async def zip_response(harness: Harness, thread_id: str, user: Principal, paths: Sequence[str]) -> Response:
    """Return a zip file that is created while it is streamed."""
    bundle = await harness.artifacts.bundle(thread_id, user, [f"/{path.removeprefix('/')}" for path in paths])
    headers = {**file_headers(f"{thread_id}.zip", None), "Content-Type": "application/zip"}
    return StreamingResponse(iterate_in_threadpool(bundle.chunks()), headers=headers)


preview_router = APIRouter(tags=["files"])

SVG = ".svg"
PREVIEW_SUFFIXES = frozenset({".htm", ".html", ".xhtml", SVG})
MAX_BYTES = 16 * 1024 * 1024
POLICY = "; ".join(
    [
        "sandbox allow-scripts",
        "default-src 'none'",
        "script-src 'unsafe-inline' 'unsafe-eval'",
        "style-src 'unsafe-inline'",
        "img-src data: blob:",
        "media-src data: blob:",
        "font-src data:",
        "frame-src 'none'",
        "form-action 'none'",
        "frame-ancestors 'self'",
    ]
)
PREVIEW_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-DNS-Prefetch-Control": "off",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=(), clipboard-read=(), display-capture=()",
    "Cache-Control": "no-store",
}
PREVIEW_DOCUMENT = """<!doctype html>
<meta charset="utf-8">
<title>Preview</title>
<style>html, body, iframe, img {{ display: block; width: 100%; height: 100%; margin: 0; border: 0 }}</style>
{shown}
"""
FRAME = '<iframe title="Preview" srcdoc="{text}"></iframe>'
IMAGE = '<img alt="" style="object-fit: contain" src="data:image/svg+xml;base64,{text}">'
BASE = '<base href="about:srcdoc">'
"""Makes links inside a page relative to it, and not to the document around it."""


PAGE: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/html": {"schema": {"type": "string"}}}, "description": "The page."}
}


@preview_router.get(
    "/threads/{thread_id}/previews/{path:file}",
    response_class=Response,
    responses=PAGE,
    summary="Preview a web page",
)
async def preview(thread_id: str, path: str, harness: HarnessDep, user: ThreadReader) -> Response:
    """Get a web page or SVG for a frame: its scripts run, but without an origin and without network access."""
    return await preview_response(harness, await harness.threads.get(thread_id, user), path)


async def preview_response(harness: Harness, thread: ThreadRecord, path: str) -> Response:
    """Return the preview of a file of a thread."""
    kind = PurePosixPath(path).suffix.lower()
    if kind not in PREVIEW_SUFFIXES:
        raise FileProblem(f"'/{path}' is not a web page; previews support {', '.join(sorted(PREVIEW_SUFFIXES))}")
    content = await harness.files_of(thread).read(f"/{path}", MAX_BYTES)
    return Response(wrap_preview(kind, content), media_type="text/html", headers=PREVIEW_HEADERS)


def wrap_preview(kind: str, content: bytes) -> str:
    """Return a document that shows a file in a frame and nothing else."""
    if kind == SVG:
        shown = IMAGE.format(text=b64encode(content).decode())
    else:
        shown = FRAME.format(text=escape(BASE + content.decode(errors="replace")))
    return PREVIEW_DOCUMENT.format(shown=shown)
