"""Carries out one run: streams the graph into the run's log, and always ends it."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, cast

from langchain_core.messages import AIMessageChunk, BaseMessage
from langchain_core.runnables import RunnableConfig

from deerflow.agents.factory import AgentGraph
from deerflow.domain.context import RunContext
from deerflow.domain.errors import DeerFlowError
from deerflow.domain.runs import DEAR_MODES, AgentSpec, CancelAction, RunRecord, RunStatus
from deerflow.persistence.admission import Finish
from deerflow.persistence.checkpoints import RUN_KEY
from deerflow.persistence.events import nothing_else
from deerflow.runtime.changes import Changes, StateDiff
from deerflow.runtime.journal import RunLog
from deerflow.runtime.runs.entry import find_entry
from deerflow.runtime.runs.job import Job
from deerflow.runtime.runs.partial import PartialAnswer
from deerflow.runtime.serialization import shown_part, subgraph_part, to_json

logger = logging.getLogger(__name__)

ROLLED_BACK, GIVEN_UP, TIMED_OUT = "RolledBack", "RunGivenUp", "RunTimeout"
MAX_DEATHS = 3
"""After so many processes have died with a run, it is taken to be the cause."""
MODEL_NODE = "model"
"""What LangChain calls the node that asks the model."""


class AgentSource(Protocol):
    """Gives the graph for a spec, ready made where possible, and one that only reads and mends state."""

    @property
    def state_graph(self) -> AgentGraph: ...
    def ready_graph(self, spec: AgentSpec) -> AgentGraph | None: ...
    def graph_for(self, spec: AgentSpec) -> AgentGraph: ...


@dataclass(frozen=True, slots=True)
class Limits:
    """How long and how far a run may go."""

    timeout_s: float
    recursion_limit: int


@dataclass(slots=True)
class Attempt:
    """A job while it is carried out: its log, and what readers have been told so far."""

    job: Job
    log: RunLog
    answer: PartialAnswer = field(default_factory=PartialAnswer)
    state: StateDiff | None = None

    @property
    def run(self) -> RunRecord:
        return self.job.run

    def take_in(self, namespace: Sequence[Sequence[str]], mode: Any, part: Any) -> None:
        """Log something that the graph, or one inside it, tells."""
        if any(namespace):
            self.log.append("subgraph", subgraph_part(namespace[0], mode, part))
        elif mode == "messages":
            self.tell_piece(*part)
        elif mode == "values" and self.state is not None:
            self.tell(self.state.against(part))
        else:
            self.log.append(mode, to_json(shown_part(mode, part)))

    def tell_piece(self, piece: BaseMessage, metadata: Mapping[str, object]) -> None:
        """Log a piece of a message."""
        if isinstance(piece, AIMessageChunk):
            superseded = self.answer.add(piece.id, piece.text, piece.additional_kwargs.get("reasoning_content"))
            if superseded is not None:  # the model was asked again: what it had begun to say is void
                self.tell(Changes(removed=[superseded]))
        self.log.append_piece(piece, metadata)

    def tell(self, changes: Changes) -> None:
        """Log what is different now."""
        if changes:
            thought = self.answer.forget([message.id for message in changes.messages])
            self.log.append("changes", replace(changes, thought_ms=thought).to_json())


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended."""

    status: RunStatus
    error_name: str | None = None
    error: str | None = None

    def to_json(self) -> bytes:
        """The data of an `error` event."""
        return to_json({"error": self.error_name, "name": self.error_name, "message": self.error})


class RunWorker:
    """Knows how to carry out runs; keeps nothing of them."""

    def __init__(
        self,
        agents: AgentSource,
        open_context: Callable[[Job, RunLog], AbstractAsyncContextManager[RunContext]],
        limits: Callable[[], Limits],
        undo: Callable[[RunRecord], Awaitable[None]],
    ) -> None:
        """`limits` is asked anew for every run; `undo` takes back what a run has done to its thread."""
        self._agents = agents
        self._open_context = open_context
        self._limits = limits
        self._undo = undo

    async def execute(self, job: Job, log: RunLog) -> tuple[RunStatus, Finish]:
        """Carry out a run to its end, whatever happens. Cancelling the task that awaits this stops the run."""
        attempt = Attempt(job, log)
        told = told_before(job)
        outcome = told or hopeless(job) or await self._try(attempt)
        if outcome.error_name == ROLLED_BACK:
            if told is None:  # whoever goes on after us has to know
                await log.commit("error", outcome.to_json(), nothing_else)
            await self._undo(attempt.run)
            await self._tell_state(attempt)
        elif outcome.error_name == GIVEN_UP:
            await self._tell_state(attempt)
        elif outcome.status != RunStatus.SUCCESS:
            await self._keep(attempt)
        if outcome.error is not None and outcome.error_name != ROLLED_BACK and told is None:
            log.append("error", outcome.to_json())
        return outcome.status, await log.finish(outcome.status, outcome.error)

    async def _keep(self, attempt: Attempt) -> None:
        """Put what was streamed of an unfinished answer into the thread's state, behind what it was to answer."""
        unheard = [each for each in attempt.job.signals.heard if not (attempt.state and attempt.state.has(each.id))]
        messages = [*unheard, *filter(None, [attempt.answer.to_message()])]
        if not messages:
            return
        config = config_of(attempt.run)
        await self._agents.state_graph.aupdate_state(config, {"messages": messages}, as_node=MODEL_NODE)
        attempt.tell(Changes(messages))

    async def _tell_state(self, attempt: Attempt) -> None:
        """Tell readers how the thread stands; what was half said is void."""
        past, state = attempt.job.past, attempt.state
        half_said = attempt.answer.message_id or (past.half_said if past else None)
        if half_said is not None:
            attempt.tell(Changes(removed=[half_said]))
        values = (await self._agents.state_graph.aget_state(config_of(attempt.run))).values
        if state is None and past is not None:
            state = StateDiff.from_log(past.known, values)
        if state is not None:
            attempt.tell(state.against(values))

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
            if job.signals.action is CancelAction.ROLLBACK:
                return Outcome(RunStatus.ERROR, ROLLED_BACK, "rolled back by the user")
            return Outcome(RunStatus.INTERRUPTED)
        except DeerFlowError as problem:
            logger.warning("run %s failed: %s", run.run_id, problem)
            return Outcome(RunStatus.ERROR, type(problem).__name__, str(problem))
        except Exception as problem:
            if limit.expired():
                reason = f"the run took longer than {limits.timeout_s:g} s and was stopped"
                return Outcome(RunStatus.TIMEOUT, TIMED_OUT, reason)
            logger.exception("run %s failed", run.run_id)
            return Outcome(RunStatus.ERROR, type(problem).__name__, str(problem) or type(problem).__name__)

    async def _stream(self, attempt: Attempt, context: RunContext) -> bool:
        """Log what the graph says; whether it stopped midway, to ask somebody something or because it was to."""
        job = attempt.job
        graph = self._agents.ready_graph(job.request.agent)
        if graph is None:  # building one may load a vendor's library: other runs must not wait for that
            graph = await asyncio.to_thread(self._agents.graph_for, job.request.agent)
        config = self._config(job)
        entry = await find_entry(graph, config, job)
        state = attempt.state = entry.state
        if job.past and job.past.half_said:
            attempt.tell(Changes(removed=[job.past.half_said]))
        if entry.found is not None:
            attempt.tell(state.against(entry.found))
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
        async with aclosing(cast(AsyncGenerator[tuple[Any, ...]], parts)) as told:
            async for *namespace, mode, part in told:
                attempt.take_in(namespace, mode, part)
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


def config_of(run: RunRecord) -> RunnableConfig:
    """How LangGraph is told which thread is meant."""
    return {"configurable": {"thread_id": run.thread_id}}
