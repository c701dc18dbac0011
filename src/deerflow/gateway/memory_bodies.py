"""What requests about memory bring and get."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from deerflow.config.memory import MemoryConfig
from deerflow.domain.errors import InvalidRequest
from deerflow.domain.learning import Waiting
from deerflow.domain.memory import (
    MAX_FACT_CHARS,
    MAX_SUMMARY_CHARS,
    Actor,
    Category,
    Change,
    ChangeKind,
    Fact,
    FactHit,
    Summary,
    Why,
)
from deerflow.gateway.examples import CHANGE, FACT, shown_as
from deerflow.memory.document import fact_entry, stamp

Content = Annotated[str, Field(min_length=1, max_length=MAX_FACT_CHARS)]
Confidence = Annotated[float, Field(ge=0, le=1)]
FACT_EXAMPLE: dict[str, Any] = {
    "id": FACT,
    "content": "Drinks tea in the morning",
    "category": "preference",
    "confidence": 0.9,
    "createdAt": "2026-05-01T09:30:00Z",
    "source": "manual",
}
NO_SUMMARY = {"summary": "", "updatedAt": ""}
DOCUMENT_EXAMPLE: dict[str, Any] = {
    "version": "1.0",
    "lastUpdated": "2026-05-01T09:30:00Z",
    "user": {
        "workContext": {"summary": "Teaches physics in Berlin.", "updatedAt": "2026-05-01T09:30:00Z"},
        "personalContext": NO_SUMMARY,
        "topOfMind": NO_SUMMARY,
    },
    "history": {"recentMonths": NO_SUMMARY, "earlierContext": NO_SUMMARY, "longTermBackground": NO_SUMMARY},
    "facts": [FACT_EXAMPLE],
}


class Camel(BaseModel):
    """Names as the document has them."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


class SummaryText(Camel):
    """A summary, and since when it is so; both are empty when there is none."""

    summary: str
    updated_at: str


class AboutUser(Camel):
    """Who you are."""

    work_context: SummaryText
    personal_context: SummaryText
    top_of_mind: SummaryText


class AboutHistory(Camel):
    """What has happened."""

    recent_months: SummaryText
    earlier_context: SummaryText
    long_term_background: SummaryText


class KnownFact(Camel):
    """One thing that is known. `source` is a thread, `manual` or `deleted thread`; corrections say what was wrong."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, json_schema_extra=shown_as(FACT_EXAMPLE))

    id: str
    content: str
    category: Category
    confidence: float
    created_at: str
    source: str
    source_error: str | None = None


class MemoryDocument(Camel):
    """A whole memory. `revision` grows with every change."""

    version: Literal["1.0"]
    last_updated: str
    user: AboutUser
    history: AboutHistory
    facts: list[KnownFact]
    revision: int


class MemorySettings(BaseModel):
    """How memory works here."""

    enabled: bool = Field(description="Whether this server remembers anything.")
    switched_on: bool = Field(description="Whether you want it to.")
    mode: str
    debounce_seconds: float
    max_facts: int
    fact_confidence_threshold: float
    injection_enabled: bool
    max_injection_tokens: int
    forget_with_thread: bool

    @classmethod
    def of(cls, settings: MemoryConfig, *, is_on: bool) -> "MemorySettings":
        return cls(switched_on=is_on, **settings.model_dump(include=set(cls.model_fields) - {"switched_on"}))


class PendingThread(BaseModel):
    """A thread that is yet to be learned from, once it has been quiet until then."""

    thread_id: str
    due_at: datetime
    is_being_read: bool
    is_unpaid: bool = Field(description="Whether it waits for the thread's next run: the last one's budget is used up.")

    @classmethod
    def of(cls, waiting: Waiting) -> "PendingThread":
        return cls.model_validate(waiting, from_attributes=True)


class MemoryStatus(BaseModel):
    """How memory is set, what is known, and what is yet to be learned, the next first."""

    config: MemorySettings
    data: MemoryDocument
    pending: list[PendingThread]


class SwitchMemory(BaseModel):
    """Whether you want to be remembered."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=shown_as({"switched_on": True}))

    switched_on: bool


class NewFact(BaseModel):
    """Something to remember."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra=shown_as({"content": "Is on holiday in August", "category": "context", "confidence": 1.0}),
    )

    content: Content
    category: Category = "context"
    confidence: Confidence = 0.5


class ChangeFact(BaseModel):
    """What is to be different about a fact."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra=shown_as({"content": "Drinks green tea in the morning"})
    )

    content: Content | None = None
    category: Category | None = None
    confidence: Confidence | None = None


class WriteSummary(BaseModel):
    """What a summary is to say; nothing, and there is none."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=shown_as({"summary": "Teaches physics in Oslo."}))

    summary: Annotated[str, Field(max_length=MAX_SUMMARY_CHARS)]


class TakeBack(BaseModel):
    """The change that is to be undone, or the group of changes."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=shown_as({"change_id": CHANGE}))

    change_id: Annotated[str | None, Field(min_length=1, max_length=64)] = None
    group: Annotated[str | None, Field(min_length=1, max_length=64)] = None

    def which(self) -> str:
        """The one that is meant, or `InvalidRequest`."""
        if (self.change_id is None) == (self.group is None):
            raise InvalidRequest("say either `change_id` or `group`")
        return self.change_id or self.group or ""


class SourceOf(BaseModel):
    """Where something was learned. Without a thread, it was in one that is deleted."""

    thread_id: str | None
    message_id: str | None
    quote: str | None


class FactDetails(KnownFact):
    """A fact with all that is kept of it."""

    learned_in: SourceOf | None
    valid_from: datetime | None
    valid_to: datetime | None
    supersedes: str | None

    @classmethod
    def told(cls, fact: Fact) -> "FactDetails":
        learned = SourceOf.model_validate(fact.source, from_attributes=True) if fact.source else None
        more = {"learned_in": learned, "valid_from": fact.valid_from, "valid_to": fact.valid_to}
        return cls.model_validate({**fact_entry(fact), **more, "supersedes": fact.supersedes})


class FoundFact(FactDetails):
    """A fact that fits what was looked for; a higher score fits better."""

    score: float


class FoundFacts(BaseModel):
    """Facts that fit, the best first."""

    facts: list[FoundFact]

    @classmethod
    def of(cls, hits: Sequence[FactHit]) -> "FoundFacts":
        found = [{**FactDetails.told(hit.fact).model_dump(), "score": hit.score} for hit in hits]
        return cls.model_validate({"facts": found})


class ChangeMade(BaseModel):
    """One change: who made it, what was there before, and what has been since."""

    change_id: str
    seq: int
    at: datetime
    actor: Actor
    kind: ChangeKind
    target: str
    before: FactDetails | SummaryText | None
    after: FactDetails | SummaryText | None
    source: SourceOf | None
    group: str
    undoes: str | None

    @classmethod
    def of(cls, change: Change) -> "ChangeMade":
        plain = {name: getattr(change, name) for name in ("change_id", "seq", "at", "actor", "kind", "target", "group")}
        source = SourceOf.model_validate(change.source, from_attributes=True) if change.source else None
        known = {"before": held(change.before), "after": held(change.after)}
        return cls.model_validate({**plain, **known, "source": source, "undoes": change.undoes})


class HistoryPage(BaseModel):
    """Changes, newest first; go on with `before={next_before}` unless that is null."""

    changes: list[ChangeMade]
    next_before: int | None

    @classmethod
    def of(cls, changes: Sequence[Change], next_before: int | None) -> "HistoryPage":
        return cls(changes=[ChangeMade.of(change) for change in changes], next_before=next_before)


class WhyKnown(BaseModel):
    """Where a fact comes from."""

    fact: FactDetails
    changes: list[ChangeMade]
    superseded: list[FactDetails] = Field(description="What it took the place of, the latest first.")

    @classmethod
    def of(cls, why: Why) -> "WhyKnown":
        return cls(
            fact=FactDetails.told(why.fact),
            changes=[ChangeMade.of(change) for change in why.changes],
            superseded=[FactDetails.told(fact) for fact in why.superseded],
        )


def held(known: Fact | Summary | None) -> FactDetails | SummaryText | None:
    """A fact or a summary as it is shown."""
    if isinstance(known, Summary):
        return SummaryText(summary=known.summary, updated_at=stamp(known.updated_at))
    return FactDetails.told(known) if known else None
