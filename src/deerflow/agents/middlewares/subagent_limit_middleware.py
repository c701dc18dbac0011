"""No reply starts more subagents than can work at once."""

from typing import Any

from langchain.agents.middleware import AgentMiddleware

from deerflow.agents.middlewares.replies import (
    AskModel,
    AskModelAsync,
    Reply,
    Request,
    said_by_the_model,
    with_calls,
    with_message,
)
from deerflow.agents.thread_state import ThreadState
from deerflow.domain.context import RunContext

TASK = "task"
MIN_CONCURRENT = 1
MAX_CONCURRENT = 4


class SubagentLimitMiddleware(AgentMiddleware[ThreadState, RunContext, Any]):
    """Drops the `task` calls of a reply beyond `max_concurrent`, which is taken as 1 to 4."""

    def __init__(self, max_concurrent: int = 3) -> None:
        super().__init__()
        self.max_concurrent = min(max(max_concurrent, MIN_CONCURRENT), MAX_CONCURRENT)

    def wrap_model_call(self, request: Request, handler: AskModel) -> Reply:
        return self._limited(handler(request))

    async def awrap_model_call(self, request: Request, handler: AskModelAsync) -> Reply:
        return self._limited(await handler(request))

    def _limited(self, reply: Reply) -> Reply:
        message = said_by_the_model(reply)
        tasks = [call for call in message.tool_calls if call["name"] == TASK] if message else []
        if message is None or len(tasks) <= self.max_concurrent:
            return reply
        surplus = tasks[self.max_concurrent :]
        # The prompt says what the limit is, so the model asks for the rest in its next reply.
        kept = [call for call in message.tool_calls if all(call is not other for other in surplus)]
        return with_message(reply, with_calls(message, kept))
