"""Carries out one run: streams the graph into the run's log, and always ends it."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

from langchain_core.messages import AIMessageChunk, BaseMessage
from langchain_core.runnables import RunnableConfig

from deerflow.agents.factory import AgentGraph
from deerflow.domain.context import RunContext
from deerflow.domain.errors import DeerFlowError
from deerflow.domain.runs import AgentSpec, CancelAction, RunRecord, RunStatus
from deerflow.persistence.admission import Finish
from deerflow.persistence.checkpoints import RUN_KEY
from deerflow.runtime.changes import Changes, StateDiff
from deerflow.runtime.journal import RunLog
from deerflow.runtime.runs.entry import find_entry
from deerflow.runtime.runs.job import Job
from deerflow.runtime.runs.partial import PartialAnswer
from deerflow.runtime.serialization import to_json

logger = logging.getLogger(__name__)

ROLLED_BACK = "RolledBack"
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
            self.answer.forget(message.id for message in changes.messages)
            self.log.append("changes", changes.to_json())


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended."""

    status: RunStatus
    error_name: str | None = None
    error: str | None = None


class RunWorker:
    """Knows how to carry out runs; keeps nothing of them."""

    def __init__(
        self,
        agents: AgentSource,
        open_context: Callable[[Job, RunLog], AbstractAsyncContextManager[RunContext]],
        limits: Callable[[], Limits],
        undo: Callable[[str, str], Awaitable[None]],
    ) -> None:
        """`limits` is asked anew for every run; `undo` takes back what a run of a thread has left in its state."""
        self._agents = agents
        self._open_context = open_context
        self._limits = limits
        self._undo = undo

    async def execute(self, job: Job, log: RunLog) -> tuple[RunStatus, Finish]:
        """Carry out a run to its end, whatever happens. Cancelling the task that awaits this stops the run."""
        attempt = Attempt(job, log)
        outcome = await self._try(attempt)
        if outcome.error_name == ROLLED_BACK:
            await self._roll_back(attempt)
        elif outcome.status != RunStatus.SUCCESS:
            await self._keep(attempt)
        if outcome.error is not None:
            name = outcome.error_name
            log.append("error", to_json({"error": name, "name": name, "message": outcome.error}))
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

    async def _roll_back(self, attempt: Attempt) -> None:
        """Take back what the run has done to the thread, and tell readers."""
        await self._undo(attempt.run.thread_id, attempt.run.run_id)
        if attempt.answer.message_id is not None:
            attempt.tell(Changes(removed=[attempt.answer.message_id]))
        if attempt.state is not None:
            snapshot = await self._agents.state_graph.aget_state(config_of(attempt.run))
            attempt.tell(attempt.state.against(snapshot.values))

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
                return Outcome(RunStatus.TIMEOUT, "RunTimeout", reason)
            logger.exception("run %s failed", run.run_id)
            return Outcome(RunStatus.ERROR, type(problem).__name__, str(problem) or type(problem).__name__)

    async def _stream(self, attempt: Attempt, context: RunContext) -> bool:
        """Log what the graph says; whether it ended by asking somebody something."""
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
            return state.is_paused
        parts = graph.astream(
            entry.input,
            config,
            context=context,
            stream_mode=["messages", "values", "custom"],
            output_keys=graph.output_channels,  # what middlewares remember for themselves is no reader's business
            # Written while the model already speaks, checkpoints would fight with it for the interpreter lock.
            durability="sync",
        )
        # An async generator that yields pairs, though the library's types say less.
        async with aclosing(cast(AsyncGenerator[tuple[str, Any]], parts)) as pairs:
            async for mode, part in pairs:
                if mode == "messages":
                    attempt.tell_piece(*part)
                elif mode == "values":
                    attempt.tell(state.against(part))
                else:
                    attempt.log.append("custom", to_json(part))
        return state.is_paused

    def _config(self, job: Job) -> RunnableConfig:
        return {
            **config_of(job.run),
            "metadata": {RUN_KEY: job.run.run_id},
            "recursion_limit": job.request.recursion_limit or self._limits().recursion_limit,
            "run_name": job.run.assistant_id,
        }


def config_of(run: RunRecord) -> RunnableConfig:
    """How LangGraph is told which thread is meant."""
    return {"configurable": {"thread_id": run.thread_id}}
