"""Messages of requests, and the searchable transcript of a run."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, convert_to_messages

from deerflow.agent_support.replies import HIDDEN
from deerflow.domain.errors import InvalidRequest
from deerflow.domain.identity import new_id
from deerflow.domain.threads import SearchableMessage, SearchRole


def to_messages(raw: Sequence[Mapping[str, object] | BaseMessage]) -> list[BaseMessage]:
    """Return the messages of a request, each with an id. Those of the program itself are objects already.

    Raises:
        InvalidRequest: an item is not a message, or is a system message; the text says which.
    """
    messages: list[BaseMessage] = []
    for index, fields in enumerate(raw):
        try:
            (message,) = convert_to_messages([fields if isinstance(fields, BaseMessage) else dict(fields)])
        except (ValueError, TypeError, AttributeError, LookupError, NotImplementedError) as problem:
            reason = next(iter(str(problem).splitlines()), type(problem).__name__)
            raise InvalidRequest(f"input.messages[{index}] is not a message: {reason}") from problem
        if isinstance(message, SystemMessage):
            raise InvalidRequest(
                f"input.messages[{index}] is a system message: instructions for an agent belong to its SOUL.md"
            )
        message.id = message.id or new_id()
        messages.append(message)
    if not messages:
        raise InvalidRequest("input.messages is empty: send at least one message")
    return messages


def convert_values(values: Mapping[str, object]) -> dict[str, Any]:
    """Return the values of a state update with messages as objects.

    Raises:
        InvalidRequest: A value has the wrong type.
    """
    from deerflow.agent_support.thread_state import check_state_values

    try:
        check_state_values(values)
    except ValueError as problem:
        raise InvalidRequest(f"the state cannot be changed so: {problem}") from problem
    messages = values.get("messages")
    if messages is None:
        return dict(values)
    given: list[Any] = messages if isinstance(messages, list) else [messages]
    return {**values, "messages": to_messages(given) if given else []}


@dataclass(slots=True)
class Transcript:
    """User and assistant messages of a run, as they are indexed for search."""

    messages: dict[str, SearchableMessage] = field(default_factory=dict)
    steps: set[str] = field(default_factory=set)
    """Messages of the agent that call tools, on the way to an answer."""

    def add(self, messages: Iterable[BaseMessage]) -> None:
        """Add messages, except hidden ones."""
        for message in messages:
            if not isinstance(message, HumanMessage | AIMessage) or message.additional_kwargs.get(HIDDEN):
                continue
            role: SearchRole = "human" if isinstance(message, HumanMessage) else "ai"
            self._keep(message.id, role, message.text, datetime.now(UTC))
            if isinstance(message, AIMessage) and message.tool_calls and message.id:
                self.steps.add(message.id)

    def add_logged(self, changes: Mapping[str, Any], at: datetime) -> None:
        """Add the messages of a `changes` event."""
        for message in changes["messages"]:
            if message["type"] in ("human", "ai") and not message["additional_kwargs"].get(HIDDEN):
                self._keep(message["id"], message["type"], content_text(message["content"]), at)
                if message.get("tool_calls") and message["id"]:
                    self.steps.add(message["id"])

    def remove(self, message_ids: Iterable[str]) -> None:
        """Remove messages that were retracted."""
        for id_ in message_ids:
            self.messages.pop(id_, None)

    def clear(self) -> None:
        """Remove all messages."""
        self.messages.clear()

    def _keep(self, message_id: str | None, role: SearchRole, text: str, at: datetime) -> None:
        if message_id and text.strip():
            self.messages[message_id] = SearchableMessage(message_id, role, text, at)


def content_text(content: object) -> str:
    """Return the text of message content in JSON form."""
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    texts = (
        block if isinstance(block, str) else block.get("text") for block in blocks if isinstance(block, str | dict)
    )
    return "".join(text for text in texts if isinstance(text, str))
