"""Keeps a tool from being used twice for one call, whatever happens to the process."""

from collections.abc import Sequence
from typing import Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

from deerflow.agents.middlewares.replies import RunTool, RunToolAsync
from deerflow.agents.thread_state import ThreadState
from deerflow.domain.context import RunContext, run_in
from deerflow.domain.ledger import READ_ONLY, RESUMABLE, Call, OutcomeUnknown, ToolLedger

HARMLESS = frozenset({"write_todos", "ask_clarification"})
"""Tools of libraries that change nothing but the thread's own state."""
UNKNOWN = (
    "Error: the server stopped while {tool} was at work, and how far it came is not known: it may have done all, "
    "some or nothing of it. Check before you do it again."
)

Result = ToolMessage | Command[Any]


class ToolLedgerMiddleware(AgentMiddleware[ThreadState, RunContext, Any]):
    """Writes down each call that changes something before it is made, and its outcome after.

    When a run is begun again after its process died, a call with an outcome is not made again, and one without is said
    to be unknown. Tools that only read are simply used again, and some go on by themselves with what they had begun.
    """

    def wrap_tool_call(self, request: ToolCallRequest, handler: RunTool[Result]) -> Result:
        # A ledger can be kept only where one can wait for it.
        return handler(request)

    async def awrap_tool_call(self, request: ToolCallRequest, handler: RunToolAsync[Result]) -> Result:
        run, call_id = run_in(request.runtime.context), request.tool_call["id"]
        if run is None or run.ledger is None or call_id is None:
            return await handler(request)
        name = request.tool_call["name"]
        call = Call(call_id, asked_in(request.state.get("messages", ()), call_id), name)
        try:
            # Asked also for what changes nothing or does not exist: settings may have changed since the call was made.
            known = run.ledger.earlier(call)
        except OutcomeUnknown:
            return await self._go_on(request, handler, run.ledger, call)
        if isinstance(known, ToolMessage | Command):
            return known
        if changes_nothing(request.tool):
            return await handler(request)
        await run.ledger.begin(call)
        result = await handler(request)
        await run.ledger.end(call, result)
        return result

    async def _go_on(
        self, request: ToolCallRequest, handler: RunToolAsync[Result], ledger: ToolLedger, call: Call
    ) -> Result:
        """The result of a call that was begun before the process died, as far as there can be one."""
        unknown = UNKNOWN.format(tool=call.tool)
        if not goes_on_by_itself(request.tool):
            return ToolMessage(unknown, tool_call_id=call.id, name=call.tool, status="error")
        result = await handler(request)
        if isinstance(result, ToolMessage) and result.status == "error" and not result.additional_kwargs:
            # It was not even made again, as with a kind of subagent that is gone, so it could not say what it had done.
            result = result.model_copy(update={"content": f"{result.text}\n{unknown}"})
        await ledger.end(call, result)
        return result


def asked_in(messages: Sequence[BaseMessage], call_id: str) -> str | None:
    """The message that makes a call: the latest one with that id."""
    replies = (message for message in reversed(messages) if isinstance(message, AIMessage))
    return next((reply.id for reply in replies if any(call["id"] == call_id for call in reply.tool_calls)), None)


def changes_nothing(tool: BaseTool | None) -> bool:
    """Whether a tool may be used again without harm; one that does not exist cannot do any."""
    return tool is None or tool.name in HARMLESS or bool((tool.metadata or {}).get(READ_ONLY))


def goes_on_by_itself(tool: BaseTool | None) -> bool:
    """Whether a tool knows what is left to do of a call that was begun before."""
    return tool is not None and bool((tool.metadata or {}).get(RESUMABLE))
