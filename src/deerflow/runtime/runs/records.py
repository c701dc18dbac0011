"""What a run leaves behind besides its log: what it took, and what can be searched."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

import orjson
from langchain_core.messages import BaseMessage

from deerflow.domain.events import StreamEvent
from deerflow.domain.threads import WaitsFor
from deerflow.domain.usage import LEAD_AGENT, TokenCounts, UsageEntry
from deerflow.runtime.journal import RunLog
from deerflow.runtime.runs.budget import BookedBudget, Purse
from deerflow.runtime.said import Said
from deerflow.runtime.serialization import to_json


@dataclass(slots=True)
class Tally:
    """What the model calls of a run have taken so far, by caller and model; no message counts twice."""

    counts: dict[tuple[str, str], TokenCounts] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)
    context_tokens: dict[tuple[str, str], int] = field(default_factory=dict)

    def add(self, caller: str, model: str, message_id: str | None, counts: TokenCounts) -> bool:
        """Count a call, unless its message was counted before; whether it was."""
        if message_id is not None and message_id in self.seen:
            return False
        if message_id is not None:
            self.seen.add(message_id)
        kind = (caller, model)
        self.counts[kind] = self.counts.get(kind, TokenCounts()) + counts
        if caller == LEAD_AGENT and counts.total_tokens:
            self.context_tokens = {kind: counts.total_tokens}
        return True

    def entries(self) -> list[UsageEntry]:
        """What is kept of it."""
        return [UsageEntry(*kind, counts, self.context_tokens.get(kind)) for kind, counts in self.counts.items()]


@dataclass(slots=True)
class Records:
    """What a run leaves behind."""

    tally: Tally = field(default_factory=Tally)
    said: Said = field(default_factory=Said)
    purse: Purse = field(default_factory=Purse)
    budget: BookedBudget | None = None
    """That of a run which has one and is under way, or has just ended."""
    asks: bool = False
    """Whether the last thing said is a question to the user."""
    waits_for: WaitsFor | None = None
    """What a person has to say once the run has ended."""

    def hear(self, messages: Sequence[BaseMessage]) -> None:
        """Take in messages in their order."""
        self.said.hear(messages)
        if messages:
            self.asks = is_question(getattr(messages[-1], "artifact", None))

    @classmethod
    def read(cls, events: Sequence[StreamEvent]) -> "Records":
        """What earlier attempts at a run have left, as its log tells."""
        records, now = cls(read_tally(events), purse=Purse.read(events)), datetime.now(UTC)
        for event in events:
            if event.event == "changes":
                changes = orjson.loads(event.data)
                records.said.forget(changes["removed"])
                records.said.hear_logged(changes, now)
                if changes["messages"]:
                    records.asks = is_question(changes["messages"][-1].get("artifact"))
        return records


def is_question(artifact: object) -> bool:
    """Whether what a tool returned beside its text is a question to the user."""
    return isinstance(artifact, Mapping) and "human_input" in artifact


def read_tally(events: Iterable[StreamEvent]) -> Tally:
    """What a log says of model calls."""
    tally = Tally()
    for event in events:
        if event.event == "usage":
            data: dict[str, Any] = orjson.loads(event.data)
            tally.add(data["caller"], data["model"], data["message_id"], TokenCounts(**data["counts"]))
    return tally


class RunMeter:
    """Notes the model calls of a run in its log, so that they count also when its process dies."""

    def __init__(self, log: RunLog, tally: Tally, count: Callable[[str, int, int], None]) -> None:
        """`count` is told the model of every call, and what it read and wrote."""
        self._log = log
        self._tally = tally
        self._count = count

    def note(self, caller: str, model: str, message_id: str | None, counts: TokenCounts) -> None:
        """Count a call."""
        if self._tally.add(caller, model, message_id, counts):
            about = {"caller": caller, "model": model, "message_id": message_id}
            self._log.append("usage", to_json({**about, "counts": asdict(counts)}))
            self._count(model, counts.input_tokens, counts.output_tokens)
