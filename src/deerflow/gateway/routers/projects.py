"""Projects: /projects, their files, threads and passages; /embedding-model, with which passages are found."""

from contextlib import aclosing
from dataclasses import replace
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from deerflow.domain.identity import Principal
from deerflow.domain.projects import (
    MAX_INSTRUCTIONS_CHARS,
    MAX_NAME_CHARS,
    IndexState,
    Passage,
    PassageHit,
    PassageUnit,
    ProjectFile,
    ProjectRecord,
)
from deerflow.gateway.dependencies import CurrentAdmin, CurrentUser, HarnessDep
from deerflow.gateway.errors import declared_errors
from deerflow.gateway.examples import with_examples
from deerflow.gateway.files import file_response, read_parts
from deerflow.gateway.routers.model_connections import ENDPOINT_EXAMPLE, Address, FromDomain, Key, ModelProblem, reveal
from deerflow.gateway.routers.model_connections import Name as ModelName
from deerflow.gateway.routers.threads.artifacts import FILE, RequestConditions
from deerflow.gateway.routers.threads.uploads import MULTIPART, Skipped, check_announced_size, receive_part
from deerflow.harness import Harness
from deerflow.persistence.queries.audit import AuditEvent
from deerflow.services.audit import audited
from deerflow.services.embedding_model import EmbeddingConnection, Origin

router = APIRouter(prefix="/projects", tags=["projects"])
embedding_router = APIRouter(prefix="/embedding-model", tags=["projects"], responses=declared_errors((403, 409, 422)))

MAX_LISTED = 1000
Limit = Annotated[int, Query(ge=1, le=MAX_LISTED)]
Offset = Annotated[int, Query(ge=0)]
Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME_CHARS)]
Instructions = Annotated[str, Field(max_length=MAX_INSTRUCTIONS_CHARS)]


class CreateProject(BaseModel):
    """Body of a request for a new project."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=with_examples({"name": "Annual report"}))

    name: Name
    instructions: Instructions = ""


class UpdateProject(BaseModel):
    """Changes of a project; fields that are left out are kept."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra=with_examples({"instructions": "Answer in one paragraph."})
    )

    name: Name | None = None
    instructions: Instructions | None = None


class Project(BaseModel):
    """Project with the number of its threads and files."""

    project_id: str
    name: str
    instructions: str
    threads: int
    files: int
    created_at: datetime
    updated_at: datetime

    @classmethod
    def from_domain(cls, project: ProjectRecord) -> "Project":
        return cls.model_validate(project, from_attributes=True)


class ProjectList(BaseModel):
    """Projects by name."""

    projects: list[Project]


class IndexedFile(BaseModel):
    """File of a project; `path` is its path in the sandbox.

    `problem` is the code of why it is not searchable, and `problem_text` the sentence.
    """

    file_id: str
    name: str
    path: str
    size: int
    state: IndexState
    problem: str | None
    problem_text: str | None
    unit: PassageUnit | None
    pages: int
    passages: int
    created_at: datetime

    @classmethod
    def from_domain(cls, file: ProjectFile) -> "IndexedFile":
        return cls.model_validate(file, from_attributes=True)


class ProjectFiles(BaseModel):
    """Files of a project by name, the number of all files in each state, and the embedding model if there is one."""

    files: list[IndexedFile]
    states: dict[IndexState, int]
    embedding_model: str | None


class FilesAdded(BaseModel):
    """Result of an upload."""

    files: list[IndexedFile]
    skipped_files: list[Skipped]


class ProjectDeleted(BaseModel):
    """Result of a deletion: the threads, which are kept."""

    threads: list[str]


class FilePassage(BaseModel):
    """Passage of a file; `position` is its page, slide, sheet or line."""

    number: int
    position: int
    text: str

    @classmethod
    def from_domain(cls, passage: Passage) -> "FilePassage":
        return cls.model_validate(passage, from_attributes=True)


class FilePassages(BaseModel):
    """Passages of a file in their order."""

    file: IndexedFile
    passages: list[FilePassage]


class SearchProject(BaseModel):
    """Body of a search."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=with_examples({"query": "delivery times in winter"}))

    query: Annotated[str, Field(min_length=1, max_length=2000)]
    limit: Annotated[int, Field(ge=1, le=40)] = 10


class FoundPassage(BaseModel):
    """Passage that matches a search."""

    passage_id: int
    file_id: str
    file_name: str
    unit: PassageUnit
    number: int
    position: int
    text: str

    @classmethod
    def from_domain(cls, hit: PassageHit) -> "FoundPassage":
        return cls.model_validate(hit, from_attributes=True)


class FoundPassages(BaseModel):
    """Passages, best first."""

    passages: list[FoundPassage]


@router.post("", status_code=201)
async def create_project(body: CreateProject, harness: HarnessDep, user: CurrentUser) -> Project:
    """Create a project."""
    return Project.from_domain(await harness.resources.projects.create(user, body.name, body.instructions))


@router.get("")
async def list_projects(harness: HarnessDep, user: CurrentUser) -> ProjectList:
    """List the projects by name."""
    found = await harness.resources.projects.list(user)
    return ProjectList(projects=[Project.from_domain(each) for each in found])


@router.get("/{project_id}")
async def get_project(project_id: str, harness: HarnessDep, user: CurrentUser) -> Project:
    """Get a project."""
    return Project.from_domain(await harness.resources.projects.get(project_id, user))


@router.patch("/{project_id}")
async def update_project(project_id: str, body: UpdateProject, harness: HarnessDep, user: CurrentUser) -> Project:
    """Rename a project, or change its instructions. They apply to runs that start later."""
    changed = await harness.resources.projects.update(project_id, user, body.name, body.instructions)
    return Project.from_domain(changed)


@router.delete("/{project_id}")
async def delete_project(project_id: str, harness: HarnessDep, user: CurrentUser) -> ProjectDeleted:
    """Delete a project with its files and memory. Its threads are kept; files are removed in the background."""
    return ProjectDeleted(threads=list(await harness.resources.projects.delete(project_id, user)))


@router.put("/{project_id}/threads/{thread_id}", status_code=204)
async def add_thread(project_id: str, thread_id: str, harness: HarnessDep, user: CurrentUser) -> Response:
    """Move a thread into a project. A thread that does not exist is created; 409 while a run is active."""
    await harness.resources.projects.get(project_id, user)
    await harness.threads.create(user, thread_id, {}, may_exist=True)
    await harness.resources.projects.move_thread(thread_id, user, project_id)
    return Response(status_code=204)


@router.delete("/{project_id}/threads/{thread_id}", status_code=204)
async def remove_thread(project_id: str, thread_id: str, harness: HarnessDep, user: CurrentUser) -> Response:
    """Move a thread out of a project; 409 while a run is active."""
    await harness.resources.projects.get(project_id, user)
    thread = await harness.threads.get(thread_id, user)
    if thread.project_id == project_id:
        await harness.resources.projects.move_thread(thread_id, user, None)
    return Response(status_code=204)


@router.post("/{project_id}/files", openapi_extra=MULTIPART)
async def add_files(project_id: str, request: Request, harness: HarnessDep, user: CurrentUser) -> FilesAdded:
    """Add files to a project. They are indexed in the background."""
    projects, settings = harness.resources.projects, harness.core.uploads.settings.current
    check_announced_size(request, settings)
    async with projects.receive(project_id, user) as reception:
        parts = read_parts(request, settings.stall_seconds, settings.timeout_seconds)
        async with aclosing(parts):  # type: ignore[type-var]
            async for event in parts:
                await receive_part(event, reception)
        added = await projects.complete(project_id, user, reception)
    skipped = [Skipped(filename=name, reason=reason) for name, reason in added.skipped]
    return FilesAdded(files=[IndexedFile.from_domain(each) for each in added.files], skipped_files=skipped)


@router.get("/{project_id}/files")
async def list_files(
    project_id: str,
    harness: HarnessDep,
    user: CurrentUser,
    limit: Limit = MAX_LISTED,
    offset: Offset = 0,
    state: IndexState | None = None,
) -> ProjectFiles:
    """List the files of a project by name, with the state of their index."""
    projects = harness.resources.projects
    files = await projects.list_files(project_id, user, limit, offset, state)
    states = await projects.count_states(project_id, user)
    shown = [IndexedFile.from_domain(each) for each in files]
    return ProjectFiles.model_validate({"files": shown, "states": states, "embedding_model": projects.embedding_model})


@router.get("/{project_id}/files/{file_id}")
async def get_file(project_id: str, file_id: str, harness: HarnessDep, user: CurrentUser) -> IndexedFile:
    """Get a file with the state of its index."""
    return IndexedFile.from_domain(await harness.resources.projects.get_file(project_id, user, file_id))


@router.get("/{project_id}/files/{file_id}/content", response_class=Response, responses=FILE)
async def get_file_content(
    project_id: str,
    file_id: str,
    harness: HarnessDep,
    user: CurrentUser,
    wanted: RequestConditions,
    download: bool = False,
) -> Response:
    """Get the content of a file or a range of it. Only images and text are shown inline."""
    file = await harness.resources.projects.open_file(project_id, user, file_id)
    return await file_response(file, wanted, download=download)


@router.get("/{project_id}/files/{file_id}/passages")
async def list_passages(
    project_id: str,
    file_id: str,
    harness: HarnessDep,
    user: CurrentUser,
    first: Annotated[int, Query(ge=1, description="Number of the first passage.")] = 1,
    limit: Limit = 200,
) -> FilePassages:
    """List the passages of a file, as they were indexed."""
    projects = harness.resources.projects
    file = await projects.get_file(project_id, user, file_id)
    found = await projects.list_passages(project_id, user, file_id, first, limit)
    shown = [FilePassage.from_domain(each) for each in found]
    return FilePassages(file=IndexedFile.from_domain(file), passages=shown)


@router.post("/{project_id}/files/{file_id}/retry")
async def retry_file(project_id: str, file_id: str, harness: HarnessDep, user: CurrentUser) -> IndexedFile:
    """Index a file again; 409 if it waits already."""
    return IndexedFile.from_domain(await harness.resources.projects.retry_file(project_id, user, file_id))


@router.delete("/{project_id}/files/{file_id}", status_code=204)
async def delete_file(project_id: str, file_id: str, harness: HarnessDep, user: CurrentUser) -> Response:
    """Delete a file and its passages."""
    await harness.resources.projects.delete_file(project_id, user, file_id)
    return Response(status_code=204)


@router.post("/{project_id}/search")
async def search_files(project_id: str, body: SearchProject, harness: HarnessDep, user: CurrentUser) -> FoundPassages:
    """Find the passages that match best, as the agent does."""
    found = await harness.resources.projects.search(project_id, user, body.query, body.limit)
    return FoundPassages(passages=[FoundPassage.from_domain(each) for each in found])


class CheckEmbeddingModel(BaseModel):
    """Endpoint of an embedding model to check."""

    model_config = ConfigDict(json_schema_extra=with_examples({**ENDPOINT_EXAMPLE, "model": "nomic-embed-text"}))

    provider: ModelName
    base_url: Address = None
    key: Key = None
    model: Annotated[ModelName | None, Field(description="Model to test; default: the first embedding model.")] = None


class SaveEmbeddingModel(CheckEmbeddingModel):
    """Embedding model to save; provider `minilm` is the model on this machine."""


class EmbeddingModelInfo(FromDomain):
    """Embedding model of the server. Of the key, only whether there is one."""

    origin: Origin | None
    """`config`: from `config.yaml`, which wins. Null: there is no model."""
    provider: str | None
    base_url: str | None
    model: str | None
    has_key: bool
    can_change: bool
    is_local_installed: bool
    install_command: str


class EmbeddingModelCheck(FromDomain):
    """Embedding models of an endpoint, and the number of dimensions of the tested one."""

    base_url: str
    models: list[str]
    tested: str | None
    dimensions: int | None
    problem: ModelProblem | None


@embedding_router.get("", summary="Get the embedding model")
async def get_embedding_model(harness: HarnessDep, user: CurrentUser) -> EmbeddingModelInfo:
    """Return the embedding model with which passages of project files are found by meaning."""
    return EmbeddingModelInfo.model_validate(harness.resources.embedding_connection.get(user))


@embedding_router.post("/check", summary="Check an embedding model")
async def check_embedding_model(
    body: CheckEmbeddingModel, harness: HarnessDep, user: CurrentAdmin
) -> EmbeddingModelCheck:
    """List the embedding models of an endpoint and embed a sentence. Nothing is saved."""
    service = harness.resources.embedding_connection
    found = await service.check(user, body.provider, body.base_url, reveal(body.key), body.model)
    return EmbeddingModelCheck.model_validate(found)


@embedding_router.put("", summary="Save the embedding model")
async def save_embedding_model(body: SaveEmbeddingModel, harness: HarnessDep, user: CurrentAdmin) -> EmbeddingModelInfo:
    """Save the embedding model of the server. The key is encrypted and never returned."""
    service = record_embedding(harness, user, "save_embedding")
    saved = await service.save(user, body.provider, body.base_url, reveal(body.key), body.model)
    return EmbeddingModelInfo.model_validate(saved)


@embedding_router.delete("", summary="Remove the embedding model")
async def remove_embedding_model(harness: HarnessDep, user: CurrentAdmin) -> EmbeddingModelInfo:
    """Remove the saved embedding model with its key."""
    return EmbeddingModelInfo.model_validate(await record_embedding(harness, user, "remove_embedding").remove(user))


def record_embedding(harness: Harness, user: Principal, action: str) -> EmbeddingConnection:
    """Return the service for the embedding model, whose next change is recorded."""
    service = harness.resources.embedding_connection
    event = AuditEvent("configuration.model", user.user_id, user.user_id, details={"action": action})
    return replace(service, connections=audited(service.connections, event))
