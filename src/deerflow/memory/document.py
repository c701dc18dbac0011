"""JSON document of a memory for import, export and editing."""

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
    DELETED_SOURCE,
    MAX_FACT_CHARS,
    MAX_SUMMARY_CHARS,
    SUMMARY_KEYS,
    Category,
    Fact,
    FactSource,
    MemoryEdit,
    MemoryState,
    Summary,
    SummaryKey,
    new_fact_id,
    remove_fact,
    set_summary,
    upsert_fact,
)

DOCUMENT_VERSION = "1.0"
MAX_FACTS = 20_000
MANUAL_SOURCE, DELETED_THREAD = "manual", "deleted thread"
"""Source names in the document: of a fact added by the user, and of one whose thread was deleted."""
FACT_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


def parse_time(value: object) -> object:
    """Parse an ISO 8601 time; without a time zone it is UTC, an empty value is None."""
    if not value:
        return None
    if not isinstance(value, str):
        raise ValueError("expected a time such as 2026-05-01T09:30:00Z")
    return to_utc(datetime.fromisoformat(value))


def to_utc(at: datetime) -> datetime:
    """Convert a time to UTC; a naive time is UTC already. Times that overflow keep their clock time."""
    if at.tzinfo is None:
        return at.replace(tzinfo=UTC)
    try:
        return at.astimezone(UTC)
    except OverflowError:
        return at.replace(tzinfo=UTC)


def normalize_category(value: object) -> object:
    """Return a known category; others are mapped to `context`."""
    return value if value in CATEGORIES else "context"


OptionalTime = Annotated[datetime | None, BeforeValidator(parse_time)]


class DocumentSection(BaseModel):
    """Base of the parts of a document: camel case names, unknown fields are ignored."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore")


class SummaryEntry(DocumentSection):
    """Summary in a document."""

    summary: Annotated[str, Field(max_length=MAX_SUMMARY_CHARS)] = ""
    updated_at: OptionalTime = None


class UserSummaries(DocumentSection):
    """Summaries about the user."""

    work_context: SummaryEntry = SummaryEntry()
    personal_context: SummaryEntry = SummaryEntry()
    top_of_mind: SummaryEntry = SummaryEntry()


class HistorySummaries(DocumentSection):
    """Summaries of the past."""

    recent_months: SummaryEntry = SummaryEntry()
    earlier_context: SummaryEntry = SummaryEntry()
    long_term_background: SummaryEntry = SummaryEntry()


class FactEntry(DocumentSection):
    """Fact in a document."""

    id: str | None = None
    content: Annotated[str, Field(min_length=1, max_length=MAX_FACT_CHARS)]
    category: Annotated[Category, BeforeValidator(normalize_category)] = "context"
    confidence: Annotated[float, Field(ge=0, le=1)] = 0.5
    created_at: OptionalTime = None
    source: Annotated[str | None, Field(max_length=255)] = None
    source_error: Annotated[str | None, Field(max_length=MAX_FACT_CHARS)] = None


class MemoryFile(DocumentSection):
    """Document of a whole memory."""

    version: str = DOCUMENT_VERSION
    user: UserSummaries = UserSummaries()
    history: HistorySummaries = HistorySummaries()
    facts: Annotated[list[FactEntry], Field(max_length=MAX_FACTS)] = []

    def summaries(self) -> Mapping[SummaryKey, SummaryEntry]:
        """Return the summaries by key."""
        return {
            "user.workContext": self.user.work_context,
            "user.personalContext": self.user.personal_context,
            "user.topOfMind": self.user.top_of_mind,
            "history.recentMonths": self.history.recent_months,
            "history.earlierContext": self.history.earlier_context,
            "history.longTermBackground": self.history.long_term_background,
        }


def to_document(state: MemoryState) -> dict[str, Any]:
    """Convert a state to a document."""
    sections: dict[str, dict[str, object]] = {"user": {}, "history": {}}
    for key in SUMMARY_KEYS:
        section, _, name = key.partition(".")
        stored = state.summaries.get(key)
        entry = {"summary": stored.summary, "updatedAt": format_time(stored.updated_at)} if stored else {}
        sections[section][name] = entry or {"summary": "", "updatedAt": ""}
    updated = format_time(state.last_updated) if state.last_updated else ""
    facts = [to_fact_entry(fact) for fact in state.facts]
    return {"version": DOCUMENT_VERSION, "lastUpdated": updated, **sections, "facts": facts}


def to_fact_entry(fact: Fact) -> dict[str, Any]:
    """Convert a fact to its entry in the document."""
    entry: dict[str, Any] = {
        "id": fact.id,
        "content": fact.content,
        "category": fact.category,
        "confidence": fact.confidence,
        "createdAt": format_time(fact.created_at),
        "source": to_source_name(fact.source),
    }
    return entry | ({"sourceError": fact.source_error} if fact.source_error is not None else {})


def parse_document(document: Mapping[str, Any]) -> MemoryFile:
    """Parse a document; missing parts are empty.

    Raises:
        InvalidRequest: It is not a memory document; the message names the location.
    """
    try:
        return MemoryFile.model_validate(document)
    except ValidationError as problem:
        first = problem.errors(include_url=False)[0]
        location = ".".join(map(str, first["loc"])) or "document"
        raise InvalidRequest(f"invalid memory document: {location}: {first['msg'].lower()}") from None


def build_edits(document: MemoryFile, state: MemoryState, now: datetime) -> Sequence[MemoryEdit]:
    """Return the edits that turn a state into a document."""
    return [*build_fact_edits(document, state, now), *build_summary_edits(document, state, now)]


def build_fact_edits(document: MemoryFile, state: MemoryState, now: datetime) -> Iterator[MemoryEdit]:
    """Yield the edits of facts."""
    known = {fact.id: fact for fact in state.facts}
    wanted: dict[str, Fact] = {}
    for entry in document.facts:
        fact_id = choose_fact_id(entry, wanted)
        wanted[fact_id] = merge_fact(known.get(fact_id), fact_id, entry, now)
    yield from (remove_fact(fact_id) for fact_id in known if fact_id not in wanted)
    yield from (upsert_fact(fact) for fact in wanted.values())


def merge_fact(known: Fact | None, fact_id: str, entry: FactEntry, now: datetime) -> Fact:
    """Return a fact with the fields of its entry; fields that documents lack are kept."""
    if known is None:
        known = Fact(fact_id, "", "context", 0.5, now)
    elif to_source_name(known.source) != entry.source and entry.source is not None:
        known = replace(known, source=None)
    source = known.source or parse_source(entry.source)
    return replace(
        known,
        content=entry.content,
        category=entry.category,
        confidence=entry.confidence,
        created_at=entry.created_at or known.created_at,
        source=source,
        source_error=entry.source_error,
    )


def build_summary_edits(document: MemoryFile, state: MemoryState, now: datetime) -> Iterator[MemoryEdit]:
    """Yield the edits of summaries; unchanged ones are skipped."""
    for key, entry in document.summaries().items():
        stored = state.summaries.get(key, Summary("", now))
        text = entry.summary.strip()
        if text != stored.summary:
            yield set_summary(key, text, entry.updated_at or now)


def choose_fact_id(entry: FactEntry, taken: Mapping[str, Fact]) -> str:
    """Return the id of a fact in a document; an invalid id is always mapped to the same valid one."""
    if not entry.id or entry.id in taken:
        return new_fact_id()
    if FACT_ID.fullmatch(entry.id):
        return entry.id
    return f"fact_{sha256(entry.id.encode('utf-8', 'replace')).hexdigest()[:32]}"


def to_source_name(source: FactSource | None) -> str:
    """Return the name of a source in the document."""
    if source is None:
        return MANUAL_SOURCE
    return source.thread_id or DELETED_THREAD


def parse_source(name: str | None) -> FactSource | None:
    """Return the source of a name in the document."""
    if not name or name == MANUAL_SOURCE:
        return None
    return DELETED_SOURCE if name == DELETED_THREAD else FactSource(name)


def format_time(at: datetime) -> str:
    """Format a time as the document writes it."""
    return to_utc(at).isoformat().replace("+00:00", "Z")
