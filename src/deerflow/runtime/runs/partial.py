"""The part of an answer that has been streamed but is not yet in the thread's state."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from langchain_core.messages import AIMessage


@dataclass(slots=True)
class PartialAnswer:
    """Collects what a reader has seen, so that stopping a run does not take it away again."""

    message_id: str | None = None
    text: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)

    def add(self, message_id: str | None, text: str, reasoning: str | None) -> str | None:
        """Take in one streamed piece; the id of the answer it supersedes, if one was begun and never arrived."""
        superseded = None
        if message_id != self.message_id:
            superseded = self.message_id
            self.message_id, self.text, self.reasoning = message_id, [], []
        self.text.append(text)
        if reasoning:
            self.reasoning.append(reasoning)
        return superseded

    def forget(self, arrived: Iterable[str | None]) -> None:
        """Drop the answer if it is among the messages that have arrived in the state."""
        if self.message_id in arrived:
            self.message_id, self.text, self.reasoning = None, [], []

    def to_message(self) -> AIMessage | None:
        """What was seen, as a message; None when there was no text. Half a tool call is nothing to keep."""
        text = "".join(self.text)
        if not text:
            return None
        reasoning = "".join(self.reasoning)
        return AIMessage(
            text,
            id=self.message_id,
            additional_kwargs={"reasoning_content": reasoning} if reasoning else {},
            response_metadata={"finish_reason": "interrupted"},
        )
