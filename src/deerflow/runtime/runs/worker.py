"""Carries out one run: streams the graph into the run's log, and always ends it."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, cast

from langchain_core.runnables import RunnableConfig
from langgraph.types import Interrupt

from deerflow.agents.graph import AgentGraph
from deerflow.domain.context import RunContext
from deerflow.domain.errors import DeerFlowError, RunLost, StateTooNew
from deerflow.domain.runs import DEAR_MODES, AgentSpec, CancelAction, RunRecord, RunStatus
from deerflow.domain.search import LeftBehind
from deerflow.persistence.admission import Finish
from deerflow.persistence.checkpoints import RUN_KEY
from deerflow.persistence.events import Change, nothing_else
from deerflow.runtime.changes import INTERRUPT, Changes
from deerflow.runtime.journal import RunLog
from deerflow.runtime.runs.aftermath import Aftermath
from deerflow.runtime.runs.attempt import Attempt, Outcome, config_of
from deerflow.runtime.runs.entry import find_entry
from deerflow.runtime.runs.file_changes import FileChanges
from deerflow.runtime.runs.job import Job
from deerflow.runtime.waiting import surely
from deerflow.tracing.metrics import Metrics

logger = logging.getLogger(__name__)

ROLLED_BACK, GIVEN_UP, TIMED_OUT = "RolledBack", "RunGivenUp", "RunTimeout"
MAX_DEATHS = 3
"""After so many processes have died with a run, it is taken to be the cause."""
LOOK_S, STOPPED_LOOK_S = 20.0, 1.0
"""How long it may take to find out what a run did to files; whoever has stopped one waits for its end."""


class AgentSource(Protocol):
    """Gives the graph for a spec, ready made where possible, and one that only reads and mends state."""

    @property
    def state_graph(self) -> AgentGraph: ...
    def ready_graph(self, spec: AgentSpec, user_id: str) -> AgentGraph | None: ...
    def graph_for(self, spec: AgentSpec, user_id: str) -> AgentGraph: ...


@dataclass(frozen=True, slots=True)
class Limits:
    """How long and how far a run may go."""

    timeout_s: float
    recursion_limit: int


def nobody() -> None:
    """Nobody is told."""


class RunWorker:
    """Knows how to carry out runs; keeps nothing of them."""

    def __init__(
        self,
        agents: AgentSource,
        open_context: Callable[[Job, RunLog], AbstractAsyncContextManager[RunContext]],
        limits: Callable[[], Limits],
        undo: Callable[[RunRecord], Awaitable[None]],
        questions: Callable[[str], Awaitable[Sequence[Interrupt]]],
        closing: Callable[[Job, LeftBehind | None], Change[None]],
        files: FileChanges,
        metrics: Metrics,
        hide: Callable[[str], str],
        closed: Callable[[], None] = nobody,
    ) -> None:
        """`limits` is asked anew for every run; `undo` takes back what a run has done to its thread.

        `questions` finds what a thread's paused run asks; `closing` keeps what a run leaves besides its log;
        `hide` takes secrets out of a text; `closed` is called when a run has ended and that is kept.
        """
        self._agents = agents
        self._open_context = open_context
        self._limits = limits
        self._undo = undo
        self._aftermath = Aftermath(agents.state_graph, questions)
        self._closing = closing
        self._files = files
        self._metrics = metrics
        self._hide = hide
        self._closed = closed

    async def execute(self, job: Job, log: RunLog) -> tuple[RunStatus, Finish]:
        """Carry out a run to its end, whatever happens. Cancelling the task that awaits this stops the run.

        Raises:
            RunLost: another process has taken the run over, and its end is that one's business.
        """
        attempt = Attempt(job, log)
        settled = told_before(job) or stopped_before(job) or hopeless(job)
        outcome = settled or await self._try(attempt)
        # Whoever stops it from here on comes too late: half an end would be none.
        return outcome.status, await surely(self._end(attempt, outcome, is_settled=settled is not None))

    async def _end(self, attempt: Attempt, outcome: Outcome, *, is_settled: bool) -> Finish:
        """Leave the thread in a state to go on from, tell readers, and record the end."""
        log, is_told = attempt.log, told_before(attempt.job) is not None
        if outcome.error_name == ROLLED_BACK:
            if not is_told:  # whoever goes on after us has to know
                await log.commit("error", outcome.to_json(), nothing_else)
            await self._undo(attempt.run)
        left = None
        try:
            await self._mend(attempt, outcome, is_settled=is_settled)
            left = None if outcome.error_name == ROLLED_BACK else await self._left_behind(attempt.job)
        except StateTooNew as problem:  # a newer program has the thread now, and makes of it what it can
            logger.warning("run %s ends without a look at its thread: %s", attempt.run.run_id, problem)
        if outcome.error_name != ROLLED_BACK:
            is_stopped = outcome.status is not RunStatus.SUCCESS
            await self._files.note(attempt.run, log, STOPPED_LOOK_S if is_stopped else LOOK_S)
            if outcome.error is not None and not is_told:
                log.append("error", outcome.to_json())
        attempt.tools.count_in(self._metrics)
        attempt.job.records.waits_for = attempt.waits_for(outcome.status)
        finish = await log.finish(outcome.status, outcome.error, self._closing(attempt.job, left))
        self._closed()
        return finish

    async def _mend(self, attempt: Attempt, outcome: Outcome, *, is_settled: bool) -> None:
        """Have the state be sound, and readers know it."""
        if outcome.error_name == ROLLED_BACK:
            await self._aftermath.tell_state(attempt)
            attempt.job.records.said.forget_all()
        elif is_settled:
            await self._aftermath.settle(attempt, keeps_answer=outcome.error_name != GIVEN_UP)
        elif outcome.status != RunStatus.SUCCESS:
            await self._aftermath.keep(attempt, is_stopped=outcome.status is RunStatus.INTERRUPTED)

    async def _left_behind(self, job: Job) -> LeftBehind | None:
        """What the run left behind by going back to a checkpoint."""
        if job.request.checkpoint_id is None:
            return None
        config = config_of(job.run)
        config["configurable"]["checkpoint_id"] = job.request.checkpoint_id
        origin = await self._agents.state_graph.aget_state(config)
        if origin.created_at is None:
            return None
        kept = [message.id or "" for message in origin.values.get("messages", ())]
        return LeftBehind(datetime.fromisoformat(origin.created_at), kept)

    async def _try(self, attempt: Attempt) -> Outcome:
        job, run, limits = attempt.job, attempt.run, self._limits()
        limit = asyncio.timeout(limits.timeout_s)
        try:
            async with limit, self._open_context(job, attempt.log) as context:
                is_paused = await self._stream(attempt, context)
            return Outcome(RunStatus.INTERRUPTED if is_paused else RunStatus.SUCCESS)
        except asyncio.CancelledError:
            if job.signals.leaves_unfinished:
                raise
            return stopped(job.signals.action)
        except RunLost:
            raise
        except DeerFlowError as problem:
            # Its text may quote what was said; it is kept with the run, where only its owner sees it.
            logger.warning("run %s failed: %s", run.run_id, type(problem).__name__)
            return self._failed(problem)
        except Exception as problem:
            if limit.expired():
                reason = f"the run took longer than {limits.timeout_s:g} s and was stopped"
                return Outcome(RunStatus.TIMEOUT, TIMED_OUT, reason)
            logger.exception("run %s failed", run.run_id)
            return self._failed(problem)

    def _failed(self, problem: Exception) -> Outcome:
        """The end of a run that raised something; vendors quote the keys they refuse."""
        name = type(problem).__name__
        return Outcome(RunStatus.ERROR, name, self._hide(str(problem)) or name)

    async def _stream(self, attempt: Attempt, context: RunContext) -> bool:
        """Log what the graph says; whether it stopped midway, to ask somebody something or because it was to."""
        job = attempt.job
        graph = self._agents.ready_graph(job.request.agent, job.run.owner)
        if graph is None:  # building one may load a vendor's library: other runs must not wait for that
            graph = await asyncio.to_thread(self._agents.graph_for, job.request.agent, job.run.owner)
        config = self._config(job)
        entry = await find_entry(graph, config, job)
        state = attempt.state = entry.state
        if job.past and job.past.answer.message_id:
            attempt.correct(Changes(removed=[job.past.answer.message_id]))
        if entry.found is not None:
            attempt.correct(state.against(entry.found))
        if entry.is_done:
            return state.is_paused or await is_halted(graph, job)
        if entry.checkpoint_id is not None:
            config["configurable"]["checkpoint_id"] = entry.checkpoint_id
        request = job.request
        dear = [mode for mode in DEAR_MODES if mode in request.stream_modes]
        parts = graph.astream(
            entry.input,
            config,
            context=context,
            stream_mode=["messages", "values", "custom", *dear],
            subgraphs=request.stream_subgraphs,
            interrupt_before=request.interrupt_before or None,
            interrupt_after=request.interrupt_after or None,
            output_keys=graph.output_channels,  # what middlewares remember for themselves is no reader's business
            # Written while the model already speaks, checkpoints would fight with it for the interpreter lock.
            durability="sync",
        )
        # An async generator that yields pairs, though the library's types say less.
        asks = False
        async with aclosing(cast(AsyncGenerator[tuple[Any, ...]], parts)) as told:
            async for *namespace, mode, part in told:
                asks = asks or (mode == "values" and INTERRUPT in part)
                attempt.take_in(namespace, mode, part)
        if asks:
            # Steps side by side ask one by one, and what those that do not ask have done is said last.
            questions = (await graph.aget_state(config_of(job.run))).interrupts
            attempt.tell(state.asking(questions))
        return state.is_paused or await is_halted(graph, job)

    def _config(self, job: Job) -> RunnableConfig:
        return {
            **config_of(job.run),
            "metadata": {RUN_KEY: job.run.run_id},
            "recursion_limit": job.request.recursion_limit or self._limits().recursion_limit,
            "run_name": job.run.assistant_id,
        }


def told_before(job: Job) -> Outcome | None:
    """How the run failed, if readers were told and then the process died."""
    if job.past is None or job.past.failure is None:
        return None
    name, message = job.past.failure["name"], job.past.failure["message"]
    return Outcome(RunStatus.TIMEOUT if name == TIMED_OUT else RunStatus.ERROR, name, message)


def stopped_before(job: Job) -> Outcome | None:
    """The end of a run that somebody had stopped before its process died."""
    return stopped(job.stop) if job.stop is not None else None


def stopped(action: CancelAction) -> Outcome:
    """The end of a run that somebody has stopped."""
    if action is CancelAction.ROLLBACK:
        return Outcome(RunStatus.ERROR, ROLLED_BACK, "rolled back by the user")
    return Outcome(RunStatus.INTERRUPTED)


def hopeless(job: Job) -> Outcome | None:
    """The end of a run that takes every process with it."""
    if job.past is None or job.past.deaths < MAX_DEATHS:
        return None
    logger.error("run %s is given up: %d processes died with it", job.run.run_id, job.past.deaths)
    reason = f"the server died {MAX_DEATHS} times while it worked on this run, so the run was given up"
    return Outcome(RunStatus.ERROR, GIVEN_UP, f"{reason}; ask for something else, or look into the server's log")


async def is_halted(graph: AgentGraph, job: Job) -> bool:
    """Whether the run was to stop at a step, and has."""
    if not (job.request.interrupt_before or job.request.interrupt_after):
        return False
    return bool((await graph.aget_state(config_of(job.run))).next)
