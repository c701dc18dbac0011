"""The part of an answer that has been streamed but is not yet in the thread's state."""

import time
from collections.abc import Collection
from dataclasses import dataclass, field

from langchain_core.messages import AIMessage


@dataclass(slots=True)
class PartialAnswer:
    """Collects what a reader has seen, so that stopping a run does not take it away again."""

    message_id: str | None = None
    text: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    thinks_since: float | None = None
    thought_s: float | None = None

    def add(self, message_id: str | None, text: str, reasoning: str | None) -> str | None:
        """Take in one streamed piece; the id of the answer it supersedes, if one was begun and never arrived."""
        superseded = None
        if message_id != self.message_id:
            superseded = self.message_id
            self._begin(message_id)
        self.text.append(text)
        if reasoning:
            self.reasoning.append(reasoning)
            self.thinks_since = self.thinks_since or time.monotonic()
        elif self.thinks_since is not None and self.thought_s is None:
            self.thought_s = time.monotonic() - self.thinks_since
        return superseded

    def forget(self, arrived: Collection[str | None]) -> dict[str, int]:
        """Drop the answer if it is among the messages that have arrived; how long was thought about it, in ms."""
        if self.message_id is None or self.message_id not in arrived:
            return {}
        thought = {} if self.thought_s is None else {self.message_id: round(self.thought_s * 1000)}
        self._begin(None)
        return thought

    def _begin(self, message_id: str | None) -> None:
        self.message_id, self.text, self.reasoning = message_id, [], []
        self.thinks_since = self.thought_s = None

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
