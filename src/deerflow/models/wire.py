"""LangChain messages in the wire format of the chat completions API."""

import json
from collections.abc import Sequence
from typing import Any, TypeAlias

import orjson
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    convert_to_openai_data_block,
    is_data_content_block,
)

from deerflow.domain.errors import InvalidRequest
from deerflow.models.quirks import Vendor

WireMessage: TypeAlias = dict[str, Any]
Block: TypeAlias = dict[str, Any]

# Blocks other vendors put into the content of an answer; the wire format has no place for them.
UNSENDABLE_BLOCKS = frozenset(
    {"tool_use", "tool_call", "invalid_tool_call", "thinking", "redacted_thinking", "reasoning", "reasoning_content"}
)


def wire_messages(messages: Sequence[BaseMessage], vendor: Vendor) -> list[WireMessage]:
    """The conversation as the endpoint wants to read it."""
    turn_start = _start_of_turn(messages)
    wire: list[WireMessage] = []
    seen: list[Block] = []  # images in tool results: only a user message has room for them
    for position, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            result, images = _tool_result(message)
            wire.append(result)
            seen += images
            continue
        if seen:
            wire.append({"role": "user", "content": seen})
            seen = []
        if isinstance(message, AIMessage):
            wire.append(_assistant(message, vendor, in_turn=position > turn_start))
        else:
            wire.append(_instruction(message))
    return [*wire, {"role": "user", "content": seen}] if seen else wire


def to_json(value: object) -> bytes:
    """`value` as JSON, also where it holds numbers or broken characters that the fast encoder refuses."""
    try:
        return orjson.dumps(value, default=str)
    except TypeError:
        return json.dumps(value, default=str).encode()


def _start_of_turn(messages: Sequence[BaseMessage]) -> int:
    positions = (at for at in range(len(messages) - 1, -1, -1) if isinstance(messages[at], HumanMessage))
    return next(positions, -1)


def _instruction(message: BaseMessage) -> WireMessage:
    # Names stay here: some endpoints refuse the field, and those that middlewares give are not for the model.
    return {"role": _role(message), "content": _content(message.content)}


def _role(message: BaseMessage) -> str:
    match message:
        case HumanMessage():
            return "user"
        case SystemMessage():
            return "system"
        case ChatMessage():
            return message.role
        case _:
            raise InvalidRequest(f"a message of type {message.type!r} cannot be sent to a chat completions endpoint")


def _tool_result(message: ToolMessage) -> tuple[WireMessage, list[Block]]:
    text, media = _text_and_media(message.content)
    if media and not text:
        text = "The result follows in the next message."
    return {"role": "tool", "tool_call_id": message.tool_call_id, "content": text}, media


def _assistant(message: AIMessage, vendor: Vendor, *, in_turn: bool) -> WireMessage:
    text, _ = _text_and_media(message.content)
    calls = _tool_calls(message, vendor)
    wire: WireMessage = {"role": "assistant", "content": text or (None if calls else "")}
    if calls:
        wire["tool_calls"] = calls
    when = vendor.sends_back_reasoning
    if when == "always" or (when == "in tool turns" and in_turn and calls):
        wire |= _reasoning(message, vendor)
    return wire


def _reasoning(message: AIMessage, vendor: Vendor) -> dict[str, Any]:
    details = message.additional_kwargs.get("reasoning_details")
    if details and vendor.keeps_reasoning_details:
        return {"reasoning_details": details}
    reasoning = message.additional_kwargs.get("reasoning_content")
    if not reasoning:
        return {}
    field = vendor.reasoning_field or message.response_metadata.get("reasoning_field", "reasoning_content")
    return {field: reasoning}


def _tool_calls(message: AIMessage, vendor: Vendor) -> list[dict[str, Any]]:
    calls = [_tool_call(call["id"], call["name"], to_json(call["args"]).decode()) for call in message.tool_calls]
    calls += [_tool_call(call["id"], call["name"], call["args"]) for call in message.invalid_tool_calls]
    extras = message.additional_kwargs.get("tool_call_extras") if vendor.keeps_call_extras else None
    if extras:
        calls = [call | {"extra_content": extras[call["id"]]} if call["id"] in extras else call for call in calls]
    return calls


def _tool_call(call_id: str | None, name: str | None, arguments: str | None) -> dict[str, Any]:
    return {
        "id": call_id or "",
        "type": "function",
        "function": {"name": name or "", "arguments": arguments or ""},
    }


def _content(content: str | list[str | Block]) -> str | list[Block]:
    """Text alone as a string, which every server takes; text with images as blocks."""
    if isinstance(content, str):
        return content
    text, media = _text_and_media(content)
    return _blocks(content) if media else text


def _text_and_media(content: str | list[str | Block]) -> tuple[str, list[Block]]:
    if isinstance(content, str):
        return content, []
    blocks = _blocks(content)
    texts = [block["text"] for block in blocks if block["type"] == "text"]
    return "\n".join(texts), [block for block in blocks if block["type"] != "text"]


def _blocks(content: list[str | Block]) -> list[Block]:
    blocks = ({"type": "text", "text": block} if isinstance(block, str) else _block(block) for block in content)
    return [block for block in blocks if block is not None]


def _block(block: Block) -> Block | None:
    """The block as the wire format has it; nothing for those it has no place for."""
    kind = block.get("type")
    if kind in UNSENDABLE_BLOCKS:
        return None
    if kind in ("text", "text-plain", None):
        return {"type": "text", "text": block["text"] if "text" in block else to_json(block).decode()}
    if kind == "image" and isinstance(block.get("source"), dict):
        return _image_from_anthropic(block["source"])
    if not is_data_content_block(block):
        return dict(block)
    try:
        return convert_to_openai_data_block(block, api="chat/completions")
    except (KeyError, ValueError) as error:
        raise InvalidRequest(f"content of type {kind!r} cannot be sent to a chat completions endpoint") from error


def _image_from_anthropic(source: dict[str, Any]) -> Block:
    url = source.get("url") or f"data:{source.get('media_type')};base64,{source.get('data')}"
    return {"type": "image_url", "image_url": {"url": url}}
