"""Tool ledger: intents and results of tool calls in the event log."""

from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from typing import Any

import orjson
from langchain_core.messages import ToolMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.types import Command

from deerflow.domain.runs import RunEvent
from deerflow.domain.subagents import ItemOutcome, TaskCost, TaskOutcome, make_item_task_id
from deerflow.domain.tools import LedgerCall, OutcomeUnknown
from deerflow.domain.usage import TokenCounts
from deerflow.persistence.queries.events import do_nothing
from deerflow.runtime.journal.journal import RunLog
from deerflow.runtime.journal.serialization import to_json

TASK_EVENTS = tuple(f'{{"type":"task_{name}"'.encode() for name in ("started", "completed", "failed", "timed_out"))
"""Prefixes of the events that begin and end a task."""
CallKey = tuple[str | None, str]
"""Message id and call id."""


@dataclass(frozen=True, slots=True)
class RecordedCalls:
    """Calls and tasks of earlier attempts, read from the event log."""

    begun: frozenset[CallKey] = frozenset()
    outcomes: Mapping[CallKey, str] = field(default_factory=dict)
    tasks: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Tools that unfinished tasks had started to use."""
    items: Mapping[str, Mapping[int, ItemOutcome]] = field(default_factory=dict)
    """What items of unfinished batches had led to."""
    ended: Mapping[str, TaskOutcome] = field(default_factory=dict)
    """How tasks had ended whose results nobody had taken."""

    @classmethod
    def read(cls, events: Iterable[RunEvent]) -> "RecordedCalls":
        """Read intents and results."""
        found = _CallReader()
        for event in events:
            if event.event in ("tool_intent", "tool_outcome", "batch_item"):
                found.log_part(event.event, orjson.loads(event.data))
            elif event.event == "custom" and event.data.startswith(TASK_EVENTS):
                found.add_event(orjson.loads(event.data))
        return cls(frozenset(found.begun), found.outcomes, found.tasks, found.items, found.ended)


@dataclass(slots=True)
class _CallReader:
    begun: set[CallKey] = field(default_factory=set)
    outcomes: dict[CallKey, str] = field(default_factory=dict)
    tasks: dict[str, list[str]] = field(default_factory=dict)
    items: dict[str, dict[int, ItemOutcome]] = field(default_factory=dict)
    ended: dict[str, TaskOutcome] = field(default_factory=dict)

    def add_event(self, event: Mapping[str, Any]) -> None:
        """Take in that a task has begun or ended."""
        if event["type"] == "task_started":
            self.ended.pop(event["task_id"], None)
        elif "status" in event:  # logs of older versions do not say it
            self.ended[event["task_id"]] = parse_outcome(event)

    def log_part(self, event: str, data: Mapping[str, Any]) -> None:
        if event == "batch_item":
            item = ItemOutcome(**data["outcome"])
            self.items.setdefault(data["batch"], {})[item.index] = item
            self.tasks.pop(make_item_task_id(data["batch"], item.index), None)
        elif (task := data.get("task_id")) is not None:
            if event == "tool_intent":
                self.tasks.setdefault(task, []).append(data["tool"])
        else:
            key = (data["message_id"], data["tool_call_id"])
            self.begun.add(key)
            if event == "tool_outcome":
                self.outcomes[key] = data["outcome"]
                # Models may reuse an id: a later task with it is a different one.
                self.tasks.pop(data["tool_call_id"], None)
                self.items.pop(data["tool_call_id"], None)
                self.ended.pop(data["tool_call_id"], None)


class RunLedger:
    """Ledger of one run."""

    def __init__(self, log: RunLog, earlier: RecordedCalls) -> None:
        self._log = log
        self._earlier = earlier
        # As with checkpoints: only LangChain message classes and plain values are deserialized.
        self._serde = JsonPlusSerializer(allowed_msgpack_modules=None)

    def find_outcome(self, call: LedgerCall) -> object | None:
        """Return the result of a call in an earlier attempt."""
        key = (call.message_id, call.id)
        if key in self._earlier.outcomes:
            return self._revive(self._earlier.outcomes[key])
        if key in self._earlier.begun:
            raise OutcomeUnknown(call.id)
        return None

    def for_task(self, task_id: str) -> "TaskLedger":
        """Return the ledger for the calls of a subagent."""
        return TaskLedger(self._log, task_id)

    async def begin(self, call: LedgerCall) -> None:
        """Record the intent of a call."""
        await record_intent(self._log, call, {**call_fields(call), "tool": call.tool})

    async def end(self, call: LedgerCall, outcome: object) -> None:
        """Record the result of a call: at once if the call reached out, else with the events that follow."""
        self._log.outcomes[call.message_id, call.id] = outcome  # before it is written: the run may be stopped meanwhile
        data = to_json({**call_fields(call), "outcome": self._store(outcome)})
        if call.reaches_out:
            await self._log.write("tool_outcome", data)
        else:
            self._log.append("tool_outcome", data)

    def note_duration(self, call: LedgerCall, seconds: float) -> None:
        """Keep the duration of a call until its result is logged."""
        self._log.call_ms[call.id] = round(seconds * 1000)

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


async def record_intent(log: RunLog, call: LedgerCall, data: Mapping[str, str | None]) -> None:
    """Write an intent before its call is made; one that reaches out survives a power failure too."""
    if call.reaches_out:
        await log.commit("tool_intent", to_json(data), do_nothing)
    else:
        await log.write("tool_intent", to_json(data))


class TaskLedger:
    """Ledger of a subagent. A task restarts as a whole or not at all, so it has no earlier calls."""

    def __init__(self, log: RunLog, task_id: str) -> None:
        self._log = log
        self._task_id = task_id

    def find_outcome(self, call: LedgerCall) -> object | None:
        """Return None."""
        return None

    def for_task(self, task_id: str) -> "TaskLedger":
        """Return the ledger of another task."""
        return TaskLedger(self._log, task_id)

    async def begin(self, call: LedgerCall) -> None:
        """Record the intent of a call."""
        await record_intent(self._log, call, {**call_fields(call), "tool": call.tool, "task_id": self._task_id})

    async def end(self, call: LedgerCall, outcome: object) -> None:
        """Record the end of a call; only the subagent needs its result."""
        self._log.append("tool_outcome", to_json({**call_fields(call), "outcome": None, "task_id": self._task_id}))

    def note_duration(self, call: LedgerCall, seconds: float) -> None:
        """Do nothing: only the duration of the whole task is shown."""


class RunTasks:
    """Tasks of a run in its event log."""

    def __init__(self, log: RunLog, earlier: RecordedCalls) -> None:
        self._log = log
        self._earlier = earlier

    def emit(self, event: Mapping[str, object]) -> None:
        """Publish a task event."""
        self._log.append("custom", to_json(event))

    def find_started_tools(self, task_id: str) -> Sequence[str]:
        """Return the tools that a task had started to use."""
        return self._earlier.tasks.get(task_id, ())

    def find_outcome(self, task_id: str) -> TaskOutcome | None:
        """Return the recorded outcome of a task."""
        return self._earlier.ended.get(task_id)

    def find_items(self, batch: str) -> Mapping[int, ItemOutcome]:
        """Return the recorded outcomes of batch items."""
        return self._earlier.items.get(batch, {})

    def record_item(self, batch: str, outcome: ItemOutcome) -> None:
        """Record the outcome of a batch item."""
        self._log.append("batch_item", to_json({"batch": batch, "outcome": asdict(outcome)}))


def parse_outcome(event: Mapping[str, Any]) -> TaskOutcome:
    """Return the outcome in the final event of a task."""
    usage, cost = event["usage"], event["cost"]
    return TaskOutcome(
        event["status"],
        event.get("result") or "",
        event.get("error"),
        event["stop_reason"],
        event["model_name"],
        TokenCounts(input_tokens=usage["input_tokens"], output_tokens=usage["output_tokens"]),
        TaskCost(Decimal(cost["amount"]), cost["currency"]) if cost else None,
        event["duration_s"],
    )


def call_fields(call: LedgerCall) -> dict[str, str | None]:
    """Return the fields that identify a call in the event log."""
    return {"tool_call_id": call.id, "message_id": call.message_id}
