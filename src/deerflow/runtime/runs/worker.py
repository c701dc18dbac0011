"""Carries out one run: streams the graph into the run's log, and always ends it."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass
from typing import Any, Protocol, cast

from langchain_core.messages import AIMessageChunk, BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.types import Command

from deerflow.agents.factory import AgentGraph
from deerflow.domain.context import RunContext
from deerflow.domain.errors import DeerFlowError
from deerflow.domain.runs import AgentSpec, RunRecord, RunRequest, RunStatus
from deerflow.runtime.changes import Changes, StateDiff
from deerflow.runtime.journal import RunLog
from deerflow.runtime.runs.partial import PartialAnswer
from deerflow.runtime.serialization import to_json

logger = logging.getLogger(__name__)

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
        open_context: Callable[[RunRecord, AgentSpec], AbstractAsyncContextManager[RunContext]],
        limits: Callable[[], Limits],
    ) -> None:
        """`limits` is asked anew for every run."""
        self._agents = agents
        self._open_context = open_context
        self._limits = limits

    async def execute(
        self, run: RunRecord, request: RunRequest, messages: Sequence[BaseMessage], log: RunLog
    ) -> RunStatus:
        """Carry out `run` to its end, whatever happens. Cancelling the task that awaits this stops the run."""
        answer = PartialAnswer()
        outcome = await self._attempt(run, request, messages, log, answer)
        if outcome.status != RunStatus.SUCCESS:
            await self.keep(run.thread_id, answer, log)
        if outcome.error is not None:
            name = outcome.error_name
            log.append("error", to_json({"error": name, "name": name, "message": outcome.error}))
        await log.finish(outcome.status, outcome.error)
        return outcome.status

    async def keep(self, thread_id: str, answer: PartialAnswer, log: RunLog) -> None:
        """Put what was streamed of an unfinished answer into the thread's state."""
        message = answer.to_message()
        if message is None:
            return
        config: RunnableConfig = {"configurable": {"thread_id": thread_id}}
        await self._agents.state_graph.aupdate_state(config, {"messages": [message]}, as_node=MODEL_NODE)
        log.append("changes", Changes([message]).to_json())

    async def _attempt(
        self, run: RunRecord, request: RunRequest, messages: Sequence[BaseMessage], log: RunLog, answer: PartialAnswer
    ) -> Outcome:
        limits = self._limits()
        limit = asyncio.timeout(limits.timeout_s)
        try:
            async with limit, self._open_context(run, request.agent) as context:
                is_paused = await self._stream(run, request, messages, log, answer, context)
            return Outcome(RunStatus.INTERRUPTED if is_paused else RunStatus.SUCCESS)
        except asyncio.CancelledError:
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

    async def _stream(
        self,
        run: RunRecord,
        request: RunRequest,
        messages: Sequence[BaseMessage],
        log: RunLog,
        answer: PartialAnswer,
        context: RunContext,
    ) -> bool:
        """Log what the graph says; whether it ended by asking somebody something."""
        state = StateDiff([message.id or "" for message in messages])
        graph = self._agents.ready_graph(request.agent)
        if graph is None:  # building one may load a vendor's library: other runs must not wait for that
            graph = await asyncio.to_thread(self._agents.graph_for, request.agent)
        parts = graph.astream(
            Command(resume=request.resume.answer) if request.resume else {"messages": list(messages)},
            {
                "configurable": {"thread_id": run.thread_id},
                "recursion_limit": request.recursion_limit or self._limits().recursion_limit,
                "run_name": run.assistant_id,
            },
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
                    piece, metadata = part
                    self._log_piece(piece, metadata, answer, log)
                elif mode == "values":
                    self._log_changes(state.against(part), answer, log)
                else:
                    log.append("custom", to_json(part))
        return state.is_paused

    def _log_piece(
        self, piece: BaseMessage, metadata: Mapping[str, object], answer: PartialAnswer, log: RunLog
    ) -> None:
        if isinstance(piece, AIMessageChunk):
            superseded = answer.add(piece.id, piece.text, piece.additional_kwargs.get("reasoning_content"))
            if superseded is not None:  # the model was asked again: what it had begun to say is void
                log.append("changes", Changes(removed=[superseded]).to_json())
        log.append_piece(piece, metadata)

    def _log_changes(self, changes: Changes, answer: PartialAnswer, log: RunLog) -> None:
        if changes:
            answer.forget(message.id for message in changes.messages)
            log.append("changes", changes.to_json())
