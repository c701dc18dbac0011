"""What people and agents have said, as it can be searched."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from deerflow.agents.middlewares.replies import HIDDEN
from deerflow.domain.search import SaidBy, SaidMessage


@dataclass(slots=True)
class Said:
    """What people and the agent have said in a run so far, as it can be searched."""

    messages: dict[str, SaidMessage] = field(default_factory=dict)
    steps: set[str] = field(default_factory=set)
    """Messages of the agent that call tools, on the way to an answer."""

    def hear(self, messages: Iterable[BaseMessage]) -> None:
        """Take in messages; what is not meant for people is left out."""
        for message in messages:
            if not isinstance(message, HumanMessage | AIMessage) or message.additional_kwargs.get(HIDDEN):
                continue
            role: SaidBy = "human" if isinstance(message, HumanMessage) else "ai"
            self._keep(message.id, role, message.text, datetime.now(UTC))
            if isinstance(message, AIMessage) and message.tool_calls and message.id:
                self.steps.add(message.id)

    def hear_logged(self, changes: Mapping[str, Any], at: datetime) -> None:
        """Take in what a `changes` event says."""
        for message in changes["messages"]:
            if message["type"] in ("human", "ai") and not message["additional_kwargs"].get(HIDDEN):
                self._keep(message["id"], message["type"], text_in(message["content"]), at)
                if message.get("tool_calls") and message["id"]:
                    self.steps.add(message["id"])

    def forget(self, message_ids: Iterable[str]) -> None:
        """Drop what was never said after all."""
        for id_ in message_ids:
            self.messages.pop(id_, None)

    def forget_all(self) -> None:
        """Drop everything."""
        self.messages.clear()

    def _keep(self, message_id: str | None, role: SaidBy, text: str, at: datetime) -> None:
        if message_id and text.strip():
            self.messages[message_id] = SaidMessage(message_id, role, text, at)


def text_in(content: object) -> str:
    """The text of a message's content as JSON has it."""
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    texts = (
        block if isinstance(block, str) else block.get("text") for block in blocks if isinstance(block, str | dict)
    )
    return "".join(text for text in texts if isinstance(text, str))
