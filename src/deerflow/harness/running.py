"""Runs: who carries them out, what each of them carries along, and what is left of them."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import cast

from langgraph.checkpoint.base import BaseCheckpointSaver

from deerflow.config.imports import load_object
from deerflow.config.load import Loaded
from deerflow.config.root import Config
from deerflow.domain.context import RunContext
from deerflow.domain.events import StreamEvent
from deerflow.domain.principal import Principal
from deerflow.domain.runs import RunRecord
from deerflow.harness.files import copy_files, forget_thread, snapshots_of
from deerflow.harness.ground import Ground
from deerflow.harness.learning import closing_with_lesson
from deerflow.memory.queue import LessonQueue
from deerflow.persistence.database import Database
from deerflow.persistence.events import read_events
from deerflow.persistence.liveness import Liveness, Locks, leased, sign_of_life
from deerflow.persistence.runs import is_unfinished
from deerflow.persistence.scrubbing import scrub
from deerflow.persistence.search import merge_step
from deerflow.persistence.state_version import check_state
from deerflow.runtime.deletion import Belongings, Deletions, Forget
from deerflow.runtime.journal import Journal, RunLog
from deerflow.runtime.runs.job import Job
from deerflow.runtime.runs.manager import RunManager
from deerflow.runtime.runs.watch import Watch, keeping_watch
from deerflow.runtime.runs.worker import Limits, RunWorker
from deerflow.runtime.stream_bridge import StreamBridge, open_bridge
from deerflow.runtime.stream_bridge.bridge import EVERYBODY
from deerflow.runtime.threads import open_questions
from deerflow.runtime.titles import Namer
from deerflow.sandbox.lease import bring_back
from deerflow.subagents.executor import SubagentExecutor
from deerflow.subagents.turns import FairTurns, Places

RUN_CONTEXT = "deerflow.harness.run_context:prepare"
OpenContext = Callable[[Ground, StreamBridge, SubagentExecutor, Job, RunLog], AbstractAsyncContextManager[RunContext]]


@asynccontextmanager
async def carrying_out_runs(ground: Ground, lessons: LessonQueue) -> AsyncIterator[tuple[RunManager, Deletions]]:
    """Take runs and carry them out, also those a dead process left; and delete threads when they have ended."""
    source, loaded, database, agents = ground.source, ground.loaded, ground.database, ground.agents
    async with AsyncExitStack() as stack:
        process, liveness, bridge = await stack.enter_async_context(join_others(database, loaded))
        journal = Journal(database, bridge)
        stack.push_async_callback(journal.aclose)
        executor = SubagentExecutor(agents, FairTurns(lambda: subagent_places(source.refresh().config)))
        questions = partial(open_questions, ground.checkpointer)
        worker = RunWorker(
            agents,
            partial(open_context, ground, bridge, executor),
            lambda: run_limits(source.refresh().config),
            partial(undo_run, ground.checkpointer, loaded.home),
            questions,
            partial(closing_with_lesson, ground.resources.usage.closing, source, lessons),
            ground.file_changes,
            ground.metrics,
            source.hide,
            lessons.look,
        )
        namer = Namer(
            database,
            agents.state_graph,
            lambda: source.refresh().config.title,
            agents.catalog_model,
            ground.resources.usage.note,
        )
        check = partial(check_state, ground.checkpointer)
        runs = RunManager(database, journal, bridge, worker, namer, questions, check, process, ground.metrics)
        ground.metrics.readers.set_function(bridge.reader_count)
        ground.metrics.runs_here.set_function(lambda: len(runs.under_way()))
        stack.push_async_callback(runs.aclose)
        await stack.enter_async_context(keeping_watch(Watch(database, bridge, runs, liveness, process)))
        yield runs, Deletions(database, belongings_of_threads(ground), partial(stop_run, runs), liveness, process)


@asynccontextmanager
async def join_others(database: Database, loaded: Loaded) -> AsyncIterator[tuple[str, Liveness, StreamBridge]]:
    """The name of this process among those on one database, how it knows of them, and how they wake each other."""
    settings, place = loaded.config.database, loaded.config.database.place(loaded.home)
    folder = (place.parent if isinstance(place, Path) else loaded.home / "data") / "processes"
    with sign_of_life(folder) as process:
        log = partial(read_log, database), partial(may_grow, database)
        async with open_bridge(loaded.config.stream_bridge, process, *log) as bridge:
            if isinstance(place, Path):
                yield process, Locks(folder, settings.lease_seconds), bridge
                return
            async with leased(database, folder, process, settings.lease_seconds) as liveness:
                yield process, liveness, bridge
            bridge.tell(EVERYBODY)  # what we leave unfinished can be gone on with


@asynccontextmanager
async def open_context(
    ground: Ground, bridge: StreamBridge, subagents: SubagentExecutor, job: Job, log: RunLog
) -> AsyncIterator[RunContext]:
    """What a run carries to every middleware and tool."""
    # Loaded when it is used: the server can be there before the first run. Later ones need no thread for it.
    is_loaded = RUN_CONTEXT.partition(":")[0] in sys.modules
    found = load_object(RUN_CONTEXT) if is_loaded else await asyncio.to_thread(load_object, RUN_CONTEXT)
    prepare = cast(OpenContext, found)
    async with prepare(ground, bridge, subagents, job, log) as context:
        yield context


async def undo_run(checkpointer: BaseCheckpointSaver[str], home: Path, run: RunRecord) -> None:
    """Have a thread's state and files be what they were before a run."""
    await bring_back(snapshots_of(home, run), run.run_id)
    await checkpointer.adelete_for_runs([run.run_id])


def belongings_of_threads(ground: Ground) -> Belongings:
    """What a thread has besides its rows."""
    home = ground.loaded.home
    forget: list[Forget] = [
        ground.resources.memory.let_go,  # before the index is put in order
        partial(forget_words, ground.database),
        partial(forget_states, ground.checkpointer),
        ground.mcp.forget_thread,
        ground.acp.forget_thread,
        partial(forget_thread, ground.sandboxes, ground.uploads, home),
    ]
    return Belongings(forget, partial(scrub, ground.loaded.config.database.place(home)))


async def copy_belongings(ground: Ground, thread_id: str, copy_id: str, user_id: str) -> None:
    """Give a thread what another has besides its state."""
    await copy_files(ground.uploads, ground.loaded.home, thread_id, copy_id, user_id)
    await ground.resources.web_pages.copy(thread_id, copy_id, user_id)


async def stop_run(runs: RunManager, run: RunRecord, who: Principal) -> None:
    """Stop a run and wait for its end."""
    await runs.cancel(run.thread_id, run.run_id, who)


async def forget_words(database: Database, thread_id: str, user_id: str) -> None:
    """Have the index of words be put in order: it may keep deleted ones until then."""
    while await database.write(merge_step):
        pass


async def forget_states(checkpointer: BaseCheckpointSaver[str], thread_id: str, user_id: str) -> None:
    """Remove what graphs kept of a thread."""
    await checkpointer.adelete_thread(thread_id)


async def read_log(database: Database, run_id: str, after: int, limit: int) -> Sequence[StreamEvent]:
    """A piece of a run's log."""
    return await database.read(partial(read_events, run_id=run_id, after=after, limit=limit))


async def may_grow(database: Database, run_id: str) -> bool:
    """Whether more may come of a run."""
    return await database.read(partial(is_unfinished, run_id=run_id))


def run_limits(config: Config) -> Limits:
    """How far a run may go."""
    return Limits(config.runs.timeout_seconds, config.runs.recursion_limit)


def subagent_places(config: Config) -> Places:
    """How many subagents may work at once."""
    return Places(config.subagents.max_concurrent, config.subagents.max_concurrent_per_user)
