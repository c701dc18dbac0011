"""Keeps a run within its budget, and has what was put by pay for a last answer."""

from pathlib import Path
from typing import Any

from langchain.agents.middleware import AgentMiddleware
from langchain.agents.middleware.types import ModelResponse
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from deerflow.agents.middlewares.compaction import latest_request, transcript
from deerflow.agents.middlewares.replies import (
    AskModel,
    AskModelAsync,
    Reply,
    Request,
    said_by_the_model,
    with_calls,
    with_message,
)
from deerflow.agents.middlewares.spending import (
    MESSAGE_BYTES,
    Settling,
    answered_by,
    asking_for,
    limited,
    message_bytes,
)
from deerflow.agents.middlewares.tokens import BYTES_PER_TOKEN, tool_tokens
from deerflow.agents.thread_state import ThreadState
from deerflow.domain.budget import Asking, Budget, BudgetSpent, Grant
from deerflow.domain.context import RunContext, run_in
from deerflow.domain.usage import LEAD_AGENT

CAPPED = {"stop_reason": "budget_capped", "finish_reason": "stop"}
NOTHING_LEFT = "I stopped here because the budget of this run is used up. What was done so far is above."
TOOL_MANNERS = 1000
"""What vendors tell a model about the use of tools, in tokens."""
SMALLEST_CONCLUSION = 500


class BudgetMiddleware(AgentMiddleware[ThreadState, RunContext, Any]):
    """Stands next to the model: nobody is asked before what it may take is set aside, retries included."""

    def __init__(self, caller: str = LEAD_AGENT) -> None:
        super().__init__()
        self._caller = caller
        self._words = Path(__file__).with_suffix(".md").read_text(encoding="utf-8").strip()
        # The tools of a graph do not change, and describing them is dear.
        self._tool_bytes: dict[str, int] = {}

    def wrap_model_call(self, request: Request, handler: AskModel) -> Reply:
        # A budget can be kept only where one can wait for it.
        return handler(request)

    async def awrap_model_call(self, request: Request, handler: AskModelAsync) -> Reply:
        run = run_in(request.runtime.context)
        if run is None or run.budget is None:
            return await handler(request)
        try:
            grant = await run.budget.reserve(self._asking(request))
        except BudgetSpent as spent:
            if self._caller != LEAD_AGENT:
                raise
            return await self._conclude(request, handler, run.budget, str(spent))
        return await spend(run.budget, grant, request, handler)

    def _asking(self, request: Request, *, is_last: bool = False) -> Asking:
        names = "\n".join(str(tool.get("name")) if isinstance(tool, dict) else tool.name for tool in request.tools)
        if names not in self._tool_bytes:
            manners = TOOL_MANNERS if names else 0
            self._tool_bytes[names] = BYTES_PER_TOKEN * tool_tokens(request.tools) + manners
        system: list[BaseMessage] = [request.system_message] if request.system_message else []
        messages = [*system, *request.messages]
        size = self._tool_bytes[names]
        return asking_for(self._caller, request.model, messages, tools=names, tool_bytes=size, is_last=is_last)

    async def _conclude(self, request: Request, handler: AskModelAsync, budget: Budget, why: str) -> Reply:
        """The last answer: by the model if what was put by is still there, else a sentence."""
        request.runtime.stream_writer({"type": "budget_spent", "message": why})
        last = self._last_request(request, budget)
        grant = await self._last_grant(budget, last) if last is not None else None
        if last is None or grant is None:
            return ModelResponse(result=[AIMessage(NOTHING_LEFT, response_metadata=CAPPED)])
        reply = await spend(budget, grant, last, handler)
        message = said_by_the_model(reply)
        if message is None:
            return reply
        noted = {**message.response_metadata, **CAPPED}
        return with_message(reply, with_calls(message, ()).model_copy(update={"response_metadata": noted}))

    async def _last_grant(self, budget: Budget, last: Request) -> Grant | None:
        try:
            return await budget.reserve(self._asking(last, is_last=True))
        except BudgetSpent:
            return None

    def _last_request(self, request: Request, budget: Budget) -> Request | None:
        """What is asked in the end: no tools, and no more of the conversation than can be paid."""
        room = budget.last_room(self._asking(request).model)
        system = SystemMessage(self._words)
        size = room[0] - message_bytes(system) - 2 * MESSAGE_BYTES if room is not None else 0
        if size < SMALLEST_CONCLUSION:
            return None
        said = HumanMessage(told_within(request.messages, size))
        return request.override(system_message=system, messages=[said], tools=[], tool_choice=None)


async def spend(budget: Budget, grant: Grant, request: Request, handler: AskModelAsync) -> Reply:
    """Ask the model for no more than was granted, and settle what it took."""
    settings = {**request.model_settings, **limited(request.model, grant)}
    with Settling(budget, grant) as settling:
        reply = await handler(request.override(model_settings=settings))
        settling.answered = answered_by(said_by_the_model(reply))
        return reply


def told_within(messages: list[Any], size: int) -> str:
    """What was asked and what was done, in at most `size` bytes."""
    request = latest_request(messages)
    asked = transcript([request], size // 3 // BYTES_PER_TOKEN) if request is not None else ""
    done = transcript([message for message in messages if message is not request], size // 2 // BYTES_PER_TOKEN)
    text = f"The user asked:\n{asked}\n\nWhat was said and done:\n{done}"
    return text.encode("utf-8", "replace")[:size].decode("utf-8", "ignore")
