"""Tool calls in a run's log: the intent before, the outcome after."""

from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import orjson
from langchain_core.messages import ToolMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.types import Command

from deerflow.domain.events import StreamEvent
from deerflow.domain.ledger import Call, OutcomeUnknown
from deerflow.persistence.events import nothing_else
from deerflow.runtime.journal import RunLog
from deerflow.runtime.serialization import to_json

CallKey = tuple[str | None, str]
"""The message that makes a call, and the id it has there."""


@dataclass(frozen=True, slots=True)
class Earlier:
    """What the log says of the calls of earlier attempts."""

    begun: frozenset[CallKey] = frozenset()
    outcomes: Mapping[CallKey, str] = field(default_factory=dict)

    @classmethod
    def read(cls, events: Iterable[StreamEvent]) -> "Earlier":
        """Read intents and outcomes."""
        begun, outcomes = set(), {}
        for event in events:
            if event.event in ("tool_intent", "tool_outcome"):
                data = orjson.loads(event.data)
                key = (data["message_id"], data["tool_call_id"])
                begun.add(key)
                if event.event == "tool_outcome":
                    outcomes[key] = data["outcome"]
        return cls(frozenset(begun), outcomes)


class RunLedger:
    """The ledger of one run, in its log."""

    def __init__(self, log: RunLog, earlier: Earlier) -> None:
        self._log = log
        self._earlier = earlier
        # As with checkpoints: stored data revives LangChain's own message classes and plain values, nothing else.
        self._serde = JsonPlusSerializer(allowed_msgpack_modules=None)

    def earlier(self, call: Call) -> object | None:
        """What a call led to in an earlier attempt."""
        key = (call.message_id, call.id)
        if key in self._earlier.outcomes:
            return self._revive(self._earlier.outcomes[key])
        if key in self._earlier.begun:
            raise OutcomeUnknown(call.id)
        return None

    async def begin(self, call: Call) -> None:
        """Write down that a call is about to be made."""
        await self._log.commit("tool_intent", to_json({**fields_of(call), "tool": call.tool}), nothing_else)

    async def end(self, call: Call, outcome: object) -> None:
        """Write down what it led to."""
        told = to_json({**fields_of(call), "outcome": self._store(outcome)})
        await self._log.commit("tool_outcome", told, nothing_else)

    def _store(self, outcome: object) -> str:
        update = outcome.update if isinstance(outcome, Command) else {"messages": [outcome]}
        plain = {"update": update, "is_command": isinstance(outcome, Command)}
        return b64encode(self._serde.dumps_typed(plain)[1]).decode()

    def _revive(self, stored: str) -> ToolMessage | Command[object]:
        plain = self._serde.loads_typed(("msgpack", b64decode(stored)))
        if plain["is_command"]:
            return Command(update=plain["update"])
        message: ToolMessage = plain["update"]["messages"][0]
        return message


def fields_of(call: Call) -> dict[str, str | None]:
    """How the log names a call."""
    return {"tool_call_id": call.id, "message_id": call.message_id}
