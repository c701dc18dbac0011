"""What a turn has cost so far, noted on each of its replies."""

from collections.abc import Sequence
from typing import Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.messages.ai import UsageMetadata, add_usage

from deerflow.agents.middlewares.replies import (
    AskModel,
    AskModelAsync,
    Reply,
    Request,
    messages_of_this_turn,
    said_by_the_model,
    with_message,
)
from deerflow.agents.thread_state import ThreadState
from deerflow.domain.context import RunContext

TURN_USAGE = "turn_usage"


class TokenUsageMiddleware(AgentMiddleware[ThreadState, RunContext, Any]):
    """Adds each reply's usage to that of the turn and notes the sum in `response_metadata["turn_usage"]`."""

    def wrap_model_call(self, request: Request, handler: AskModel) -> Reply:
        return with_turn_usage(request.messages, handler(request))

    async def awrap_model_call(self, request: Request, handler: AskModelAsync) -> Reply:
        return with_turn_usage(request.messages, await handler(request))


def with_turn_usage(past: Sequence[AnyMessage], reply: Reply) -> Reply:
    """`reply` with what the turn has cost, itself included; as it is when the model does not say."""
    message = said_by_the_model(reply)
    if message is None or message.usage_metadata is None:
        return reply
    total = add_usage(usage_so_far(past), message.usage_metadata)
    noted = {**message.response_metadata, TURN_USAGE: total}
    return with_message(reply, message.model_copy(update={"response_metadata": noted}))


def usage_so_far(messages: Sequence[AnyMessage]) -> UsageMetadata | None:
    """What was noted on the newest reply of this turn, so that compacting older ones loses nothing."""
    replies = (message for message in messages_of_this_turn(messages) if isinstance(message, AIMessage))
    return next((usage for reply in replies if (usage := reply.response_metadata.get(TURN_USAGE))), None)
