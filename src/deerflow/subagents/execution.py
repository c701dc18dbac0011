"""Execution of one task: limits on time and turns, and progress events."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from langchain_core.callbacks import BaseCallbackManager
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.errors import GraphRecursionError

from deerflow.config.sections.models import PricingConfig
from deerflow.domain.context import RunContext
from deerflow.domain.errors import DeerFlowError, InvalidRequest
from deerflow.domain.subagents import LOOP_CAPPED, InheritedState, TaskCost, TaskOutcome, TaskRequest
from deerflow.domain.usage import BudgetSpent, TokenCounts
from deerflow.models.usage import compute_cost, read_counts, to_amount
from deerflow.subagents.types import SubagentConfig

logger = logging.getLogger(__name__)

EmitEvent = Callable[[Mapping[str, object]], None]
STEPS_PER_TURN = 2
"""Graph steps per turn: one model call, one round of tools."""
INTERRUPT_KEY = "__interrupt__"
"""State key that LangGraph sets when a tool calls `interrupt`."""
END_EVENTS = MappingProxyType({"capped": "task_completed", "interrupted": "task_failed"})
"""Event names of the statuses that have no event of their own."""


@dataclass(frozen=True, slots=True)
class Subagent:
    """A subagent that is ready to run tasks."""

    config: SubagentConfig
    graph: Any
    model_name: str
    pricing: PricingConfig | None = None
    """Prices of the model, if known."""


@dataclass(slots=True)
class TaskExecution:
    """Execution of one task."""

    order: TaskRequest
    subagent: Subagent
    emit: EmitEvent
    seen: set[str] = field(default_factory=set)
    answer: str = ""
    stop_reason: str | None = None
    """Stop reason of the latest reply."""
    usage: TokenCounts = TokenCounts()

    async def run(self, context: RunContext | None, inherited: InheritedState) -> TaskOutcome:
        """Run the task, report its progress and return the outcome. `context` is None outside of a harness."""
        started_at = time.monotonic()
        config = self.subagent.config
        self.report("task_started", subagent_type=config.name, prompt=self.order.prompt)
        about = context.trace_id if context else None, config.name, self.order.task_id
        logger.info("[trace=%s] subagent %s starting task %s", *about)
        outcome = await self._run_bounded(context, inherited)
        done = replace(
            outcome,
            model_name=self.subagent.model_name,
            usage=self.usage,
            cost=self._cost,
            duration_s=time.monotonic() - started_at,
        )
        self.report_end(done)
        logger.info("[trace=%s] subagent %s: task %s %s after %.1f s", *about, done.status, done.duration_s)
        return done

    async def _run_bounded(self, context: RunContext | None, inherited: InheritedState) -> TaskOutcome:
        config = self.subagent.config
        limit = asyncio.timeout(config.timeout_seconds)
        try:
            async with limit:
                await self._stream(context, inherited)
            if self.stop_reason == LOOP_CAPPED:
                return TaskOutcome("capped", self.answer, "it was going round in circles", LOOP_CAPPED)
            return TaskOutcome("completed", self.answer)
        except GraphRecursionError:
            reason = f"it has taken all of its {self._max_turns} turns"
            return TaskOutcome("capped", self.answer, reason, "turn_capped")
        except BudgetSpent as error:
            return TaskOutcome("capped", self.answer, str(error), "token_capped")
        except DeerFlowError as error:
            return TaskOutcome("failed", self.answer, str(error))
        except Exception as error:
            if limit.expired():
                return TaskOutcome("timed_out", self.answer, f"it took longer than {config.timeout_seconds:g} s")
            run = (context.trace_id, context.run_id) if context else (None, None)
            logger.exception("[trace=%s] subagent failed in run %s", *run)
            return TaskOutcome("failed", self.answer, str(error) or type(error).__name__)

    @property
    def _max_turns(self) -> int:
        limit = self.subagent.config.max_turns
        return max(1, min(self.order.max_turns or limit, limit))

    async def _stream(self, context: RunContext | None, inherited: InheritedState) -> None:
        options: RunnableConfig = {
            "recursion_limit": STEPS_PER_TURN * self._max_turns,
            "run_name": self.subagent.config.name,
        }
        if isinstance(inherited.callbacks, BaseCallbackManager):
            options["callbacks"] = inherited.callbacks
        prompt = HumanMessage(self.order.prompt)
        states = self.subagent.graph.astream(
            {**inherited.state, "messages": [prompt]}, options, context=context, stream_mode="values"
        )
        async for state in states:
            for message in state["messages"]:
                if message.id is not None and message.id not in self.seen:
                    self._add_message(message)
            if INTERRUPT_KEY in state:  # the graph ends here as if it had completed
                raise InvalidRequest("a tool asks for input from a person, which subagents do not support")

    def _add_message(self, message: BaseMessage) -> None:
        self.seen.add(message.id or "")
        if isinstance(message, HumanMessage):
            return
        if isinstance(message, AIMessage):
            self.answer = message.text.strip() or self.answer
            self.stop_reason = message.response_metadata.get("stop_reason")
            self.usage += read_counts(message)
        self.report("task_running", message=message, message_index=len(self.seen) - 1, usage=to_usage_event(self.usage))

    @property
    def _cost(self) -> TaskCost | None:
        price = self.subagent.pricing
        # The cost is unknown if any call did not report its usage.
        if price is None or self.usage.unmetered_calls:
            return None
        return TaskCost(to_amount(compute_cost(self.usage, price)), price.currency)

    def interrupt(self, used_tools: Sequence[str]) -> TaskOutcome:
        """Return the outcome of a task that was cut off by a server stop, with the tools it had used."""
        names = ", ".join(dict.fromkeys(used_tools))
        why = f"the server stopped while it was at work, and it had used {names} by then; check what that has changed"
        outcome = TaskOutcome("interrupted", "", why, "interrupted", self.subagent.model_name)
        self.report_end(outcome)
        return outcome

    def report_queued(self, ahead: int) -> None:
        """Report that the task waits for a slot."""
        self.report("task_queued", ahead=ahead)

    def report_end(self, outcome: TaskOutcome) -> None:
        """Report the outcome of the task."""
        succeeded = outcome.status in ("completed", "capped")
        self.report(
            END_EVENTS.get(outcome.status, f"task_{outcome.status}"),
            status=outcome.status,
            **{"result": outcome.result} if succeeded else {},
            **{"error": outcome.error} if outcome.error is not None else {},
            stop_reason=outcome.stop_reason,
            usage=to_usage_event(outcome.usage),
            cost=to_cost_event(outcome.cost),
            duration_s=round(outcome.duration_s, 3),
        )

    def report(self, event: str, **fields: object) -> None:
        """Emit an event of the task."""
        about = {"task_id": self.order.task_id, "description": self.order.description}
        self.emit({"type": event, **about, "model_name": self.subagent.model_name, **fields})


def to_usage_event(usage: TokenCounts) -> dict[str, int]:
    """Return token counts in the form used by events."""
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
    }


def to_cost_event(cost: TaskCost | None) -> dict[str, str] | None:
    """Return a cost in the form used by events."""
    return {"amount": str(cost.amount), "currency": cost.currency} if cost is not None else None
