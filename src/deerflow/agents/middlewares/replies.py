"""What several middlewares do with the replies of a model."""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any, TypeAlias, TypeVar

from langchain.agents.middleware.types import ModelRequest, ModelResponse
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.messages.tool import ToolCall
from langgraph.prebuilt.tool_node import ToolCallRequest

from deerflow.domain.context import RunContext

Request: TypeAlias = ModelRequest[RunContext]
Reply: TypeAlias = ModelResponse[Any]
AskModel: TypeAlias = Callable[[Request], Reply]
AskModelAsync: TypeAlias = Callable[[Request], Awaitable[Reply]]
ToolResult = TypeVar("ToolResult")
RunTool: TypeAlias = Callable[[ToolCallRequest], ToolResult]
RunToolAsync: TypeAlias = Callable[[ToolCallRequest], Awaitable[ToolResult]]

HIDDEN = "hide_from_ui"
NOTES = "earlier_notes"
"""Where the first message after a summary carries it: a value of its own would be stored with every checkpoint."""
CALL_BLOCKS = frozenset({"tool_use", "tool_call", "tool_call_chunk", "invalid_tool_call", "function_call"})
CUT_OFF = frozenset({"length", "max_tokens"})
RAW_CALLS = frozenset({"tool_calls", "function_call"})


def hidden_message(text: str) -> HumanMessage:
    """Words for the model that people do not see."""
    return HumanMessage(text, additional_kwargs={HIDDEN: True})


def with_hidden_message(request: Request, text: str) -> Request:
    """`request` with words for the model at its end, where they leave the cached prefix as it is."""
    return request.override(messages=[*request.messages, hidden_message(text)])


def messages_of_this_turn(messages: Sequence[AnyMessage]) -> Iterator[AnyMessage]:
    """What followed the latest message of a person, newest first."""
    return takewhile(lambda message: not is_from_a_person(message), reversed(messages))


def is_from_a_person(message: BaseMessage) -> bool:
    """Whether somebody said this, and not the harness in a person's place."""
    return isinstance(message, HumanMessage) and not message.additional_kwargs.get(HIDDEN)


def said_by_the_model(reply: Reply) -> AIMessage | None:
    """The model's own message in a reply."""
    return next((message for message in reply.result if isinstance(message, AIMessage)), None)


def is_answered(reply: Reply, call_id: str | None) -> bool:
    """Whether a middleware has answered a call of the reply, so that it will not be made."""
    return any(isinstance(message, ToolMessage) and message.tool_call_id == call_id for message in reply.result)


def finish_reason(message: AIMessage) -> str:
    """Why the model stopped, in lower case, for vendors write it as they like."""
    metadata = message.response_metadata
    return str(metadata.get("finish_reason") or metadata.get("stop_reason") or "").lower()


def with_message(reply: Reply, message: AIMessage, *more: BaseMessage) -> Reply:
    """`reply` in which `message` stands for the model's own, with `more` and the results that it still asks for."""
    asked = {call["id"] for call in message.tool_calls}
    results = [other for other in reply.result if isinstance(other, ToolMessage) and other.tool_call_id in asked]
    return replace(reply, result=[message, *more, *results])


def with_calls(message: AIMessage, calls: Sequence[ToolCall]) -> AIMessage:
    """`message` with exactly these tool calls, also where providers keep copies of them."""
    content = message.content
    if isinstance(content, list):
        content = [block for block in content if not (isinstance(block, dict) and block.get("type") in CALL_BLOCKS)]
    extras = {key: value for key, value in message.additional_kwargs.items() if key not in RAW_CALLS}
    changes = {"tool_calls": list(calls), "invalid_tool_calls": [], "content": content, "additional_kwargs": extras}
    return message.model_copy(update=changes)


def ended_with(message: AIMessage, sentence: str, metadata: Mapping[str, str]) -> AIMessage:
    """`message` under its own id as a final answer: its text, then `sentence`, and no tool calls."""
    text = f"{message.text.rstrip()}\n\n{sentence}".lstrip()
    noted = {**message.response_metadata, **metadata}
    return with_calls(message, ()).model_copy(update={"content": text, "response_metadata": noted})


def announce_retry(
    request: Request, *, attempt: int, max_attempts: int, wait_s: float, reason: str, message: str
) -> None:
    """Tell readers that the model is asked again; what it said so far without arriving in the state is void."""
    event = {
        "type": "llm_retry",
        "attempt": attempt,  # the one that comes next
        "max_attempts": max_attempts,
        "wait_ms": round(wait_s * 1000),
        "reason": reason,
        "message": message,
    }
    request.runtime.stream_writer(event)
