"""Pieces of a message on their way into the log: what has not been written yet may still grow."""

from collections.abc import Mapping

from langchain_core.messages import AIMessageChunk, BaseMessage

from deerflow.runtime.serialization import message_fields, shown_metadata, to_json

REASONING = "reasoning_content"


class Piece:
    """One `messages` event. Models speak in words; a log is better written in handfuls of them."""

    __slots__ = ("_message", "_metadata", "_more", "_kind")

    def __init__(self, message: BaseMessage, metadata: Mapping[str, object]) -> None:
        self._message = message
        self._metadata = metadata
        self._kind = kind_of(message)
        self._more: list[str] = []

    def take(self, message: BaseMessage) -> bool:
        """Grow by `message` if it goes on in the same way; whether it did."""
        if self._kind is None or message.id != self._message.id or kind_of(message) != self._kind:
            return False
        self._more.append(text_of(message, self._kind))
        return True

    def to_json(self) -> bytes:
        """The data of the event: the piece, and where in the graph it was made."""
        fields = message_fields(self._message)
        if self._more and self._kind is not None:
            text = text_of(self._message, self._kind) + "".join(self._more)
            fields.update({"content": text} if self._kind == "content" else {"additional_kwargs": {REASONING: text}})
        return to_json([fields, shown_metadata(self._metadata)])


def kind_of(message: BaseMessage) -> str | None:
    """Whether the piece is nothing but plain text, or nothing but reasoning; None for all else."""
    if not isinstance(message, AIMessageChunk) or not isinstance(message.content, str):
        return None
    if message.tool_call_chunks or message.usage_metadata or message.response_metadata.get("finish_reason"):
        return None
    if not message.additional_kwargs:
        return "content"
    return REASONING if message.additional_kwargs.keys() == {REASONING} and not message.content else None


def text_of(message: BaseMessage, kind: str) -> str:
    """The text of a piece of that kind."""
    return str(message.content if kind == "content" else message.additional_kwargs[REASONING])
