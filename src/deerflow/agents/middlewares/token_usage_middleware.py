"""Token usage of a turn, added to each of its replies."""

from collections.abc import Sequence
from typing import Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.messages.ai import UsageMetadata, add_usage

from deerflow.agent_support.replies import (
    AsyncModelHandler,
    ModelHandler,
    Reply,
    Request,
    find_ai_message,
    iter_current_turn,
    replace_message,
)
from deerflow.agent_support.thread_state import ThreadState
from deerflow.domain.context import RunContext

TURN_USAGE = "turn_usage"


class TokenUsageMiddleware(AgentMiddleware[ThreadState, RunContext, Any]):
    """Adds the usage of the turn so far to `response_metadata["turn_usage"]` of each reply."""

    def wrap_model_call(self, request: Request, handler: ModelHandler) -> Reply:
        return add_turn_usage(request.messages, handler(request))

    async def awrap_model_call(self, request: Request, handler: AsyncModelHandler) -> Reply:
        return add_turn_usage(request.messages, await handler(request))


def add_turn_usage(past: Sequence[AnyMessage], reply: Reply) -> Reply:
    """Return `reply` with the usage of the turn; unchanged if the model reports none."""
    message = find_ai_message(reply)
    if message is None or message.usage_metadata is None:
        return reply
    total = add_usage(get_turn_usage(past), message.usage_metadata)
    noted = {**message.response_metadata, TURN_USAGE: total}
    return replace_message(reply, message.model_copy(update={"response_metadata": noted}))


def get_turn_usage(messages: Sequence[AnyMessage]) -> UsageMetadata | None:
    """Return the usage on the newest reply of the turn, so that compaction loses nothing."""
    replies = (message for message in iter_current_turn(messages) if isinstance(message, AIMessage))
    return next((usage for reply in replies if (usage := reply.response_metadata.get(TURN_USAGE))), None)
