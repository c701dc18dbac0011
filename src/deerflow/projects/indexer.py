"""Background indexer of project files: one batch at a time, from a queue in the database.

Every file is finished on its own. After the death of the process its claims expire, and another one goes on.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from functools import partial
from uuid import uuid4

from deerflow.config.sections.base import Settings
from deerflow.config.sections.memory import KnowledgeConfig
from deerflow.domain.errors import DeerFlowError, SandboxError, StorageUnavailable
from deerflow.domain.identity import Principal
from deerflow.domain.projects import ExtractedText, IndexProblem
from deerflow.persistence.engine.database import Database
from deerflow.projects.files import INDEX_PREFIX, ExtractionProblem, Outcome, PassageExtractor, find_packages
from deerflow.projects.queries import passages as passage_rows
from deerflow.projects.queries import projects as rows
from deerflow.projects.queries.projects import PurgedProject, QueuedFile
from deerflow.projects.service import Embedder, ProjectService
from deerflow.sandbox.jobs.jobs import SandboxJobUnavailable

logger = logging.getLogger(__name__)

POLL_S = 15.0
"""Seconds between two looks at the queue: another process may have died, or filled it."""
PAUSE_S = 10.0
"""Seconds to wait after a problem that may end by itself."""
LEASE = timedelta(seconds=30)
RENEW_S = 10.0
MAX_ATTEMPTS = 3

PurgeMemory = Callable[[str, str], Awaitable[None]]
"""(project, user) → the memory of a deleted project is erased."""


class Indexer:
    """Reads files, stores their passages and vectors, and purges deleted projects."""

    def __init__(
        self,
        database: Database,
        projects: ProjectService,
        extractor: PassageExtractor,
        settings: Settings[KnowledgeConfig],
        embedder: Callable[[], Embedder | None],
        purge_memory: PurgeMemory,
    ) -> None:
        self._database = database
        self._projects = projects
        self._extractor = extractor
        self._settings = settings
        self._embedder = embedder
        self._purge_memory = purge_memory

    async def run(self) -> None:
        """Work for ever."""
        while True:
            self._projects.wakeup.clear()
            try:
                wait_s = await self.work()
            except (StorageUnavailable, OSError) as problem:
                logger.error("files of projects are not indexed at the moment: %s", problem)
                wait_s = PAUSE_S
            if wait_s:
                with suppress(TimeoutError):
                    async with asyncio.timeout(wait_s):
                        await self._projects.wakeup.wait()

    async def work(self) -> float:
        """Do one piece of work; return the seconds until there may be more."""
        if purge := await self._database.read(rows.find_purge):
            await self._purge(purge)
            return 0.0
        settings = self._settings.current
        if not settings.enabled:
            return POLL_S
        claim = uuid4().hex
        take = partial(rows.claim_files, claim=claim, lease=LEASE, limit=settings.batch_files)
        files = await self._database.write(take)
        if files:
            return await self._index(files, claim, settings)
        return await self._embed_some()

    async def delete_projects(self, owner: str) -> None:
        """Delete all projects of a user with their files, passages and memory."""
        for project in await self._projects.list(Principal(owner)):
            await self._projects.delete(project.project_id, Principal(owner), is_recorded=False)
        while purge := await self._database.read(partial(rows.find_purge, owner=owner)):
            await self._purge(purge)

    async def _purge(self, project: PurgedProject) -> None:
        while await self._database.write(partial(rows.purge_passages, project_id=project.project_id)):
            continue
        await self._purge_memory(project.project_id, project.owner)
        await self._projects.files.purge(project.owner, project.project_id)
        await self._database.write(partial(rows.finish_purge, project_id=project.project_id))

    async def _index(self, files: Sequence[QueuedFile], claim: str, settings: KnowledgeConfig) -> float:
        """Index a batch; what was not reached goes back to the queue."""
        renewal = asyncio.create_task(self._renew(claim), name="renew index claims")
        wait_s = 0.0
        try:
            await self._link(files[0])
            for packages in dict.fromkeys(find_packages(file.name) for file in files):
                some = [file for file in files if find_packages(file.name) == packages]
                wait_s = max(wait_s, await self._index_some(some, packages, settings))
        finally:
            renewal.cancel()
            await asyncio.wait({renewal})
            with suppress(StorageUnavailable):  # then the claims expire
                await self._database.write(partial(rows.release_files, claim=claim, refund=True))
        return wait_s

    async def _index_some(
        self, files: Sequence[QueuedFile], packages: Sequence[str], settings: KnowledgeConfig
    ) -> float:
        worn = [file for file in files if file.attempts > MAX_ATTEMPTS]
        outcomes: dict[str, Outcome] = {file.file_id: ExtractionProblem("crashed") for file in worn}
        fresh = [file for file in files if file not in worn]
        try:
            if fresh:
                outcomes |= await self._extractor.extract(fresh, packages, settings)
        except SandboxJobUnavailable as problem:
            if problem.is_temporary:
                logger.info("files of projects wait: %s", problem)
                return PAUSE_S
            logger.warning("files of projects are not indexed: %s", problem)
            reason: IndexProblem = "not_isolated" if problem.kind == "not isolated" else "no_toolbox"
            outcomes |= {file.file_id: ExtractionProblem(reason) for file in fresh}
        except SandboxError as problem:
            logger.warning("files of projects wait: %s", problem)
            return PAUSE_S
        for file in files:
            if outcome := outcomes.get(file.file_id):
                begun = time.monotonic()
                await self._save(file, outcome)
                await asyncio.sleep(time.monotonic() - begun)  # leaves half of the time to the writes of runs
        return 0.0 if outcomes else PAUSE_S

    async def _save(self, file: QueuedFile, outcome: Outcome) -> None:
        """Store the passages of a file in small transactions."""
        if not isinstance(outcome, ExtractedText):
            logger.info("file of project %s not indexed: %s", file.project_id, outcome.reason)
            await self._database.write(partial(rows.fail_file, file=file, problem=outcome.reason))
            return
        if len(outcome.passages) <= passage_rows.INSERT_BATCH and file.attempts == 1:
            await self._database.write(partial(passage_rows.store_file, file=file, extracted=outcome))
            return
        while await self._database.write(partial(passage_rows.clear_passages, file=file)):
            continue
        for first, some in passage_rows.split_batches(outcome.passages):
            add = partial(passage_rows.add_passages, file=file, first_number=first, extracted=some)
            if not await self._database.write(add):
                return
        await self._database.write(partial(passage_rows.finish_file, file=file, extracted=outcome))

    async def _embed_some(self) -> float:
        """Store vectors of a batch of passages that have none of the current model."""
        embedder = self._embedder()
        if embedder is None:
            return POLL_S
        begun = time.monotonic()
        find = partial(passage_rows.list_unembedded, model=embedder.name, limit=embedder.batch_size)
        found = await self._database.read(find)
        if not found:
            return POLL_S
        read = time.monotonic()
        try:
            vectors = await embedder.embed([each.text for each in found])
        except DeerFlowError as problem:
            logger.warning("passages are not embedded at the moment: %s", problem)
            return PAUSE_S
        embedded = time.monotonic()
        pairs = [(each.passage_id, vector) for each, vector in zip(found, vectors, strict=True)]
        await self._database.write(partial(passage_rows.save_vectors, model=embedder.name, vectors=pairs))
        # Leaves half of the time to the queries of runs; the model has another process, or little to do.
        await asyncio.sleep(time.monotonic() - embedded + read - begun)
        return 0.0

    async def _link(self, file: QueuedFile) -> None:
        await self._projects.files.link_thread(file.owner, f"{INDEX_PREFIX}{file.project_id}", file.project_id)

    async def _renew(self, claim: str) -> None:
        """Renew the claims of a batch until cancelled."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(RENEW_S):
                    await asyncio.Event().wait()
            with suppress(StorageUnavailable):
                await self._database.write(partial(rows.renew_claims, claim=claim, lease=LEASE))


@asynccontextmanager
async def index_in_background(indexer: Indexer, on_end: Callable[["asyncio.Task[None]"], None]) -> AsyncIterator[None]:
    """Index in the background; what is left stays in the queue for the next process."""
    task = asyncio.create_task(indexer.run(), name="knowledge")
    task.add_done_callback(on_end)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})
