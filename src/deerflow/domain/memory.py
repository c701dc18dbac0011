"""Long-term memory: facts, summaries and their history of changes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal, Protocol, get_args, runtime_checkable
from uuid import uuid4

from deerflow.domain.usage import SpendingLimit

Category = Literal["preference", "knowledge", "context", "behavior", "goal", "correction"]
Actor = Literal["model", "user", "agent", "import"]
"""The author of a change: the extraction model, a user, the agent by a tool call, or an import."""
ChangeKind = Literal["fact_added", "fact_changed", "fact_removed", "summary_set", "undone"]
SummaryKey = Literal[
    "user.workContext",
    "user.personalContext",
    "user.topOfMind",
    "history.recentMonths",
    "history.earlierContext",
    "history.longTermBackground",
]
CATEGORIES: tuple[Category, ...] = get_args(Category)
SUMMARY_KEYS: tuple[SummaryKey, ...] = get_args(SummaryKey)
MAX_FACT_CHARS = 4000
MAX_SUMMARY_CHARS = 20_000
MAX_QUOTE_CHARS = 1000


@dataclass(frozen=True, slots=True)
class MemoryScope:
    """The owner of a memory, and the custom agent it belongs to; None for all other agents."""

    owner: str
    agent: str | None = None


@dataclass(frozen=True, slots=True)
class FactSource:
    """The origin of a fact; `thread_id` is None when the thread was deleted."""

    thread_id: str | None
    message_id: str | None = None
    quote: str | None = None


DELETED_SOURCE = FactSource(None)
"""The source of facts from a deleted thread."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A known fact. From `valid_to` on it is no longer valid and not injected."""

    id: str
    content: str
    category: Category
    confidence: float
    created_at: datetime
    source: FactSource | None = None
    """None: written by the user."""
    source_error: str | None = None
    """The error that a correction refers to."""
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    supersedes: str | None = None
    """The id of the fact that this one replaces."""


@dataclass(frozen=True, slots=True)
class Summary:
    """A short text under one of the `SUMMARY_KEYS`."""

    summary: str
    updated_at: datetime


MemoryItem = Fact | Summary


@dataclass(frozen=True, slots=True)
class MemoryEdit:
    """The new value of a fact or summary (`target`), or None to remove it."""

    target: str
    after: MemoryItem | None
    source: FactSource | None = None


@dataclass(frozen=True, slots=True)
class MemoryChange:
    """A recorded change of a memory. The current value of a target is the one that its last change left."""

    change_id: str
    seq: int
    at: datetime
    actor: Actor
    kind: ChangeKind
    target: str
    before: MemoryItem | None
    after: MemoryItem | None
    source: FactSource | None
    group: str
    """The id shared by changes that were made, and can be undone, together."""
    undoes: str | None = None
    """The id of the change that this one undid."""


@dataclass(frozen=True, slots=True)
class MemoryState:
    """The current content of a memory; facts are in the order in which they were added."""

    facts: Sequence[Fact] = ()
    summaries: Mapping[SummaryKey, Summary] = field(default_factory=dict)
    last_updated: datetime | None = None
    seq: int = 0
    """Grows with every change; used for optimistic concurrency control."""


@dataclass(frozen=True, slots=True)
class FactProvenance:
    """The history of a fact: its changes and the facts it replaced."""

    fact: Fact
    changes: Sequence[MemoryChange]
    superseded: Sequence[Fact]


@dataclass(frozen=True, slots=True)
class FactHit:
    """A fact found by a search; a higher score is a better match."""

    fact: Fact
    score: float


def new_fact_id() -> str:
    """Return a new unique fact id."""
    return f"fact_{uuid4().hex}"


def upsert_fact(fact: Fact) -> MemoryEdit:
    """Return the edit that adds or replaces a fact."""
    return MemoryEdit(fact.id, fact, fact.source)


def remove_fact(fact_id: str, source: FactSource | None = None) -> MemoryEdit:
    """Return the edit that removes a fact; it can be undone."""
    return MemoryEdit(fact_id, None, source)


def set_summary(key: SummaryKey, summary: str, at: datetime, source: FactSource | None = None) -> MemoryEdit:
    """Return the edit that sets a summary; an empty text removes it."""
    return MemoryEdit(key, Summary(summary, at) if summary else None, source)


def supersede_fact(old: Fact, new: Fact, at: datetime) -> list[MemoryEdit]:
    """Return the edits that replace a fact by another; the old one was valid until now."""
    expired = replace(old, valid_to=at)
    return [
        MemoryEdit(old.id, expired, new.source),
        upsert_fact(replace(new, supersedes=old.id, valid_from=new.valid_from or at)),
    ]


@dataclass(frozen=True, slots=True)
class InjectionReceipt:
    """The facts that were injected into a run, and the number left out."""

    considered: int
    """The number of facts to choose from."""
    injected: Sequence[str]
    """The ids of the injected facts."""
    dropped: int
    tokens: int
    is_new: bool
    """True if the facts were selected for this run, False if at the start of its thread."""

    def to_event(self) -> dict[str, object]:
        """Return the receipt as an event for readers of the run."""
        counts = {"considered": self.considered, "dropped": self.dropped, "tokens": self.tokens}
        return {"type": "memory", "injected": list(self.injected), **counts, "is_new": self.is_new}


@dataclass(frozen=True, slots=True)
class MemoryInjection:
    """The text from a memory that is injected into the prompt; empty when there is none."""

    text: str = ""
    note: Mapping[str, Any] = field(default_factory=dict)
    """A reference from which the text can be restored. Holds ids only, so that erased facts are not kept."""
    receipt: InjectionReceipt | None = None
    """None when nothing was selected: memory is off, or the thread started without it."""


@runtime_checkable
class RunMemory(Protocol):
    """The memory of the user that a run works for."""

    async def build_injection(self, words: str) -> MemoryInjection:
        """Return what to inject at the start of a thread whose first message is `words`."""
        ...

    async def restore_injection(self, note: Mapping[str, Any]) -> MemoryInjection:
        """Return what a note refers to, as it was injected, without facts erased since."""
        ...

    def take_receipt(self, recalled: MemoryInjection) -> InjectionReceipt | None:
        """Return the receipt of an injection, once per run."""
        ...

    async def search(self, query: str, category: Category | None, limit: int) -> Sequence[Fact]:
        """Return the best matching facts."""
        ...

    async def add(self, content: str, category: Category, confidence: float) -> Fact:
        """Add a fact."""
        ...

    async def update(
        self, fact_id: str, content: str | None, category: Category | None, confidence: float | None
    ) -> Fact:
        """Change a fact; None keeps the present value."""
        ...

    async def delete(self, fact_id: str) -> None:
        """Remove a fact."""
        ...


MessageRole = Literal["human", "ai"]


@dataclass(frozen=True, slots=True)
class ConversationMessage:
    """A message from which facts may be extracted."""

    message_id: str
    role: MessageRole
    text: str


@dataclass(frozen=True, slots=True)
class FeedbackSignals:
    """The user's reactions to earlier answers."""

    correction: bool = False
    reinforcement: bool = False

    def __or__(self, other: "FeedbackSignals") -> "FeedbackSignals":
        return FeedbackSignals(self.correction or other.correction, self.reinforcement or other.reinforcement)


@dataclass(frozen=True, slots=True)
class ScheduledExtraction:
    """A thread with pending extraction; `is_being_read` while it is running."""

    thread_id: str
    due_at: datetime
    is_being_read: bool
    is_unpaid: bool = False
    """True if it waits for the thread's next run because the last one is out of budget."""


@dataclass(frozen=True, slots=True)
class BilledRun:
    """The run that extraction is charged to: the last one that is part of the extracted messages."""

    run_id: str
    limit: SpendingLimit | None = None
    """The remaining budget; None when the run has no limit."""


@dataclass(frozen=True, slots=True)
class PendingExtraction:
    """The messages of a thread since the last extraction."""

    scope: MemoryScope
    thread_id: str
    messages: Sequence[ConversationMessage]
    signals: FeedbackSignals
    due_at: datetime
    attempts: int = 0
    """The number of attempts, including the current one."""
    claim: str = ""
    """The id of the worker that has claimed it."""
    payer: BilledRun | None = None
    """None when it was not recorded."""
