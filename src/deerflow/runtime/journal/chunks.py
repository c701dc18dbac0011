"""Message chunks in the event log: consecutive chunks are merged until they are written."""

from collections.abc import Mapping
from typing import Any

import orjson
from langchain_core.messages import AIMessageChunk, BaseMessage, message_chunk_to_message

from deerflow.runtime.journal.serialization import message_fields, metadata_fields, to_json

REASONING = "reasoning_content"


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
