"""No turn ends without a word."""

import re
from pathlib import Path
from typing import Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage

from deerflow.agents.middlewares.replies import (
    CUT_OFF,
    AskModel,
    AskModelAsync,
    Reply,
    Request,
    announce_retry,
    ended_with,
    finish_reason,
    said_by_the_model,
    with_hidden_message,
    with_message,
)
from deerflow.agents.thread_state import ThreadState
from deerflow.domain.context import RunContext

THINKING = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL)
REFUSING = frozenset(
    {"content_filter", "refusal", "safety", "recitation", "blocklist", "prohibited_content", "spii", "sensitive"}
)
REFUSED = (
    "The model's provider stopped this answer because of its content rules. "
    "Put the request in other words, or choose another model."
)
CUT_SHORT = (
    "The model reached its length limit before it came to an answer. "
    "Ask for less at once, or give the model a higher `max_tokens` in the configuration."
)
SILENT = "The model gave no answer, even when asked again. Put the request in other words, or choose another model."


class EmptyAnswerMiddleware(AgentMiddleware[ThreadState, RunContext, Any]):
    """Asks once more for an answer that came out empty, and says honestly when there is none."""

    def __init__(self) -> None:
        super().__init__()
        self._nudge = Path(__file__).with_suffix(".md").read_text(encoding="utf-8").strip()

    def wrap_model_call(self, request: Request, handler: AskModel) -> Reply:
        reply = handler(request)
        if is_empty(reply):
            reply = handler(self._nudged(request))
        return with_words(reply)

    async def awrap_model_call(self, request: Request, handler: AskModelAsync) -> Reply:
        reply = await handler(request)
        if is_empty(reply):
            reply = await handler(self._nudged(request))
        return with_words(reply)

    def _nudged(self, request: Request) -> Request:
        message = "The answer was empty. Asking again."
        announce_retry(request, attempt=2, max_attempts=2, wait_s=0, reason="empty_answer", message=message)
        return with_hidden_message(request, self._nudge)


def is_empty(reply: Reply) -> bool:
    """Whether the reply leaves the user with nothing and may be asked for again."""
    message = said_by_the_model(reply)
    return message is not None and not has_words(message) and not was_refused(message)


def with_words(reply: Reply) -> Reply:
    """`reply`, with a sentence that says why where the model's own words are missing or were taken away."""
    message = said_by_the_model(reply)
    if message is None:
        return reply
    if was_refused(message):
        # Its calls may be what the provider objected to, or only half of what was meant.
        why = str(message.additional_kwargs.get("refusal") or REFUSED)
        return with_message(reply, ended_with(message, why, {"stop_reason": "refused"}))
    if has_words(message):
        return reply
    why = CUT_SHORT if finish_reason(message) in CUT_OFF else SILENT
    return with_message(reply, ended_with(message, why, {"stop_reason": "empty_answer"}))


def has_words(message: AIMessage) -> bool:
    """Whether a message says or asks for something, reasoning aside."""
    if message.tool_calls or message.invalid_tool_calls:
        return True
    return bool(THINKING.sub("", message.text).strip()) or shows_something(message)


def shows_something(message: AIMessage) -> bool:
    """Whether a message without text holds an image or the like."""
    blocks = message.content if isinstance(message.content, list) else ()
    return any(
        isinstance(block, dict) and block.get("type") in ("image", "image_url", "audio", "file") for block in blocks
    )


def was_refused(message: AIMessage) -> bool:
    """Whether the provider or the model declined to answer."""
    return finish_reason(message) in REFUSING or bool(message.additional_kwargs.get("refusal"))
