"""Empty answers: a turn never ends without text."""

import re
from pathlib import Path
from typing import Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage

from deerflow.agent_support.replies import (
    TRUNCATED,
    AsyncModelHandler,
    ModelHandler,
    Reply,
    Request,
    append_hidden_message,
    emit_retry_event,
    end_with_sentence,
    find_ai_message,
    get_finish_reason,
    replace_message,
)
from deerflow.agent_support.thread_state import ThreadState
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
    """Retries an empty answer once, and explains if there is none."""

    def __init__(self) -> None:
        super().__init__()
        self._nudge = Path(__file__).with_suffix(".md").read_text(encoding="utf-8").strip()

    def wrap_model_call(self, request: Request, handler: ModelHandler) -> Reply:
        reply = handler(request)
        if is_empty(reply):
            reply = handler(self._nudged(request))
        return add_explanation(reply)

    async def awrap_model_call(self, request: Request, handler: AsyncModelHandler) -> Reply:
        reply = await handler(request)
        if is_empty(reply):
            reply = await handler(self._nudged(request))
        return add_explanation(reply)

    def _nudged(self, request: Request) -> Request:
        message = "The answer was empty. Asking again."
        emit_retry_event(request, attempt=2, max_attempts=2, wait_s=0, reason="empty_answer", message=message)
        return append_hidden_message(request, self._nudge)


def is_empty(reply: Reply) -> bool:
    """Return whether the reply has no content and can be retried."""
    message = find_ai_message(reply)
    return message is not None and not has_content(message) and not was_refused(message)


def add_explanation(reply: Reply) -> Reply:
    """Return `reply` with an explanation where the model's text is missing or was withheld."""
    message = find_ai_message(reply)
    if message is None:
        return reply
    if was_refused(message):
        # Its calls may be what the provider objected to, or only half of what was meant.
        why = str(message.additional_kwargs.get("refusal") or REFUSED)
        return replace_message(reply, end_with_sentence(message, why, {"stop_reason": "refused"}))
    if has_content(message):
        return reply
    why = CUT_SHORT if get_finish_reason(message) in TRUNCATED else SILENT
    return replace_message(reply, end_with_sentence(message, why, {"stop_reason": "empty_answer"}))


def has_content(message: AIMessage) -> bool:
    """Return whether a message has text or calls, besides reasoning."""
    if message.tool_calls or message.invalid_tool_calls:
        return True
    return bool(THINKING.sub("", message.text).strip()) or has_media(message)


def has_media(message: AIMessage) -> bool:
    """Return whether a message without text has an image or other media."""
    blocks = message.content if isinstance(message.content, list) else ()
    return any(
        isinstance(block, dict) and block.get("type") in ("image", "image_url", "audio", "file") for block in blocks
    )


def was_refused(message: AIMessage) -> bool:
    """Return whether the provider or model refused to answer."""
    return get_finish_reason(message) in REFUSING or bool(message.additional_kwargs.get("refusal"))
