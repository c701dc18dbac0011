"""Memory injection: selection of facts and summaries for a thread within a token budget, and their rendering."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from string import Template
from typing import Any, TypeVar

from deerflow.domain.memory import (
    SUMMARY_KEYS,
    Category,
    Fact,
    FactSource,
    InjectionReceipt,
    MemoryInjection,
    MemoryScope,
    Summary,
    SummaryKey,
    new_fact_id,
    remove_fact,
)
from deerflow.memory.queries.facts import InjectionCandidates, read_candidates, read_items_at
from deerflow.memory.service import FactChange, MemoryService, build_addition, build_change

Item = TypeVar("Item")
CountTokens = Callable[[str], int]
"""Returns the number of tokens of a text."""

TITLES: Mapping[SummaryKey, tuple[str, str]] = {
    "user.workContext": ("User Context", "Work"),
    "user.personalContext": ("User Context", "Personal"),
    "user.topOfMind": ("User Context", "Current Focus"),
    "history.recentMonths": ("History", "Recent"),
    "history.earlierContext": ("History", "Earlier"),
    "history.longTermBackground": ("History", "Background"),
}
TEMPLATE = Template(Path(__file__).with_suffix(".md").read_text(encoding="utf-8").strip())
HEADING_TOKENS = 24
"""Tokens of the three headings."""


@dataclass(frozen=True, slots=True)
class SelectedMemory:
    """Summaries and facts that are injected."""

    summaries: Mapping[SummaryKey, Summary]
    facts: Sequence[Fact]


@dataclass(frozen=True, slots=True)
class InjectionBudget:
    """Maximum tokens of the injection, and the part reserved for corrections."""

    tokens: int = 2000
    correction_tokens: int = 500


def select_memory(
    candidates: InjectionCandidates, budget: InjectionBudget, count_tokens: CountTokens
) -> SelectedMemory:
    """Select what fits: corrections, then summaries, then matching facts, then those of highest confidence."""
    remaining = budget.tokens - count_tokens(TEMPLATE.template) - HEADING_TOKENS
    corrections, spent = select_fitting(
        candidates.corrections, min(remaining, budget.correction_tokens), render_fact, count_tokens
    )
    remaining -= spent
    ordered = [(key, candidates.summaries[key]) for key in SUMMARY_KEYS if key in candidates.summaries]
    summaries, spent = select_fitting(ordered, remaining, lambda each: render_summary(*each), count_tokens)
    remaining -= spent
    items = {fact.id for fact in corrections}
    others = {
        fact.id: fact
        for fact in (*candidates.matching, *candidates.corrections, *candidates.top)
        if fact.id not in items
    }
    facts, _ = select_fitting(others.values(), remaining, render_fact, count_tokens)
    return SelectedMemory(dict(summaries), [*corrections, *facts])


def select_fitting(
    items: Iterable[Item], limit: int, line: Callable[[Item], str], count_tokens: CountTokens
) -> tuple[list[Item], int]:
    """Return the items whose lines fit, in order, and their tokens; an item that is too long is skipped."""
    selected: list[Item] = []
    spent = 0
    for item in items:
        size = count_tokens(f"{line(item)}\n")
        if spent + size <= limit:
            selected.append(item)
            spent += size
    return selected, spent


def render_memory(selected: SelectedMemory) -> str:
    """Return the text for the model; empty when nothing is selected."""
    parts: dict[str, list[str]] = {}
    for key in SUMMARY_KEYS:
        if key in selected.summaries:
            parts.setdefault(TITLES[key][0], []).append(render_summary(key, selected.summaries[key]))
    if selected.facts:
        parts["Facts"] = [render_fact(fact) for fact in selected.facts]
    if not parts:
        return ""
    return TEMPLATE.substitute(known="\n\n".join("\n".join([f"{title}:", *lines]) for title, lines in parts.items()))


def render_fact(fact: Fact) -> str:
    """Return a fact as one line. The corrected error is left out, so that it does not come into view again."""
    return f"- [{fact.category} | {fact.confidence:.2f}] {escape_line(fact.content)}"


def render_summary(key: SummaryKey, summary: Summary) -> str:
    """Return a summary as one line."""
    return f"- {TITLES[key][1]}: {escape_line(summary.summary)}"


def escape_line(text: str) -> str:
    """Return `text` on one line without characters that could close the block."""
    return " ".join(text.split()).replace("<", "‹").replace(">", "›")


MAX_CANDIDATES = 100
"""Maximum number of candidates of each kind: more do not fit."""
MAX_QUERY_CHARS = 2000
"""Length of the first message that is compared with the facts."""
InjectionNote = Mapping[str, Any]


class LedgerRunMemory:
    """Memory of one run, fixed when its thread begins."""

    def __init__(self, memories: MemoryService, scope: MemoryScope, thread_id: str, count_tokens: CountTokens) -> None:
        """`count_tokens` returns the number of tokens of a text."""
        self._memories = memories
        self._ledger = memories.ledger
        self._settings = memories.settings
        self._scope = scope
        self._thread_id = thread_id
        self._count_tokens = count_tokens
        self._injection: MemoryInjection | None = None
        self._has_receipt = False

    async def build_injection(self, words: str) -> MemoryInjection:
        if self._injection is None:
            self._injection = await self._select(words)
        return self._injection

    async def restore_injection(self, note: InjectionNote) -> MemoryInjection:
        if self._injection is None or self._injection.note != note:
            self._injection = await self._restore(note)
        return self._injection

    def take_receipt(self, injection: MemoryInjection) -> InjectionReceipt | None:
        if self._has_receipt:
            return None
        self._has_receipt = True
        return injection.receipt

    async def search(self, query: str, category: Category | None, limit: int) -> Sequence[Fact]:
        if await self._ledger.is_off(self._scope):
            return []
        return [hit.fact for hit in await self._ledger.search(self._scope, query, limit, category)]

    async def add(self, content: str, category: Category, confidence: float) -> Fact:
        fact = Fact(new_fact_id(), content, category, confidence, datetime.now(UTC), FactSource(self._thread_id))
        await self._ledger.apply(self._scope, partial(build_addition, fact), "agent")
        return await self._ledger.read_fact(self._scope, fact.id)

    async def update(
        self, fact_id: str, content: str | None, category: Category | None, confidence: float | None
    ) -> Fact:
        change = FactChange(content, category, confidence)
        await self._ledger.apply(self._scope, partial(build_change, fact_id, change), "agent")
        return await self._ledger.read_fact(self._scope, fact_id)

    async def delete(self, fact_id: str) -> None:
        await self._ledger.apply(self._scope, [remove_fact(fact_id)], "agent")

    async def _select(self, words: str) -> MemoryInjection:
        settings = self._settings.current
        if not (settings.enabled and settings.injection_enabled):
            return MemoryInjection()
        if self._memories.storage is not None:  # the external document may have been edited
            await self._memories.read(self._scope)
        query = partial(read_candidates, scope=self._scope, words=words[:MAX_QUERY_CHARS], limit=MAX_CANDIDATES)
        candidates = await self._ledger.database.look_up(query)
        if candidates is None:
            return MemoryInjection()
        selected = select_memory(
            candidates, InjectionBudget(settings.max_injection_tokens, settings.correction_tokens), self._count_tokens
        )
        text = render_memory(selected)
        ids = [fact.id for fact in selected.facts]
        note = {"seq": candidates.seq, "facts": ids, "summaries": list(selected.summaries)} if text else {}
        receipt = InjectionReceipt(
            candidates.count, ids, candidates.count - len(ids), self._count_tokens(text), is_new=True
        )
        return MemoryInjection(text, note, receipt)

    async def _restore(self, note: InjectionNote) -> MemoryInjection:
        """Return the injection of a note. The note comes from the thread state, so it is validated."""
        ids = [str(each) for each in _as_list(note.get("facts"))]
        keys = [key for key in SUMMARY_KEYS if key in _as_list(note.get("summaries"))]
        seq = note.get("seq")
        if not (self._settings.current.enabled and isinstance(seq, int)):
            return MemoryInjection(note=note)
        query = partial(read_items_at, scope=self._scope, targets=[*ids, *keys], seq=seq)
        items = await self._ledger.database.look_up(query)
        facts = [fact for each in ids if isinstance(fact := items.get(each), Fact)]
        summaries = {key: summary for key in keys if isinstance(summary := items.get(key), Summary)}
        text = render_memory(SelectedMemory(summaries, facts))
        remaining = [fact.id for fact in facts]
        receipt = InjectionReceipt(
            len(ids), remaining, len(ids) - len(remaining), self._count_tokens(text), is_new=False
        )
        return MemoryInjection(text, note, receipt)


def _as_list(value: object) -> list[Any]:
    return value[:MAX_CANDIDATES] if isinstance(value, list) else []
