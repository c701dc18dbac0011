"""State differences: the changes of a step, and the state that a sequence of changes adds up to."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import orjson
from langchain_core.messages import BaseMessage, RemoveMessage

from deerflow.runtime.journal.serialization import message_fields, to_json

INTERRUPT = "__interrupt__"
"""Key of pending interrupts in LangGraph states."""


LOST = RemoveMessage(id="lost")
"""Stands for a message that readers know and the state does not, or not so."""


@dataclass(frozen=True, slots=True)
class Changes:
    """New and changed messages, ids of removed ones, and other changed values."""

    messages: Sequence[BaseMessage] = ()
    removed: Sequence[str] = ()
    values: Mapping[str, object] = field(default_factory=dict)
    thought_ms: Mapping[str, int] = field(default_factory=dict)
    """Thinking time of messages."""
    took_ms: Mapping[str, int] = field(default_factory=dict)
    """Duration of the calls whose results are among the messages, by message id."""

    def __bool__(self) -> bool:
        return bool(self.messages or self.removed or self.values)

    def to_json(self) -> bytes:
        """Return the data of a `changes` event."""
        messages = [message_fields(message) for message in self.messages]
        times = {"thought_ms": self.thought_ms} if self.thought_ms else {}
        if self.took_ms:
            times["took_ms"] = self.took_ms
        # The values come last, so that readers can tell from the end whether there are any.
        return to_json({"messages": messages, "removed": self.removed, **times, "values": self.values})


class StateDiff:
    """Compares each state of a run with the previous one."""

    def __init__(self, new_ids: Sequence[str]) -> None:
        """`new_ids` are the messages of the request: the rest of the first state existed before."""
        self._new_ids = frozenset(new_ids)
        self._messages: dict[str, BaseMessage] | None = None
        self._values: dict[str, object] = {}

    @classmethod
    def from_log(cls, known: "DerivedState", state: Mapping[str, Any]) -> "StateDiff":
        """Create a comparison for a resumed run: readers have `known`, and the run continues from `state`."""
        diff = cls([])
        messages = {message.id: message for message in state.get("messages", ())}
        # Messages in the log but not in the state were lost with the process; differences are sent again.
        diff._messages = {id_: messages[id_] if known.holds(messages.get(id_)) else LOST for id_ in known.message_ids}
        diff._values = known.values
        return diff

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> "StateDiff":
        """Create a comparison for a run that starts from another state than readers have."""
        diff = cls([])
        diff.against(state)
        return diff

    @property
    def messages(self) -> Sequence[BaseMessage]:
        """Messages of the latest state."""
        return tuple((self._messages or {}).values())

    @property
    def is_paused(self) -> bool:
        """Whether the latest state has pending interrupts."""
        return bool(self._values.get(INTERRUPT))

    def asking(self, questions: Sequence[object]) -> Changes:
        """Return the change that adds pending interrupts, if they are new."""
        if tuple(questions) == tuple(cast(Sequence[object], self._values.get(INTERRUPT) or ())):
            return Changes()
        self._values = {**self._values, INTERRUPT: questions}
        return Changes(values={INTERRUPT: questions})

    def has(self, message_id: str | None) -> bool:
        """Return whether the latest state has a message."""
        return message_id in (self._messages or {})

    def against(self, state: Mapping[str, Any]) -> Changes:
        """Return the changes to `state`."""
        messages = {message.id: message for message in state.get("messages", ())}
        values = {key: value for key, value in state.items() if key == INTERRUPT or is_public(key)}
        if self._messages is None:
            self._messages = {id_: message for id_, message in messages.items() if id_ not in self._new_ids}
        before, self._messages = self._messages, messages
        # State is never changed in place, so identity usually suffices; but it may have been loaded again.
        known = ((before.get(id_), message) for id_, message in messages.items())
        changed = [new for old, new in known if old is not new and old != new]
        removed = [id_ for id_ in before if id_ not in messages]
        # Empty values are equal, whatever their type.
        other = {key: value for key, value in values.items() if (self._values.get(key) or None) != (value or None)}
        self._values = values
        return Changes(changed, removed, other)


def is_public(key: str) -> bool:
    """Return whether a value of a state is sent to readers; messages are sent separately."""
    return key != "messages" and not key.startswith(("__", "branch:"))


class DerivedState:
    """Complete state, kept as JSON fragments so that sending it again needs no serialization."""

    def __init__(self, *, keeps_removed: bool = False) -> None:
        """With `keeps_removed`, messages that left the model's context stay in the state."""
        self._messages: dict[str, orjson.Fragment] = {}
        self._values: dict[str, object] = {}
        self._keeps_removed = keeps_removed

    @property
    def values(self) -> dict[str, object]:
        """Values of the state besides messages."""
        return dict(self._values)

    def holds(self, message: BaseMessage | None) -> bool:
        """Return whether the state has exactly this message."""
        if message is None or message.id not in self._messages:
            return False
        return orjson.dumps(self._messages[message.id]) == orjson.dumps(orjson.loads(to_json(message_fields(message))))

    @property
    def message_ids(self) -> Collection[str]:
        """Ids of the messages."""
        return self._messages.keys()

    def apply(self, changes: bytes) -> None:
        """Apply a `changes` event."""
        data = orjson.loads(changes)
        for id_ in () if self._keeps_removed else data["removed"]:
            self._messages.pop(id_, None)
        for message in data["messages"]:
            self._messages[message["id"]] = orjson.Fragment(orjson.dumps(message))
        self._values.pop(INTERRUPT, None)  # a question is open only until something else happens
        self._values.update(data["values"])

    def to_json(self) -> bytes:
        """Return the data of a `values` event."""
        return orjson.dumps({**self._values, "messages": list(self._messages.values())})
