"""Messages as they have been spoken so far, put together from the pieces in a run's log."""

from collections.abc import Mapping
from typing import Any

import orjson
from langchain_core.messages import AIMessageChunk, message_chunk_to_message

from deerflow.runtime.serialization import message_fields, to_json

PIECE_FIELDS = ("id", "name", "content", "additional_kwargs", "response_metadata", "usage_metadata", "tool_call_chunks")


class Spoken:
    """Grows by every `messages` event."""

    def __init__(self) -> None:
        self._messages: dict[str, AIMessageChunk] = {}

    def take(self, data: bytes) -> list[tuple[str, bytes]]:
        """What an event adds, as events of the LangGraph API's mode `messages`: (name, data)."""
        fields, metadata = orjson.loads(data)
        if fields["type"] != "AIMessageChunk":
            return [("messages/complete", orjson.dumps([fields]))]
        is_new = fields["id"] not in self._messages
        whole = self._add(fields)
        partial = ("messages/partial", to_json([message_fields(message_chunk_to_message(whole))]))
        about = ("messages/metadata", orjson.dumps({fields["id"]: {"metadata": metadata}}))
        return [about, partial] if is_new else [partial]

    def _add(self, fields: Mapping[str, Any]) -> AIMessageChunk:
        piece = AIMessageChunk(**{key: fields[key] for key in PIECE_FIELDS})
        known = self._messages.get(fields["id"])
        whole = self._messages[fields["id"]] = piece if known is None else known + piece
        return whole
