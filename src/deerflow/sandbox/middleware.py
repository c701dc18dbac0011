"""The place of the sandbox in the chain of an agent."""

from typing import Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import ToolMessage
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

from deerflow.domain.context import RunContext, run_in

Result = ToolMessage | Command[Any]


class SandboxMiddleware(AgentMiddleware[Any, RunContext, Any]):
    """Notes in the thread's state which sandbox its tools have used.

    The sandbox itself is acquired by the first tool that needs it and given back when the run ends, whichever way.
    """

    async def awrap_tool_call(self, request: ToolCallRequest, handler: Any) -> Result:
        result: Result = await handler(request)
        run = run_in(request.runtime.context)
        used = run.sandbox.sandbox_id if run is not None and run.sandbox is not None else None
        if used is None or (request.state.get("sandbox") or {}).get("sandbox_id") == used:
            return result
        if not isinstance(result, ToolMessage):  # it changes the state itself, and the next call will note this
            return result
        return Command(update={"messages": [result], "sandbox": {"sandbox_id": used}})

    def wrap_tool_call(self, request: ToolCallRequest, handler: Any) -> Result:
        result: Result = handler(request)
        return result
