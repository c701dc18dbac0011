"""Holds an agent to the tools that its active skills have use for."""

from collections.abc import Collection
from typing import Any, TypeAlias

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

from deerflow.agents.middlewares.active_skills import active_skills, allowed_by, as_written
from deerflow.agents.middlewares.replies import AskModel, AskModelAsync, Reply, Request, RunTool, RunToolAsync
from deerflow.agents.thread_state import ThreadState
from deerflow.domain.context import RunContext, run_in
from deerflow.domain.skills import SkillCard

Result: TypeAlias = ToolMessage | Command[Any]


class SkillToolPolicyMiddleware(AgentMiddleware[ThreadState, RunContext, Any]):
    """While skills with `allowed-tools` are active, other tools are neither shown to the model nor run."""

    state_schema = ThreadState

    def __init__(self, only: Collection[str] | None = None) -> None:
        super().__init__()
        self._only = only

    def wrap_model_call(self, request: Request, handler: AskModel) -> Reply:
        return handler(self._narrowed(request))

    async def awrap_model_call(self, request: Request, handler: AskModelAsync) -> Reply:
        return await handler(self._narrowed(request))

    def wrap_tool_call(self, request: ToolCallRequest, handler: RunTool[Result]) -> Result:
        return self._refusal(request) or handler(request)

    async def awrap_tool_call(self, request: ToolCallRequest, handler: RunToolAsync[Result]) -> Result:
        return self._refusal(request) or await handler(request)

    def _narrowed(self, request: Request) -> Request:
        run = run_in(request.runtime.context)
        active = active_skills(run, request.state, as_written(request), self._only) if run is not None else []
        allowed = allowed_by(active)
        if allowed is None:
            return request
        return request.override(tools=[tool for tool in request.tools if name_of(tool) in allowed])

    def _refusal(self, request: ToolCallRequest) -> ToolMessage | None:
        run = run_in(request.runtime.context)
        if run is None:
            return None
        active = active_skills(run, request.state, request.state["messages"], self._only)
        allowed, name = allowed_by(active), request.tool_call["name"]
        return None if allowed is None or name in allowed else refusal(request, active, allowed)


def name_of(tool: BaseTool | dict[str, Any]) -> str:
    """What a tool is called, also one that only the provider knows."""
    if isinstance(tool, BaseTool):
        return tool.name
    return str(tool.get("name") or tool.get("function", {}).get("name") or tool.get("type", ""))


def refusal(request: ToolCallRequest, active: Collection[SkillCard], allowed: Collection[str]) -> ToolMessage:
    """What the model is told about a call that no active skill has use for."""
    name = request.tool_call["name"]
    limiting = ", ".join(skill.name for skill in active if skill.allowed_tools is not None)
    text = (
        f"Error: {name} was not called: the active skill ({limiting}) does not allow it. "
        f"Allowed are {', '.join(sorted(allowed))}. Go on with these, or tell the user what cannot be done."
    )
    return ToolMessage(text, name=name, tool_call_id=request.tool_call["id"], status="error")
