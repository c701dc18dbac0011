"""What a step changed in a thread's state, and the state that many such changes add up to.

The journal stores changes, so that it grows with what is said and not with how long the conversation is; whoever wants
to see whole states derives them.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import orjson
from langchain_core.messages import BaseMessage, RemoveMessage

from deerflow.runtime.serialization import message_fields, to_json

INTERRUPT = "__interrupt__"
"""Where LangGraph puts the questions of a paused run."""


LOST = RemoveMessage(id="lost")
"""Stands for a message that readers know and the state does not, or not so."""


@dataclass(frozen=True, slots=True)
class Changes:
    """Messages that are new or different, ids of those that are gone, and other values that are different."""

    messages: Sequence[BaseMessage] = ()
    removed: Sequence[str] = ()
    values: Mapping[str, object] = field(default_factory=dict)
    thought_ms: Mapping[str, int] = field(default_factory=dict)
    """How long the model thought about a message before it answered."""

    def __bool__(self) -> bool:
        return bool(self.messages or self.removed or self.values)

    def to_json(self) -> bytes:
        """The data of a `changes` event."""
        messages = [message_fields(message) for message in self.messages]
        thought = {"thought_ms": self.thought_ms} if self.thought_ms else {}
        # The values come last: readers that look for them alone see from the end whether there are any.
        return to_json({"messages": messages, "removed": self.removed, **thought, "values": self.values})


class StateDiff:
    """Compares each state of a run with the one before."""

    def __init__(self, new_ids: Sequence[str]) -> None:
        """`new_ids` are the messages the run brings with it: the rest of the first state was there before."""
        self._new_ids = frozenset(new_ids)
        self._messages: dict[str, BaseMessage] | None = None
        self._values: dict[str, object] = {}

    @classmethod
    def from_log(cls, known: "DerivedState", state: Mapping[str, Any]) -> "StateDiff":
        """A comparison for a run that is begun again: its log tells what readers know, `state` where it goes on."""
        diff = cls([])
        messages = {message.id: message for message in state.get("messages", ())}
        # What the log knows and the state does not was lost with the process; what differs is told again.
        diff._messages = {id_: messages[id_] if known.holds(messages.get(id_)) else LOST for id_ in known.message_ids}
        diff._values = known.values
        return diff

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> "StateDiff":
        """A comparison for a run that does not begin where readers have left the thread: with `state`."""
        diff = cls([])
        diff.against(state)
        return diff

    @property
    def messages(self) -> Sequence[BaseMessage]:
        """The messages of the latest state."""
        return tuple((self._messages or {}).values())

    @property
    def is_paused(self) -> bool:
        """Whether the latest state waits for somebody's answer."""
        return bool(self._values.get(INTERRUPT))

    def asking(self, questions: Sequence[object]) -> Changes:
        """That the latest state waits for the answers to all of these, if that was not known."""
        if tuple(questions) == tuple(cast(Sequence[object], self._values.get(INTERRUPT) or ())):
            return Changes()
        self._values = {**self._values, INTERRUPT: questions}
        return Changes(values={INTERRUPT: questions})

    def has(self, message_id: str | None) -> bool:
        """Whether the latest state holds a message."""
        return message_id in (self._messages or {})

    def against(self, state: Mapping[str, Any]) -> Changes:
        """What is different in `state`."""
        messages = {message.id: message for message in state.get("messages", ())}
        values = {key: value for key, value in state.items() if key == INTERRUPT or is_shown(key)}
        if self._messages is None:
            self._messages = {id_: message for id_, message in messages.items() if id_ not in self._new_ids}
        before, self._messages = self._messages, messages
        # State is never changed in place, so nearly always identity tells; but it may have been read back.
        known = ((before.get(id_), message) for id_, message in messages.items())
        changed = [new for old, new in known if old is not new and old != new]
        removed = [id_ for id_ in before if id_ not in messages]
        # What was empty and is empty has not changed, whatever its form.
        other = {key: value for key, value in values.items() if (self._values.get(key) or None) != (value or None)}
        self._values = values
        return Changes(changed, removed, other)


def is_shown(key: str) -> bool:
    """Whether a value of a state is for readers; messages are told apart, the rest is the graph's own."""
    return key != "messages" and not key.startswith(("__", "branch:"))


class DerivedState:
    """A whole state, kept as JSON fragments so that showing it again costs no serialisation."""

    def __init__(self, *, keeps_removed: bool = False) -> None:
        """With `keeps_removed` messages that have left the agent's view stay: people want to read them again."""
        self._messages: dict[str, orjson.Fragment] = {}
        self._values: dict[str, object] = {}
        self._keeps_removed = keeps_removed

    @property
    def values(self) -> dict[str, object]:
        """What the state holds besides messages."""
        return dict(self._values)

    def holds(self, message: BaseMessage | None) -> bool:
        """Whether the state has exactly this message."""
        if message is None or message.id not in self._messages:
            return False
        return orjson.dumps(self._messages[message.id]) == orjson.dumps(orjson.loads(to_json(message_fields(message))))

    @property
    def message_ids(self) -> Collection[str]:
        """The messages the state holds."""
        return self._messages.keys()

    def apply(self, changes: bytes) -> None:
        """Take in one `changes` event."""
        data = orjson.loads(changes)
        for id_ in () if self._keeps_removed else data["removed"]:
            self._messages.pop(id_, None)
        for message in data["messages"]:
            self._messages[message["id"]] = orjson.Fragment(orjson.dumps(message))
        self._values.pop(INTERRUPT, None)  # a question is open only until something else happens
        self._values.update(data["values"])

    def to_json(self) -> bytes:
        """The data of a `values` event."""
        return orjson.dumps({**self._values, "messages": list(self._messages.values())})
