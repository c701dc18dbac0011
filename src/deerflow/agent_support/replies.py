"""Helpers for model replies and messages: reading and replacing them, and making what they contain storable.

JSON and MessagePack have no integers above 64 bits, no lone surrogates and only a limited depth of nesting.
"""

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import orjson
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.messages.tool import ToolCall

if TYPE_CHECKING:
    from langchain.agents.middleware.types import ModelRequest, ModelResponse
    from langgraph.prebuilt.tool_node import ToolCallRequest

    from deerflow.domain.context import RunContext

# For annotations only: a server starts without the modules of these classes.
Request: TypeAlias = "ModelRequest[RunContext]"
Reply: TypeAlias = "ModelResponse[Any]"
ModelHandler: TypeAlias = Callable[[Request], Reply]
AsyncModelHandler: TypeAlias = Callable[[Request], Awaitable[Reply]]
ToolResult = TypeVar("ToolResult")
ToolHandler: TypeAlias = Callable[["ToolCallRequest"], ToolResult]
AsyncToolHandler: TypeAlias = Callable[["ToolCallRequest"], Awaitable[ToolResult]]

HIDDEN = "hide_from_ui"
EARLIER_NOTES = "earlier_notes"
"""Key of the summary in the first message after it; a channel of its own would be stored with every checkpoint."""
CALL_BLOCKS = frozenset({"tool_use", "tool_call", "tool_call_chunk", "invalid_tool_call", "function_call"})
TRUNCATED = frozenset({"length", "max_tokens"})
RAW_CALLS = frozenset({"tool_calls", "function_call"})


def make_hidden_message(text: str) -> HumanMessage:
    """Return a message for the model that is not shown to users."""
    return HumanMessage(text, additional_kwargs={HIDDEN: True})


def append_hidden_message(request: Request, text: str) -> Request:
    """Return `request` with a hidden message at the end, which leaves the cached prefix unchanged."""
    return request.override(messages=[*request.messages, make_hidden_message(text)])


def iter_current_turn(messages: Sequence[AnyMessage]) -> Iterator[AnyMessage]:
    """Yield the messages after the latest message of the user, newest first."""
    return takewhile(lambda message: not is_user_message(message), reversed(messages))


def is_user_message(message: BaseMessage) -> bool:
    """Return whether a user wrote this message, not the harness on their behalf."""
    return isinstance(message, HumanMessage) and not message.additional_kwargs.get(HIDDEN)


def find_ai_message(reply: Reply) -> AIMessage | None:
    """Return the model's own message in a reply."""
    return next((message for message in reply.result if isinstance(message, AIMessage)), None)


def is_answered(reply: Reply, call_id: str | None) -> bool:
    """Return whether a middleware has answered a call of the reply, so the tool is not called."""
    return any(isinstance(message, ToolMessage) and message.tool_call_id == call_id for message in reply.result)


def get_finish_reason(message: AIMessage) -> str:
    """Return the finish reason in lower case, because vendors differ in spelling."""
    metadata = message.response_metadata
    return str(metadata.get("finish_reason") or metadata.get("stop_reason") or "").lower()


def replace_message(reply: Reply, message: AIMessage, *more: BaseMessage) -> Reply:
    """Return `reply` with `message` as the model's own, followed by `more` and the results `message` still asks for."""
    asked = {call["id"] for call in message.tool_calls}
    results = [other for other in reply.result if isinstance(other, ToolMessage) and other.tool_call_id in asked]
    return replace(reply, result=[message, *more, *results])


def replace_tool_calls(message: AIMessage, calls: Sequence[ToolCall]) -> AIMessage:
    """Return `message` with exactly these tool calls, also where providers keep copies of them."""
    content = message.content
    if isinstance(content, list):
        content = [block for block in content if not (isinstance(block, dict) and block.get("type") in CALL_BLOCKS)]
    extras = {key: value for key, value in message.additional_kwargs.items() if key not in RAW_CALLS}
    changes = {"tool_calls": list(calls), "invalid_tool_calls": [], "content": content, "additional_kwargs": extras}
    return message.model_copy(update=changes)


def end_with_sentence(message: AIMessage, sentence: str, metadata: Mapping[str, str]) -> AIMessage:
    """Return `message` as a final answer with the same id: its text, then `sentence`, without tool calls."""
    text = f"{message.text.rstrip()}\n\n{sentence}".lstrip()
    noted = {**message.response_metadata, **metadata}
    return replace_tool_calls(message, ()).model_copy(update={"content": text, "response_metadata": noted})


def strip_reasoning(text: str) -> str:
    """Return `text` without leading reasoning; unclosed reasoning leaves nothing."""
    before, begins, rest = text.partition("<think>")
    _, ends, after = rest.partition("</think>")
    return before + after if begins and ends else before


def emit_retry_event(
    request: Request, *, attempt: int, max_attempts: int, wait_s: float, reason: str, message: str
) -> None:
    """Emit an event that the model is called again. Output of the failed attempt that is not in the state is void."""
    event = {
        "type": "llm_retry",
        "attempt": attempt,  # the one that comes next
        "max_attempts": max_attempts,
        "wait_ms": round(wait_s * 1000),
        "reason": reason,
        "message": message,
    }
    request.runtime.stream_writer(event)


MAX_DEPTH = 100
TOO_DEEP = "[nested too deeply to be kept]"
MESSAGE_FIELDS = ("content", "name", "additional_kwargs", "response_metadata")
CALL_FIELDS = ("tool_calls", "invalid_tool_calls", "tool_call_chunks")

M = TypeVar("M", bound=BaseMessage)


def is_storable(value: object) -> bool:
    """Return True if JSON can represent the plain values in `value`."""
    try:
        orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def make_storable(value: Any, depth: int = 0) -> Any:
    """Return `value` with large integers and what is nested too deeply as text, and without lone surrogates."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return large_integer_text(value)
    if isinstance(value, Mapping | list | tuple):
        if depth >= MAX_DEPTH:
            return nested_text(value)
        if isinstance(value, Mapping):
            return {make_storable(key, depth + 1): make_storable(each, depth + 1) for key, each in value.items()}
        return [make_storable(each, depth + 1) for each in value]
    return value


def make_message_storable(message: M) -> M:
    """Return `message` with storable fields; the same object if they are."""
    calls = CALL_FIELDS if isinstance(message, AIMessage) else ()
    found = {name: getattr(message, name) for name in (*MESSAGE_FIELDS, *calls) if hasattr(message, name)}
    if isinstance(message, ToolMessage) and isinstance(message.artifact, Mapping | list | str):
        found["artifact"] = message.artifact
    if is_storable(found):
        return message
    return message.model_copy(update={name: make_storable(value) for name, value in found.items()})


def large_integer_text(value: int) -> str:
    """Return an integer as text, in hexadecimal if it has more digits than Python converts."""
    try:
        return str(value)
    except ValueError:
        return hex(value)


def nested_text(value: object) -> str:
    """Return a deeply nested value as JSON text."""
    try:
        return json.dumps(value, default=str)
    except (TypeError, ValueError, RecursionError):
        return TOO_DEEP
