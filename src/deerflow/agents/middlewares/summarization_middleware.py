"""Summarization: keeps a conversation within the context window by replacing old messages with a summary."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, NotRequired, cast

from langchain.agents.middleware import AgentMiddleware, ExtendedModelResponse
from langchain.agents.middleware.types import ModelCallResult, PrivateStateAttr
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, RemoveMessage, SystemMessage
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from langgraph.types import Command

from deerflow.agent_support.compaction import (
    SUMMARY_ID,
    fit_to_window,
    format_transcript,
    split_conversation,
    verify_summary,
)
from deerflow.agent_support.model_failures import get_model_name
from deerflow.agent_support.replies import EARLIER_NOTES, HIDDEN, AsyncModelHandler, ModelHandler, Reply, Request
from deerflow.agent_support.thread_state import ThreadState, read_value
from deerflow.agent_support.tokens import count_message_tokens, count_tokens, count_tool_tokens
from deerflow.budget.model_calls import ask_best_effort
from deerflow.config.sections.agents import ContextSize, SummarizationConfig
from deerflow.domain.context import RunContext, find_run_context
from deerflow.domain.errors import ModelContextTooLong, ModelError
from deerflow.domain.usage import SUMMARIZATION
from deerflow.models.usage import read_counts

logger = logging.getLogger(__name__)

QUIET: RunnableConfig = {"tags": ["nostream"], "metadata": {"lc_source": "summarization"}}
"""What the writer of the notes says is no part of the answer."""
ASSUMED_WINDOW = 125_000
"""What a model is taken to read when nobody says: a trigger of 0.8 is then 100,000 tokens."""
USABLE = 0.95
"""The part of the window that is filled; the rest is for what vendors add."""
PROMPT_SHARE = 0.75
"""Prompts and schemas are English, which takes 4 bytes per token and more; the estimate says 3.

Without it, requests that fit into a window of 8,192 tokens would not be sent. `token_scale` corrects it for others.
"""
SUMMARY_TOKENS = 3000
MOST_SCALE = 4.0
SMALLEST_SAMPLE = 1000
"""A request below this tells more about what a vendor adds than about our estimate."""


class SummaryState(ThreadState):
    """State of summarization in a thread."""

    token_scale: NotRequired[Annotated[float, PrivateStateAttr]]
    """How many of the model's tokens one of our estimate was at most."""


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """Plan for one model call. All sizes are estimated tokens."""

    window: int | None
    fixed: int
    scale: float
    summary: str
    dropped: Sequence[AnyMessage]
    kept: list[AnyMessage]
    summary_limit: int


class SummarizationMiddleware(AgentMiddleware[SummaryState, RunContext, Any]):
    """Summarizes old messages, checks the summary, and makes every request fit.

    If it is disabled, it only shows the model the summary of messages that have left the thread before.
    """

    state_schema = SummaryState

    def __init__(self, settings: SummarizationConfig, model: BaseChatModel | None = None) -> None:
        """`model` writes the summary; None means the model of the agent."""
        super().__init__()
        self._settings = settings
        self._model = model
        self._prompt = read_summary_prompt(settings)
        self._note = _read("summarization_note.md")
        # The tools of a graph do not change, and describing them is dear.
        self._tool_tokens: dict[tuple[str, ...], int] = {}

    def wrap_model_call(self, request: Request, handler: ModelHandler) -> ModelCallResult[Any]:
        if not self._settings.enabled:
            return handler(self._with_summary(request))
        plan = self._plan(request)
        notes = self._noted(request, self._writer(request).invoke(self._question(plan), QUIET)) if plan.dropped else ""
        summary = self._settle(plan, notes, request)
        fitted = self._fit(request, plan, summary)
        return _record(plan, _carried(plan, summary, request), fitted, handler(fitted))

    async def awrap_model_call(self, request: Request, handler: AsyncModelHandler) -> ModelCallResult[Any]:
        if not self._settings.enabled:
            return await handler(self._with_summary(request))
        if _tool_names(request) not in self._tool_tokens:
            await asyncio.to_thread(self._fixed_tokens, request)
        plan = self._plan(request)
        try:
            return await self._compact_and_call(plan, request, handler)
        except ModelContextTooLong as refusal:
            # The window is smaller than it was taken to be: try once more with half of the conversation.
            logger.warning("the request was too long for the model; the conversation is summarized and sent again")
            smaller = self._plan(request, window=plan.fixed + count_tokens(plan.kept) // 2)
            try:
                return await self._compact_and_call(smaller, request, handler)
            except ModelError as error:
                raise refusal from error

    async def _compact_and_call(
        self, plan: CompactionPlan, request: Request, handler: AsyncModelHandler
    ) -> ModelCallResult[Any]:
        """Summarize as planned, and call the model."""
        notes = ""
        if plan.dropped:
            run, writer = find_run_context(request.runtime.context), self._model or request.model
            budget = run.budget if run is not None else None
            said = await ask_best_effort(budget, SUMMARIZATION, writer, self._question(plan), QUIET)
            notes = self._noted(request, said) if said is not None else ""
        summary = self._settle(plan, notes, request)
        fitted = self._fit(request, plan, summary)
        return _record(plan, _carried(plan, summary, request), fitted, await handler(fitted))

    def _plan(self, request: Request, window: int | None = None) -> CompactionPlan:
        """Plan a call. `window` is the estimated size to stay within if that of the model has proved to be wrong."""
        state = cast(Mapping[str, Any], request.state)
        scale = 1.0 if window else state.get("token_scale", 1.0)
        window = window or (request.model.profile or {}).get("max_input_tokens")
        summary = find_summary(request.messages)
        fixed = self._fixed_tokens(request)
        size = int((window or ASSUMED_WINDOW) / scale)
        tokens = fixed + count_tokens(request.messages) + len(summary) // 3
        limit = min(SUMMARY_TOKENS, size // 6)
        plan = CompactionPlan(
            int(window * USABLE / scale) if window else None, fixed, scale, summary, (), request.messages, limit
        )
        if not any(_measure(trigger, size, tokens, len(request.messages)) for trigger in self._settings.trigger):
            return plan
        full = min(_token_limit(trigger, size) for trigger in self._settings.trigger)
        parts = split_conversation(
            request.messages, *_kept(self._settings.keep, size, room=max(0, (full - fixed) // 2 - limit))
        )
        # Dropping few messages would cost a summary at every step.
        is_worth_it = len(parts.dropped) >= 10 or 8 * count_tokens(parts.dropped) >= full
        return replace(plan, dropped=parts.dropped, kept=parts.kept) if is_worth_it else plan

    def _fixed_tokens(self, request: Request) -> int:
        names = _tool_names(request)
        if names not in self._tool_tokens:
            self._tool_tokens[names] = count_tool_tokens(request.tools)
        system = count_message_tokens(request.system_message) if request.system_message else 0
        return int(PROMPT_SHARE * (self._tool_tokens[names] + system))

    def _writer(self, request: Request) -> Runnable[Any, AIMessage]:
        """Return the model for the summary; if it fails, an extract is used instead."""
        silence: Runnable[Any, AIMessage] = RunnableLambda(lambda _: AIMessage(""))
        return (self._model or request.model).with_fallbacks([silence])

    def _noted(self, request: Request, notes: AIMessage) -> str:
        """Return the text of the summary after counting its usage."""
        run = find_run_context(request.runtime.context)
        if run is not None and run.meter is not None:
            model = get_model_name(self._model or request.model, notes)
            run.meter.note(SUMMARIZATION, model, notes.id, read_counts(notes))
        return notes.text

    def _question(self, plan: CompactionPlan) -> list[BaseMessage]:
        limit = self._settings.trim_tokens_to_summarize
        if plan.window:
            limit = min(limit, plan.window // 2)
        return build_summary_request(self._prompt, plan.summary, plan.dropped, limit)

    def _settle(self, plan: CompactionPlan, notes: str, request: Request) -> str:
        if not plan.dropped:
            return plan.summary
        if not notes.strip():
            logger.warning("the model wrote no notes on %d messages; an extract takes their place", len(plan.dropped))
        todos = read_value(cast(Mapping[str, Any], request.state), "todos") or ()
        return verify_summary(notes, plan.summary, plan.dropped, todos, plan.summary_limit)

    def _fit(self, request: Request, plan: CompactionPlan, summary: str) -> Request:
        head = [self._summary_message(summary)] if summary else []
        kept = plan.kept
        if plan.window is not None:
            kept = fit_to_window(kept, plan.window - plan.fixed - count_tokens(head))
        return request.override(messages=[*head, *kept])

    def _with_summary(self, request: Request) -> Request:
        summary = find_summary(request.messages)
        if not summary:
            return request
        return request.override(messages=[self._summary_message(summary), *request.messages])

    def _summary_message(self, summary: str) -> AnyMessage:
        return HumanMessage(f"{self._note}\n{summary}", id=SUMMARY_ID, additional_kwargs={HIDDEN: True})


def _carrier(messages: Sequence[AnyMessage]) -> AnyMessage | None:
    """Return the message that carries the summary."""
    return next((message for message in messages if EARLIER_NOTES in message.additional_kwargs), None)


def _carried(plan: CompactionPlan, summary: str, request: Request) -> Sequence[BaseMessage]:
    """Return the state update that stores the summary and removes the summarized messages."""
    stored = {message.id: message for message in request.state["messages"]} if plan.dropped else {}
    kept = [stored[message.id] for message in plan.kept if message.id in stored]
    return replace_by_summary([message for message in plan.dropped if message.id in stored], kept, summary)


def replace_by_summary(
    dropped: Sequence[AnyMessage], kept: Sequence[AnyMessage], summary: str
) -> Sequence[BaseMessage]:
    """Return the state update that removes messages, and stores their summary with one that is kept."""
    if not kept:
        return ()
    carrier = _carrier(kept) or kept[0]
    marks = {**carrier.additional_kwargs, EARLIER_NOTES: summary}
    removed = [RemoveMessage(id=message.id) for message in dropped if message.id]
    return [*removed, carrier.model_copy(update={"additional_kwargs": marks})]


def find_summary(messages: Sequence[AnyMessage]) -> str:
    """Return the summary of earlier messages that a conversation carries; empty if there is none."""
    carrier = _carrier(messages)
    return str(carrier.additional_kwargs[EARLIER_NOTES]) if carrier else ""


def read_summary_prompt(settings: SummarizationConfig) -> str:
    """Return the instructions for a summary."""
    return settings.summary_prompt or _read("summarization_middleware.md")


def build_summary_request(prompt: str, summary: str, dropped: Sequence[AnyMessage], limit: int) -> list[BaseMessage]:
    """Return the messages that ask for a summary of dropped messages, of which at most `limit` tokens are shown."""
    said = format_transcript(dropped, limit)
    text = f"Notes so far:\n{summary or '(none)'}\n\nSaid since:\n{said}"
    return [SystemMessage(prompt), HumanMessage(text)]


def _record(plan: CompactionPlan, written: Sequence[BaseMessage], asked: Request, reply: Reply) -> ModelCallResult[Any]:
    """Return the reply with the state update."""
    update: dict[str, Any] = {"messages": list(written)} if written else {}
    scale = _observed_scale(reply, plan.fixed + count_tokens(asked.messages))
    if scale > plan.scale:
        update["token_scale"] = scale
    return ExtendedModelResponse(reply, Command(update=update)) if update else reply


def _measure(trigger: ContextSize, window: int, tokens: int, messages: int) -> bool:
    """Return whether the conversation has reached the trigger."""
    if trigger.type == "messages":
        return messages >= trigger.value
    return tokens >= _token_limit(trigger, window)


def _token_limit(size: ContextSize, window: int) -> int:
    """Return a size in tokens; a size in messages is only limited by the window."""
    if size.type == "fraction":
        return int(size.value * window)
    return min(int(size.value), window) if size.type == "tokens" else window


def _kept(keep: ContextSize, window: int, room: int) -> tuple[int, int]:
    """Return the maximum number of messages and tokens to keep."""
    if keep.type == "messages":
        return int(keep.value), room
    return window, min(_token_limit(keep, window), room)


def _observed_scale(response: Reply, estimate: int) -> float:
    """Return the ratio of the model's token count to the estimate."""
    usage = getattr(response.result[0], "usage_metadata", None) if response.result else None
    if not usage or estimate < SMALLEST_SAMPLE:
        return 1.0
    counted: int = usage["input_tokens"]
    return min(MOST_SCALE, round(counted / estimate + 0.05, 1))


def _tool_names(request: Request) -> tuple[str, ...]:
    return tuple(_tool_name(tool) for tool in request.tools)


def _tool_name(tool: Any) -> str:
    return str(tool.get("name") or tool.get("function", {}).get("name")) if isinstance(tool, dict) else tool.name


def _read(name: str) -> str:
    return (Path(__file__).parent / name).read_text(encoding="utf-8").strip()
