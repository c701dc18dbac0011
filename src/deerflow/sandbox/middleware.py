"""Middleware that records the sandbox in the state of a thread."""

from typing import Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import ToolMessage
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

from deerflow.domain.context import RunContext, find_run_context

Result = ToolMessage | Command[Any]


class SandboxMiddleware(AgentMiddleware[Any, RunContext, Any]):
    """Middleware that writes the id of the used sandbox to the thread state.

    The sandbox itself is acquired by the first tool that needs it and released when the run ends.
    """

    async def awrap_tool_call(self, request: ToolCallRequest, handler: Any) -> Result:
        result: Result = await handler(request)
        run = find_run_context(request.runtime.context)
        used = run.sandbox.sandbox_id if run is not None and run.sandbox is not None else None
        if used is None or (request.state.get("sandbox") or {}).get("sandbox_id") == used:
            return result
        if not isinstance(result, ToolMessage):  # it updates the state itself; the next call records the id
            return result
        return Command(update={"messages": [result], "sandbox": {"sandbox_id": used}})

    def wrap_tool_call(self, request: ToolCallRequest, handler: Any) -> Result:
        result: Result = handler(request)
        return result
