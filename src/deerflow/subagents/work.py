"""One task under way: bounded in time and turns, and told of step by step."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.errors import GraphRecursionError

from deerflow.config.models import PricingConfig
from deerflow.domain.budget import BudgetSpent
from deerflow.domain.context import RunContext
from deerflow.domain.errors import DeerFlowError, InvalidRequest
from deerflow.domain.subagents import LOOP_CAPPED, Cost, Inherited, TaskOrder, TaskOutcome
from deerflow.domain.usage import TokenCounts
from deerflow.models.counting import counts_of
from deerflow.models.pricing import amount, cost_of
from deerflow.subagents.kinds import SubagentConfig

logger = logging.getLogger(__name__)

Tell = Callable[[Mapping[str, object]], None]
STEPS_PER_TURN = 2
"""The model is asked, its tools are used."""
PAUSED = "__interrupt__"
"""Where LangGraph says that a tool asks somebody something."""
EVENTS = MappingProxyType({"capped": "task_completed", "interrupted": "task_failed"})
"""How endings are told that have no event of their own."""


@dataclass(frozen=True, slots=True)
class Worker:
    """A subagent that is ready to work."""

    kind: SubagentConfig
    graph: Any
    model_name: str
    pricing: PricingConfig | None = None
    """What its model costs, if that is known."""


@dataclass(slots=True)
class Work:
    """One task under way."""

    order: TaskOrder
    worker: Worker
    tell: Tell
    seen: set[str] = field(default_factory=set)
    answer: str = ""
    stop_reason: str | None = None
    """Why the latest answer ended, as far as it says so."""
    usage: TokenCounts = TokenCounts()

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
            cost=self._cost,
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
            if self.stop_reason == LOOP_CAPPED:
                return TaskOutcome("capped", self.answer, "it was going round in circles", LOOP_CAPPED)
            return TaskOutcome("completed", self.answer)
        except GraphRecursionError:
            reason = f"it has taken all of its {self._turns} turns"
            return TaskOutcome("capped", self.answer, reason, "turn_capped")
        except BudgetSpent as problem:
            return TaskOutcome("capped", self.answer, str(problem), "token_capped")
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
            if PAUSED in state:  # its graph just ends here, as if all was done
                raise InvalidRequest("a tool of it waits for the word of a person, whom no subagent can ask")

    def _take_in(self, message: BaseMessage) -> None:
        self.seen.add(message.id or "")
        if isinstance(message, HumanMessage):
            return
        if isinstance(message, AIMessage):
            self.answer = message.text.strip() or self.answer
            self.stop_reason = message.response_metadata.get("stop_reason")
            self.usage += counts_of(message)
        self.report("task_running", message=message, message_index=len(self.seen) - 1, usage=usage_fields(self.usage))

    @property
    def _cost(self) -> Cost | None:
        price = self.worker.pricing
        # A call that does not say what it took may have cost anything.
        if price is None or self.usage.unmetered_calls:
            return None
        return Cost(amount(cost_of(self.usage, price)), price.currency)

    def give_up(self, begun: Sequence[str]) -> TaskOutcome:
        """Say that the task was interrupted by the end of a process, and what it may have changed."""
        names = ", ".join(dict.fromkeys(begun))
        why = f"the server stopped while it was at work, and it had used {names} by then; check what that has changed"
        outcome = TaskOutcome("interrupted", "", why, "interrupted", self.worker.model_name)
        self.report_end(outcome)
        return outcome

    def report_queue(self, ahead: int) -> None:
        """Tell that the task has to wait."""
        self.report("task_queued", ahead=ahead)

    def report_end(self, outcome: TaskOutcome) -> None:
        """Tell how the task ended."""
        succeeded = outcome.status in ("completed", "capped")
        self.report(
            EVENTS.get(outcome.status, f"task_{outcome.status}"),
            status=outcome.status,
            **{"result": outcome.result} if succeeded else {},
            **{"error": outcome.error} if outcome.error is not None else {},
            stop_reason=outcome.stop_reason,
            usage=usage_fields(outcome.usage),
            cost=cost_fields(outcome.cost),
            duration_s=round(outcome.duration_s, 3),
        )

    def report(self, event: str, **fields: object) -> None:
        """Write something into the log of the run."""
        about = {"task_id": self.order.task_id, "description": self.order.description}
        self.tell({"type": event, **about, "model_name": self.worker.model_name, **fields})


def usage_fields(usage: TokenCounts) -> dict[str, int]:
    """Usage as events show it."""
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
    }


def cost_fields(cost: Cost | None) -> dict[str, str] | None:
    """A cost as events show it."""
    return {"amount": str(cost.amount), "currency": cost.currency} if cost is not None else None
