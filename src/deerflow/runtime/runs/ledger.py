"""Tool calls in a run's log: the intent before, the outcome after."""

from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import orjson
from langchain_core.messages import ToolMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.types import Command

from deerflow.domain.events import StreamEvent
from deerflow.domain.ledger import OutcomeUnknown
from deerflow.persistence.events import nothing_else
from deerflow.runtime.journal import RunLog
from deerflow.runtime.serialization import to_json


@dataclass(frozen=True, slots=True)
class Earlier:
    """What the log says of the calls of earlier attempts."""

    begun: frozenset[str] = frozenset()
    outcomes: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, events: Iterable[StreamEvent]) -> "Earlier":
        """Read intents and outcomes."""
        begun, outcomes = set(), {}
        for event in events:
            if event.event == "tool_intent":
                begun.add(orjson.loads(event.data)["tool_call_id"])
            elif event.event == "tool_outcome":
                data = orjson.loads(event.data)
                outcomes[data["tool_call_id"]] = data["outcome"]
        return cls(frozenset(begun), outcomes)


class RunLedger:
    """The ledger of one run, in its log."""

    def __init__(self, log: RunLog, earlier: Earlier) -> None:
        self._log = log
        self._earlier = earlier
        # As with checkpoints: stored data revives LangChain's own message classes and plain values, nothing else.
        self._serde = JsonPlusSerializer(allowed_msgpack_modules=None)

    def earlier(self, call_id: str) -> object | None:
        """What a call led to in an earlier attempt."""
        if call_id in self._earlier.outcomes:
            return self._revive(self._earlier.outcomes[call_id])
        if call_id in self._earlier.begun:
            raise OutcomeUnknown(call_id)
        return None

    async def begin(self, call_id: str, tool: str) -> None:
        """Write down that a call is about to be made."""
        await self._log.commit("tool_intent", to_json({"tool_call_id": call_id, "tool": tool}), nothing_else)

    async def end(self, call_id: str, outcome: object) -> None:
        """Write down what it led to."""
        told = to_json({"tool_call_id": call_id, "outcome": self._store(outcome)})
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
