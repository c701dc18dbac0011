"""What an agent knows about somebody: facts, summaries, and every change of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal, get_args
from uuid import uuid4

Category = Literal["preference", "knowledge", "context", "behavior", "goal", "correction"]
Actor = Literal["model", "user", "agent", "import"]
"""Who changed something: the model that reads conversations, a person, the agent by a tool, or a file."""
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
    """Whose memory, and which custom agent's; None is everybody else's."""

    owner: str
    agent: str | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """Where something was learned; without a thread it was in one that is deleted."""

    thread_id: str | None
    message_id: str | None = None
    quote: str | None = None


GONE = Source(None)
"""The source of what was learned in a thread that is deleted."""


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that is known. From `valid_to` on it is known to be over, and no longer told."""

    id: str
    content: str
    category: Category
    confidence: float
    created_at: datetime
    source: Source | None = None
    """None: somebody wrote it down themselves."""
    source_error: str | None = None
    """What a correction corrects."""
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    supersedes: str | None = None
    """The fact this one takes the place of."""


@dataclass(frozen=True, slots=True)
class Summary:
    """A few sentences under one of the `SUMMARY_KEYS`."""

    summary: str
    updated_at: datetime


Known = Fact | Summary


@dataclass(frozen=True, slots=True)
class Edit:
    """That something is to be known from now on, or no longer (None); `target` is a fact or a summary."""

    target: str
    after: Known | None
    source: Source | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that happened to a memory. What is known is what the last change of each target left."""

    change_id: str
    seq: int
    at: datetime
    actor: Actor
    kind: ChangeKind
    target: str
    before: Known | None
    after: Known | None
    source: Source | None
    group: str
    """Names what was done at once, and can be undone at once."""
    undoes: str | None = None
    """The change this one took back."""


@dataclass(frozen=True, slots=True)
class MemoryState:
    """What is known, facts in the order in which they were learned."""

    facts: Sequence[Fact] = ()
    summaries: Mapping[SummaryKey, Summary] = field(default_factory=dict)
    last_updated: datetime | None = None
    seq: int = 0
    """Grows with every change: whoever changes what they have read can say what that was."""


@dataclass(frozen=True, slots=True)
class Why:
    """Where a fact comes from: what happened to it, and what it took the place of."""

    fact: Fact
    changes: Sequence[Change]
    superseded: Sequence[Fact]


@dataclass(frozen=True, slots=True)
class FactHit:
    """A fact that was looked for; a higher score fits better."""

    fact: Fact
    score: float


def new_fact_id() -> str:
    """A name no other fact has."""
    return f"fact_{uuid4().hex}"


def knowing(fact: Fact) -> Edit:
    """That a fact is to be known as it is here, new or not."""
    return Edit(fact.id, fact, fact.source)


def forgetting(fact_id: str, source: Source | None = None) -> Edit:
    """That a fact is to be known no longer; it can be undone."""
    return Edit(fact_id, None, source)


def summarising(key: SummaryKey, summary: str, at: datetime, source: Source | None = None) -> Edit:
    """That a summary is to be this; an empty one is none."""
    return Edit(key, Summary(summary, at) if summary else None, source)


def superseding(old: Fact, new: Fact, at: datetime) -> list[Edit]:
    """That a fact takes the place of another, which was true until now."""
    over = replace(old, valid_to=at)
    return [Edit(old.id, over, new.source), knowing(replace(new, supersedes=old.id, valid_from=new.valid_from or at))]
