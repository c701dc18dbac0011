"""Carries out tasks: each in an agent of its own, bounded in time and turns, ended with the run it belongs to."""

import asyncio
import contextvars
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.errors import GraphRecursionError

from deerflow.domain.context import RunContext
from deerflow.domain.errors import DeerFlowError, InvalidRequest
from deerflow.domain.runs import AgentSpec
from deerflow.domain.subagents import Inherited, TaskOrder, TaskOutcome, TaskUsage
from deerflow.subagents.kinds import SubagentConfig
from deerflow.subagents.turns import FairTurns

logger = logging.getLogger(__name__)

Tell = Callable[[Mapping[str, object]], None]
STEPS_PER_TURN = 2
"""The model is asked, its tools are used."""
MIN_AT_ONCE, MAX_AT_ONCE = 1, 4


@dataclass(frozen=True, slots=True)
class Worker:
    """A subagent that is ready to work."""

    kind: SubagentConfig
    graph: Any
    model_name: str


class Staff(Protocol):
    """Finds the subagent for a task. Building one may load a vendor's library, so it blocks."""

    def worker_for(self, spec: AgentSpec, kind: str, user_id: str) -> Worker | None: ...


@dataclass(frozen=True, slots=True)
class SubagentExecutor:
    """Has tasks done for all runs of this process."""

    staff: Staff
    turns: FairTurns

    def for_run(self, context: RunContext, spec: AgentSpec, tell: Tell) -> "RunSubagents":
        """Those who work for one run, on its files and in its sandbox; `tell` writes into its log."""
        return RunSubagents(self, context, spec, tell, asyncio.Semaphore(at_once(spec)))


@dataclass(frozen=True, slots=True)
class RunSubagents:
    """Those to whom the agent of one run may give work."""

    executor: SubagentExecutor
    context: RunContext
    spec: AgentSpec
    tell: Tell
    at_once: asyncio.Semaphore

    async def carry_out(self, order: TaskOrder, inherited: Inherited) -> TaskOutcome:
        """Have a task done, when its turn comes."""
        find = self.executor.staff.worker_for
        worker = await asyncio.to_thread(find, self.spec, order.kind, self.context.user_id)
        if worker is None:
            raise InvalidRequest(f"there is no subagent of the kind {order.kind!r}")
        work = Work(order, worker, self.tell)
        # In a context of its own: the graph of the lead agent would take what happens here for a part of itself.
        return await asyncio.create_task(self._when_its_turn_comes(work, inherited), context=contextvars.Context())

    async def _when_its_turn_comes(self, work: "Work", inherited: Inherited) -> TaskOutcome:
        try:
            if self.at_once.locked():
                work.report("task_queued", ahead=None)
            async with self.at_once, self.executor.turns.turn(self.context.user_id, work.report_queue):
                return await work.do(self.context, inherited)
        except asyncio.CancelledError:
            work.report("task_cancelled", error="the run was stopped")
            raise


def at_once(spec: AgentSpec) -> int:
    """How many may work at once for one run."""
    return min(max(spec.max_concurrent_subagents, MIN_AT_ONCE), MAX_AT_ONCE)


@dataclass(slots=True)
class Work:
    """One task under way."""

    order: TaskOrder
    worker: Worker
    tell: Tell
    seen: set[str] = field(default_factory=set)
    answer: str = ""
    usage: TaskUsage = TaskUsage()

    async def do(self, context: RunContext, inherited: Inherited) -> TaskOutcome:
        """Do it, and tell how it goes."""
        began = time.monotonic()
        kind = self.worker.kind
        self.report("task_started", subagent_type=kind.name, prompt=self.order.prompt)
        outcome = await self._try(context, inherited)
        done = replace(
            outcome,
            model_name=self.worker.model_name,
            usage=self.usage,
            duration_s=time.monotonic() - began,
        )
        self.report_end(done)
        return done

    async def _try(self, context: RunContext, inherited: Inherited) -> TaskOutcome:
        kind = self.worker.kind
        limit = asyncio.timeout(kind.timeout_seconds)
        try:
            async with limit:
                await self._stream(context, inherited)
            return TaskOutcome("completed", self.answer)
        except GraphRecursionError:
            reason = f"it has taken all of its {self._turns} turns"
            return TaskOutcome("capped", self.answer, reason, "turn_capped")
        except DeerFlowError as problem:
            return TaskOutcome("failed", self.answer, str(problem))
        except Exception as problem:
            if limit.expired():
                return TaskOutcome("timed_out", self.answer, f"it took longer than {kind.timeout_seconds:g} s")
            logger.exception("a subagent failed in run %s", context.run_id)
            return TaskOutcome("failed", self.answer, str(problem) or type(problem).__name__)

    @property
    def _turns(self) -> int:
        most = self.worker.kind.max_turns
        return max(1, min(self.order.max_turns or most, most))

    async def _stream(self, context: RunContext, inherited: Inherited) -> None:
        config: RunnableConfig = {"recursion_limit": STEPS_PER_TURN * self._turns, "run_name": self.worker.kind.name}
        order = HumanMessage(self.order.prompt)
        states = self.worker.graph.astream(
            {**inherited.state, "messages": [order]}, config, context=context, stream_mode="values"
        )
        async for state in states:
            for message in state["messages"]:
                if message.id is not None and message.id not in self.seen:
                    self._take_in(message)

    def _take_in(self, message: BaseMessage) -> None:
        self.seen.add(message.id or "")
        if isinstance(message, HumanMessage):
            return
        if isinstance(message, AIMessage):
            self.answer = message.text.strip() or self.answer
            self.usage = with_usage(self.usage, message)
        self.report("task_running", message=message, message_index=len(self.seen) - 1, usage=usage_fields(self.usage))

    def report_queue(self, ahead: int) -> None:
        """Tell that the task has to wait."""
        self.report("task_queued", ahead=ahead)

    def report_end(self, outcome: TaskOutcome) -> None:
        """Tell how the task ended."""
        succeeded = outcome.status in ("completed", "capped")
        self.report(
            "task_completed" if succeeded else f"task_{outcome.status}",
            **{"result": outcome.result} if succeeded else {"error": outcome.error},
            stop_reason=outcome.stop_reason,
            usage=usage_fields(outcome.usage),
            duration_s=round(outcome.duration_s, 3),
        )

    def report(self, event: str, **fields: object) -> None:
        """Write something into the log of the run."""
        about = {"task_id": self.order.task_id, "description": self.order.description}
        self.tell({"type": event, **about, "model_name": self.worker.model_name, **fields})


def with_usage(usage: TaskUsage, message: AIMessage) -> TaskUsage:
    """What was used, and what a reply says it has used."""
    told = message.usage_metadata
    if told is None:
        return usage
    return TaskUsage(usage.input_tokens + told["input_tokens"], usage.output_tokens + told["output_tokens"])


def usage_fields(usage: TaskUsage) -> dict[str, int]:
    """Usage as events show it."""
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
    }
