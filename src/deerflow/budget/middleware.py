"""Middlewares that keep a run within its budget and count the usage of model calls."""

from pathlib import Path
from typing import Any

from langchain.agents.middleware import AgentMiddleware
from langchain.agents.middleware.types import ModelResponse
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from deerflow.agent_support.compaction import SUMMARY_ID, find_latest_request, format_transcript
from deerflow.agent_support.model_failures import get_model_name
from deerflow.agent_support.replies import (
    AsyncModelHandler,
    ModelHandler,
    Reply,
    Request,
    find_ai_message,
    replace_message,
    replace_tool_calls,
)
from deerflow.agent_support.thread_state import ThreadState, read_value
from deerflow.agent_support.tokens import BYTES_PER_TOKEN, count_tool_tokens
from deerflow.budget.model_calls import (
    MESSAGE_BYTES,
    SettledCall,
    describe_call,
    describe_tools,
    limit_output,
    max_message_bytes,
    read_usage,
)
from deerflow.domain.context import RunContext, find_run_context
from deerflow.domain.usage import (
    LEAD_AGENT,
    BudgetSpent,
    ModelBudget,
    ModelCallRequest,
    Prompt,
    QuotaSpent,
    RequestPrefix,
    Reservation,
    ToolSchemas,
)
from deerflow.models.usage import read_counts

CAPPED_METADATA = {"stop_reason": "budget_capped", "finish_reason": "stop"}
BUDGET_USED_UP = "I stopped here because the budget of this run is used up. What was done so far is above."
TOOL_PREAMBLE_TOKENS = 1000
"""Tokens of the instructions that vendors add to requests with tools."""
QUOTA_USED_UP = "I stopped here because your quota for today is used up. What was done so far is above."
MIN_FINAL_BYTES = 500
MAX_TOOL_SETS = 16


class BudgetMiddleware(AgentMiddleware[ThreadState, RunContext, Any]):
    """Reserves budget before every model call, retries included; innermost in the chain, next to the model."""

    def __init__(self, caller: str = LEAD_AGENT) -> None:
        super().__init__()
        self._caller = caller
        self._prompt = Path(__file__).with_suffix(".md").read_text(encoding="utf-8").strip()
        # The tools of a graph do not change, and computing their schemas is expensive.
        self._tool_bytes: dict[str, int] = {}

    def wrap_model_call(self, request: Request, handler: ModelHandler) -> Reply:
        # Reserving needs to wait, so a budget applies to asynchronous calls only.
        return handler(request)

    async def awrap_model_call(self, request: Request, handler: AsyncModelHandler) -> Reply:
        run = find_run_context(request.runtime.context)
        if run is None or (run.budget is None and run.model_slot is None):
            return await handler(request)
        if run.model_slot is None:
            return await self._call(request, handler, run.budget)
        async with run.model_slot():
            return await self._call(request, handler, run.budget)

    async def _call(self, request: Request, handler: AsyncModelHandler, budget: ModelBudget | None) -> Reply:
        if budget is None:
            return await handler(request)
        try:
            grant = await budget.reserve(self._describe_call(request))
        except BudgetSpent as spent:
            if self._caller != LEAD_AGENT:
                raise
            return await self._conclude(request, handler, budget, spent)
        return await call_within_reservation(budget, grant, request, handler)

    def _describe_call(self, request: Request, *, is_last: bool = False) -> ModelCallRequest:
        names = "\n".join(str(tool.get("name")) if isinstance(tool, dict) else tool.name for tool in request.tools)
        if names not in self._tool_bytes:
            preamble = TOOL_PREAMBLE_TOKENS if names else 0
            self._tool_bytes[names] = BYTES_PER_TOKEN * count_tool_tokens(request.tools) + preamble
        system: list[BaseMessage] = [request.system_message] if request.system_message else []
        messages = [*system, *request.messages]
        size = self._tool_bytes[names]
        return describe_call(self._caller, request.model, messages, tools=names, tool_bytes=size, is_last=is_last)

    async def _conclude(
        self, request: Request, handler: AsyncModelHandler, budget: ModelBudget, spent: BudgetSpent
    ) -> Reply:
        """Return the final answer: from the model if its reserve is still there, else a fixed sentence."""
        request.runtime.stream_writer({"type": "budget_spent", "message": str(spent)})
        last = self._final_request(request, budget)
        grant = await self._reserve_final(budget, last) if last is not None else None
        if last is None or grant is None:
            text = QUOTA_USED_UP if isinstance(spent, QuotaSpent) else BUDGET_USED_UP
            return ModelResponse(result=[AIMessage(text, response_metadata=CAPPED_METADATA)])
        reply = await call_within_reservation(budget, grant, last, handler)
        message = find_ai_message(reply)
        if message is None:
            return reply
        metadata = {**message.response_metadata, **CAPPED_METADATA}
        return replace_message(
            reply, replace_tool_calls(message, ()).model_copy(update={"response_metadata": metadata})
        )

    async def _reserve_final(self, budget: ModelBudget, last: Request) -> Reservation | None:
        try:
            return await budget.reserve(self._describe_call(last, is_last=True))
        except BudgetSpent:
            return None

    def _final_request(self, request: Request, budget: ModelBudget) -> "Request | None":
        """Return the final request: without tools, with as much of the conversation as the budget allows."""
        room = budget.get_final_call_limits(self._describe_call(request).model)
        system = SystemMessage(self._prompt)
        size = room[0] - max_message_bytes(system) - 2 * MESSAGE_BYTES if room is not None else 0
        if size < MIN_FINAL_BYTES:
            return None
        history = HumanMessage(summarize_within(request.messages, size), id=SUMMARY_ID)
        return request.override(system_message=system, messages=[history], tools=[], tool_choice=None)


async def call_within_reservation(
    budget: ModelBudget, grant: Reservation, request: Request, handler: AsyncModelHandler
) -> Reply:
    """Call the model with its output limited to the reservation, and settle the usage."""
    settings = {**request.model_settings, **limit_output(request.model, grant)}
    with SettledCall(budget, grant) as call:
        reply = await handler(request.override(model_settings=settings))
        call.answered = read_usage(find_ai_message(reply))
        return reply


def summarize_within(messages: list[Any], size: int) -> str:
    """Return the request and the course of the run in at most `size` bytes."""
    request = find_latest_request(messages)
    asked = format_transcript([request], size // 3 // BYTES_PER_TOKEN) if request is not None else ""
    done = format_transcript([message for message in messages if message is not request], size // 2 // BYTES_PER_TOKEN)
    text = f"The user asked:\n{asked}\n\nWhat was said and done:\n{done}"
    return text.encode("utf-8", "replace")[:size].decode("utf-8", "ignore")


class MeteringMiddleware(AgentMiddleware[ThreadState, RunContext, Any]):
    """Counts the usage of every attempt; innermost in the chain, so it sees the request and the model that answers."""

    def __init__(self, caller: str = LEAD_AGENT) -> None:
        super().__init__()
        self._caller = caller
        # By the ids of the tools, which are kept with their schemas: computing these is expensive.
        self._tool_sets: dict[tuple[int, ...], tuple[list[Any], ToolSchemas]] = {}

    def wrap_model_call(self, request: Request, handler: ModelHandler) -> Reply:
        reply: Reply | None = None
        try:
            reply = handler(request)
            return reply
        finally:
            self._record(request, reply)

    async def awrap_model_call(self, request: Request, handler: AsyncModelHandler) -> Reply:
        reply: Reply | None = None
        try:
            reply = await handler(request)
            return reply
        finally:
            self._record(request, reply)

    def _record(self, request: Request, reply: "Reply | None") -> None:
        run = find_run_context(request.runtime.context)
        if run is None or run.meter is None:
            return
        message = find_ai_message(reply) if reply is not None else None
        run.meter.note(
            self._caller,
            get_model_name(request.model, message),
            message.id if message else None,
            read_counts(message),
            self._compare(request, run),
        )

    def _compare(self, request: Request, run: RunContext) -> RequestPrefix | None:
        """Return the prefix that the request shares with the one before."""
        if run.prefixes is None:
            return None
        tools, loaded = self._describe_tools(request.tools), find_loaded(request.state, run.run_id)
        model = get_model_name(request.model, None)
        return run.prefixes.compare(Prompt(model, tools, request.system_message, request.messages, loaded))

    def _describe_tools(self, tools: list[Any]) -> ToolSchemas:
        key = tuple(map(id, tools))
        if key not in self._tool_sets:
            if len(self._tool_sets) >= MAX_TOOL_SETS:
                self._tool_sets.clear()
            self._tool_sets[key] = tools, describe_tools(tools)
        return self._tool_sets[key][1]


def find_loaded(state: Any, run_id: str) -> frozenset[str]:
    """Return the names of the deferred tools and skills that the agent has loaded."""
    skills = (entry["name"] for entry in read_value(state, "skill_context") or () if entry["run_id"] == run_id)
    return frozenset((*(read_value(state, "promoted") or ()), *skills))
