"""/threads/{thread_id}/artifacts: files an agent made, which nobody vouches for"""

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, Header, Path, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import iterate_in_threadpool
from starlette.responses import Response, StreamingResponse

from deerflow.domain.files import OUTPUTS
from deerflow.domain.principal import Principal
from deerflow.gateway.dependencies import TheHarness, Who
from deerflow.gateway.files import file_response, headers_of
from deerflow.gateway.ranges import Conditions
from deerflow.harness import Harness

MAX_PATHS = 1000
SHA256 = "^[0-9a-f]{64}$"
PLAN_SHA256 = "c3964bb3b70a957ec9b233c7dd3653f6ba17701ab00facf88ae1393dc6155577"
"""Of `# Plan` with a line break, which the first example makes."""
EXAMPLE_PATH = "mnt/user-data/outputs/report.md"
BINARY: dict[str, Any] = {"schema": {"type": "string", "format": "binary"}}
FILE: dict[int | str, dict[str, Any]] = {
    200: {"description": "The file.", "content": {"text/plain": BINARY, "application/octet-stream": BINARY}},
    206: {"description": "The part that was asked for.", "content": {"application/octet-stream": BINARY}},
    304: {"description": "The client has it already."},
    416: {"description": "The file ends before that part begins."},
}
PICTURE: dict[int | str, dict[str, Any]] = {
    200: {"description": "The small picture.", "content": {"image/webp": BINARY}},
    304: {"description": "The client has it already."},
    422: {"description": "No small picture can be made of it; `detail` says why."},
}
ZIP: dict[int | str, dict[str, Any]] = {200: {"description": "The zip file.", "content": {"application/zip": BINARY}}}


router = APIRouter(prefix="/threads/{thread_id}", tags=["artifacts"])


class EditFile(BaseModel):
    """Body of an edit."""

    model_config = ConfigDict(extra="forbid")

    content: str
    expected_sha256: Annotated[str, Field(pattern=SHA256)] | None = None
    """The hash of the content that was edited; without it a new file is made, and only where there is none."""


class Edited(BaseModel):
    """A file after an edit; its `sha256` is what the next edit expects."""

    path: str
    sha256: str
    size: int


class BundleFiles(BaseModel):
    """Body of a request for a zip file."""

    model_config = ConfigDict(extra="forbid")

    paths: Annotated[list[str], Field(min_length=1, max_length=MAX_PATHS)] = [OUTPUTS]
    """Files and folders, as the agent names them."""


async def conditions_in(
    range: Annotated[str | None, Header(description="One range of bytes, e.g. `bytes=0-99`.")] = None,
    if_range: Annotated[str | None, Header()] = None,
    if_none_match: Annotated[str | None, Header()] = None,
) -> Conditions:
    """What the client has and wants."""
    return Conditions(range, if_range, if_none_match)


Wanted = Annotated[Conditions, Depends(conditions_in)]
Where = Annotated[
    str,
    Path(
        description="The path as the agent says it, without its first slash.",
        openapi_examples={"report": {"summary": "A file the agent made", "value": EXAMPLE_PATH}},
    ),
]


@router.get("/artifacts/{path:file}", response_class=Response, responses=FILE, summary="Get a file")
async def get_artifact(
    thread_id: str, path: Where, harness: TheHarness, who: Who, wanted: Wanted, download: bool = False
) -> Response:
    """A file or a part of it, also one in an archive: `x.skill/SKILL.md`. Only pictures and text are shown in place."""
    file = await harness.artifacts.open(thread_id, who, f"/{path}")
    return await file_response(file, wanted, download=download)


@router.head("/artifacts/{path:file}", response_class=Response, summary="Look at a file", include_in_schema=False)
async def look_at_artifact(
    thread_id: str, path: Where, harness: TheHarness, who: Who, wanted: Wanted, download: bool = False
) -> Response:
    """What `GET` would say of a file, without the file."""
    file = await harness.artifacts.open(thread_id, who, f"/{path}")
    return await file_response(file, wanted, download=download, only_headers=True)


@router.get("/thumbnails/{path:file}", response_class=Response, responses=PICTURE, summary="Get a small picture")
async def get_thumbnail(
    thread_id: str,
    path: Where,
    harness: TheHarness,
    who: Who,
    wanted: Wanted,
    size: Annotated[int, Query(ge=1, le=1024, description="The longer side, rounded up to 64, 128 … 1024.")] = 256,
) -> Response:
    """A small WebP of a PNG, JPEG, GIF or WebP, drawn in the thread's sandbox."""
    drawn = await harness.artifacts.thumbnail(thread_id, who, f"/{path}", size)
    return await file_response(drawn, wanted)


@router.put("/artifacts/{path:file}", summary="Edit a text file")
async def edit_artifact(
    thread_id: str,
    path: Where,
    body: Annotated[
        EditFile,
        Body(
            openapi_examples={
                "new": {"summary": "Make a file", "value": {"content": "# Plan\n", "expected_sha256": None}},
                "edit": {
                    "summary": "Edit what was read",
                    "value": {"content": "# Plan B\n", "expected_sha256": PLAN_SHA256},
                },
            }
        ),
    ],
    harness: TheHarness,
    who: Who,
) -> Edited:
    """Replace a text in `outputs` or `workspace`, unless it has changed since it was read: then 409 says its hash."""
    edited = await harness.artifacts.edit(thread_id, who, f"/{path}", body.content, body.expected_sha256)
    return Edited(path=edited.path, sha256=edited.sha256, size=edited.size)


@router.get("/artifacts.zip", response_class=Response, responses=ZIP, summary="Download several files")
async def download_artifacts(
    thread_id: str,
    harness: TheHarness,
    who: Who,
    path: Annotated[
        list[str],
        Query(
            min_length=1, max_length=MAX_PATHS, openapi_examples={"all": {"summary": "A folder", "value": [OUTPUTS]}}
        ),
    ] = [OUTPUTS],  # noqa: B006  # FastAPI copies it
) -> Response:
    """Files and folders as one zip file; all that the agent has put into `outputs`, unless some are named."""
    return await zip_response(harness, thread_id, who, path)


@router.post("/artifacts/zip", response_class=Response, responses=ZIP, summary="Download many files")
async def bundle_artifacts(
    thread_id: str,
    body: Annotated[
        BundleFiles, Body(openapi_examples={"all": {"summary": "A folder", "value": {"paths": [OUTPUTS]}}})
    ],
    harness: TheHarness,
    who: Who,
) -> Response:
    """The same for more paths than an address can hold."""
    return await zip_response(harness, thread_id, who, body.paths)


async def zip_response(harness: Harness, thread_id: str, who: Principal, paths: Sequence[str]) -> Response:
    """A zip file that is made while the client takes it."""
    bundle = await harness.artifacts.bundle(thread_id, who, [f"/{path.removeprefix('/')}" for path in paths])
    headers = {**headers_of(f"{thread_id}.zip", None), "Content-Type": "application/zip"}
    return StreamingResponse(iterate_in_threadpool(bundle.pieces()), headers=headers)
