"""Files of threads: artifacts, and web pages that were read."""

import asyncio
import mimetypes
from collections.abc import AsyncGenerator, Generator, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path, PurePosixPath
from typing import Any
from uuid import uuid4

import orjson
from pydantic_core import to_jsonable_python

from deerflow.client.session import (
    HarnessSession,
    RemoteRequest,
    RemoteSession,
    Resource,
    quote_segment,
    remotely,
    route,
    sync_and_async,
    sync_and_async_iterator,
)
from deerflow.domain.errors import NotFound
from deerflow.domain.files import OUTPUTS, USER_DATA, FileChange, FolderEntry
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import RunRecord
from deerflow.domain.web_pages import PageSnapshot
from deerflow.sandbox.file_access import ReadableFile, list_folder_entries
from deerflow.tools.builtins import detect_image_type

CHUNK_SIZE = 1024 * 1024


@route("GET /threads/{thread_id}/files")
async def list_files(session: HarnessSession, thread_id: str, path: str = USER_DATA) -> dict[str, Any]:
    """Return the entries of a folder of a thread; its three folders unless a path is given.

    Raises:
        NotFound: the thread does not exist.
        FileProblem: the folder does not exist.
    """
    thread = await session.harness.threads.get(thread_id, LOCAL_USER)
    folder = await list_folder_entries(session.harness.files_of(thread), path)
    return {
        "path": folder.path,
        "entries": [serialize_entry(each) for each in folder.entries],
        "is_truncated": folder.is_truncated,
    }


def to_artifact_request(thread_id: str, path: str) -> RemoteRequest:
    """Return the request for a file of a thread on a server."""
    return RemoteRequest("GET", f"/threads/{quote_segment('', thread_id)}/artifacts/{quote_segment('path', path)}")


async def get_remote_artifact(session: RemoteSession, thread_id: str, path: str) -> tuple[bytes, str]:
    """Return the content and the type of a file on a server."""
    content = (await session.send(to_artifact_request(thread_id, path))).content
    return content, detect_type(content, path)


@remotely(get_remote_artifact)
async def get_artifact(session: HarnessSession, thread_id: str, path: str) -> tuple[bytes, str]:
    """Return the content and media type of a file of a thread.

    Args:
        thread_id: The thread.
        path: Path in the sandbox, e.g. `/mnt/user-data/outputs/plan.md`.

    Raises:
        NotFound: the thread does not exist.
        FileProblem: the file cannot be read.
    """
    file = await open_artifact(session, thread_id, path)
    content = await asyncio.to_thread(lambda: b"".join(read_chunks(file)))
    return content, detect_type(content, path)


@route("GET /threads/{thread_id}/thumbnails/{path}", is_json=False)
async def render_thumbnail(session: HarnessSession, thread_id: str, path: str, size: int = 256) -> bytes:
    """Return a WebP thumbnail of an image; its longer side has about `size` pixels.

    Raises:
        NotFound: the thread does not exist.
        FileProblem: the file does not exist or has no thumbnail; the message says why.
    """
    drawn = await session.harness.artifacts.thumbnail(thread_id, LOCAL_USER, to_absolute_path(path), size)
    return drawn.read(0, drawn.size)


async def stream_remote_artifact(session: RemoteSession, thread_id: str, path: str) -> AsyncGenerator[bytes]:
    """Iterate over the content of a file on a server."""
    async with session.open(to_artifact_request(thread_id, path)) as response:
        async for chunk in response.aiter_bytes():
            yield chunk


@remotely(stream_remote_artifact)
async def stream_artifact(session: HarnessSession, thread_id: str, path: str) -> AsyncGenerator[bytes]:
    """Iterate over the content of a file of a thread in chunks, for files of any size.

    Raises:
        NotFound: the thread does not exist.
        FileProblem: the file cannot be read.
    """
    chunks = read_chunks(await open_artifact(session, thread_id, path))
    try:
        while chunk := await asyncio.to_thread(next, chunks, b""):
            yield chunk
    finally:
        await asyncio.to_thread(chunks.close)


async def save_response(session: RemoteSession, request: RemoteRequest, to: Path) -> int:
    """Save the body of a response and return its size; until it is complete, it is in a file beside `to`."""
    part = to.with_name(f".{to.name}.part")
    try:
        with await asyncio.to_thread(part.open, "wb") as file:
            async with session.open(request) as response:
                async for chunk in response.aiter_bytes():
                    await asyncio.to_thread(file.write, chunk)
            size = file.tell()
        await asyncio.to_thread(part.replace, to)
    finally:
        await asyncio.to_thread(part.unlink, missing_ok=True)
    return size


async def download_remote_artifact(session: RemoteSession, thread_id: str, path: str, to: str | Path) -> int:
    """Save a file of a server on this machine and return its size."""
    return await save_response(session, to_artifact_request(thread_id, path), Path(to))


@remotely(download_remote_artifact)
async def download_artifact(session: HarnessSession, thread_id: str, path: str, to: str | Path) -> int:
    """Save a file of a thread on this machine, atomically; return its size in bytes.

    Raises:
        NotFound: the thread does not exist.
        FileProblem: the file cannot be read.
    """
    file = await open_artifact(session, thread_id, path)
    return await asyncio.to_thread(save_atomically, read_chunks(file), Path(to))


async def download_remote_artifacts(
    session: RemoteSession, thread_id: str, to: str | Path, paths: Sequence[str] = (OUTPUTS,)
) -> int:
    """Save files and folders of a server as a ZIP archive on this machine and return its size."""
    place, body = f"/threads/{quote_segment('', thread_id)}/artifacts/zip", {"paths": list(paths)}
    return await save_response(session, RemoteRequest("POST", place, body=body), Path(to))


@remotely(download_remote_artifacts)
async def download_artifacts(
    session: HarnessSession, thread_id: str, to: str | Path, paths: Sequence[str] = (OUTPUTS,)
) -> int:
    """Save files and folders of a thread as one zip file on this machine; return its size in bytes.

    Raises:
        NotFound: the thread does not exist.
        FileProblem: some of the files do not exist; they are named.
        TooLarge: the files are too many or too large.
    """
    bundle = await session.harness.artifacts.bundle(thread_id, LOCAL_USER, [to_absolute_path(path) for path in paths])
    return await asyncio.to_thread(save_atomically, bundle.chunks(), Path(to))


@route("PUT /threads/{thread_id}/artifacts/{path}")
async def edit_artifact(
    session: HarnessSession, thread_id: str, path: str, content: str, expected_sha256: str | None = None
) -> dict[str, Any]:
    """Replace a text file of a thread; return its `path`, `sha256` and `size`.

    Args:
        thread_id: The thread.
        path: Path in the sandbox, in `outputs` or `workspace`.
        content: The new text; the line endings of the file are kept.
        expected_sha256: Hash of the content that was edited. None creates a new file.

    Raises:
        NotFound: the thread does not exist.
        Conflict: the file has changed since; the message contains its hash.
    """
    edited = await session.harness.artifacts.edit(
        thread_id, LOCAL_USER, to_absolute_path(path), content, expected_sha256
    )
    return asdict(edited)


async def get_remote_changes(
    session: RemoteSession, thread_id: str, run_id: str | None = None, *, include_diff: bool = True
) -> dict[str, Any]:
    """Return the changes of files by a run on a server; the latest run if none is given."""
    place = f"/threads/{quote_segment('', thread_id)}/runs"
    if run_id is None:
        runs = orjson.loads((await session.send(RemoteRequest("GET", place, {"limit": 1}))).content)
        if not runs:
            raise NotFound(f"thread {thread_id!r} has no runs")
        run_id = runs[0]["run_id"]
    query = {"include_diff": include_diff}
    answer = await session.send(RemoteRequest("GET", f"{place}/{run_id}/workspace-changes", query))
    changes: dict[str, Any] = orjson.loads(answer.content)
    return changes


@remotely(get_remote_changes)
async def get_workspace_changes(
    session: HarnessSession, thread_id: str, run_id: str | None = None, *, include_diff: bool = True
) -> dict[str, Any]:
    """Return the file changes of a run, by default the latest run of the thread.

    Raises:
        NotFound: the thread or run does not exist.
    """
    run = await find_run(session, thread_id, run_id)
    found = await session.harness.artifacts.get_changes(run)
    counts = {status: getattr(found, status) for status in ("added", "changed", "removed", "renamed")}
    return {
        "thread_id": thread_id,
        "run_id": run.run_id,
        "is_final": run.status.is_final,
        "counts": counts,
        "files": [serialize_change(each, with_diff=include_diff) for each in found.files],
        "is_truncated": len(found.files) < found.total,
        "problem": found.problem,
    }


@route("GET /threads/{thread_id}/web-pages")
async def list_web_pages(session: HarnessSession, thread_id: str, limit: int = 100, offset: int = 0) -> dict[str, Any]:
    """Return the web pages read in a thread, oldest first, with the totals and limits of the thread.

    Raises:
        NotFound: the thread does not exist.
    """
    pages = session.harness.resources.web_pages
    found = await pages.list(thread_id, LOCAL_USER, limit, offset)
    held = await pages.get_totals(thread_id, LOCAL_USER)
    return {
        "pages": [serialize_page(page) for page in found],
        "total": held.pages,
        "total_chars": held.chars,
        "max_pages": pages.limits.pages,
        "max_chars": pages.limits.chars,
    }


@route("GET /threads/{thread_id}/web-pages/{snapshot_id}")
async def get_web_page(session: HarnessSession, thread_id: str, snapshot_id: str) -> dict[str, Any]:
    """Return a web page with its `text` at the time an agent read it.

    Raises:
        NotFound: no such page was read in this thread.
    """
    page, text = await session.harness.resources.web_pages.get(thread_id, LOCAL_USER, snapshot_id)
    return {**serialize_page(page), "text": text}


class ArtifactsClient(Resource):
    """Files of threads."""

    list, alist = sync_and_async(list_files)
    get, aget = sync_and_async(get_artifact)
    get_thumbnail, aget_thumbnail = sync_and_async(render_thumbnail)
    stream, astream = sync_and_async_iterator(stream_artifact)
    download, adownload = sync_and_async(download_artifact)
    download_zip, adownload_zip = sync_and_async(download_artifacts)
    edit, aedit = sync_and_async(edit_artifact)


class WebPagesClient(Resource):
    """Snapshots of web pages read in threads."""

    list, alist = sync_and_async(list_web_pages)
    get, aget = sync_and_async(get_web_page)


def detect_type(content: bytes, path: str) -> str:
    """Return the media type of a file."""
    return detect_image_type(content) or mimetypes.guess_type(path)[0] or "application/octet-stream"


def serialize_entry(entry: FolderEntry) -> dict[str, Any]:
    """Return a file or folder in the shape of the HTTP API."""
    return {
        "name": PurePosixPath(entry.path).name,
        "path": entry.path,
        "kind": "folder" if entry.is_folder else "file",
        "size": entry.size,
        "modified_at": to_jsonable_python(entry.modified_at),
    }


def serialize_change(change: FileChange, *, with_diff: bool) -> dict[str, Any]:
    """Return a file change in the shape of the HTTP API."""
    return asdict(change) if with_diff else {**asdict(change), "diff": None}


def serialize_page(page: PageSnapshot) -> dict[str, Any]:
    """Return a web page in the shape of the HTTP API."""
    shown: dict[str, Any] = to_jsonable_python(asdict(page))
    return shown


async def find_run(session: HarnessSession, thread_id: str, run_id: str | None) -> RunRecord:
    """Return a run of a thread, the latest one if no id is given."""
    if run_id is not None:
        return await session.harness.runs.get(thread_id, run_id, LOCAL_USER)
    await session.harness.threads.get(thread_id, LOCAL_USER)
    latest = await session.harness.runs.list_by_thread(thread_id, LOCAL_USER, limit=1)
    if not latest:
        raise NotFound(f"thread {thread_id!r} has no runs")
    return latest[0]


async def open_artifact(session: HarnessSession, thread_id: str, path: str) -> ReadableFile:
    """Open a file of a thread."""
    return await session.harness.artifacts.open(thread_id, LOCAL_USER, to_absolute_path(path))


def to_absolute_path(path: str) -> str:
    """Return a path in the sandbox with its leading slash."""
    return f"/{path.removeprefix('/')}"


def read_chunks(file: ReadableFile) -> Generator[bytes]:
    """Yield the content of an open file in chunks and close it."""
    try:
        offset = 0
        while chunk := file.read(offset, CHUNK_SIZE):
            offset += len(chunk)
            yield chunk
    finally:
        file.close()


def save_atomically(chunks: Iterable[bytes], to: Path) -> int:
    """Write a file of this machine that appears only when complete; return its size in bytes."""
    unfinished = to.with_name(f".{to.name[:200]}.{uuid4().hex[:8]}.part")
    try:
        with unfinished.open("xb") as file:
            size = sum(file.write(chunk) for chunk in chunks)
        unfinished.replace(to)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    return size
