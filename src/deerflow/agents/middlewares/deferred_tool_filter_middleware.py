"""Filter of deferred tools: they are hidden until the model has searched for them."""

from collections.abc import Collection, Mapping
from typing import Any, TypeAlias

from langchain.agents.middleware import AgentMiddleware, ExtendedModelResponse
from langchain_core.messages import ToolMessage
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

from deerflow.agent_support.replies import (
    AsyncModelHandler,
    AsyncToolHandler,
    ModelHandler,
    Reply,
    Request,
    ToolHandler,
    is_user_message,
)
from deerflow.agent_support.thread_state import ThreadState, read_value
from deerflow.domain.context import RunContext
from deerflow.skills.middleware import get_original_messages, get_tool_name
from deerflow.tools.deferred import DeferredTools

Result: TypeAlias = ToolMessage | Command[Any]
NOTHING = DeferredTools({})


class DeferredToolFilterMiddleware(AgentMiddleware[ThreadState, RunContext, Any]):
    """Deferred tools are neither described to the model nor run before `tool_search` has found them in this thread.

    What was found is remembered with a digest of how it was described: a tool that has become another one since then
    has to be asked for again. Tools that the configuration puts forward for words that a person has just used count as
    found.
    """

    state_schema = ThreadState

    def __init__(self, deferred: DeferredTools = NOTHING) -> None:
        super().__init__()
        self._deferred = deferred

    def wrap_model_call(self, request: Request, handler: ModelHandler) -> Reply | ExtendedModelResponse[Any]:
        meant = self._meant(request)
        return with_update(handler(self._narrowed(request, meant)), meant)

    async def awrap_model_call(
        self, request: Request, handler: AsyncModelHandler
    ) -> Reply | ExtendedModelResponse[Any]:
        meant = self._meant(request)
        return with_update(await handler(self._narrowed(request, meant)), meant)

    def wrap_tool_call(self, request: ToolCallRequest, handler: ToolHandler[Result]) -> Result:
        return self._refusal(request) or handler(request)

    async def awrap_tool_call(self, request: ToolCallRequest, handler: AsyncToolHandler[Result]) -> Result:
        return self._refusal(request) or await handler(request)

    def _meant(self, request: Request) -> dict[str, str]:
        """Return the digests of hidden tools that match the user's latest message."""
        words = next((said.text for said in reversed(get_original_messages(request)) if is_user_message(said)), "")
        found = {tool.name: tool.digest for tool in self._deferred.find_by_keywords(words)}
        return {name: digest for name, digest in found.items() if self._is_hidden(name, request.state)}

    def _narrowed(self, request: Request, meant: Collection[str]) -> Request:
        if not self._deferred.by_name:
            return request
        names = ((get_tool_name(tool), tool) for tool in request.tools)
        offered = [tool for name, tool in names if name in meant or not self._is_hidden(name, request.state)]
        return request.override(tools=offered)

    def _refusal(self, request: ToolCallRequest) -> ToolMessage | None:
        name = request.tool_call["name"]
        if not self._is_hidden(name, request.state):
            return None
        text = f"Error: {name} is not loaded. Load it with tool_search, query 'select:{name}', then call it."
        return ToolMessage(text, name=name, tool_call_id=request.tool_call["id"], status="error")

    def _is_hidden(self, name: str, state: Mapping[str, Any]) -> bool:
        tool = self._deferred.by_name.get(name)
        if tool is None:
            return False
        loaded = (read_value(state, "promoted") or {}).get(name)
        return loaded is None or loaded != tool.digest


def with_update(reply: Reply, found: dict[str, str]) -> Reply | ExtendedModelResponse[Any]:
    """Return the reply with a state update."""
    return ExtendedModelResponse(reply, Command(update={"promoted": found})) if found else reply
