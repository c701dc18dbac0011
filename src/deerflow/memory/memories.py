"""What people do with what is known about them: read, correct, undo, erase, carry it in and out, switch it off."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from deerflow.config.memory import MemoryConfig
from deerflow.domain.errors import Conflict, NotFound
from deerflow.domain.learning import Waiting
from deerflow.domain.memory import (
    Category,
    Change,
    Edit,
    Fact,
    FactHit,
    MemoryScope,
    MemoryState,
    SummaryKey,
    Why,
    forgetting,
    knowing,
    new_fact_id,
    summarising,
)
from deerflow.memory.document import edits_for, read_document
from deerflow.memory.ledger import Ledger
from deerflow.memory.storage import MemoryStorage
from deerflow.persistence.memory_pending import read_waiting

MOST_WAITING = 50
"""So many threads that wait are told at most."""


@dataclass(frozen=True, slots=True)
class FactChange:
    """What is to be different about a fact; None stays as it is."""

    content: str | None = None
    category: Category | None = None
    confidence: float | None = None

    def of(self, fact: Fact) -> Fact:
        """The fact with the change."""
        return replace(
            fact,
            content=fact.content if self.content is None else self.content.strip(),
            category=self.category or fact.category,
            confidence=fact.confidence if self.confidence is None else self.confidence,
        )


@dataclass(frozen=True, slots=True)
class Memories:
    """Methods that change something raise `Conflict` when the memory is no longer at `expected_seq`."""

    ledger: Ledger
    settings: Callable[[], MemoryConfig]
    elsewhere: MemoryStorage | None = None
    """Where documents are kept besides the ledger, and may be changed by others."""

    async def read(self, scope: MemoryScope, as_of: datetime | None = None) -> MemoryState:
        """What is known, or was at a moment."""
        if as_of is None and self.elsewhere is not None:
            await self._adopt(scope, await self.elsewhere.load(scope))
        return await self.ledger.state(scope, as_of)

    async def reload(self, scope: MemoryScope) -> MemoryState:
        """What is known, as it is kept now, whoever has changed it there."""
        if self.elsewhere is not None:
            await self._adopt(scope, await self.elsewhere.reload(scope))
        return await self.ledger.state(scope)

    async def add_fact(
        self,
        scope: MemoryScope,
        content: str,
        category: Category = "context",
        confidence: float = 0.5,
        expected_seq: int | None = None,
    ) -> Fact:
        """Write a fact down.

        Raises:
            InvalidRequest: it cannot be remembered.
            Conflict: it is known already.
        """
        new = Fact(new_fact_id(), content.strip(), category, confidence, datetime.now(UTC))
        made = await self.ledger.apply(scope, partial(unless_known, new), "user", expected_seq=expected_seq)
        fact = made[0].after
        assert isinstance(fact, Fact)
        return fact

    async def change_fact(
        self, scope: MemoryScope, fact_id: str, change: FactChange, expected_seq: int | None = None
    ) -> None:
        """Change a fact; where it comes from stays.

        Raises:
            NotFound: there is none.
            InvalidRequest: it cannot be remembered so.
            Conflict: another fact says the same.
        """
        edits = partial(changed, fact_id, change)
        await self.ledger.apply(scope, edits, "user", expected_seq=expected_seq)

    async def write_summary(
        self, scope: MemoryScope, key: SummaryKey, text: str, expected_seq: int | None = None
    ) -> None:
        """Have a summary say this; nothing, and there is none. It can be undone.

        Raises:
            InvalidRequest: it is too long.
        """
        edits = [summarising(key, text.strip(), datetime.now(UTC))]
        await self.ledger.apply(scope, edits, "user", expected_seq=expected_seq)

    async def delete_fact(self, scope: MemoryScope, fact_id: str, *, keep_history: bool = False) -> None:
        """Erase a fact for good; or take it away so that it can be brought back.

        Raises:
            NotFound: there is none.
        """
        if not keep_history:
            await self.ledger.erase_fact(scope, fact_id)
            return
        await self.ledger.fact(scope, fact_id)
        await self.ledger.apply(scope, [forgetting(fact_id)], "user")

    async def clear(self, scope: MemoryScope, *, keep_history: bool = False) -> None:
        """Erase everything for good; or take it away so that it can be brought back."""
        if keep_history:
            await self.put_in(scope, {})
        else:
            await self.ledger.erase_all(scope)

    async def put_in(
        self, scope: MemoryScope, document: Mapping[str, Any], expected_seq: int | None = None
    ) -> Sequence[Change]:
        """Have a memory be what a document says; that is one change, and can be undone.

        Raises:
            InvalidRequest: it is not the document of a memory.
        """
        read = await asyncio.to_thread(read_document, document)
        edits = partial(edits_for, read, now=datetime.now(UTC))
        return await self.ledger.apply(scope, edits, "import", expected_seq=expected_seq)

    async def search(
        self, scope: MemoryScope, words: str, limit: int = 10, category: Category | None = None
    ) -> Sequence[FactHit]:
        """Facts with any of the words, the best first."""
        return await self.ledger.search(scope, words, limit, category)

    async def history(
        self, scope: MemoryScope, limit: int = 50, before: int | None = None, fact_id: str | None = None
    ) -> Sequence[Change]:
        """What happened, newest first."""
        return await self.ledger.history(scope, limit, before, fact_id)

    async def undo(self, scope: MemoryScope, which: str) -> Sequence[Change]:
        """Take back a change, or a group of them; raises `NotFound` and `Conflict`."""
        return await self.ledger.undo(scope, which)

    async def why(self, scope: MemoryScope, fact_id: str) -> Why:
        """Where a fact comes from, or `NotFound`."""
        return await self.ledger.why(scope, fact_id)

    async def erase_thread(self, scope: MemoryScope, thread_id: str) -> None:
        """Erase what was learned in a thread, and all that was made of it."""
        await self.ledger.erase_thread(scope, thread_id)

    async def waiting(self, scope: MemoryScope) -> Sequence[Waiting]:
        """The threads that are yet to be learned from, the next first."""
        return await self.ledger.database.read(partial(read_waiting, scope=scope, limit=MOST_WAITING))

    async def is_on(self, scope: MemoryScope) -> bool:
        """Whether this person wants to be remembered; the server may still not remember anybody."""
        return not await self.ledger.is_off(scope)

    async def switch(self, scope: MemoryScope, *, is_on: bool) -> None:
        """Have this memory be used and added to, or neither; what is in it stays."""
        await self.ledger.switch(scope, is_off=not is_on)

    async def let_go(self, thread_id: str, user_id: str) -> None:
        """Forget of a deleted thread what its deletion means to delete."""
        await self.ledger.let_go(thread_id, user_id, with_facts=self.settings().forget_with_thread)

    async def _adopt(self, scope: MemoryScope, document: Mapping[str, Any] | None) -> None:
        if document is not None:
            await self.put_in(scope, document)


def unless_known(new: Fact, state: MemoryState) -> Sequence[Edit]:
    """That a fact is to be known, or `Conflict` when another says the same."""
    for fact in state.facts:
        if fact.id != new.id and folded(fact.content) == folded(new.content):
            raise Conflict(f"that is known already, as {fact.id!r}")
    return [knowing(new)]


def changed(fact_id: str, change: FactChange, state: MemoryState) -> Sequence[Edit]:
    """That a fact is to be different, or `NotFound`."""
    for fact in state.facts:
        if fact.id == fact_id:
            # Who says it now is the person, wherever it was learned.
            return [replace(edit, source=None) for edit in unless_known(change.of(fact), state)]
    raise NotFound(f"no fact {fact_id!r} in memory")


def folded(content: str) -> str:
    """A text by which two facts are told to be the same."""
    return " ".join(content.casefold().split())
