"""Serialization of LangChain objects and message chunks to JSON. JSON is never turned back into classes."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import orjson
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolMessage, message_chunk_to_message
from pydantic import BaseModel

from deerflow.agent_support.replies import MAX_DEPTH, make_storable

REASONING = "reasoning_content"
CLARIFICATION_TOOL = "ask_clarification"
"""Tool whose result is shown to the user: it ends the run in place of an answer."""


class ChunkBuffer:
    """One `messages` event. Consecutive text chunks are merged, so the log has fewer rows than tokens."""

    __slots__ = ("_message", "_metadata", "_more", "_kind")

    def __init__(self, message: BaseMessage, metadata: Mapping[str, object]) -> None:
        self._message = message
        self._metadata = metadata
        self._kind = mergeable_kind(message)
        self._more: list[str] = []

    def take(self, message: BaseMessage) -> bool:
        """Merge `message` if it continues this chunk. Return whether it did."""
        if self._kind is None or message.id != self._message.id or mergeable_kind(message) != self._kind:
            return False
        self._more.append(chunk_text(message, self._kind))
        return True

    def to_json(self) -> bytes:
        """Return the data of the event: the chunk and its metadata."""
        fields = message_fields(self._message)
        if self._more and self._kind is not None:
            text = chunk_text(self._message, self._kind) + "".join(self._more)
            fields.update({"content": text} if self._kind == "content" else {"additional_kwargs": {REASONING: text}})
        return to_json([fields, metadata_fields(self._metadata)])


def mergeable_kind(message: BaseMessage) -> str | None:
    """Return the field that holds the text of a pure text or reasoning chunk; None for all others."""
    if not isinstance(message, AIMessageChunk) or not isinstance(message.content, str):
        return None
    if message.tool_call_chunks or message.usage_metadata or message.response_metadata.get("finish_reason"):
        return None
    if not message.additional_kwargs:
        return "content"
    return REASONING if message.additional_kwargs.keys() == {REASONING} and not message.content else None


def has_text(message: BaseMessage) -> bool:
    """Return whether a reader waits for this chunk: it holds text or reasoning of the model."""
    is_reply = isinstance(message, AIMessageChunk)
    return is_reply and bool(message.content or message.additional_kwargs.get(REASONING))


def chunk_text(message: BaseMessage, kind: str) -> str:
    """Return the text of a chunk of that kind."""
    return str(message.content if kind == "content" else message.additional_kwargs[REASONING])


CHUNK_FIELDS = ("id", "name", "content", "additional_kwargs", "response_metadata", "usage_metadata", "tool_call_chunks")


class MessageAccumulator:
    """Accumulates the chunks of `messages` events into whole messages."""

    def __init__(self) -> None:
        self._messages: dict[str, AIMessageChunk] = {}

    def take(self, data: bytes) -> list[tuple[str, bytes]]:
        """Add an event. Return the events of the LangGraph stream mode `messages` as (name, data)."""
        fields, metadata = orjson.loads(data)
        if fields["type"] != "AIMessageChunk":
            return [("messages/complete", orjson.dumps([fields]))]
        is_new = fields["id"] not in self._messages
        whole = self._add(fields)
        partial = ("messages/partial", to_json([message_fields(message_chunk_to_message(whole))]))
        about = ("messages/metadata", orjson.dumps({fields["id"]: {"metadata": metadata}}))
        return [about, partial] if is_new else [partial]

    def _add(self, fields: Mapping[str, Any]) -> AIMessageChunk:
        piece = AIMessageChunk(**{key: fields[key] for key in CHUNK_FIELDS})
        known = self._messages.get(fields["id"])
        whole = self._messages[fields["id"]] = piece if known is None else known + piece
        return whole


SHOWN_METADATA = ("langgraph_node", "langgraph_step", "langgraph_checkpoint_ns", "ls_model_name", "tags")

OPTIONS = orjson.OPT_NON_STR_KEYS | orjson.OPT_PASSTHROUGH_DATACLASS
CHECKPOINT_KEYS = ("thread_id", "checkpoint_ns", "checkpoint_id")


def to_json(value: object) -> bytes:
    """Return `value` as JSON; unknown objects are represented by their fields or their text."""
    try:
        return orjson.dumps(value, default=object_fields, option=OPTIONS)
    except (TypeError, ValueError, RecursionError):
        return orjson.dumps(make_storable(to_plain(value)), default=str, option=OPTIONS)


def to_plain(value: object, depth: int = 0) -> object:
    """Return `value` with the fields of objects in place of the objects."""
    if depth > MAX_DEPTH or value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, Mapping):
        return {key: to_plain(each, depth + 1) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(each, depth + 1) for each in value]
    return to_plain(object_fields(value), depth + 1)


def message_fields(message: BaseMessage) -> dict[str, Any]:
    """Return the fields of a message for the wire."""
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


def metadata_fields(metadata: Mapping[str, object]) -> dict[str, object]:
    """Return the metadata of a message for the wire."""
    return {key: metadata[key] for key in SHOWN_METADATA if metadata.get(key)}


def stream_part_fields(mode: str, part: Any) -> object:
    """Return a stream part of a mode other than messages and values for the wire."""
    if mode == "checkpoints":
        return checkpoint_fields(part)
    if mode == "debug" and part["type"] == "checkpoint":
        shown = checkpoint_fields(part["payload"])
        return {**part, "payload": {**shown, **checkpoint_names(part["payload"])}}
    return part


def checkpoint_fields(checkpoint: Mapping[str, Any]) -> dict[str, object]:
    """Return a checkpoint for the wire, with the names that clients use to refer to it."""
    configs = {key: config_fields(checkpoint.get(key)) for key in ("config", "parent_config")}
    return {**checkpoint, **configs, "values": drop_internal(checkpoint["values"])}


def config_fields(config: Mapping[str, Any] | None) -> dict[str, object] | None:
    """Return the checkpoint that a LangGraph config refers to."""
    if config is None:
        return None
    return {"configurable": {key: config["configurable"].get(key) for key in CHECKPOINT_KEYS}}


def checkpoint_names(checkpoint: Mapping[str, Any]) -> dict[str, object]:
    """Return the references to a checkpoint and its parent, as threads show them."""
    configs = {"checkpoint": checkpoint["config"], "parent_checkpoint": checkpoint.get("parent_config")}
    return {name: (config_fields(config) or {}).get("configurable") for name, config in configs.items()}


def drop_internal(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return a state without LangGraph's internal values."""
    return {key: value for key, value in state.items() if not key.startswith(("__pregel", "branch:"))}


def subgraph_part(namespace: Sequence[str], mode: str, part: Any) -> bytes:
    """Return the data of a `subgraph` event."""
    shown = (
        [message_fields(part[0]), metadata_fields(part[1])] if mode == "messages" else stream_part_fields(mode, part)
    )
    return to_json({"event": mode, "namespace": namespace, "data": shown})


def object_fields(value: object) -> object:
    """Return one level of an object that JSON does not know."""
    if isinstance(value, BaseMessage):
        return message_fields(value)
    if isinstance(value, BaseModel):
        return value.model_dump()
    if isinstance(value, set | frozenset):
        return list(value)
    if is_dataclass(value):
        from langgraph.types import Interrupt  # loaded with the first run, and not by a server that only starts

        if isinstance(value, Interrupt):
            return {"value": value.value, "id": value.id}
        return {each.name: getattr(value, each.name) for each in fields(value)}
    return str(value)


def extract_text(content: str | list[dict[str, Any] | str]) -> str:
    """Return the text of a message's content, which is a string or a list of blocks."""
    if isinstance(content, str):
        return content
    return "".join(block if isinstance(block, str) else block.get("text", "") for block in content)


def has_action_requests(interrupt: Mapping[str, Any]) -> bool:
    """Return whether tool calls are pending, and not a question of a custom middleware or tool."""
    return isinstance(interrupt["value"], Mapping) and "action_requests" in interrupt["value"]
