"""Runs of a harness: the hooks of the engine, and the resources of threads."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from langgraph.checkpoint.base import BaseCheckpointSaver

from deerflow.domain.context import RunContext
from deerflow.domain.errors import Conflict
from deerflow.domain.identity import Principal
from deerflow.domain.runs import RunEvent, RunRecord, RunStatus
from deerflow.domain.threads import DiscardedHistory
from deerflow.domain.usage import SpendingLimit
from deerflow.harness.core import Core, thread_snapshots
from deerflow.harness.memory import pending_extraction
from deerflow.harness.resources import Resources
from deerflow.memory.queue import ExtractionQueue
from deerflow.persistence.checkpoints import check_state_version
from deerflow.persistence.engine.database import Database
from deerflow.persistence.engine.liveness import Liveness, LockLiveness, hold_lease, hold_process_lock
from deerflow.persistence.engine.maintenance import Purger
from deerflow.persistence.queries.events import WriteFunction, read_events
from deerflow.persistence.queries.runs import is_unfinished
from deerflow.persistence.queries.search import merge_index
from deerflow.persistence.queries.threads import adopt_title
from deerflow.persistence.queries.transactions import RunFinish
from deerflow.runtime.background import shield_until_done
from deerflow.runtime.journal.journal import Journal, RunLog
from deerflow.runtime.runs.heartbeat import ProcessMonitor, monitor_process
from deerflow.runtime.runs.job import Job, ResolvedSettings
from deerflow.runtime.runs.manager import RunManager
from deerflow.runtime.stream_bridge import StreamBridge, open_bridge
from deerflow.runtime.stream_bridge.local import ALL_PROCESSES
from deerflow.runtime.threads.deletion import Cleanup, Deletions, ThreadResources, repeat_in_background
from deerflow.runtime.threads.states import pending_interrupts
from deerflow.sandbox.files.mounts import file_owner, thread_folder, user_data_folder, user_folder
from deerflow.sandbox.lease import restore_files
from deerflow.sandbox.local.usage import remove_folder
from deerflow.sandbox.snapshots.restore import copy_tree
from deerflow.services.user_deletion import UserCleanup, UserDeletions
from deerflow.tracing.logs import NewTracers, open_langsmith

if TYPE_CHECKING:
    from langgraph.types import Interrupt

    from deerflow.runtime.runs.worker import RunWorker
    from deerflow.services.prompt_assistance import TitleGenerator
    from deerflow.subagents.executor import SubagentExecutor

OpenRunContext: TypeAlias = (
    "Callable[[Core, Resources, StreamBridge, SubagentExecutor, Job, RunLog], AbstractAsyncContextManager[RunContext]]"
)


class RunServices:
    """Hooks of the run engine: connects it to sandboxes, memory, usage and titles."""

    def __init__(
        self, core: Core, resources: Resources, extraction: ExtractionQueue, bridge: StreamBridge, tracers: NewTracers
    ) -> None:
        self._core = core
        self._resources = resources
        self._extraction = extraction
        self._bridge = bridge
        self._new_tracers = tracers
        self._open_context: OpenRunContext | None = None

    @cached_property
    def _subagents(self) -> "SubagentExecutor":
        from deerflow.subagents.executor import ConcurrencyLimits, FairScheduler, SubagentExecutor

        limits = self._core.source.settings(
            lambda loaded: ConcurrencyLimits(
                loaded.config.subagents.max_concurrent, loaded.config.subagents.max_concurrent_per_user
            )
        )
        return SubagentExecutor(FairScheduler(limits))

    @cached_property
    def _titles(self) -> "TitleGenerator":
        from deerflow.services.prompt_assistance import TitleGenerator

        resources = self._resources
        return TitleGenerator(
            self._core.database, self._core.agents.title_model, resources.usage.record, resources.daily_budgets.wrap
        )

    async def check_quota(self, owner: str) -> int | None:
        return await self._resources.quotas.check_run(owner)

    async def resolve_settings(self, owner: str) -> ResolvedSettings:
        await self._core.saved_models.refresh()
        await self._core.shares.refresh(owner)  # agents that are shared with the owner
        config = self._core.source.refresh().config
        return ResolvedSettings(
            timeout_s=config.runs.timeout_seconds,
            recursion_limit=config.runs.recursion_limit,
            title=config.title,
            budget=SpendingLimit(config.budget.max_tokens, config.budget.max_cost, config.budget.currency),
            uses_memory=config.memory.enabled,
            requires_skill_contract=config.skills.require_contract,
            agents=self._core.agents.current_settings(owner),
            callbacks=self._new_tracers(),
        )

    @asynccontextmanager
    async def open_context(self, job: Job, log: RunLog) -> AsyncIterator[RunContext]:
        if self._open_context is None:  # imported on first use, in a thread: a server answers requests without it
            self._open_context = await asyncio.to_thread(import_run_context)
        parts = self._core, self._resources, self._bridge, self._subagents
        if not self._core.quotas.authenticator.is_login_required:  # there is one user
            async with self._open_context(*parts, job, log) as context:
                yield context
            return
        async with (
            self._core.quotas.turns.start_run(job.run.actor) as job.records.model_slot,
            self._open_context(*parts, job, log) as context,
        ):
            yield context

    async def check_state(self, thread_id: str) -> None:
        await check_state_version(self._core.checkpointer, thread_id)

    async def pending_interrupts(self, thread_id: str) -> "Sequence[Interrupt]":
        return await pending_interrupts(self._core.checkpointer, thread_id)

    async def roll_back(self, run: RunRecord) -> None:
        await restore_files(thread_snapshots(self._core.home, run), run.run_id)
        await self._core.checkpointer.adelete_for_runs([run.run_id])

    def on_finish(self, job: Job, left: DiscardedHistory | None) -> Sequence[WriteFunction[None]]:
        changes = (
            self._resources.usage.build_result_write(job, left),
            build_title_write(job),
            pending_extraction(self._extraction, job),
        )
        return [change for change in changes if change is not None]

    async def after_run(self, job: Job, status: RunStatus) -> None:
        self._extraction.wake()
        if status is not RunStatus.SUCCESS:
            return
        if not self._core.quotas.authenticator.is_login_required:
            await self._titles.generate(job)
            return
        async with self._core.quotas.turns.model_calls.slot(job.run.actor):
            await self._titles.generate(job)

    def redact(self, text: str) -> str:
        return self._core.source.redact(text)


class DeferredWorker:
    """Worker that is imported with the first run: LangGraph and everything that agents use come with it."""

    def __init__(self, core: Core, hooks: RunServices, on_import: Callable[[], object]) -> None:
        self._core = core
        self._hooks = hooks
        self._on_import = on_import
        self._worker: RunWorker | None = None
        self._loading = asyncio.Lock()

    async def load(self) -> "RunWorker":
        """Return the worker. Imports it in a thread on first use."""
        async with self._loading:
            if self._worker is None:
                self._worker = await asyncio.to_thread(self._create)
                self._on_import()
        return self._worker

    async def execute(self, job: Job, log: RunLog) -> tuple[RunStatus, RunFinish]:
        """Execute a run to its end, as `RunWorker` does."""
        worker = self._worker
        if worker is None:
            worker = await shield_until_done(self.load())
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                task.cancel()  # once more, now that there is a worker that ends cancelled runs
        return await worker.execute(job, log)

    def _create(self) -> "RunWorker":
        from deerflow.runtime.runs.worker import RunWorker

        import_run_context()
        return RunWorker(self._core.agents, self._hooks, self._core.file_changes, self._core.metrics)


def build_title_write(job: Job) -> WriteFunction[None] | None:
    """Return the change that lists the title of the state, if the run has set one."""
    title = job.records.new_title
    if title is None:
        return None
    return partial(adopt_title, thread_id=job.run.thread_id, owner=job.run.owner, title=title)


@asynccontextmanager
async def open_runs(
    core: Core, resources: Resources, extraction: ExtractionQueue, on_import: Callable[[], object]
) -> AsyncIterator[tuple[RunManager, Deletions]]:
    """Accept and execute runs, resume those that dead processes left, and delete threads."""
    database, metrics = core.database, core.metrics
    async with AsyncExitStack() as stack:
        process, liveness, bridge = await stack.enter_async_context(join_processes(core))
        journal = Journal(database, bridge, core.quotas.turns.monitor.note_write)
        stack.push_async_callback(journal.aclose)
        tracers = await stack.enter_async_context(open_langsmith(core.source.current.environment))
        hooks = RunServices(core, resources, extraction, bridge, tracers)
        runs = RunManager(database, journal, bridge, DeferredWorker(core, hooks, on_import), hooks, process, metrics)
        metrics.readers.set_function(bridge.reader_count)
        metrics.runs_here.set_function(lambda: len(runs.active_runs()))
        stack.push_async_callback(runs.aclose)
        await stack.enter_async_context(monitor_process(ProcessMonitor(database, bridge, runs, liveness, process)))
        cleanups = thread_resources(core, resources, is_busy=lambda: bool(runs.active_runs()))
        yield runs, Deletions(database, cleanups, partial(stop_run, runs), liveness, process)


@asynccontextmanager
async def join_processes(core: Core) -> AsyncIterator[tuple[str, Liveness, StreamBridge]]:
    """Join the processes that share the database: yields our name, their liveness and the stream bridge."""
    database, loaded = core.database, core.source.current
    settings, place = loaded.config.database, loaded.config.database.get_location(loaded.home)
    folder = (place.parent if isinstance(place, Path) else loaded.home / "data") / "processes"
    with hold_process_lock(folder) as process:
        log = partial(read_log, database), partial(can_grow, database)
        async with open_bridge(loaded.config.stream_bridge, process, *log) as bridge:
            if isinstance(place, Path):
                yield process, LockLiveness(folder, settings.lease_seconds), bridge
                return
            async with hold_lease(database, folder, process, settings.lease_seconds) as liveness:
                yield process, liveness, bridge
            bridge.tell(ALL_PROCESSES)  # they can resume what this process left


def thread_resources(core: Core, resources: Resources, is_busy: Callable[[], bool]) -> ThreadResources:
    """Return what a thread has besides its rows, in the order in which it is deleted."""
    forget: list[Cleanup] = [
        resources.memory.forget_thread,  # before the search index is compacted
        partial(compact_index, core.database, is_busy),
        partial(delete_checkpoints, core.checkpointer),
        core.mcp.forget_thread,
        core.acp.forget_thread,
        partial(delete_files, core),
    ]
    purger = Purger(core.source.current.config.database.get_location(core.home), is_busy)
    return ThreadResources(forget, purger.purge, is_busy)


async def copy_thread_resources(core: Core, resources: Resources, thread_id: str, copy_id: str, user_id: str) -> None:
    """Copy the files, uploads and web pages of a thread to its copy."""
    origin, copy = (user_data_folder(core.home, user_id, each) for each in (thread_id, copy_id))
    await asyncio.to_thread(copy_tree, origin, copy, file_owner())
    await core.uploads.copy(user_id, thread_id, copy_id)
    await resources.web_pages.copy(thread_id, copy_id, user_id)


async def delete_files(core: Core, thread_id: str, user_id: str) -> None:
    """Stop what runs in the sandbox of a thread, and delete its files."""
    await core.uploads.cancel_conversions(user_id, thread_id)
    await core.sandboxes.discard(thread_id, user_id)
    await asyncio.to_thread(remove_folder, thread_folder(core.home, user_id, thread_id))


def create_user_deletions(
    core: Core, resources: Resources, runs: RunManager, deletions: Deletions, delete_projects: UserCleanup
) -> UserDeletions:
    """Create the service that deletes people with everything they have."""
    end_runs = partial(end_runs_for_others, core, runs)
    cleanups = (end_runs, delete_projects, resources.memory.forget_user, partial(delete_user_folder, core))
    settings = core.source.settings(lambda loaded: loaded.config.users)
    on_erased = partial(forget_user, core)
    return UserDeletions(core.database, lambda: resources.accounts, deletions, cleanups, on_erased, settings)


async def end_runs_for_others(core: Core, runs: RunManager, user_id: str) -> None:
    """Stop the runs that a person has started in threads of others, and remove the person from them and from teams."""
    from deerflow.teams import queries

    for run in await core.database.read(partial(queries.list_started_runs, user_id=user_id)):
        with suppress(Conflict):  # it has ended meanwhile
            await stop_run(runs, run, Principal(run.owner))
    if left := await core.database.read(partial(queries.list_started_runs, user_id=user_id)):
        raise Conflict(f"{len(left)} runs of a deleted user cannot be stopped yet")
    await core.database.write(partial(queries.forget_starter, user_id=user_id))
    await core.database.write(queries.repair_teams)


async def delete_user_folder(core: Core, user_id: str) -> None:
    """Delete the files of a user: skills, agents and what is left of threads and projects."""
    await asyncio.to_thread(remove_folder, user_folder(core.home, user_id))


async def forget_user(core: Core, user_id: str) -> None:
    """Take the models of a deleted user out of the registry, and their words out of the search index."""
    await core.saved_models.publish()
    while await core.database.write(merge_index):
        pass


async def compact_index(database: Database, is_busy: Callable[[], bool], thread_id: str, user_id: str) -> None:
    """Compact the search index: until then it may hold deleted words."""
    await repeat_in_background(partial(database.write, merge_index), is_busy)


async def delete_checkpoints(checkpointer: BaseCheckpointSaver[str], thread_id: str, user_id: str) -> None:
    """Delete the checkpoints of a thread."""
    await checkpointer.adelete_thread(thread_id)


async def stop_run(runs: RunManager, run: RunRecord, who: Principal) -> None:
    """Cancel a run and wait for its end."""
    await runs.cancel(run.thread_id, run.run_id, who)


def import_run_context() -> OpenRunContext:
    """Import what opens run contexts."""
    from deerflow.harness.run_context import open_run_context

    return open_run_context


async def read_log(database: Database, run_id: str, after: int, limit: int) -> Sequence[RunEvent]:
    """Return a page of events of a run."""
    return await database.read(partial(read_events, run_id=run_id, after=after, limit=limit))


async def can_grow(database: Database, run_id: str) -> bool:
    """Return whether a run may get more events."""
    return await database.read(partial(is_unfinished, run_id=run_id))
