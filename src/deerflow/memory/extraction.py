"""Output of the extraction model, and the rules that turn it into edits of memory."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Annotated, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from deerflow.domain.memory import (
    MAX_FACT_CHARS,
    MAX_QUOTE_CHARS,
    MAX_SUMMARY_CHARS,
    Category,
    ConversationMessage,
    Fact,
    FactSource,
    MemoryEdit,
    MemoryState,
    SummaryKey,
    new_fact_id,
    remove_fact,
    set_summary,
    supersede_fact,
    upsert_fact,
)
from deerflow.memory.document import normalize_category
from deerflow.memory.signals import UPLOAD_BLOCKS

MAX_NEW_FACTS = 30
"""Maximum number of facts from one conversation; a model that returns more is listing its content."""
MAX_OUTPUT_CHARS = 200_000
UPLOAD_MARKS = ("/mnt/user-data/uploads", *(f"<{name}>" for name in UPLOAD_BLOCKS))


class InvalidModelOutput(ValueError):
    """Output of the model cannot be parsed; the message is written for the model."""


class SummaryUpdate(BaseModel):
    """New text of a summary."""

    summary: str = ""
    should_update: bool = Field(default=False, alias="shouldUpdate")


class UserSummariesUpdate(BaseModel):
    """Updates of the summaries about the user."""

    workContext: SummaryUpdate = SummaryUpdate()
    personalContext: SummaryUpdate = SummaryUpdate()
    topOfMind: SummaryUpdate = SummaryUpdate()


class HistorySummariesUpdate(BaseModel):
    """Updates of the summaries of the past."""

    recentMonths: SummaryUpdate = SummaryUpdate()
    earlierContext: SummaryUpdate = SummaryUpdate()
    longTermBackground: SummaryUpdate = SummaryUpdate()


class ExtractedFact(BaseModel):
    """Fact found in a conversation."""

    content: str
    category: Annotated[Category, BeforeValidator(normalize_category)] = "context"
    confidence: float = Field(ge=0, le=1)
    message: int | None = None
    """Number of the source message."""
    quote: str = ""
    source_error: str | None = Field(default=None, alias="sourceError")
    replaces: list[str] = []
    """Ids of facts that are no longer true."""


class MemoryUpdate(BaseModel):
    """Parsed output of the model."""

    model_config = ConfigDict(extra="ignore")

    user: UserSummariesUpdate = UserSummariesUpdate()
    history: HistorySummariesUpdate = HistorySummariesUpdate()
    new_facts: list[ExtractedFact] = Field(default=[], alias="newFacts")
    facts_to_remove: list[str] = Field(default=[], alias="factsToRemove")

    def summaries(self) -> Iterator[tuple[SummaryKey, str]]:
        """Yield the summaries to change."""
        for key in get_args(SummaryKey):
            part, name = key.split(".")
            update: SummaryUpdate = getattr(getattr(self, part), name)
            if update.should_update and update.summary.strip():
                yield key, update.summary.strip()[:MAX_SUMMARY_CHARS]


@dataclass(frozen=True, slots=True)
class ExtractionRules:
    """Thresholds for new facts."""

    min_confidence: float = 0.7
    max_facts: int = 100


def parse_update(text: str) -> MemoryUpdate:
    """Parse the output of the model; text around the JSON object is ignored.

    Raises:
        InvalidModelOutput: It is not the expected JSON.
    """
    if len(text) > MAX_OUTPUT_CHARS:
        raise InvalidModelOutput(f"it has more than {MAX_OUTPUT_CHARS} characters")
    begin, end = text.find("{"), text.rfind("}")
    if begin < 0 or end < begin:
        raise InvalidModelOutput("there is no JSON object in it")
    try:
        return MemoryUpdate.model_validate(json.loads(text[begin : end + 1]))
    except RecursionError:
        raise InvalidModelOutput("it is nested too deeply") from None
    except ValidationError as problem:
        first = problem.errors(include_url=False, include_input=False)[0]
        raise InvalidModelOutput(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    except ValueError as problem:
        raise InvalidModelOutput(f"it is not JSON: {problem}") from None


@dataclass(frozen=True, slots=True)
class MemoryRevision:
    """Builder of the edits that an update of a thread makes to a state."""

    state: MemoryState
    thread_id: str
    messages: Sequence[ConversationMessage]
    rules: ExtractionRules
    now: datetime

    def build_edits(self, update: MemoryUpdate) -> list[MemoryEdit]:
        """Return the edits of an update; none when nothing is new."""
        known = {fact.id: fact for fact in self.state.facts if is_current(fact, self.now)}
        edits: dict[str, MemoryEdit] = {}
        for new in update.new_facts[:MAX_NEW_FACTS]:
            if self._is_accepted(new):
                self._add_fact(new, known, edits)
        removed = [remove_fact(id_, self._source(None, "")) for id_ in update.facts_to_remove if id_ in known]
        for edit in removed:
            if edit.target not in edits:
                edits[edit.target] = edit
                del known[edit.target]
        self._drop_excess(known, edits)
        summaries = [
            set_summary(key, text, self.now, self._source(None, ""))
            for key, text in update.summaries()
            if key not in self.state.summaries or self.state.summaries[key].summary != text
        ]
        return [*edits.values(), *summaries]

    def _is_accepted(self, new: ExtractedFact) -> bool:
        text = new.content.strip()
        is_about_files = any(mark in text for mark in UPLOAD_MARKS)
        return bool(text) and not is_about_files and new.confidence >= self.rules.min_confidence

    def _add_fact(self, new: ExtractedFact, known: dict[str, Fact], edits: dict[str, MemoryEdit]) -> None:
        """Add a fact; if it is known, raise its confidence at most."""
        text = new.content.strip()[:MAX_FACT_CHARS]
        same = next(
            (fact for fact in known.values() if normalize_sentence(fact.content) == normalize_sentence(text)), None
        )
        replaced = [known.pop(id_) for id_ in self._find_replaced(new, known) if known[id_] is not same]
        if same is not None:
            for old in replaced:
                edits[old.id] = MemoryEdit(
                    old.id, replace(old, valid_to=self.now), self._source(new.message, new.quote)
                )
            if new.confidence > same.confidence:
                known[same.id] = replace(same, confidence=new.confidence)
                edits[same.id] = upsert_fact(known[same.id])
            return
        fact = Fact(
            id=new_fact_id(),
            content=text,
            category=new.category,
            confidence=new.confidence,
            created_at=self.now + timedelta(microseconds=len(edits)),  # keeps the order of the update
            source=self._source(new.message, new.quote),
            source_error=self._find_error(new, replaced),
        )
        for edit in [each for old in replaced for each in supersede_fact(old, fact, self.now)] or [upsert_fact(fact)]:
            edits[edit.target] = edit
            if edit.target == fact.id and isinstance(edit.after, Fact):
                known[fact.id] = edit.after

    def _find_replaced(self, new: ExtractedFact, known: Mapping[str, Fact]) -> list[str]:
        """Return the ids of known facts that are no longer true, including those the model only quotes as the error."""
        error = normalize_sentence(new.source_error) if new.source_error else None
        quoted = [fact.id for fact in known.values() if normalize_sentence(fact.content) == error]
        return [id_ for id_ in dict.fromkeys([*new.replaces, *quoted]) if id_ in known]

    def _find_error(self, new: ExtractedFact, replaced: Sequence[Fact]) -> str | None:
        """Return what a correction corrects: by the model's output, or the replaced fact."""
        if new.category != "correction":
            return None
        text = (new.source_error or "").strip()[:MAX_FACT_CHARS]
        return text or (replaced[0].content if replaced else None)

    def _source(self, number: int | None, quote: str) -> FactSource:
        """Return the source message of a fact; always a message of the user, whatever number the model gives."""
        text = self.messages[number - 1] if number is not None and 0 < number <= len(self.messages) else None
        if text is None or text.role != "human":
            text = next((message for message in reversed(self.messages) if message.role == "human"), None)
        if text is None:
            return FactSource(self.thread_id)
        is_quoted = quote.strip() and quote.strip() in text.text
        return FactSource(
            self.thread_id, text.message_id, (quote.strip() if is_quoted else text.text)[:MAX_QUOTE_CHARS]
        )

    def _drop_excess(self, known: Mapping[str, Fact], edits: dict[str, MemoryEdit]) -> None:
        """Remove facts above the maximum: lowest confidence first, oldest first among equals."""
        too_many = len(known) - self.rules.max_facts
        if too_many <= 0:
            return
        before = {fact.id for fact in self.state.facts}
        ranked = sorted(known.values(), key=lambda fact: (fact.confidence, fact.created_at))
        for fact in ranked[:too_many]:
            if fact.id in before:
                edits[fact.id] = remove_fact(fact.id)
            else:
                edits.pop(fact.id, None)


def is_current(fact: Fact, now: datetime) -> bool:
    """Return whether a fact is still valid."""
    return fact.valid_to is None or fact.valid_to > now


def normalize_sentence(text: str) -> str:
    """Return a sentence without differences of case, whitespace and final punctuation."""
    return " ".join(text.casefold().split()).rstrip(".!。！")
