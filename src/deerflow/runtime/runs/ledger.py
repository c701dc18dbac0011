"""Tool calls in a run's log: the intent before, the outcome after."""

from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from typing import Any

import orjson
from langchain_core.messages import ToolMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.types import Command

from deerflow.domain.events import StreamEvent
from deerflow.domain.ledger import Call, OutcomeUnknown
from deerflow.domain.subagents import Cost, ItemOutcome, TaskOutcome, item_task
from deerflow.domain.usage import TokenCounts
from deerflow.persistence.events import nothing_else
from deerflow.runtime.journal import RunLog
from deerflow.runtime.serialization import to_json

TASK_EVENTS = tuple(f'{{"type":"task_{name}"'.encode() for name in ("started", "completed", "failed", "timed_out"))
"""How the events begin that tell of the beginning and the end of a task."""
CallKey = tuple[str | None, str]
"""The message that makes a call, and the id it has there."""


@dataclass(frozen=True, slots=True)
class Earlier:
    """What the log says of the calls and tasks of earlier attempts."""

    begun: frozenset[CallKey] = frozenset()
    outcomes: Mapping[CallKey, str] = field(default_factory=dict)
    tasks: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The tools that unfinished tasks had begun to use."""
    items: Mapping[str, Mapping[int, ItemOutcome]] = field(default_factory=dict)
    """What items of unfinished batches had led to."""
    ended: Mapping[str, TaskOutcome] = field(default_factory=dict)
    """How tasks had ended whose results nobody had taken."""

    @classmethod
    def read(cls, events: Iterable[StreamEvent]) -> "Earlier":
        """Read intents and outcomes."""
        found = _Reading()
        for event in events:
            if event.event in ("tool_intent", "tool_outcome", "batch_item"):
                found.take_in(event.event, orjson.loads(event.data))
            elif event.event == "custom" and event.data.startswith(TASK_EVENTS):
                found.hear(orjson.loads(event.data))
        return cls(frozenset(found.begun), found.outcomes, found.tasks, found.items, found.ended)


@dataclass(slots=True)
class _Reading:
    begun: set[CallKey] = field(default_factory=set)
    outcomes: dict[CallKey, str] = field(default_factory=dict)
    tasks: dict[str, list[str]] = field(default_factory=dict)
    items: dict[str, dict[int, ItemOutcome]] = field(default_factory=dict)
    ended: dict[str, TaskOutcome] = field(default_factory=dict)

    def hear(self, event: Mapping[str, Any]) -> None:
        """Take in that a task has begun or ended."""
        if event["type"] == "task_started":
            self.ended.pop(event["task_id"], None)
        elif "status" in event:  # logs of older versions do not say it
            self.ended[event["task_id"]] = outcome_in(event)

    def take_in(self, event: str, data: Mapping[str, Any]) -> None:
        if event == "batch_item":
            item = ItemOutcome(**data["outcome"])
            self.items.setdefault(data["batch"], {})[item.index] = item
            self.tasks.pop(item_task(data["batch"], item.index), None)
        elif (task := data.get("task_id")) is not None:
            if event == "tool_intent":
                self.tasks.setdefault(task, []).append(data["tool"])
        else:
            key = (data["message_id"], data["tool_call_id"])
            self.begun.add(key)
            if event == "tool_outcome":
                self.outcomes[key] = data["outcome"]
                # Models may use an id again: what comes later under it is another task.
                self.tasks.pop(data["tool_call_id"], None)
                self.items.pop(data["tool_call_id"], None)
                self.ended.pop(data["tool_call_id"], None)


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

    def of_task(self, task_id: str) -> "TaskLedger":
        """The ledger for the calls of a subagent."""
        return TaskLedger(self._log, task_id)

    async def begin(self, call: Call) -> None:
        """Write down that a call is about to be made."""
        await self._log.commit("tool_intent", to_json({**fields_of(call), "tool": call.tool}), nothing_else)

    async def end(self, call: Call, outcome: object) -> None:
        """Write down what it led to."""
        self._log.outcomes[call.message_id, call.id] = outcome  # before it is written: the run may be stopped meanwhile
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


class TaskLedger:
    """The ledger of a subagent. A task is begun again as a whole or not at all, so it has made no calls before."""

    def __init__(self, log: RunLog, task_id: str) -> None:
        self._log = log
        self._task_id = task_id

    def earlier(self, call: Call) -> object | None:
        """Nothing."""
        return None

    def of_task(self, task_id: str) -> "TaskLedger":
        """The ledger for the calls of another."""
        return TaskLedger(self._log, task_id)

    async def begin(self, call: Call) -> None:
        """Write down that a call is about to be made."""
        told = {**fields_of(call), "tool": call.tool, "task_id": self._task_id}
        await self._log.commit("tool_intent", to_json(told), nothing_else)

    async def end(self, call: Call, outcome: object) -> None:
        """Write down that it is over; what it led to only the subagent has to know."""
        self._log.append("tool_outcome", to_json({**fields_of(call), "outcome": None, "task_id": self._task_id}))


class RunTasks:
    """The tasks of a run in its log."""

    def __init__(self, log: RunLog, earlier: Earlier) -> None:
        self._log = log
        self._earlier = earlier

    def tell(self, event: Mapping[str, object]) -> None:
        """Tell readers something."""
        self._log.append("custom", to_json(event))

    def begun_in(self, task_id: str) -> Sequence[str]:
        """The tools that a task had begun to use."""
        return self._earlier.tasks.get(task_id, ())

    def ended(self, task_id: str) -> TaskOutcome | None:
        """How a task had ended."""
        return self._earlier.ended.get(task_id)

    def items_of(self, batch: str) -> Mapping[int, ItemOutcome]:
        """The outcomes that items of a batch had."""
        return self._earlier.items.get(batch, {})

    def note_item(self, batch: str, outcome: ItemOutcome) -> None:
        """Write down the outcome of an item."""
        self._log.append("batch_item", to_json({"batch": batch, "outcome": asdict(outcome)}))


def outcome_in(event: Mapping[str, Any]) -> TaskOutcome:
    """The outcome that the end of a task tells of."""
    usage, cost = event["usage"], event["cost"]
    return TaskOutcome(
        event["status"],
        event.get("result") or "",
        event.get("error"),
        event["stop_reason"],
        event["model_name"],
        TokenCounts(input_tokens=usage["input_tokens"], output_tokens=usage["output_tokens"]),
        Cost(Decimal(cost["amount"]), cost["currency"]) if cost else None,
        event["duration_s"],
    )


def fields_of(call: Call) -> dict[str, str | None]:
    """How the log names a call."""
    return {"tool_call_id": call.id, "message_id": call.message_id}
