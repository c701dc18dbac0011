"""Projects: shared files, instructions and memory of threads, and search; and uploads to projects and threads."""

import asyncio
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO

import orjson
from pydantic_core import to_jsonable_python

from deerflow.client.artifacts import CHUNK_SIZE
from deerflow.client.memory import Document, serialize_state
from deerflow.client.session import (
    HarnessSession,
    RemoteRequest,
    RemoteSession,
    Resource,
    quote_segment,
    remotely,
    route,
    sync_and_async,
)
from deerflow.domain.errors import InvalidRequest
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.projects import ProjectFile, ProjectRecord, project_scope
from deerflow.uploads.receiver import UploadReceiver
from deerflow.uploads.uploads import serialize_upload_result, serialize_uploads


async def upload_to_server(session: RemoteSession, path: str, files: Sequence[str | PathLike[str]]) -> dict[str, Any]:
    """Send files of this machine to a route for uploads."""
    with ExitStack() as opened:
        parts = []
        for file in map(Path, files):
            parts.append(("files", (file.name, opened.enter_context(await open_file(file)))))
        received: dict[str, Any] = orjson.loads((await session.send(RemoteRequest("POST", path), files=parts)).content)
    return received


async def upload_remote_files(
    session: RemoteSession, thread_id: str, files: Sequence[str | PathLike[str]]
) -> dict[str, Any]:
    """Upload files of this machine to a thread of a server."""
    return await upload_to_server(session, f"/threads/{quote_segment('', thread_id)}/uploads", files)


@remotely(upload_remote_files)
async def upload_files(session: HarnessSession, thread_id: str, files: Sequence[str | PathLike[str]]) -> dict[str, Any]:
    """Upload files of this machine to a thread; documents are converted to Markdown as well.

    Raises:
        NotFound: the thread does not exist.
        TooLarge: the files are too many or too large.
        InvalidRequest: a file cannot be read.
    """
    harness = session.harness
    thread = await harness.threads.get(thread_id, LOCAL_USER)
    try:
        async with harness.core.uploads.receive(thread) as reception:
            for file in map(Path, files):
                await send_file(file, reception)
            received = await harness.core.uploads.complete(thread, reception)
    finally:
        await harness.threads.confirm(thread_id, LOCAL_USER)
    return serialize_upload_result(received, thread_id)


@route("GET /threads/{thread_id}/uploads/list")
async def list_uploads(session: HarnessSession, thread_id: str) -> dict[str, Any]:
    """Return the uploads of a thread, newest first.

    Raises:
        NotFound: the thread does not exist.
    """
    thread = await session.harness.threads.get(thread_id, LOCAL_USER)
    return serialize_uploads(await session.harness.core.uploads.list(thread.owner, thread_id), thread_id)


@route("DELETE /threads/{thread_id}/uploads/{filename}")
async def delete_upload(session: HarnessSession, thread_id: str, filename: str) -> dict[str, Any]:
    """Delete an upload and the Markdown converted from it.

    Raises:
        NotFound: the thread or upload does not exist.
    """
    thread = await session.harness.threads.get(thread_id, LOCAL_USER)
    await session.harness.core.uploads.delete(thread.owner, thread_id, filename)
    return {"success": True, "message": f"deleted {filename!r}"}


@route("POST /projects")
async def create_project(session: HarnessSession, name: str, instructions: str = "") -> dict[str, Any]:
    """Create a project.

    Raises:
        InvalidRequest: the name or the instructions are empty or too long.
    """
    return serialize_project(await session.harness.resources.projects.create(LOCAL_USER, name, instructions))


@route("GET /projects", pick="projects")
async def list_projects(session: HarnessSession) -> list[dict[str, Any]]:
    """Return the projects by name."""
    return [serialize_project(each) for each in await session.harness.resources.projects.list(LOCAL_USER)]


@route("GET /projects/{project_id}")
async def get_project(session: HarnessSession, project_id: str) -> dict[str, Any]:
    """Return a project.

    Raises:
        NotFound: it does not exist.
    """
    return serialize_project(await session.harness.resources.projects.get(project_id, LOCAL_USER))


@route("PATCH /projects/{project_id}")
async def update_project(
    session: HarnessSession, project_id: str, *, name: str | None = None, instructions: str | None = None
) -> dict[str, Any]:
    """Rename a project, or change its instructions; None keeps a field.

    Raises:
        NotFound: it does not exist.
        InvalidRequest: the name or the instructions are invalid.
    """
    projects = session.harness.resources.projects
    return serialize_project(await projects.update(project_id, LOCAL_USER, name, instructions))


@route("DELETE /projects/{project_id}", pick="threads")
async def delete_project(session: HarnessSession, project_id: str) -> list[str]:
    """Delete a project with its files and memory; return the ids of its threads, which are kept.

    Raises:
        NotFound: it does not exist.
    """
    return list(await session.harness.resources.projects.delete(project_id, LOCAL_USER))


@route("PUT /projects/{project_id}/threads/{thread_id}")
async def add_thread(session: HarnessSession, project_id: str, thread_id: str) -> None:
    """Move a thread into a project; it is created if it does not exist.

    Raises:
        NotFound: the project does not exist.
        Conflict: the thread has an active run.
    """
    harness = session.harness
    await harness.resources.projects.get(project_id, LOCAL_USER)
    await harness.threads.create(LOCAL_USER, thread_id, {}, may_exist=True)
    await harness.resources.projects.move_thread(thread_id, LOCAL_USER, project_id)


async def remove_remote_thread(session: RemoteSession, thread_id: str) -> None:
    """Move a thread of a server out of its project."""
    place = f"/threads/{quote_segment('', thread_id)}"
    project = orjson.loads((await session.send(RemoteRequest("GET", place))).content)["project_id"]
    if project is not None:
        await session.send(RemoteRequest("DELETE", f"/projects/{project}{place}"))


@remotely(remove_remote_thread)
async def remove_thread(session: HarnessSession, thread_id: str) -> None:
    """Move a thread out of its project.

    Raises:
        NotFound: the thread does not exist.
        Conflict: it has an active run.
    """
    await session.harness.resources.projects.move_thread(thread_id, LOCAL_USER, None)


async def add_remote_files(
    session: RemoteSession, project_id: str, files: Sequence[str | PathLike[str]]
) -> dict[str, Any]:
    """Add files of this machine to a project of a server."""
    return await upload_to_server(session, f"/projects/{quote_segment('', project_id)}/files", files)


@remotely(add_remote_files)
async def add_project_files(
    session: HarnessSession, project_id: str, files: Sequence[str | PathLike[str]]
) -> dict[str, Any]:
    """Add files of this machine to a project; they are indexed in the background.

    Raises:
        NotFound: the project does not exist.
        TooLarge: the files are too many or too large.
        InvalidRequest: a file cannot be read.
    """
    projects = session.harness.resources.projects
    async with projects.receive(project_id, LOCAL_USER) as reception:
        for file in map(Path, files):
            await send_file(file, reception)
        added = await projects.complete(project_id, LOCAL_USER, reception)
    skipped = [{"filename": name, "reason": reason} for name, reason in added.skipped]
    return {"files": [serialize_file(each) for each in added.files], "skipped_files": skipped}


@route("GET /projects/{project_id}/files", pick="files")
async def list_project_files(
    session: HarnessSession, project_id: str, limit: int = 1000, offset: int = 0
) -> list[dict[str, Any]]:
    """Return the files of a project by name, with the state of their index.

    Raises:
        NotFound: the project does not exist.
    """
    found = await session.harness.resources.projects.list_files(project_id, LOCAL_USER, limit, offset)
    return [serialize_file(each) for each in found]


@route("DELETE /projects/{project_id}/files/{file_id}")
async def delete_project_file(session: HarnessSession, project_id: str, file_id: str) -> None:
    """Delete a file and its passages.

    Raises:
        NotFound: the project or file does not exist.
    """
    await session.harness.resources.projects.delete_file(project_id, LOCAL_USER, file_id)


@route("POST /projects/{project_id}/files/{file_id}/retry")
async def retry_project_file(session: HarnessSession, project_id: str, file_id: str) -> dict[str, Any]:
    """Index a file again.

    Raises:
        NotFound: the project or file does not exist.
        Conflict: it waits already.
    """
    return serialize_file(await session.harness.resources.projects.retry_file(project_id, LOCAL_USER, file_id))


@route("POST /projects/{project_id}/search", pick="passages")
async def search_project(session: HarnessSession, project_id: str, query: str, limit: int = 10) -> list[dict[str, Any]]:
    """Return the passages of a project's files that match best, as the agent finds them.

    Raises:
        NotFound: the project does not exist.
    """
    found = await session.harness.resources.projects.search(project_id, LOCAL_USER, query, limit)
    return [asdict(hit) for hit in found]


@route("GET /memory", names={"project_id": "project"})
async def get_project_memory(session: HarnessSession, project_id: str) -> Document:
    """Return the memory of a project as one document.

    Raises:
        NotFound: the project does not exist.
    """
    await session.harness.resources.projects.get(project_id, LOCAL_USER)
    scope = project_scope(LOCAL_USER.user_id, project_id)
    return serialize_state(await session.harness.resources.memory.read(scope))


class UploadsClient(Resource):
    """Files uploaded to threads."""

    create, acreate = sync_and_async(upload_files)
    list, alist = sync_and_async(list_uploads)
    delete, adelete = sync_and_async(delete_upload)


class ProjectsClient(Resource):
    """Projects with their files and threads."""

    create, acreate = sync_and_async(create_project)
    list, alist = sync_and_async(list_projects)
    get, aget = sync_and_async(get_project)
    update, aupdate = sync_and_async(update_project)
    delete, adelete = sync_and_async(delete_project)
    add_thread, aadd_thread = sync_and_async(add_thread)
    remove_thread, aremove_thread = sync_and_async(remove_thread)
    add_files, aadd_files = sync_and_async(add_project_files)
    list_files, alist_files = sync_and_async(list_project_files)
    delete_file, adelete_file = sync_and_async(delete_project_file)
    retry_file, aretry_file = sync_and_async(retry_project_file)
    search, asearch = sync_and_async(search_project)
    get_memory, aget_memory = sync_and_async(get_project_memory)


def serialize_project(project: ProjectRecord) -> dict[str, Any]:
    """Return a project in the shape of the HTTP API."""
    shown: dict[str, Any] = to_jsonable_python({**asdict(project), "owner": None})
    shown.pop("owner")
    return shown


def serialize_file(file: ProjectFile) -> dict[str, Any]:
    """Return a file in the shape of the HTTP API."""
    fields: dict[str, Any] = to_jsonable_python({**asdict(file), "path": file.path})
    fields.pop("project_id")
    return fields


async def send_file(path: Path, reception: UploadReceiver) -> None:
    """Send a local file to `reception` in chunks."""
    with await open_file(path) as file:
        await reception.begin(path.name)
        while chunk := await asyncio.to_thread(file.read, CHUNK_SIZE):
            await reception.write(chunk)
        await reception.end()


async def open_file(path: Path) -> BinaryIO:
    """Open a local file, or raise `InvalidRequest`."""
    try:
        return await asyncio.to_thread(path.open, "rb")
    except OSError as error:
        raise InvalidRequest(f"cannot read {str(path)!r}: {(error.strerror or str(error)).lower()}") from None
