"""Records of a run besides its event log: usage, transcript and budget."""

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

import orjson
from langchain_core.messages import AIMessage, BaseMessage

from deerflow.budget.account import Account, BudgetTracker, ReservationEntry
from deerflow.domain.context import ModelSlot
from deerflow.domain.runs import RunEvent
from deerflow.domain.threads import WaitReason
from deerflow.domain.usage import LEAD_AGENT, PrefixCacheUsage, RequestPrefix, TokenCounts, UsageEntry
from deerflow.persistence.queries.events import do_nothing
from deerflow.runtime.journal.journal import RunLog
from deerflow.runtime.journal.serialization import to_json
from deerflow.runtime.transcript import Transcript


@dataclass(slots=True)
class UsageCounter:
    """Token usage of a run by caller and model; each message counts once."""

    counts: dict[tuple[str, str], TokenCounts] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)
    context_tokens: dict[tuple[str, str], int] = field(default_factory=dict)

    def add(self, caller: str, model: str, message_id: str | None, counts: TokenCounts) -> bool:
        """Add a model call. Return False if its message was already counted."""
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
        """Return the usage entries to store."""
        return [UsageEntry(*kind, counts, self.context_tokens.get(kind)) for kind, counts in self.counts.items()]


@dataclass(slots=True)
class RunRecords:
    """Records of a run."""

    tally: UsageCounter = field(default_factory=UsageCounter)
    transcript: Transcript = field(default_factory=Transcript)
    account: Account = field(default_factory=Account)
    budget: BudgetTracker | None = None
    """Budget of a run that has one and is active or has just ended."""
    model_slot: ModelSlot | None = None
    """Returns slots for the model calls of a run that is active, if people share the server."""
    messages: Sequence[BaseMessage] = ()
    """Messages of the latest state."""
    titles: list[str | None] = field(default_factory=list)
    """Title in the state at the beginning of the run, followed by each change."""
    asks: bool = False
    """Whether the last message is a question to the user."""
    waits_for: WaitReason | None = None
    """What the thread waits for after the run."""
    project_id: str | None = None
    """Project that the thread is in during the run."""
    is_temporary: bool | None = None
    """Whether the thread is temporary; None if it is not known yet."""

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Add messages in their order."""
        self.transcript.add(messages)
        if messages:
            self.asks = is_question(getattr(messages[-1], "artifact", None))

    def add_values(self, values: Mapping[str, object]) -> None:
        """Add changed values of the state; the first are those from before the run."""
        title = values.get("title")
        if not self.titles or "title" in values:
            self.titles.append(title if isinstance(title, str) else None)

    @property
    def new_title(self) -> str | None:
        """Return the title that the run has set in the state, None when it set none."""
        return self.titles[-1] if self.titles and self.titles[-1] != self.titles[0] else None

    @classmethod
    def read(cls, events: Sequence[RunEvent]) -> "RunRecords":
        """Return the records of earlier attempts, read from the event log."""
        records, now = cls(read_usage(events), account=Account.from_events(events)), datetime.now(UTC)
        for event in events:
            if event.event == "changes":
                changes = orjson.loads(event.data)
                records.add_values(changes["values"])
                records.transcript.remove(changes["removed"])
                records.transcript.add_logged(changes, now)
                if changes["messages"]:
                    records.asks = is_question(changes["messages"][-1].get("artifact"))
        return records


@dataclass(slots=True)
class PartialAnswer:
    """Streamed part of an answer that is not yet in the state, so that cancelling a run keeps it."""

    message_id: str | None = None
    text: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    thinks_since: float | None = None
    thought_s: float | None = None

    def add(self, message_id: str | None, text: str, reasoning: str | None) -> str | None:
        """Add a chunk. Return the id of the unfinished answer that it replaces, if any."""
        superseded = None
        if message_id != self.message_id:
            superseded = self.message_id
            self._begin(message_id)
        self.text.append(text)
        if reasoning:
            self.reasoning.append(reasoning)
            self.thinks_since = self.thinks_since or time.monotonic()
        elif self.thinks_since is not None and self.thought_s is None:
            self.thought_s = time.monotonic() - self.thinks_since
        return superseded

    def forget(self, arrived: Collection[str | None]) -> dict[str, int]:
        """Clear the answer if its message has arrived. Return its thinking time in milliseconds by message id."""
        if self.message_id is None or self.message_id not in arrived:
            return {}
        thought = {} if self.thought_s is None else {self.message_id: round(self.thought_s * 1000)}
        self._begin(None)
        return thought

    def _begin(self, message_id: str | None) -> None:
        self.message_id, self.text, self.reasoning = message_id, [], []
        self.thinks_since = self.thought_s = None

    def to_message(self) -> AIMessage | None:
        """Return the answer as a message, or None if it has no text. Incomplete tool calls are dropped."""
        text = "".join(self.text)
        if not text:
            return None
        reasoning = "".join(self.reasoning)
        return AIMessage(
            text,
            id=self.message_id,
            additional_kwargs={"reasoning_content": reasoning} if reasoning else {},
            response_metadata={"finish_reason": "interrupted"},
        )


def is_question(artifact: object) -> bool:
    """Return whether the artifact of a tool message is a question to the user."""
    return isinstance(artifact, Mapping) and "human_input" in artifact


def read_usage(events: Iterable[RunEvent]) -> UsageCounter:
    """Return the usage recorded in an event log."""
    tally = UsageCounter()
    for event in events:
        if event.event == "usage":
            data: dict[str, Any] = orjson.loads(event.data)
            tally.add(data["caller"], data["model"], data["message_id"], TokenCounts(**data["counts"]))
    return tally


def add_prefix(sums: PrefixCacheUsage, event: RunEvent) -> PrefixCacheUsage:
    """Return the sums with the request of a `usage` event; unchanged if it was not compared with the one before."""
    data: dict[str, Any] = orjson.loads(event.data)
    if "prefix" not in data:
        return sums
    return sums.add(data["caller"], TokenCounts(**data["counts"]), RequestPrefix.from_stored(data["prefix"]))


class RunMeter:
    """Records model calls in the event log, so that they count even if the process dies."""

    def __init__(self, log: RunLog, tally: UsageCounter, count: Callable[[str, int, int], None]) -> None:
        """`count` receives the model, input tokens and output tokens of every call."""
        self._log = log
        self._tally = tally
        self._count = count

    def note(
        self,
        caller: str,
        model: str,
        message_id: str | None,
        counts: TokenCounts,
        prefix: RequestPrefix | None = None,
    ) -> None:
        """Record a model call."""
        if self._tally.add(caller, model, message_id, counts):
            about = {"caller": caller, "model": model, "message_id": message_id, "counts": asdict(counts)}
            self._log.append("usage", to_json({**about, "prefix": prefix.to_stored()} if prefix else about))
            self._count(model, counts.input_tokens, counts.output_tokens)


@dataclass(frozen=True, slots=True)
class RunReservationLog:
    """Reservations of a run in its event log."""

    log: RunLog

    async def reserve(self, entry: ReservationEntry) -> None:
        await self.log.commit("budget", reservation_event(entry), do_nothing)

    def settle(self, entry: ReservationEntry) -> None:
        self.log.append("budget", reservation_event(entry))


def reservation_event(entry: ReservationEntry) -> bytes:
    """Return the data of a `budget` event."""
    number, asking = entry.grant.number, entry.grant.request
    about = {"call": number, "caller": asking.caller, "model": asking.model, "is_last": asking.is_last}
    return to_json({**about, **asdict(entry.amount), "spent": asdict(entry.committed)})
