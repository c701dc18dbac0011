"""LangChain objects as JSON. One way only: nothing on this side turns JSON back into classes."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import orjson
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolMessage
from langgraph.types import Interrupt
from pydantic import BaseModel

SHOWN_METADATA = ("langgraph_node", "langgraph_step", "langgraph_checkpoint_ns", "ls_model_name", "tags")

OPTIONS = orjson.OPT_NON_STR_KEYS | orjson.OPT_PASSTHROUGH_DATACLASS
CHECKPOINT_KEYS = ("thread_id", "checkpoint_ns", "checkpoint_id")


def to_json(value: object) -> bytes:
    """`value` as JSON; objects JSON does not know are shown by their fields, or by their text."""
    try:
        return orjson.dumps(value, default=plain, option=OPTIONS)
    except TypeError:
        # Half a character, as models and names of files may have one, cannot be said in UTF-8; all else still can.
        return orjson.dumps(sayable(value), default=lambda other: sayable(plain(other)), option=OPTIONS)


def message_fields(message: BaseMessage) -> dict[str, Any]:
    """What the wire shows of a message."""
    shown: dict[str, Any] = {
        "type": message.type,
        "id": message.id,
        "content": message.content,
        "additional_kwargs": message.additional_kwargs,
        "response_metadata": message.response_metadata,
        "name": message.name,
    }
    if isinstance(message, AIMessage):
        shown["tool_calls"] = message.tool_calls
        shown["invalid_tool_calls"] = message.invalid_tool_calls
        shown["usage_metadata"] = message.usage_metadata
    if isinstance(message, AIMessageChunk):
        shown["tool_call_chunks"] = message.tool_call_chunks
    if isinstance(message, ToolMessage):
        shown["tool_call_id"] = message.tool_call_id
        shown["status"] = message.status
        shown["artifact"] = message.artifact
    return shown


def shown_metadata(metadata: Mapping[str, object]) -> dict[str, object]:
    """What the wire shows of where in the graph a message was made."""
    return {key: metadata[key] for key in SHOWN_METADATA if metadata.get(key)}


def shown_part(mode: str, part: Any) -> object:
    """What the wire shows of something a graph tells in a mode besides messages and values."""
    if mode == "checkpoints":
        return shown_checkpoint(part)
    if mode == "debug" and part["type"] == "checkpoint":
        shown = shown_checkpoint(part["payload"])
        return {**part, "payload": {**shown, **named_checkpoints(part["payload"])}}
    return part


def shown_checkpoint(checkpoint: Mapping[str, Any]) -> dict[str, object]:
    """A checkpoint with the names by which clients come back to it, and nothing of what LangGraph keeps there."""
    configs = {key: shown_config(checkpoint.get(key)) for key in ("config", "parent_config")}
    return {**checkpoint, **configs, "values": without_internal(checkpoint["values"])}


def shown_config(config: Mapping[str, Any] | None) -> dict[str, object] | None:
    """Which checkpoint is meant, in LangGraph's words."""
    if config is None:
        return None
    return {"configurable": {key: config["configurable"].get(key) for key in CHECKPOINT_KEYS}}


def named_checkpoints(checkpoint: Mapping[str, Any]) -> dict[str, object]:
    """Which checkpoint this is and which it follows, as threads show them."""
    configs = {"checkpoint": checkpoint["config"], "parent_checkpoint": checkpoint.get("parent_config")}
    return {name: (shown_config(config) or {}).get("configurable") for name, config in configs.items()}


def without_internal(state: Mapping[str, Any]) -> dict[str, Any]:
    """A state without what is LangGraph's own."""
    return {key: value for key, value in state.items() if not key.startswith(("__pregel", "branch:"))}


def subgraph_part(namespace: Sequence[str], mode: str, part: Any) -> bytes:
    """The data of a `subgraph` event: what a graph inside the graph tells."""
    shown = [message_fields(part[0]), shown_metadata(part[1])] if mode == "messages" else shown_part(mode, part)
    return to_json({"event": mode, "namespace": namespace, "data": shown})


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
    if is_dataclass(value):
        return {each.name: getattr(value, each.name) for each in fields(value)}
    return str(value)


def sayable(value: object) -> object:
    """`value` with a question mark for every half of a character."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, Mapping):
        return {sayable(key): sayable(each) for key, each in value.items()}
    return [sayable(each) for each in value] if isinstance(value, list | tuple) else value
