"""Operations on projects: create, change, delete, their files and threads, and search in the files."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from deerflow.config.sections.base import Settings
from deerflow.config.sections.memory import ProjectsConfig
from deerflow.config.sections.storage import UploadsConfig
from deerflow.domain.errors import DeerFlowError, InvalidRequest, NotFound
from deerflow.domain.identity import Principal, new_id
from deerflow.domain.projects import (
    MAX_INSTRUCTIONS_CHARS,
    MAX_NAME_CHARS,
    IndexState,
    Passage,
    PassageHit,
    ProjectFile,
    ProjectRecord,
    RunProject,
)
from deerflow.persistence.engine.database import Database
from deerflow.persistence.queries.audit import AuditEvent, recorded
from deerflow.projects.files import ProjectFileStore
from deerflow.projects.queries import passages as passage_rows
from deerflow.projects.queries import projects as rows
from deerflow.projects.ranking import Comparison, rank_passages
from deerflow.sandbox.file_access import ReadableFile
from deerflow.uploads.receiver import UploadReceiver

logger = logging.getLogger(__name__)

CACHE_S = 5.0
"""Seconds for which this process remembers that a user has no project: most runs then need no query."""
CANDIDATES = 100
"""Number of the best passages of each search that are ranked."""


class Embedder(Protocol):
    """Embedding model."""

    @property
    def name(self) -> str:
        """Name under which its vectors are stored."""
        ...

    @property
    def batch_size(self) -> int:
        """Number of texts that are embedded at once."""
        ...

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return a vector of length 1 for each text, or raise `ModelError`."""
        ...

    @property
    def compare(self) -> Comparison | None:
        """Function that compares texts; None if the model is too slow to compare words and sentences one by one."""
        ...


@dataclass(frozen=True, slots=True)
class FileUpload:
    """Files of one request: those that were added to the project, and names and reasons of the others."""

    files: Sequence[ProjectFile]
    skipped: Sequence[tuple[str, str]]


class ProjectService:
    """Projects of all users. Every method is restricted to those of `who` and raises `NotFound` for others."""

    def __init__(
        self,
        database: Database,
        files: ProjectFileStore,
        settings: Settings[ProjectsConfig],
        uploads: Settings[UploadsConfig],
        discard_sandbox: Callable[[str, str], Awaitable[None]],
        embedder: Callable[[], Embedder | None] = lambda: None,
    ) -> None:
        """`discard_sandbox` ends the sandbox of a thread (thread, user), so that the next one has other mounts."""
        self.files = files
        self._database = database
        self._settings = settings
        self._uploads = uploads
        self._discard_sandbox = discard_sandbox
        self._embedder = embedder
        self._without: dict[str, float] = {}
        self.wakeup = asyncio.Event()
        """Set when the indexer has something to do."""

    async def create(self, who: Principal, name: str, instructions: str = "") -> ProjectRecord:
        """Create a project, or raise `InvalidRequest`."""
        title, text = check_name(name), check_instructions(instructions)
        create = partial(rows.create_project, owner=who.user_id, name=title, instructions=text)
        project = await self._database.write(partial(create, project_id=new_id()))
        self._without.pop(who.user_id, None)
        return project

    async def list(self, who: Principal) -> Sequence[ProjectRecord]:
        """Return the projects by name."""
        return await self._database.read(partial(rows.list_projects, owner=who.user_id))

    async def get(self, project_id: str, who: Principal) -> ProjectRecord:
        """Return a project."""
        return await self._database.read(partial(rows.find_project, project_id=project_id, owner=who.user_id))

    async def update(
        self, project_id: str, who: Principal, name: str | None = None, instructions: str | None = None
    ) -> ProjectRecord:
        """Change the name or the instructions; None leaves a field as it is."""
        title = None if name is None else check_name(name)
        text = None if instructions is None else check_instructions(instructions)
        change = partial(rows.update_project, project_id=project_id, owner=who.user_id, name=title, instructions=text)
        return await self._database.write(change)

    async def delete(self, project_id: str, who: Principal, *, is_recorded: bool = True) -> Sequence[str]:
        """Delete a project with its files and memory; return its threads, which are kept. The purge follows.

        `is_recorded`: the audit log gets an entry.
        """
        change = partial(rows.delete_project, project_id=project_id, owner=who.user_id)
        event = AuditEvent("data.project_deleted", who.user_id, who.user_id, details={"project": project_id})
        threads = await self._database.write(recorded(change, *([event] if is_recorded else [])))
        for thread_id in threads:
            await self._mount(thread_id, who, None)
        self.wakeup.set()
        return threads

    async def move_thread(self, thread_id: str, who: Principal, project_id: str | None) -> None:
        """Move a thread to a project, or out of its project.

        Raises:
            Conflict: The thread has an active run.
        """
        move = partial(rows.move_thread, thread_id=thread_id, owner=who.user_id, project_id=project_id)
        if await self._database.write(move) != project_id:
            await self._mount(thread_id, who, project_id)

    async def find_for_run(self, thread_id: str, owner: str) -> RunProject | None:
        """Return the project of a thread, and mount its files in the sandbox of the thread."""
        if time.monotonic() - self._without.get(owner, -CACHE_S) < CACHE_S:
            return None
        find = partial(rows.find_run_project, thread_id=thread_id, owner=owner)
        found, has_any = await self._database.look_up(find)
        if found is not None:
            await self.files.link_thread(owner, thread_id, found.project_id)
        elif not has_any:
            self._without[owner] = time.monotonic()
        return found

    @asynccontextmanager
    async def receive(self, project_id: str, who: Principal) -> AsyncIterator[UploadReceiver]:
        """Provide a receiver for one upload. Unpublished files are removed."""
        await self.get(project_id, who)
        settings = self._settings.current
        async with self.files.receive(who.user_id, project_id, self._uploads.current, settings.max_mb) as receiver:
            yield receiver

    async def complete(self, project_id: str, who: Principal, receiver: UploadReceiver) -> FileUpload:
        """Add the received files to the project and to the queue of the indexer.

        Raises:
            TooLarge: All files were too large.
            InvalidRequest: There is no file.
            Conflict: The project would have too many files; none is added.
        """
        received = await self.files.publish(who.user_id, project_id, receiver)
        names = [(each.name, each.size) for each in received.stored]
        add = partial(rows.add_files, project_id=project_id, owner=who.user_id, files=names)
        try:
            files = await self._database.write(partial(add, limit=self._settings.current.max_files))
        except DeerFlowError:
            await self.files.remove(who.user_id, project_id, [name for name, _ in names])
            raise
        self.wakeup.set()
        return FileUpload(files, [(each.filename, each.reason) for each in received.skipped])

    async def list_files(
        self, project_id: str, who: Principal, limit: int = 1000, offset: int = 0, state: IndexState | None = None
    ) -> Sequence[ProjectFile]:
        """Return the files by name."""
        query = partial(rows.list_files, project_id=project_id, owner=who.user_id)
        return await self._database.read(partial(query, limit=limit, offset=offset, state=state))

    async def count_states(self, project_id: str, who: Principal) -> dict[str, int]:
        """Return the number of files in each state of the index."""
        return await self._database.read(partial(rows.count_states, project_id=project_id, owner=who.user_id))

    async def get_file(self, project_id: str, who: Principal, file_id: str) -> ProjectFile:
        """Return a file."""
        find = partial(rows.find_file, project_id=project_id, owner=who.user_id, file_id=file_id)
        return await self._database.read(find)

    async def open_file(self, project_id: str, who: Principal, file_id: str) -> ReadableFile:
        """Open a file for reading; the caller closes it."""
        file = await self.get_file(project_id, who, file_id)
        return await self.files.open(who.user_id, project_id, file.name)

    async def delete_file(self, project_id: str, who: Principal, file_id: str) -> None:
        """Delete a file with its passages."""
        delete = partial(rows.delete_file, project_id=project_id, owner=who.user_id, file_id=file_id)
        file = await self._database.write(delete)
        await self.files.remove(who.user_id, project_id, [file.name])

    async def retry_file(self, project_id: str, who: Principal, file_id: str) -> ProjectFile:
        """Index a file again, or raise `Conflict` if it waits already."""
        again = partial(rows.requeue_file, project_id=project_id, owner=who.user_id, file_id=file_id)
        file = await self._database.write(again)
        self.wakeup.set()
        return file

    async def list_passages(
        self, project_id: str, who: Principal, file_id: str, first: int = 1, limit: int = 200
    ) -> Sequence[Passage]:
        """Return passages of a file, from number `first` on."""
        query = partial(passage_rows.list_passages, project_id=project_id, owner=who.user_id, file_id=file_id)
        return await self._database.read(partial(query, first=first, limit=limit))

    async def search(self, project_id: str, who: Principal, query: str, limit: int = 10) -> Sequence[PassageHit]:
        """Return the passages that match best by their words and, with an embedding model, by their meaning."""
        await self.get(project_id, who)
        words = partial(passage_rows.search_terms, project_id=project_id, query=query, limit=CANDIDATES)
        found = list(await self._database.read(words))
        embedder = self._embedder()
        similar: Mapping[int, float] = {}
        if embedder and (vector := await self._embed(embedder, query)):
            model = embedder.name
            near = partial(passage_rows.search_vectors, project_id=project_id, model=model, wanted=vector)
            found = list(dict.fromkeys([*found, *await self._database.read(partial(near, limit=CANDIDATES))]))
            exact = partial(passage_rows.compare_vectors, project_id=project_id, model=model, wanted=vector)
            similar = await self._database.read(partial(exact, row_ids=found))
        load = partial(passage_rows.load_hits, project_id=project_id, owner=who.user_id, row_ids=found)
        candidates = await self._database.read(load)
        compare = embedder.compare if embedder else None
        return (await asyncio.to_thread(rank_passages, query, candidates, similar, compare))[:limit]

    def knowledge_of(self, project: RunProject | None, owner: str) -> "RunKnowledge | None":
        """Return the files of a project for a run, None if there is nothing to search."""
        if project is None or not project.is_searchable:
            return None
        return RunKnowledge(self, project.project_id, owner)

    @property
    def embedding_model(self) -> str | None:
        """Name of the embedding model, None if there is none."""
        embedder = self._embedder()
        return embedder.name if embedder else None

    async def _embed(self, embedder: Embedder, query: str) -> Sequence[float]:
        """Return the vector of a query; empty if the model is away: the words are searched all the same."""
        try:
            (vector,) = await embedder.embed([query])
        except DeerFlowError as problem:
            logger.warning("search without embeddings: %s", problem)
            return []
        return vector

    async def _mount(self, thread_id: str, who: Principal, project_id: str | None) -> None:
        await self.files.link_thread(who.user_id, thread_id, project_id)
        await self._discard_sandbox(thread_id, who.user_id)


@dataclass(frozen=True, slots=True)
class RunKnowledge:
    """Files of a project for a run."""

    projects: ProjectService
    project_id: str
    owner: str

    async def search(self, query: str, limit: int) -> Sequence[PassageHit]:
        """Return the best matching passages; none if the project was deleted meanwhile."""
        try:
            return await self.projects.search(self.project_id, Principal(self.owner), query, limit)
        except NotFound:
            return []


def check_name(name: str) -> str:
    """Return the name on one line, or raise `InvalidRequest`."""
    title = " ".join(name.split())
    if not 1 <= len(title) <= MAX_NAME_CHARS:
        raise InvalidRequest(f"a project name has 1 to {MAX_NAME_CHARS} characters, not {len(title)}")
    return title


def check_instructions(text: str) -> str:
    """Return the instructions without blanks around them, or raise `InvalidRequest`."""
    if len(text) > MAX_INSTRUCTIONS_CHARS:
        raise InvalidRequest(f"instructions can have {MAX_INSTRUCTIONS_CHARS} characters, not {len(text)}")
    return text.strip()
