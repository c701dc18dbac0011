"""What a run leaves behind besides its log: what it took, and what can be searched."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

import orjson
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from deerflow.agents.middlewares.replies import HIDDEN
from deerflow.domain.events import StreamEvent
from deerflow.domain.search import SaidBy, SaidMessage
from deerflow.domain.usage import LEAD_AGENT, TokenCounts, UsageEntry
from deerflow.runtime.journal import RunLog
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
class Said:
    """What people and the agent have said in a run so far, as it can be searched."""

    messages: dict[str, SaidMessage] = field(default_factory=dict)

    def hear(self, messages: Iterable[BaseMessage]) -> None:
        """Take in messages; what is not meant for people is left out."""
        for message in messages:
            if not isinstance(message, HumanMessage | AIMessage) or message.additional_kwargs.get(HIDDEN):
                continue
            role: SaidBy = "human" if isinstance(message, HumanMessage) else "ai"
            self._keep(message.id, role, message.text, datetime.now(UTC))

    def hear_logged(self, changes: Mapping[str, Any], at: datetime) -> None:
        """Take in what a `changes` event says."""
        for message in changes["messages"]:
            if message["type"] in ("human", "ai") and not message["additional_kwargs"].get(HIDDEN):
                self._keep(message["id"], message["type"], text_in(message["content"]), at)

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


@dataclass(slots=True)
class Records:
    """What a run leaves behind."""

    tally: Tally = field(default_factory=Tally)
    said: Said = field(default_factory=Said)

    @classmethod
    def read(cls, events: Sequence[StreamEvent]) -> "Records":
        """What earlier attempts at a run have left, as its log tells."""
        records, now = cls(read_tally(events)), datetime.now(UTC)
        for event in events:
            if event.event == "changes":
                changes = orjson.loads(event.data)
                records.said.forget(changes["removed"])
                records.said.hear_logged(changes, now)
        return records


def text_in(content: object) -> str:
    """The text of a message's content as JSON has it."""
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    texts = (
        block if isinstance(block, str) else block.get("text") for block in blocks if isinstance(block, str | dict)
    )
    return "".join(text for text in texts if isinstance(text, str))


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

    def __init__(self, log: RunLog, tally: Tally) -> None:
        self._log = log
        self._tally = tally

    def note(self, caller: str, model: str, message_id: str | None, counts: TokenCounts) -> None:
        """Count a call."""
        if self._tally.add(caller, model, message_id, counts):
            about = {"caller": caller, "model": model, "message_id": message_id}
            self._log.append("usage", to_json({**about, "counts": asdict(counts)}))
