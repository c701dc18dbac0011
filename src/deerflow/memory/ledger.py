"""The ledger of what is known about people: every change is kept, can be explained and undone, or erased for good."""

import math
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from deerflow.domain.errors import InvalidRequest
from deerflow.domain.memory import (
    CATEGORIES,
    MAX_FACT_CHARS,
    MAX_QUOTE_CHARS,
    MAX_SUMMARY_CHARS,
    SUMMARY_KEYS,
    Actor,
    Change,
    Edit,
    Fact,
    FactHit,
    Known,
    MemoryScope,
    MemoryState,
    Source,
    Summary,
    SummaryKey,
    Why,
)
from deerflow.persistence import memory as rows
from deerflow.persistence import memory_erasure as erasure
from deerflow.persistence.database import Database
from deerflow.persistence.deletions import end_deletions
from deerflow.persistence.memory_search import search_facts
from deerflow.persistence.search import merge_step

MOST_EXPLAINED = 200
MAX_NAME_CHARS = 255
Edits = Callable[[MemoryState], Sequence[Edit]] | Sequence[Edit]
"""What is to be changed, or how that follows from what is known when nobody else can change it."""


@dataclass(frozen=True, slots=True)
class Ledger:
    """Every method speaks of one memory: that of a person, or of a person and one of their agents."""

    database: Database
    scrub: Callable[[], Awaitable[bool]]
    """Have no file remember what was erased; False: somebody is in the way, and it has to be done later."""
    keep: Callable[[MemoryScope, MemoryState], Awaitable[None]] | None = None
    """Is told what is known after every change, where it is to be kept elsewhere too."""

    async def state(self, scope: MemoryScope, as_of: datetime | None = None) -> MemoryState:
        """What is known, or was at a moment as far as it has not been erased since."""
        if as_of is None:
            return await self.database.read(partial(rows.read_state, scope=scope))
        return await self.database.read(partial(rows.read_state_at, scope=scope, moment=as_of))

    async def leading(
        self, scope: MemoryScope, limit: int, categories: Collection[str] | None = None
    ) -> Sequence[Fact]:
        """The surest facts, however many there are."""
        query = partial(rows.read_leading, scope=scope, limit=limit, categories=categories)
        return await self.database.read(query)

    async def count(self, scope: MemoryScope) -> int:
        """How many facts are known."""
        return await self.database.read(partial(rows.count_facts, scope=scope))

    async def summaries(self, scope: MemoryScope) -> Mapping[SummaryKey, Summary]:
        """The summaries alone."""
        return await self.database.read(partial(rows.read_summaries, scope=scope))

    async def fact(self, scope: MemoryScope, fact_id: str) -> Fact:
        """A fact that is known, or `NotFound`."""
        return await self.database.read(partial(rows.read_fact, scope=scope, fact_id=fact_id))

    async def search(
        self, scope: MemoryScope, words: str, limit: int = 10, category: str | None = None
    ) -> Sequence[FactHit]:
        """Facts with any of the words, the best first."""
        query = partial(search_facts, scope=scope, words=words, limit=limit, category=category)
        return await self.database.read(query)

    async def apply(
        self, scope: MemoryScope, edits: Edits, actor: Actor, *, expected_seq: int | None = None
    ) -> Sequence[Change]:
        """Carry out edits, all or none; what changes nothing is left out.

        Raises:
            InvalidRequest: something cannot be remembered.
            Conflict: the memory has changed since `expected_seq`.
            NotFound: a fact is to go that is not there.
        """
        checked = partial(check_made, edits) if callable(edits) else [check(edit) for edit in edits]
        change = partial(rows.record, scope=scope, edits=checked, actor=actor, expected_seq=expected_seq)
        made = await self.database.write(change)
        if made:
            await self._tell(scope)
        return made

    async def history(
        self, scope: MemoryScope, limit: int = 50, before: int | None = None, fact_id: str | None = None
    ) -> Sequence[Change]:
        """Changes, newest first; `before` is the number of the one to go on from."""
        query = partial(rows.read_history, scope=scope, limit=limit, before=before, target=fact_id)
        return await self.database.read(query)

    async def undo(self, scope: MemoryScope, which: str, actor: Actor = "user") -> Sequence[Change]:
        """Take back a change, or all that was done in one group.

        Raises:
            NotFound: there is no such change.
            Conflict: what it changed has been changed again since.
        """
        made = await self.database.write(partial(rows.take_back, scope=scope, which=which, actor=actor))
        await self._tell(scope)
        return made

    async def why(self, scope: MemoryScope, fact_id: str) -> Why:
        """Where a fact comes from, or `NotFound`."""
        query = partial(rows.read_why, scope=scope, fact_id=fact_id, limit=MOST_EXPLAINED)
        return await self.database.read(query)

    async def is_off(self, scope: MemoryScope) -> bool:
        """Whether the person wants nothing to be remembered and nothing to be told."""
        return await self.database.read(partial(rows.is_switched_off, scope=scope))

    async def switch(self, scope: MemoryScope, *, is_off: bool) -> None:
        """Switch a memory off or on; what is in it stays."""
        await self.database.write(partial(rows.switch, scope=scope, is_off=is_off))

    async def erase_fact(self, scope: MemoryScope, fact_id: str) -> bool:
        """Erase a fact with its history; False when bytes of it will only go later.

        Raises:
            NotFound: there never was one.
        """
        return await self._erase(scope, partial(erasure.erase_fact, fact_id=fact_id))

    async def erase_thread(self, scope: MemoryScope, thread_id: str) -> bool:
        """Erase what was learned in a thread, and all that was made of it; it is not learned again."""
        return await self._erase(scope, partial(erasure.erase_learned, thread_id=thread_id))

    async def erase_all(self, scope: MemoryScope) -> bool:
        """Erase everything; it is not learned again from what was said before."""
        if await self.database.read(partial(erasure.is_untouched, scope=scope)):
            return True
        return await self._erase(scope, erasure.erase_all)

    async def let_go(self, thread_id: str, user_id: str, *, with_facts: bool) -> None:
        """Have memories keep nothing of the words of a thread that is deleted; or nothing learned in it either."""
        query = partial(erasure.scopes_of_thread, owner=user_id, thread_id=thread_id)
        leave = erasure.erase_learned if with_facts else erasure.forget_source
        for scope in await self.database.read(query):
            await self.database.write(partial(leave, scope=scope, thread_id=thread_id))
            await self._tell(scope)

    async def _erase(self, scope: MemoryScope, change: Callable[..., None]) -> bool:
        """Erase something from the rows, then from the index and the files; the note of it is the last to go."""
        note = await self.database.write(partial(erasure.noted, scope=scope, change=change))
        await self._tell(scope)
        while await self.database.write(merge_step):
            pass
        if not await self.scrub():
            return False
        await self.database.write(partial(end_deletions, thread_ids=[note]))
        return True

    async def _tell(self, scope: MemoryScope) -> None:
        if self.keep is not None:
            await self.keep(scope, await self.state(scope))


def check_made(make: Callable[[MemoryState], Sequence[Edit]], state: MemoryState) -> Sequence[Edit]:
    """Edits as they are made, checked."""
    return [check(edit) for edit in make(state)]


def check(edit: Edit) -> Edit:
    """An edit as it can be kept, or `InvalidRequest`."""
    is_summary = edit.target in SUMMARY_KEYS
    if edit.after is not None and isinstance(edit.after, Summary) != is_summary:
        raise InvalidRequest(f"{edit.target!r} cannot hold that")
    return Edit(edit.target, None if edit.after is None else check_known(edit.after), check_source(edit.source))


def check_known(known: Known) -> Known:
    """A fact or a summary as it can be kept, or `InvalidRequest`."""
    if isinstance(known, Summary):
        return replace(known, summary=check_text(known.summary, "a summary", MAX_SUMMARY_CHARS))
    if known.category not in CATEGORIES:
        raise InvalidRequest(f"a fact's category is one of {', '.join(CATEGORIES)}, not {known.category!r}")
    if not (math.isfinite(known.confidence) and 0 <= known.confidence <= 1):
        raise InvalidRequest(f"a fact's confidence is between 0 and 1, not {known.confidence!r}")
    return replace(
        known,
        content=check_text(known.content, "a fact", MAX_FACT_CHARS),
        confidence=float(known.confidence),
        source=check_source(known.source),
        source_error=clean(known.source_error)[:MAX_FACT_CHARS] if known.source_error else None,
    )


def check_source(source: Source | None) -> Source | None:
    """A source as it can be kept."""
    if source is None:
        return None
    return Source(
        clean(source.thread_id)[:MAX_NAME_CHARS] if source.thread_id else None,
        clean(source.message_id)[:MAX_NAME_CHARS] if source.message_id else None,
        clean(source.quote)[:MAX_QUOTE_CHARS] if source.quote else None,
    )


def check_text(text: str, what: str, limit: int) -> str:
    """A text with something in it, but not too much, or `InvalidRequest`."""
    kept = clean(text)
    if not kept:
        raise InvalidRequest(f"{what} cannot be empty")
    if len(kept) > limit:
        raise InvalidRequest(f"{what} has at most {limit} characters, not {len(kept)}")
    return kept


def clean(text: str) -> str:
    """A text without what a database cannot hold, and without blanks around it."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode().strip()
