"""LangChain objects as JSON. One way only: nothing on this side turns JSON back into classes."""

from collections.abc import Mapping
from typing import Any

import orjson
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolMessage
from langgraph.types import Interrupt
from pydantic import BaseModel

SHOWN_METADATA = ("langgraph_node", "langgraph_step", "langgraph_checkpoint_ns", "ls_model_name", "tags")


def to_json(value: object) -> bytes:
    """`value` as JSON; objects JSON does not know are shown by their fields, or by their text."""
    return orjson.dumps(value, default=plain, option=orjson.OPT_NON_STR_KEYS)


def message_fields(message: BaseMessage) -> dict[str, Any]:
    """What the wire shows of a message."""
    fields: dict[str, Any] = {
        "type": message.type,
        "id": message.id,
        "content": message.content,
        "additional_kwargs": message.additional_kwargs,
        "response_metadata": message.response_metadata,
        "name": message.name,
    }
    if isinstance(message, AIMessage):
        fields["tool_calls"] = message.tool_calls
        fields["invalid_tool_calls"] = message.invalid_tool_calls
        fields["usage_metadata"] = message.usage_metadata
    if isinstance(message, AIMessageChunk):
        fields["tool_call_chunks"] = message.tool_call_chunks
    if isinstance(message, ToolMessage):
        fields["tool_call_id"] = message.tool_call_id
        fields["status"] = message.status
        fields["artifact"] = message.artifact
    return fields


def shown_metadata(metadata: Mapping[str, object]) -> dict[str, object]:
    """What the wire shows of where in the graph a message was made."""
    return {key: metadata[key] for key in SHOWN_METADATA if metadata.get(key)}


def plain(value: object) -> object:
    """One level of an object JSON does not know."""
    if isinstance(value, BaseMessage):
        return message_fields(value)
    if isinstance(value, BaseModel):
        return value.model_dump()
    if isinstance(value, Interrupt):
        return {"value": value.value, "id": value.id}
    if isinstance(value, set | frozenset):
        return list(value)
    return str(value)
