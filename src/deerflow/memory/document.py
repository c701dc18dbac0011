"""A memory as the JSON document that people keep, exchange and edit, and what a changed document changes."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from deerflow.domain.errors import InvalidRequest
from deerflow.domain.memory import (
    CATEGORIES,
    GONE,
    MAX_FACT_CHARS,
    MAX_SUMMARY_CHARS,
    SUMMARY_KEYS,
    Category,
    Edit,
    Fact,
    MemoryState,
    Source,
    Summary,
    SummaryKey,
    forgetting,
    knowing,
    new_fact_id,
    summarising,
)

VERSION = "1.0"
MAX_FACTS = 20_000
WRITTEN_DOWN, DELETED_THREAD = "manual", "deleted thread"
"""What the document calls the source of a fact that somebody wrote down, and of one whose thread is deleted."""
FACT_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


def read_moment(value: object) -> object:
    """A moment as others write it: without a time zone it is UTC, and nothing is no moment."""
    if not value:
        return None
    if not isinstance(value, str):
        raise ValueError("a moment is a text such as 2026-05-01T09:30:00Z")
    return in_utc(datetime.fromisoformat(value))


def in_utc(at: datetime) -> datetime:
    """A moment in UTC, which it is when it does not say; at the ends of the calendar, as near as can be told."""
    if at.tzinfo is None:
        return at.replace(tzinfo=UTC)
    try:
        return at.astimezone(UTC)
    except OverflowError:
        return at.replace(tzinfo=UTC)


def known_category(value: object) -> object:
    """A category; others have more of them than we do."""
    return value if value in CATEGORIES else "context"


Moment = Annotated[datetime | None, BeforeValidator(read_moment)]


class Section(BaseModel):
    """What the parts of a document have in common: names in camel case, and what we do not know is left out."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore")


class SummaryEntry(Section):
    """One summary."""

    summary: Annotated[str, Field(max_length=MAX_SUMMARY_CHARS)] = ""
    updated_at: Moment = None


class UserSummaries(Section):
    """Who the person is."""

    work_context: SummaryEntry = SummaryEntry()
    personal_context: SummaryEntry = SummaryEntry()
    top_of_mind: SummaryEntry = SummaryEntry()


class HistorySummaries(Section):
    """What has happened."""

    recent_months: SummaryEntry = SummaryEntry()
    earlier_context: SummaryEntry = SummaryEntry()
    long_term_background: SummaryEntry = SummaryEntry()


class FactEntry(Section):
    """One fact."""

    id: str | None = None
    content: Annotated[str, Field(min_length=1, max_length=MAX_FACT_CHARS)]
    category: Annotated[Category, BeforeValidator(known_category)] = "context"
    confidence: Annotated[float, Field(ge=0, le=1)] = 0.5
    created_at: Moment = None
    source: Annotated[str | None, Field(max_length=255)] = None
    source_error: Annotated[str | None, Field(max_length=MAX_FACT_CHARS)] = None


class Document(Section):
    """A whole memory."""

    version: str = VERSION
    user: UserSummaries = UserSummaries()
    history: HistorySummaries = HistorySummaries()
    facts: Annotated[list[FactEntry], Field(max_length=MAX_FACTS)] = []

    def summaries(self) -> Mapping[SummaryKey, SummaryEntry]:
        """The summaries by their keys."""
        return {
            "user.workContext": self.user.work_context,
            "user.personalContext": self.user.personal_context,
            "user.topOfMind": self.user.top_of_mind,
            "history.recentMonths": self.history.recent_months,
            "history.earlierContext": self.history.earlier_context,
            "history.longTermBackground": self.history.long_term_background,
        }


def to_document(state: MemoryState) -> dict[str, Any]:
    """What is known, as a document."""
    sections: dict[str, dict[str, object]] = {"user": {}, "history": {}}
    for key in SUMMARY_KEYS:
        section, _, name = key.partition(".")
        held = state.summaries.get(key)
        written = {"summary": held.summary, "updatedAt": stamp(held.updated_at)} if held else {}
        sections[section][name] = written or {"summary": "", "updatedAt": ""}
    updated = stamp(state.last_updated) if state.last_updated else ""
    facts = [fact_entry(fact) for fact in state.facts]
    return {"version": VERSION, "lastUpdated": updated, **sections, "facts": facts}


def fact_entry(fact: Fact) -> dict[str, Any]:
    """A fact as the document shows it."""
    entry: dict[str, Any] = {
        "id": fact.id,
        "content": fact.content,
        "category": fact.category,
        "confidence": fact.confidence,
        "createdAt": stamp(fact.created_at),
        "source": source_name(fact.source),
    }
    return entry | ({"sourceError": fact.source_error} if fact.source_error is not None else {})


def read_document(document: Mapping[str, Any]) -> Document:
    """A document that somebody gave us; what is missing in it is empty.

    Raises:
        InvalidRequest: It is not a memory; the text says where.
    """
    try:
        return Document.model_validate(document)
    except ValidationError as problem:
        first = problem.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "the document"
        raise InvalidRequest(f"this is not a memory: {place}: {first['msg'].lower()}") from None


def edits_for(document: Document, state: MemoryState, now: datetime) -> Sequence[Edit]:
    """What has to be changed for a memory to be what a document says."""
    return [*fact_edits(document, state, now), *summary_edits(document, state, now)]


def fact_edits(document: Document, state: MemoryState, now: datetime) -> Iterator[Edit]:
    """The same, for facts."""
    known = {fact.id: fact for fact in state.facts}
    wanted: dict[str, Fact] = {}
    for entry in document.facts:
        fact_id = fact_id_of(entry, wanted)
        wanted[fact_id] = merged(known.get(fact_id), fact_id, entry, now)
    yield from (forgetting(fact_id) for fact_id in known if fact_id not in wanted)
    yield from (knowing(fact) for fact in wanted.values())


def merged(known: Fact | None, fact_id: str, entry: FactEntry, now: datetime) -> Fact:
    """A fact as a document has it, with what documents do not tell."""
    if known is None:
        known = Fact(fact_id, "", "context", 0.5, now)
    elif source_name(known.source) != entry.source and entry.source is not None:
        known = replace(known, source=None)
    named = known.source or source_of(entry.source)
    return replace(
        known,
        content=entry.content,
        category=entry.category,
        confidence=entry.confidence,
        created_at=entry.created_at or known.created_at,
        source=named,
        source_error=entry.source_error,
    )


def summary_edits(document: Document, state: MemoryState, now: datetime) -> Iterator[Edit]:
    """The same, for summaries: one that says what it said is left alone."""
    for key, entry in document.summaries().items():
        held = state.summaries.get(key, Summary("", now))
        text = entry.summary.strip()
        if text != held.summary:
            yield summarising(key, text, entry.updated_at or now)


def fact_id_of(entry: FactEntry, taken: Mapping[str, Fact]) -> str:
    """The name of a fact in a document; one that cannot be used always becomes the same other one."""
    if not entry.id or entry.id in taken:
        return new_fact_id()
    if FACT_ID.fullmatch(entry.id):
        return entry.id
    return f"fact_{sha256(entry.id.encode('utf-8', 'replace')).hexdigest()[:32]}"


def source_name(source: Source | None) -> str:
    """What a document calls a source."""
    if source is None:
        return WRITTEN_DOWN
    return source.thread_id or DELETED_THREAD


def source_of(name: str | None) -> Source | None:
    """The source that a document calls so."""
    if not name or name == WRITTEN_DOWN:
        return None
    return GONE if name == DELETED_THREAD else Source(name)


def stamp(at: datetime) -> str:
    """A moment as the document writes it."""
    return in_utc(at).isoformat().replace("+00:00", "Z")
