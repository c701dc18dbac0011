"""What a model has understood of a conversation, and what of it becomes memory: rules on plain data."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Annotated, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from deerflow.domain.learning import Heard
from deerflow.domain.memory import (
    CATEGORIES,
    MAX_FACT_CHARS,
    MAX_QUOTE_CHARS,
    MAX_SUMMARY_CHARS,
    Category,
    Edit,
    Fact,
    MemoryState,
    Source,
    SummaryKey,
    forgetting,
    knowing,
    new_fact_id,
    summarising,
    superseding,
)
from deerflow.memory.filtering import UPLOAD_BLOCKS

MOST_NEW_FACTS = 30
"""A model that finds more in one conversation is listing it."""
LONGEST_ANSWER = 200_000
UPLOADED = ("/mnt/user-data/uploads", *(f"<{name}>" for name in UPLOAD_BLOCKS))


class NotUnderstood(ValueError):
    """A model's answer is not what it was asked for; the text says why, for the model."""


def _a_category(value: object) -> object:
    return value if value in CATEGORIES else "context"


class SummaryUpdate(BaseModel):
    """What a summary is to be."""

    summary: str = ""
    should_update: bool = Field(default=False, alias="shouldUpdate")


class UserUpdate(BaseModel):
    """The summaries of the person."""

    workContext: SummaryUpdate = SummaryUpdate()
    personalContext: SummaryUpdate = SummaryUpdate()
    topOfMind: SummaryUpdate = SummaryUpdate()


class HistoryUpdate(BaseModel):
    """The summaries of what went before."""

    recentMonths: SummaryUpdate = SummaryUpdate()
    earlierContext: SummaryUpdate = SummaryUpdate()
    longTermBackground: SummaryUpdate = SummaryUpdate()


class NewFact(BaseModel):
    """Something that is worth knowing."""

    content: str
    category: Annotated[Category, BeforeValidator(_a_category)] = "context"
    confidence: float = Field(ge=0, le=1)
    message: int | None = None
    """The number of the message that says so."""
    quote: str = ""
    source_error: str | None = Field(default=None, alias="sourceError")
    replaces: list[str] = []
    """The facts that are no longer true."""


class Update(BaseModel):
    """What a model has understood."""

    model_config = ConfigDict(extra="ignore")

    user: UserUpdate = UserUpdate()
    history: HistoryUpdate = HistoryUpdate()
    new_facts: list[NewFact] = Field(default=[], alias="newFacts")
    facts_to_remove: list[str] = Field(default=[], alias="factsToRemove")

    def summaries(self) -> Iterator[tuple[SummaryKey, str]]:
        """The summaries that are to change."""
        for key in get_args(SummaryKey):
            part, name = key.split(".")
            update: SummaryUpdate = getattr(getattr(self, part), name)
            if update.should_update and update.summary.strip():
                yield key, update.summary.strip()[:MAX_SUMMARY_CHARS]


@dataclass(frozen=True, slots=True)
class Rules:
    """What becomes memory."""

    least_confidence: float = 0.7
    most_facts: int = 100


def read_update(text: str) -> Update:
    """What a model's answer says; a fence around it is no harm.

    Raises:
        NotUnderstood: it is not the JSON that was asked for.
    """
    if len(text) > LONGEST_ANSWER:
        raise NotUnderstood(f"it has more than {LONGEST_ANSWER} characters")
    begin, end = text.find("{"), text.rfind("}")
    if begin < 0 or end < begin:
        raise NotUnderstood("there is no JSON object in it")
    try:
        return Update.model_validate(json.loads(text[begin : end + 1]))
    except RecursionError:
        raise NotUnderstood("it is nested too deeply") from None
    except ValidationError as problem:
        first = problem.errors(include_url=False, include_input=False)[0]
        raise NotUnderstood(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    except ValueError as problem:
        raise NotUnderstood(f"it is not JSON: {problem}") from None


@dataclass(frozen=True, slots=True)
class Revision:
    """Turns what a model has understood of a thread into changes of what is known."""

    state: MemoryState
    thread_id: str
    messages: Sequence[Heard]
    rules: Rules
    now: datetime

    def edits(self, update: Update) -> list[Edit]:
        """What is to change; nothing where everything was known already."""
        known = {fact.id: fact for fact in self.state.facts if is_current(fact, self.now)}
        edits: dict[str, Edit] = {}
        for new in update.new_facts[:MOST_NEW_FACTS]:
            if self._is_worth_keeping(new):
                self._take_in(new, known, edits)
        gone = [forgetting(id_, self._source(None, "")) for id_ in update.facts_to_remove if id_ in known]
        for edit in gone:
            if edit.target not in edits:
                edits[edit.target] = edit
                del known[edit.target]
        self._make_room(known, edits)
        summaries = [
            summarising(key, text, self.now, self._source(None, ""))
            for key, text in update.summaries()
            if key not in self.state.summaries or self.state.summaries[key].summary != text
        ]
        return [*edits.values(), *summaries]

    def _is_worth_keeping(self, new: NewFact) -> bool:
        told = new.content.strip()
        is_about_files = any(mark in told for mark in UPLOADED)
        return bool(told) and not is_about_files and new.confidence >= self.rules.least_confidence

    def _take_in(self, new: NewFact, known: dict[str, Fact], edits: dict[str, Edit]) -> None:
        """Add one fact, unless it is known: then it is at most believed more firmly."""
        told = new.content.strip()[:MAX_FACT_CHARS]
        same = next((fact for fact in known.values() if folded(fact.content) == folded(told)), None)
        replaced = [known.pop(id_) for id_ in self._replaced(new, known) if known[id_] is not same]
        if same is not None:
            for old in replaced:
                edits[old.id] = Edit(old.id, replace(old, valid_to=self.now), self._source(new.message, new.quote))
            if new.confidence > same.confidence:
                known[same.id] = replace(same, confidence=new.confidence)
                edits[same.id] = knowing(known[same.id])
            return
        fact = Fact(
            id=new_fact_id(),
            content=told,
            category=new.category,
            confidence=new.confidence,
            created_at=self.now + timedelta(microseconds=len(edits)),  # in the order in which they were told
            source=self._source(new.message, new.quote),
            source_error=self._error(new, replaced),
        )
        for edit in [each for old in replaced for each in superseding(old, fact, self.now)] or [knowing(fact)]:
            edits[edit.target] = edit
            if edit.target == fact.id and isinstance(edit.after, Fact):
                known[fact.id] = edit.after

    def _replaced(self, new: NewFact, known: Mapping[str, Fact]) -> list[str]:
        """The known facts that are no longer true, also those that the model only quotes as the error."""
        error = folded(new.source_error) if new.source_error else None
        quoted = [fact.id for fact in known.values() if folded(fact.content) == error]
        return [id_ for id_ in dict.fromkeys([*new.replaces, *quoted]) if id_ in known]

    def _error(self, new: NewFact, replaced: Sequence[Fact]) -> str | None:
        """What a correction corrects: as the model says, or what was believed before."""
        if new.category != "correction":
            return None
        said = (new.source_error or "").strip()[:MAX_FACT_CHARS]
        return said or (replaced[0].content if replaced else None)

    def _source(self, number: int | None, quote: str) -> Source:
        """The message a fact is from; it is a person's, whatever number the model gives."""
        told = self.messages[number - 1] if number is not None and 0 < number <= len(self.messages) else None
        if told is None or told.role != "human":
            told = next((message for message in reversed(self.messages) if message.role == "human"), None)
        if told is None:
            return Source(self.thread_id)
        is_quoted = quote.strip() and quote.strip() in told.text
        return Source(self.thread_id, told.message_id, (quote.strip() if is_quoted else told.text)[:MAX_QUOTE_CHARS])

    def _make_room(self, known: Mapping[str, Fact], edits: dict[str, Edit]) -> None:
        """Have no more facts than may be: the least sure go, and of these the oldest."""
        too_many = len(known) - self.rules.most_facts
        if too_many <= 0:
            return
        before = {fact.id for fact in self.state.facts}
        ranked = sorted(known.values(), key=lambda fact: (fact.confidence, fact.created_at))
        for fact in ranked[:too_many]:
            if fact.id in before:
                edits[fact.id] = forgetting(fact.id)
            else:
                edits.pop(fact.id, None)


def is_current(fact: Fact, now: datetime) -> bool:
    """Whether a fact is not over."""
    return fact.valid_to is None or fact.valid_to > now


def folded(text: str) -> str:
    """What two writings of one sentence have in common."""
    return " ".join(text.casefold().split()).rstrip(".!。！")
