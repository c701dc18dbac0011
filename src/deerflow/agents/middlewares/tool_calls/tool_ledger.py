"""Tool ledger: prevents a tool call from being executed twice, even if the process dies."""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

from deerflow.agent_support.replies import AsyncToolHandler, ToolHandler
from deerflow.agent_support.thread_state import ThreadState
from deerflow.domain.context import RunContext, find_run_context
from deerflow.domain.tools import CHANGES_FILES, READ_ONLY, RESUMABLE, LedgerCall, OutcomeUnknown, ToolLedger
from deerflow.guardrails.call_context import COMMAND_TOOLS, EgressCapability

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

    def __init__(self, reach: EgressCapability) -> None:
        super().__init__()
        self._reach = reach

    def wrap_tool_call(self, request: ToolCallRequest, handler: ToolHandler[Result]) -> Result:
        # A ledger can be kept only where one can wait for it.
        return handler(request)

    async def awrap_tool_call(self, request: ToolCallRequest, handler: AsyncToolHandler[Result]) -> Result:
        run, call_id = find_run_context(request.runtime.context), request.tool_call["id"]
        if run is None or run.ledger is None or call_id is None:
            return await handler(request)
        name = request.tool_call["name"]
        call = LedgerCall(call_id, find_calling_message(request.state.get("messages", ()), call_id), name)
        try:
            # Asked also for what changes nothing or does not exist: settings may have changed since the call was made.
            known = run.ledger.find_outcome(call)
        except OutcomeUnknown:
            return await self._go_on(request, handler, run.ledger, call)
        if isinstance(known, ToolMessage | Command):
            return known
        if is_read_only(request.tool):
            return await measure_call(request, handler, run.ledger, call)
        call = replace(call, reaches_out=not self._changes_only_files(request.tool))
        await run.ledger.begin(call)
        result = await measure_call(request, handler, run.ledger, call)
        await run.ledger.end(call, result)
        return result

    def _changes_only_files(self, tool: BaseTool | None) -> bool:
        """Return whether a tool changes nothing but files of the sandbox, as do commands without network."""
        if tool is None:
            return False
        is_confined = tool.name in COMMAND_TOOLS and not self._reach.classify(tool, tool.name).reaches_out
        return is_confined or bool((tool.metadata or {}).get(CHANGES_FILES))

    async def _go_on(
        self, request: ToolCallRequest, handler: AsyncToolHandler[Result], ledger: ToolLedger, call: LedgerCall
    ) -> Result:
        """Return the result of a call that began before the process died, if there is one."""
        unknown = UNKNOWN.format(tool=call.tool)
        if not resumes_itself(request.tool):
            return ToolMessage(unknown, tool_call_id=call.id, name=call.tool, status="error")
        result = await measure_call(request, handler, ledger, call)
        if isinstance(result, ToolMessage) and result.status == "error" and not result.additional_kwargs:
            # It was not even made again, as with a kind of subagent that is gone, so it could not say what it had done.
            result = result.model_copy(update={"content": f"{result.text}\n{unknown}"})
        await ledger.end(call, result)
        return result


async def measure_call(
    request: ToolCallRequest, handler: AsyncToolHandler[Result], ledger: ToolLedger, call: LedgerCall
) -> Result:
    """Make a call and note its duration, in which nobody was asked for approval: that happens before."""
    started_at = time.monotonic()
    result = await handler(request)
    ledger.note_duration(call, time.monotonic() - started_at)
    return result


def find_calling_message(messages: Sequence[BaseMessage], call_id: str) -> str | None:
    """Return the latest message with that call id."""
    replies = (message for message in reversed(messages) if isinstance(message, AIMessage))
    return next((reply.id for reply in replies if any(call["id"] == call_id for call in reply.tool_calls)), None)


def is_read_only(tool: BaseTool | None) -> bool:
    """Return whether a tool can be called again without harm; an unknown tool can."""
    return tool is None or tool.name in HARMLESS or bool((tool.metadata or {}).get(READ_ONLY))


def resumes_itself(tool: BaseTool | None) -> bool:
    """Return whether a tool can continue a call that began before."""
    return tool is not None and bool((tool.metadata or {}).get(RESUMABLE))
