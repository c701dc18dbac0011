"""Limit of subagents that one reply can start."""

from typing import Any

from langchain.agents.middleware import AgentMiddleware

from deerflow.agent_support.replies import (
    AsyncModelHandler,
    ModelHandler,
    Reply,
    Request,
    find_ai_message,
    replace_message,
    replace_tool_calls,
)
from deerflow.agent_support.thread_state import ThreadState
from deerflow.domain.context import RunContext

TASK = "task"
MIN_CONCURRENT = 1
MAX_CONCURRENT = 4


class SubagentLimitMiddleware(AgentMiddleware[ThreadState, RunContext, Any]):
    """Drops `task` calls of a reply beyond `max_concurrent`, which is clamped to 1 to 4."""

    def __init__(self, max_concurrent: int = 3) -> None:
        super().__init__()
        self.max_concurrent = min(max(max_concurrent, MIN_CONCURRENT), MAX_CONCURRENT)

    def wrap_model_call(self, request: Request, handler: ModelHandler) -> Reply:
        return self._limited(handler(request))

    async def awrap_model_call(self, request: Request, handler: AsyncModelHandler) -> Reply:
        return self._limited(await handler(request))

    def _limited(self, reply: Reply) -> Reply:
        message = find_ai_message(reply)
        tasks = [call for call in message.tool_calls if call["name"] == TASK] if message else []
        if message is None or len(tasks) <= self.max_concurrent:
            return reply
        surplus = tasks[self.max_concurrent :]
        # The prompt says what the limit is, so the model asks for the rest in its next reply.
        kept = [call for call in message.tool_calls if all(call is not other for other in surplus)]
        return replace_message(reply, replace_tool_calls(message, kept))
