"""Execution of one run: finds where it starts, streams the graph into the event log and records the end."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, Protocol, cast

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.constants import START
from langgraph.types import Command, StateSnapshot

from deerflow.agents.spec import AgentGraph, AgentSettings
from deerflow.domain.context import RunContext
from deerflow.domain.errors import DeerFlowError, EventRefused, RunLost, StateTooNew
from deerflow.domain.runs import (
    GIVEN_UP,
    OPT_IN_STREAM_MODES,
    ROLLED_BACK,
    TIMED_OUT,
    AgentSpec,
    CancelAction,
    NodeNames,
    RunRequest,
    RunStatus,
)
from deerflow.domain.threads import DiscardedHistory
from deerflow.persistence.checkpoints import RUN_KEY
from deerflow.persistence.queries.events import WriteFunction, apply_all, do_nothing
from deerflow.persistence.queries.transactions import RunFinish
from deerflow.runtime.background import shield_until_done
from deerflow.runtime.journal.journal import RunLog
from deerflow.runtime.journal.state_diff import INTERRUPT, Changes, StateDiff
from deerflow.runtime.runs.attempt import Attempt, RunOutcome, attempt_config
from deerflow.runtime.runs.file_changes import FileChanges
from deerflow.runtime.runs.hooks import RunHooks
from deerflow.runtime.runs.job import Job
from deerflow.runtime.runs.repair import StateRepair
from deerflow.tracing.logs import Metrics

GraphInput = Command[Any] | dict[str, list[BaseMessage]] | None


@dataclass(frozen=True, slots=True)
class StartPoint:
    """Input of the graph, and the state that its first step is compared with."""

    input: GraphInput
    state: StateDiff
    checkpoint_id: str | None = None
    """Checkpoint to start from, if not the latest."""
    found: Mapping[str, Any] | None = None
    """State of an earlier attempt, which readers may not know yet."""
    is_done: bool = False
    """Whether the run is complete and only its end has to be recorded."""


async def find_start(graph: AgentGraph, config: RunnableConfig, job: Job) -> StartPoint:
    """Return the start of a run; for a resumed one, its last checkpoint."""
    request = job.request
    fresh = initial_input(job)
    if job.past is None and request.checkpoint_id is None and request.command is None:
        return StartPoint(fresh, StateDiff([message.id or "" for message in job.messages]))
    snapshot = await graph.aget_state(config)
    if job.past is None:
        return StartPoint(fresh, StateDiff.from_state(snapshot.values), request.checkpoint_id)
    state = StateDiff.from_log(job.past.known, snapshot.values)
    if (snapshot.metadata or {}).get(RUN_KEY) != job.run.run_id:  # it died before its first step
        return StartPoint(fresh, state, request.checkpoint_id)
    asks = {INTERRUPT: snapshot.interrupts} if snapshot.interrupts else {}
    # `next` is not enough: it omits a step whose result was stored but not yet applied.
    halts = not snapshot.tasks or bool(asks) or await is_at_breakpoint(graph, request, snapshot)
    return StartPoint(None, state, found={**snapshot.values, **asks}, is_done=halts)


def initial_input(job: Job) -> GraphInput:
    """Return the input of the graph for a new run."""
    request = job.request
    if request.resume is not None:
        return Command(resume=request.resume.answer)
    if request.command is not None:
        return Command(update=dict(request.command.update) or None, goto=list(request.command.goto))
    return None if request.goes_on else {"messages": list(job.messages)}


async def is_at_breakpoint(graph: AgentGraph, request: RunRequest, snapshot: StateSnapshot) -> bool:
    """Return whether the run has to stop here: before one of the next steps, or after the last one."""
    if matches_any(request.interrupt_before, snapshot.next):
        return True
    before, source = snapshot.parent_config, (snapshot.metadata or {}).get("source")
    if not request.interrupt_after or before is None or source != "loop":  # no step has led here
        return False
    taken = (await graph.aget_state(before)).tasks
    return matches_any(request.interrupt_after, [task.name for task in taken])


def matches_any(wanted: NodeNames, steps: Sequence[str]) -> bool:
    """Return whether one of the steps is a requested breakpoint; LangGraph's input step never is."""
    return any(step != START and (wanted == "*" or step in wanted) for step in steps)


logger = logging.getLogger(__name__)

MAX_DEATHS = 3
"""Number of process deaths after which a run is taken to be their cause."""
LOOK_S, STOPPED_LOOK_S = 20.0, 1.0
"""Time limit for computing file changes; shorter for a cancelled run, whose caller waits."""


class GraphProvider(Protocol):
    """Provider of agent graphs, and of a graph that only reads and repairs state."""

    @property
    def state_graph(self) -> AgentGraph: ...
    def get_cached_graph(self, spec: AgentSpec, user_id: str, settings: AgentSettings) -> "AgentGraph | None": ...
    def get_graph(self, spec: AgentSpec, user_id: str, settings: AgentSettings) -> AgentGraph: ...


class RunWorker:
    """Executes runs; keeps no state of them."""

    def __init__(self, agents: GraphProvider, hooks: RunHooks, files: FileChanges, metrics: Metrics) -> None:
        self._agents = agents
        self._hooks = hooks
        self._repair = StateRepair(agents.state_graph, hooks.pending_interrupts)
        self._files = files
        self._metrics = metrics

    async def execute(self, job: Job, log: RunLog) -> tuple[RunStatus, RunFinish]:
        """Execute a run to its end. Cancelling the awaiting task cancels the run.

        Raises:
            RunLost: another process has taken over the run and will end it.
        """
        attempt = Attempt(job, log)
        settled = recorded_failure(job) or recorded_cancel(job) or exceeded_attempts(job)
        try:
            outcome = settled or await self._try(attempt)
        finally:
            job.signals.has_stopped = True
        # From here on a cancellation is ignored: the end must be recorded completely.
        return await shield_until_done(self._end(attempt, outcome, is_settled=settled is not None))

    async def _end(self, attempt: Attempt, outcome: RunOutcome, *, is_settled: bool) -> tuple[RunStatus, RunFinish]:
        """Repair the state, publish it, and record the end."""
        log, is_published = attempt.log, recorded_failure(attempt.job) is not None
        if outcome.error_name == ROLLED_BACK:
            if not is_published:  # a process that resumes this run has to know
                await log.commit("error", outcome.to_json(), do_nothing)
            await self._hooks.roll_back(attempt.run)
        left = None
        try:
            await self._repair_state(attempt, outcome, is_settled=is_settled)
            left = None if outcome.error_name == ROLLED_BACK else await self._left_behind(attempt.job)
        except StateTooNew as problem:  # a newer version owns the thread now
            logger.warning("run %s ended without state repair: %s", attempt.run.run_id, problem)
        if outcome.error_name != ROLLED_BACK:
            is_stopped = outcome.status is not RunStatus.SUCCESS
            await self._files.note(attempt.run, log, STOPPED_LOOK_S if is_stopped else LOOK_S)
            if outcome.error is not None and not is_published:
                log.append("error", outcome.to_json())
        attempt.tools.count_in(self._metrics)
        attempt.job.records.waits_for = attempt.waits_for(outcome.status)
        changes = self._hooks.on_finish(attempt.job, left)
        return await self._record_end(attempt, outcome, partial(apply_all, changes=changes))

    async def _record_end(
        self, attempt: Attempt, outcome: RunOutcome, also: WriteFunction[None]
    ) -> tuple[RunStatus, RunFinish]:
        """Record the end. A run of which an event was refused fails, also if that is known only now."""
        outcome = self._fail_if_refused(attempt, outcome)
        try:
            return outcome.status, await attempt.log.finish(outcome.status, outcome.error, also)
        except EventRefused:  # one of the events that waited; a note has its number now
            outcome = self._fail_if_refused(attempt, outcome)
            return outcome.status, await attempt.log.finish(outcome.status, outcome.error, also)

    def _fail_if_refused(self, attempt: Attempt, outcome: RunOutcome) -> RunOutcome:
        if attempt.log.refusal is None or outcome.error is not None:
            return outcome
        failure = self._failed(attempt.log.refusal)
        attempt.log.append("error", failure.to_json())
        return failure

    async def _repair_state(self, attempt: Attempt, outcome: RunOutcome, *, is_settled: bool) -> None:
        """Repair the state of a run that did not complete."""
        if outcome.error_name == ROLLED_BACK:
            await self._repair.publish_state(attempt)
            attempt.job.records.transcript.clear()
        elif is_settled:
            await self._repair.settle(attempt, keeps_answer=outcome.error_name != GIVEN_UP)
        elif outcome.status != RunStatus.SUCCESS:
            await self._repair.keep(attempt, outcome)

    async def _left_behind(self, job: Job) -> DiscardedHistory | None:
        """Return the history that the run discarded by starting from an earlier checkpoint."""
        if job.request.checkpoint_id is None:
            return None
        config = attempt_config(job.run)
        config["configurable"]["checkpoint_id"] = job.request.checkpoint_id
        origin = await self._agents.state_graph.aget_state(config)
        if origin.created_at is None:
            return None
        kept = [message.id or "" for message in origin.values.get("messages", ())]
        writer = (origin.metadata or {}).get(RUN_KEY)
        run_id = writer if isinstance(writer, str) else None
        return DiscardedHistory(datetime.fromisoformat(origin.created_at), kept, run_id)

    async def _try(self, attempt: Attempt) -> RunOutcome:
        job, run, settings = attempt.job, attempt.run, attempt.job.settings
        limit = asyncio.timeout(settings.timeout_s)
        try:
            async with limit, self._hooks.open_context(job, attempt.log) as context:
                try:
                    is_paused = await self._stream(attempt, context)
                finally:  # closing the context must not be interrupted by another cancellation
                    job.signals.has_stopped = True
            return RunOutcome(RunStatus.INTERRUPTED, is_paused=True) if is_paused else RunOutcome(RunStatus.SUCCESS)
        except asyncio.CancelledError:
            if job.signals.hands_over:
                raise
            if attempt.log.refusal is not None:
                return self._failed(attempt.log.refusal)
            return cancelled_outcome(job.signals.action)
        except RunLost:
            raise
        except DeerFlowError as problem:
            # The text may quote messages; it is stored with the run, where only the owner sees it.
            logger.warning("run %s failed: %s", run.run_id, type(problem).__name__)
            return self._failed(problem)
        except Exception as problem:
            if limit.expired():
                reason = f"the run took longer than {settings.timeout_s:g} s and was stopped"
                return RunOutcome(RunStatus.TIMEOUT, TIMED_OUT, reason)
            logger.exception("run %s failed", run.run_id)
            return self._failed(problem)

    def _failed(self, problem: Exception) -> RunOutcome:
        """Return the outcome of a failed run; vendors quote the keys they reject, so the text is redacted."""
        name = type(problem).__name__
        return RunOutcome(RunStatus.ERROR, name, self._hooks.redact(str(problem)) or name)

    async def _stream(self, attempt: Attempt, context: RunContext) -> bool:
        """Log the stream of the graph. Return whether it stopped at an interrupt or breakpoint."""
        job = attempt.job
        spec = replace(job.request.agent, searches_knowledge=context.knowledge is not None)
        graph = self._agents.get_cached_graph(spec, job.run.owner, job.settings.agents)
        if graph is None:  # building may import a vendor's library, which must not block other runs
            graph = await asyncio.to_thread(self._agents.get_graph, spec, job.run.owner, job.settings.agents)
        config = self._config(job)
        entry = await find_start(graph, config, job)
        state = attempt.state = entry.state
        if job.past and job.past.answer.message_id:
            attempt.correct(Changes(removed=[job.past.answer.message_id]))
        if entry.found is not None:
            attempt.correct(state.against(entry.found))
        if entry.is_done:
            return state.is_paused or await is_stopped_at_breakpoint(graph, job)
        if entry.checkpoint_id is not None:
            config["configurable"]["checkpoint_id"] = entry.checkpoint_id
        request = job.request
        opt_in = [mode for mode in OPT_IN_STREAM_MODES if mode in request.stream_modes]
        parts = graph.astream(
            entry.input,
            config,
            context=context,
            stream_mode=["messages", "values", "custom", *opt_in],
            subgraphs=request.stream_subgraphs,
            interrupt_before=request.interrupt_before or None,
            interrupt_after=request.interrupt_after or None,
            output_keys=graph.output_channels,  # private state of middlewares is not streamed
            # Checkpoints written while the model streams would compete with it for the GIL.
            durability="sync",
        )
        # An async generator of tuples; the types of the library are less precise.
        asks = False
        async with aclosing(cast(AsyncGenerator[tuple[Any, ...]], parts)) as stream:
            async for *namespace, mode, part in stream:
                asks = asks or (mode == "values" and INTERRUPT in part)
                attempt.log_part(namespace, mode, part)
        if asks:
            # Parallel steps report their interrupts one by one, and the results of the others come last.
            questions = (await graph.aget_state(attempt_config(job.run))).interrupts
            attempt.tell(state.asking(questions))
        return state.is_paused or await is_stopped_at_breakpoint(graph, job)

    def _config(self, job: Job) -> RunnableConfig:
        return {
            **attempt_config(job.run),
            "metadata": {RUN_KEY: job.run.run_id},
            "recursion_limit": job.request.recursion_limit or job.settings.recursion_limit,
            "run_name": job.run.assistant_id,
            "callbacks": list(job.settings.callbacks),
        }


def recorded_failure(job: Job) -> RunOutcome | None:
    """Return the failure that was published before the process died."""
    if job.past is None or job.past.failure is None:
        return None
    name, message = job.past.failure["name"], job.past.failure["message"]
    return RunOutcome(RunStatus.TIMEOUT if name == TIMED_OUT else RunStatus.ERROR, name, message)


def recorded_cancel(job: Job) -> RunOutcome | None:
    """Return the outcome of a run that was cancelled before its process died."""
    return cancelled_outcome(job.stop) if job.stop is not None else None


def cancelled_outcome(action: CancelAction) -> RunOutcome:
    """Return the outcome of a cancelled run."""
    if action is CancelAction.ROLLBACK:
        return RunOutcome(RunStatus.ERROR, ROLLED_BACK, "rolled back by the user")
    return RunOutcome(RunStatus.INTERRUPTED)


def exceeded_attempts(job: Job) -> RunOutcome | None:
    """Return the failure of a run during which too many processes died."""
    if job.past is None or job.past.deaths < MAX_DEATHS:
        return None
    logger.error("run %s failed: %d processes died while executing it", job.run.run_id, job.past.deaths)
    reason = f"the server died {MAX_DEATHS} times while it worked on this run, so the run was given up"
    return RunOutcome(RunStatus.ERROR, GIVEN_UP, f"{reason}; ask for something else, or look into the server's log")


async def is_stopped_at_breakpoint(graph: AgentGraph, job: Job) -> bool:
    """Return whether the run stopped at a requested breakpoint."""
    if not (job.request.interrupt_before or job.request.interrupt_after):
        return False
    return bool((await graph.aget_state(attempt_config(job.run))).next)
