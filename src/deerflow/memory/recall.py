"""The memory of a run: what it is told, and what its tools do with it."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from deerflow.domain.memory import (
    SUMMARY_KEYS,
    Category,
    Fact,
    MemoryScope,
    Source,
    Summary,
    forgetting,
    new_fact_id,
)
from deerflow.domain.recall import Recalled, Receipt
from deerflow.memory.injection import Chosen, Measure, Room, choose, in_words
from deerflow.memory.memories import FactChange, Memories, changed, unless_known
from deerflow.persistence.memory_telling import read_tellable, read_told

MOST_CANDIDATES = 100
"""Of so many facts of a kind it is chosen: more do not fit."""
READ_CHARS = 2000
"""So much of what a thread begins with is compared with what is known."""
Note = Mapping[str, Any]


class MemoryOfRun:
    """What one run knows of the person it works for, as it was when its thread began."""

    def __init__(self, memories: Memories, scope: MemoryScope, thread_id: str, measure: Measure) -> None:
        """`measure` tells how many tokens a text takes."""
        self._memories = memories
        self._ledger = memories.ledger
        self._settings = memories.settings
        self._scope = scope
        self._thread_id = thread_id
        self._measure = measure
        self._recalled: Recalled | None = None
        self._has_receipt = False

    async def recall(self, words: str) -> Recalled:
        if self._recalled is None:
            self._recalled = await self._choose(words)
        return self._recalled

    async def recall_again(self, note: Note) -> Recalled:
        if self._recalled is None or self._recalled.note != note:
            self._recalled = await self._read(note)
        return self._recalled

    def take_receipt(self, recalled: Recalled) -> Receipt | None:
        if self._has_receipt:
            return None
        self._has_receipt = True
        return recalled.receipt

    async def search(self, query: str, category: Category | None, limit: int) -> Sequence[Fact]:
        if await self._ledger.is_off(self._scope):
            return []
        return [hit.fact for hit in await self._ledger.search(self._scope, query, limit, category)]

    async def add(self, content: str, category: Category, confidence: float) -> Fact:
        fact = Fact(new_fact_id(), content, category, confidence, datetime.now(UTC), Source(self._thread_id))
        await self._ledger.apply(self._scope, partial(unless_known, fact), "agent")
        return await self._ledger.fact(self._scope, fact.id)

    async def update(
        self, fact_id: str, content: str | None, category: Category | None, confidence: float | None
    ) -> Fact:
        change = FactChange(content, category, confidence)
        await self._ledger.apply(self._scope, partial(changed, fact_id, change), "agent")
        return await self._ledger.fact(self._scope, fact_id)

    async def delete(self, fact_id: str) -> None:
        await self._ledger.apply(self._scope, [forgetting(fact_id)], "agent")

    async def _choose(self, words: str) -> Recalled:
        settings = self._settings()
        if not (settings.enabled and settings.injection_enabled):
            return Recalled()
        if self._memories.elsewhere is not None:  # somebody may have changed it there
            await self._memories.read(self._scope)
        query = partial(read_tellable, scope=self._scope, words=words[:READ_CHARS], most=MOST_CANDIDATES)
        known = await self._ledger.database.read(query)
        if known is None:
            return Recalled()
        chosen = choose(known, Room(settings.max_injection_tokens, settings.correction_tokens), self._measure)
        text = in_words(chosen)
        ids = [fact.id for fact in chosen.facts]
        note = {"seq": known.seq, "facts": ids, "summaries": list(chosen.summaries)} if text else {}
        receipt = Receipt(known.count, ids, known.count - len(ids), self._measure(text), is_new=True)
        return Recalled(text, note, receipt)

    async def _read(self, note: Note) -> Recalled:
        """What a note stands for. It went through the thread, so it is not taken on trust."""
        ids = [str(each) for each in _listed(note.get("facts"))]
        keys = [key for key in SUMMARY_KEYS if key in _listed(note.get("summaries"))]
        seq = note.get("seq")
        if not (self._settings().enabled and isinstance(seq, int)):
            return Recalled(note=note)
        query = partial(read_told, scope=self._scope, targets=[*ids, *keys], seq=seq)
        told = await self._ledger.database.read(query)
        facts = [fact for each in ids if isinstance(fact := told.get(each), Fact)]
        summaries = {key: summary for key in keys if isinstance(summary := told.get(key), Summary)}
        text = in_words(Chosen(summaries, facts))
        left = [fact.id for fact in facts]
        receipt = Receipt(len(ids), left, len(ids) - len(left), self._measure(text), is_new=False)
        return Recalled(text, note, receipt)


def _listed(value: object) -> list[Any]:
    return value[:MOST_CANDIDATES] if isinstance(value, list) else []
