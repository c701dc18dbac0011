"""Request and response bodies of memory."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from deerflow.config.sections.memory import MemoryConfig
from deerflow.domain.errors import InvalidRequest
from deerflow.domain.memory import (
    MAX_FACT_CHARS,
    MAX_SUMMARY_CHARS,
    Actor,
    Category,
    ChangeKind,
    Fact,
    FactHit,
    FactProvenance,
    MemoryChange,
    ScheduledExtraction,
    Summary,
)
from deerflow.gateway.examples import CHANGE, FACT, with_examples
from deerflow.memory.document import format_time, to_fact_entry

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


class CamelModel(BaseModel):
    """Model with camelCase field names."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


class SummaryText(CamelModel):
    """Summary with the time of its last update; both are empty if there is none."""

    summary: str
    updated_at: str


class AboutUser(CamelModel):
    """Summaries of the user."""

    work_context: SummaryText
    personal_context: SummaryText
    top_of_mind: SummaryText


class AboutHistory(CamelModel):
    """Summaries of the history."""

    recent_months: SummaryText
    earlier_context: SummaryText
    long_term_background: SummaryText


class KnownFact(CamelModel):
    """Fact. `source` is a thread id, `manual` or `deleted thread`; `sourceError` is what a correction corrects."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, json_schema_extra=with_examples(FACT_EXAMPLE)
    )

    id: str
    content: str
    category: Category
    confidence: float
    created_at: str
    source: str
    source_error: str | None = None


class MemoryDocument(CamelModel):
    """Whole memory. `revision` increases with every change."""

    version: Literal["1.0"]
    last_updated: str
    user: AboutUser
    history: AboutHistory
    facts: list[KnownFact]
    revision: int


class MemorySettings(BaseModel):
    """Memory settings."""

    enabled: bool = Field(description="Memory is enabled on this server.")
    switched_on: bool = Field(description="The user has enabled memory.")
    mode: str
    debounce_seconds: float
    max_facts: int
    fact_confidence_threshold: float
    injection_enabled: bool
    max_injection_tokens: int
    forget_with_thread: bool

    @classmethod
    def from_domain(cls, settings: MemoryConfig, *, is_on: bool) -> "MemorySettings":
        return cls(switched_on=is_on, **settings.model_dump(include=set(cls.model_fields) - {"switched_on"}))


class PendingThread(BaseModel):
    """Thread with a pending extraction, which starts when the thread has been idle until then."""

    thread_id: str
    due_at: datetime
    is_being_read: bool
    is_unpaid: bool = Field(description="Postponed to the thread's next run: the budget of the last run is used up.")

    @classmethod
    def from_domain(cls, waiting: ScheduledExtraction) -> "PendingThread":
        return cls.model_validate(waiting, from_attributes=True)


class MemoryStatus(BaseModel):
    """Memory settings, document and pending extractions, the next one first."""

    config: MemorySettings
    data: MemoryDocument
    pending: list[PendingThread]


class SwitchMemory(BaseModel):
    """Memory to enable or disable."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=with_examples({"switched_on": True}))

    switched_on: bool


class NewFact(BaseModel):
    """New fact."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra=with_examples(
            {"content": "Is on holiday in August", "category": "context", "confidence": 1.0}
        ),
    )

    content: Content
    category: Category = "context"
    confidence: Confidence = 0.5


class ChangeFact(BaseModel):
    """Fields of a fact to update."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra=with_examples({"content": "Drinks green tea in the morning"})
    )

    content: Content | None = None
    category: Category | None = None
    confidence: Confidence | None = None


class WriteSummary(BaseModel):
    """New text of a summary; an empty text deletes it."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=with_examples({"summary": "Teaches physics in Oslo."}))

    summary: Annotated[str, Field(max_length=MAX_SUMMARY_CHARS)]


class TakeBack(BaseModel):
    """Change to undo, or group of changes."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=with_examples({"change_id": CHANGE}))

    change_id: Annotated[str | None, Field(min_length=1, max_length=64)] = None
    group: Annotated[str | None, Field(min_length=1, max_length=64)] = None

    def which(self) -> str:
        """Return the id of the change or group, or raise `InvalidRequest`."""
        if (self.change_id is None) == (self.group is None):
            raise InvalidRequest("either `change_id` or `group` is required")
        return self.change_id or self.group or ""


class SourceOf(BaseModel):
    """Source of a fact. Without a thread id, the thread was deleted."""

    thread_id: str | None
    message_id: str | None
    quote: str | None


class FactDetails(KnownFact):
    """Fact with its source and validity."""

    learned_in: SourceOf | None
    valid_from: datetime | None
    valid_to: datetime | None
    supersedes: str | None

    @classmethod
    def from_fact(cls, fact: Fact) -> "FactDetails":
        learned = SourceOf.model_validate(fact.source, from_attributes=True) if fact.source else None
        more = {"learned_in": learned, "valid_from": fact.valid_from, "valid_to": fact.valid_to}
        return cls.model_validate({**to_fact_entry(fact), **more, "supersedes": fact.supersedes})


class FoundFact(FactDetails):
    """Fact found by a search; a higher score is a better match."""

    score: float


class FoundFacts(BaseModel):
    """Facts found by a search, best match first."""

    facts: list[FoundFact]

    @classmethod
    def from_domain(cls, hits: Sequence[FactHit]) -> "FoundFacts":
        found = [{**FactDetails.from_fact(hit.fact).model_dump(), "score": hit.score} for hit in hits]
        return cls.model_validate({"facts": found})


class ChangeMade(BaseModel):
    """Change with its author and the values before and after."""

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
    def from_domain(cls, change: MemoryChange) -> "ChangeMade":
        plain = {name: getattr(change, name) for name in ("change_id", "seq", "at", "actor", "kind", "target", "group")}
        source = SourceOf.model_validate(change.source, from_attributes=True) if change.source else None
        known = {"before": from_item(change.before), "after": from_item(change.after)}
        return cls.model_validate({**plain, **known, "source": source, "undoes": change.undoes})


class HistoryPage(BaseModel):
    """Changes, newest first; continue with `before={next_before}` unless it is null."""

    changes: list[ChangeMade]
    next_before: int | None

    @classmethod
    def from_domain(cls, changes: Sequence[MemoryChange], next_before: int | None) -> "HistoryPage":
        return cls(changes=[ChangeMade.from_domain(change) for change in changes], next_before=next_before)


class WhyKnown(BaseModel):
    """Source and history of a fact."""

    fact: FactDetails
    changes: list[ChangeMade]
    superseded: list[FactDetails] = Field(description="Replaced facts, latest first.")

    @classmethod
    def from_domain(cls, why: FactProvenance) -> "WhyKnown":
        return cls(
            fact=FactDetails.from_fact(why.fact),
            changes=[ChangeMade.from_domain(change) for change in why.changes],
            superseded=[FactDetails.from_fact(fact) for fact in why.superseded],
        )


def from_item(known: Fact | Summary | None) -> FactDetails | SummaryText | None:
    """Return a fact or a summary as its model."""
    if isinstance(known, Summary):
        return SummaryText(summary=known.summary, updated_at=format_time(known.updated_at))
    return FactDetails.from_fact(known) if known else None
