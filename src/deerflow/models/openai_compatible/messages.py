"""Conversion of messages, tools and output schemas to the chat completions format."""

import json
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Literal, TypeAlias

import orjson
from langchain_core.language_models import LanguageModelInput
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
from langchain_core.output_parsers import JsonOutputParser, PydanticOutputParser
from langchain_core.output_parsers.openai_tools import JsonOutputKeyToolsParser, PydanticToolsParser
from langchain_core.runnables import Runnable, RunnableMap, RunnablePassthrough
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_function, convert_to_openai_tool
from pydantic import BaseModel

from deerflow.domain.errors import InvalidRequest
from deerflow.models.openai_compatible.vendors import Vendor

OutputSchema: TypeAlias = dict[str, Any] | type
OutputMethod: TypeAlias = Literal["json_schema", "function_calling", "json_mode"]


def to_response_format(schema: OutputSchema, strict: bool | None = None) -> dict[str, Any]:
    """Return the `response_format` field for a schema."""
    if isinstance(schema, Mapping):
        if schema.get("type") in ("json_schema", "json_object", "text"):
            return dict(schema)
        if "name" in schema and "schema" in schema:
            return {"type": "json_schema", "json_schema": dict(schema)}
    function = convert_to_openai_function(schema, strict=strict)
    function["schema"] = function.pop("parameters")
    return {"type": "json_schema", "json_schema": function}


def make_answer_parser(schema: OutputSchema | None) -> Runnable[AIMessage, Any]:
    """Return a parser for answers whose text is JSON."""
    model = _as_pydantic_model(schema)
    return JsonOutputParser() if model is None else PydanticOutputParser(pydantic_object=model)


def make_call_parser(schema: OutputSchema) -> Runnable[AIMessage, Any]:
    """Return a parser for answers that call a tool named after the schema."""
    if model := _as_pydantic_model(schema):
        return PydanticToolsParser(tools=[model], first_tool_only=True)
    return JsonOutputKeyToolsParser(key_name=get_schema_name(schema), first_tool_only=True)


def get_schema_name(schema: OutputSchema) -> str:
    """Return the name of the tool for a schema."""
    name: str = convert_to_openai_tool(schema)["function"]["name"]
    return name


def add_parser(
    model: Runnable[LanguageModelInput, AIMessage], parser: Runnable[AIMessage, Any], *, include_raw: bool
) -> Runnable[LanguageModelInput, Any]:
    """Return the model with a parsed answer; with `include_raw`, also the message and the parsing error."""
    if not include_raw:
        return model | parser
    parse = RunnablePassthrough.assign(parsed=itemgetter("raw") | parser, parsing_error=lambda _: None)
    give_up = RunnablePassthrough.assign(parsed=lambda _: None)
    return RunnableMap(raw=model) | parse.with_fallbacks([give_up], exception_key="parsing_error")


def _as_pydantic_model(schema: OutputSchema | None) -> type[BaseModel] | None:
    return schema if isinstance(schema, type) and issubclass(schema, BaseModel) else None


WireMessage: TypeAlias = dict[str, Any]
ContentBlock: TypeAlias = dict[str, Any]

# Content blocks of other vendors that the chat completions format does not support.
UNSENDABLE_BLOCKS = frozenset(
    {"tool_use", "tool_call", "invalid_tool_call", "thinking", "redacted_thinking", "reasoning", "reasoning_content"}
)


def to_wire_messages(messages: Sequence[BaseMessage], vendor: Vendor) -> list[WireMessage]:
    """Return the conversation in the format of the endpoint."""
    turn_start = _find_turn_start(messages)
    wire: list[WireMessage] = []
    seen: list[ContentBlock] = []  # images in tool results, which only a user message can contain
    for position, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            result, images = _to_tool_message(message)
            wire.append(result)
            seen += images
            continue
        if seen:
            wire.append({"role": "user", "content": seen})
            seen = []
        if isinstance(message, AIMessage):
            wire.append(_to_assistant_message(message, vendor, in_turn=position > turn_start))
        else:
            wire.append(_to_wire_message(message))
    return [*wire, {"role": "user", "content": seen}] if seen else wire


def to_json(value: object) -> bytes:
    """Return `value` as JSON, including large numbers and lone surrogates that orjson rejects."""
    try:
        return orjson.dumps(value, default=str)
    except TypeError:
        return json.dumps(value, default=str).encode()


def _find_turn_start(messages: Sequence[BaseMessage]) -> int:
    positions = (at for at in range(len(messages) - 1, -1, -1) if isinstance(messages[at], HumanMessage))
    return next(positions, -1)


def _to_wire_message(message: BaseMessage) -> WireMessage:
    # Names are left out: some endpoints reject the field, and names set by middlewares are not for the model.
    return {"role": _get_role(message), "content": _to_content(message.content)}


def _get_role(message: BaseMessage) -> str:
    match message:
        case HumanMessage():
            return "user"
        case SystemMessage():
            return "system"
        case ChatMessage():
            return message.role
        case _:
            raise InvalidRequest(f"a message of type {message.type!r} cannot be sent to a chat completions endpoint")


def _to_tool_message(message: ToolMessage) -> tuple[WireMessage, list[ContentBlock]]:
    text, media = _split_content(message.content)
    if media and not text:
        text = "The result follows in the next message."
    return {"role": "tool", "tool_call_id": message.tool_call_id, "content": text}, media


def _to_assistant_message(message: AIMessage, vendor: Vendor, *, in_turn: bool) -> WireMessage:
    text, _ = _split_content(message.content)
    calls = _to_tool_calls(message, vendor)
    wire: WireMessage = {"role": "assistant", "content": text or (None if calls else "")}
    if calls:
        wire["tool_calls"] = calls
    when = vendor.sends_back_reasoning
    if when == "always" or (when == "in tool turns" and in_turn and calls):
        wire |= _get_reasoning(message, vendor)
    return wire


def _get_reasoning(message: AIMessage, vendor: Vendor) -> dict[str, Any]:
    details = message.additional_kwargs.get("reasoning_details")
    if details and vendor.keeps_reasoning_details:
        return {"reasoning_details": details}
    reasoning = message.additional_kwargs.get("reasoning_content")
    if not reasoning:
        return {}
    field = vendor.reasoning_field or message.response_metadata.get("reasoning_field", "reasoning_content")
    return {field: reasoning}


def _to_tool_calls(message: AIMessage, vendor: Vendor) -> list[dict[str, Any]]:
    calls = [_to_tool_call(call["id"], call["name"], to_json(call["args"]).decode()) for call in message.tool_calls]
    calls += [_to_tool_call(call["id"], call["name"], call["args"]) for call in message.invalid_tool_calls]
    extras = message.additional_kwargs.get("tool_call_extras") if vendor.keeps_call_extras else None
    if extras:
        calls = [call | {"extra_content": extras[call["id"]]} if call["id"] in extras else call for call in calls]
    return calls


def _to_tool_call(call_id: str | None, name: str | None, arguments: str | None) -> dict[str, Any]:
    return {
        "id": call_id or "",
        "type": "function",
        "function": {"name": name or "", "arguments": arguments or ""},
    }


def _to_content(content: str | list[str | ContentBlock]) -> str | list[ContentBlock]:
    """Return text alone as a string, which every server accepts; text with images as blocks."""
    if isinstance(content, str):
        return content
    text, media = _split_content(content)
    return _to_blocks(content) if media else text


def _split_content(content: str | list[str | ContentBlock]) -> tuple[str, list[ContentBlock]]:
    if isinstance(content, str):
        return content, []
    blocks = _to_blocks(content)
    texts = [block["text"] for block in blocks if block["type"] == "text"]
    return "\n".join(texts), [block for block in blocks if block["type"] != "text"]


def _to_blocks(content: list[str | ContentBlock]) -> list[ContentBlock]:
    blocks = ({"type": "text", "text": block} if isinstance(block, str) else _to_block(block) for block in content)
    return [block for block in blocks if block is not None]


def _to_block(block: ContentBlock) -> ContentBlock | None:
    """Return the block in the format of the endpoint; None for unsupported types."""
    kind = block.get("type")
    if kind in UNSENDABLE_BLOCKS:
        return None
    if kind in ("text", "text-plain", None):
        return {"type": "text", "text": block["text"] if "text" in block else to_json(block).decode()}
    if kind == "image" and isinstance(block.get("source"), dict):
        return _to_image_block(block["source"])
    if not is_data_content_block(block):
        return dict(block)
    try:
        return convert_to_openai_data_block(block, api="chat/completions")
    except (KeyError, ValueError) as error:
        raise InvalidRequest(f"content of type {kind!r} cannot be sent to a chat completions endpoint") from error


def _to_image_block(source: dict[str, Any]) -> ContentBlock:
    url = source.get("url") or f"data:{source.get('media_type')};base64,{source.get('data')}"
    return {"type": "image_url", "image_url": {"url": url}}


ToolLike: TypeAlias = dict[str, Any] | type | Callable[..., Any] | BaseTool

MAX_CACHED_TOOLS = 1000


class ToolSchemaCache:
    """Cache of tool schemas: an agent sends the same tools with every request."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, bool | None], tuple[BaseTool, str, dict[str, Any]]] = {}

    def get_schema(self, tool: ToolLike, strict: bool | None) -> dict[str, Any]:
        """Return the schema of a tool; it must not be modified."""
        if not isinstance(tool, BaseTool):
            return convert_to_openai_tool(tool, strict=strict)
        key = id(tool), strict
        known = self._known.get(key)
        if known is None or known[0] is not tool or known[1] != tool.description:
            if len(self._known) >= MAX_CACHED_TOOLS:
                self._known.clear()
            known = self._known[key] = tool, tool.description, convert_to_openai_tool(tool, strict=strict)
        return known[2]
