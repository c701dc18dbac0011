"""Ledger of memory: every change is recorded and can be explained, undone or erased permanently."""

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
    Fact,
    FactHit,
    FactProvenance,
    FactSource,
    MemoryChange,
    MemoryEdit,
    MemoryItem,
    MemoryScope,
    MemoryState,
    Summary,
    SummaryKey,
)
from deerflow.memory.queries import erasure
from deerflow.memory.queries import facts as rows
from deerflow.memory.queries.search import search_facts
from deerflow.persistence.engine.database import Database
from deerflow.persistence.queries.deletions import finish_deletions
from deerflow.persistence.queries.search import merge_index

MAX_EXPLAINED_CHANGES = 200
MAX_NAME_CHARS = 255
EditSource = Callable[[MemoryState], Sequence[MemoryEdit]] | Sequence[MemoryEdit]
"""Edits, or a function that derives them from the current state while the memory is locked."""


@dataclass(frozen=True, slots=True)
class Ledger:
    """Ledger of all memories. Every method works on one: that of a user, or of a user and one custom agent."""

    database: Database
    purge: Callable[[], Awaitable[bool]]
    """Removes erased content from the database files; returns False when it has to be repeated later."""
    on_change: Callable[[MemoryScope, MemoryState], Awaitable[None]] | None = None
    """Called with the new state after every change; saves it to an external storage."""

    async def read_state(self, scope: MemoryScope, as_of: datetime | None = None) -> MemoryState:
        """Return the state of a memory, or its state at a point in time except for what was erased since."""
        if as_of is None:
            return await self.database.read(partial(rows.read_state, scope=scope))
        return await self.database.read(partial(rows.read_state_at, scope=scope, moment=as_of))

    async def read_top_facts(
        self, scope: MemoryScope, limit: int, categories: Collection[str] | None = None
    ) -> Sequence[Fact]:
        """Return the facts of highest confidence."""
        query = partial(rows.read_top_facts, scope=scope, limit=limit, categories=categories)
        return await self.database.read(query)

    async def count_facts(self, scope: MemoryScope) -> int:
        """Return the number of facts."""
        return await self.database.read(partial(rows.count_facts, scope=scope))

    async def read_summaries(self, scope: MemoryScope) -> Mapping[SummaryKey, Summary]:
        """Return the summaries."""
        return await self.database.read(partial(rows.read_summaries, scope=scope))

    async def read_fact(self, scope: MemoryScope, fact_id: str) -> Fact:
        """Return a fact, or raise `NotFound`."""
        return await self.database.read(partial(rows.read_fact, scope=scope, fact_id=fact_id))

    async def search(
        self, scope: MemoryScope, words: str, limit: int = 10, category: str | None = None
    ) -> Sequence[FactHit]:
        """Return facts that contain any of the words, best first."""
        query = partial(search_facts, scope=scope, words=words, limit=limit, category=category)
        return await self.database.read(query)

    async def apply(
        self, scope: MemoryScope, edits: EditSource, actor: Actor, *, expected_seq: int | None = None
    ) -> Sequence[MemoryChange]:
        """Apply edits, all or none; edits without effect are skipped. Return the changes.

        Raises:
            InvalidRequest: A value is invalid.
            Conflict: The memory has changed since `expected_seq`.
            NotFound: A fact to remove does not exist.
        """
        checked = partial(check_edits, edits) if callable(edits) else [check_edit(edit) for edit in edits]
        change = partial(rows.record_edits, scope=scope, edits=checked, actor=actor, expected_seq=expected_seq)
        made = await self.database.write(change)
        if made:
            await self._notify(scope)
        return made

    async def read_history(
        self, scope: MemoryScope, limit: int = 50, before: int | None = None, fact_id: str | None = None
    ) -> Sequence[MemoryChange]:
        """Return changes, newest first, starting before change number `before`."""
        query = partial(rows.read_history, scope=scope, limit=limit, before=before, target=fact_id)
        return await self.database.read(query)

    async def undo(self, scope: MemoryScope, which: str, actor: Actor = "user") -> Sequence[MemoryChange]:
        """Undo a change, or all changes of a group.

        Raises:
            NotFound: There is no such change.
            Conflict: The same target was changed again since.
        """
        made = await self.database.write(partial(rows.undo_changes, scope=scope, which=which, actor=actor))
        await self._notify(scope)
        return made

    async def explain(self, scope: MemoryScope, fact_id: str) -> FactProvenance:
        """Return the provenance of a fact, or raise `NotFound`."""
        query = partial(rows.read_provenance, scope=scope, fact_id=fact_id, limit=MAX_EXPLAINED_CHANGES)
        return await self.database.read(query)

    async def is_off(self, scope: MemoryScope) -> bool:
        """Return whether the user has disabled this memory."""
        return await self.database.read(partial(rows.is_switched_off, scope=scope))

    async def set_off(self, scope: MemoryScope, *, is_off: bool) -> None:
        """Disable or enable a memory; its content is kept."""
        await self.database.write(partial(rows.set_off, scope=scope, is_off=is_off))

    async def erase_fact(self, scope: MemoryScope, fact_id: str) -> bool:
        """Erase a fact with its history; return False when bytes of it remain in the files until later.

        Raises:
            NotFound: There never was such a fact.
        """
        return await self._erase(scope, partial(erasure.erase_fact, fact_id=fact_id))

    async def erase_thread(self, scope: MemoryScope, thread_id: str) -> bool:
        """Erase what was extracted from a thread and everything derived from it; skip its pending messages."""
        return await self._erase(scope, partial(erasure.erase_thread, thread_id=thread_id))

    async def erase_all(self, scope: MemoryScope) -> bool:
        """Erase a memory; messages that were sent before are not extracted again."""
        if await self.database.read(partial(erasure.is_empty, scope=scope)):
            return True
        return await self._erase(scope, erasure.erase_all)

    async def list_scopes(self, owner: str) -> Sequence[MemoryScope]:
        """Return all memories of a user that are stored."""
        return await self.database.read(partial(erasure.list_scopes, owner=owner))

    async def forget_thread(self, thread_id: str, user_id: str, *, with_facts: bool) -> None:
        """Remove a deleted thread as source from all memories of a user; `with_facts` erases the facts too."""
        query = partial(erasure.list_scopes_of_thread, owner=user_id, thread_id=thread_id)
        remove = erasure.erase_thread if with_facts else erasure.anonymize_source
        for scope in await self.database.read(query):
            await self.database.write(partial(remove, scope=scope, thread_id=thread_id))
            await self._notify(scope)

    async def _erase(self, scope: MemoryScope, change: Callable[..., None]) -> bool:
        """Erase rows, index entries and file content, in this order; then delete the record of the erasure."""
        deletion = await self.database.write(partial(erasure.erase_and_record, scope=scope, change=change))
        await self._notify(scope)
        while await self.database.write(merge_index):
            pass
        if not await self.purge():
            return False
        await self.database.write(partial(finish_deletions, thread_ids=[deletion]))
        return True

    async def _notify(self, scope: MemoryScope) -> None:
        if self.on_change is not None:
            await self.on_change(scope, await self.read_state(scope))


def check_edits(build: Callable[[MemoryState], Sequence[MemoryEdit]], state: MemoryState) -> Sequence[MemoryEdit]:
    """Return the edits for a state, each checked."""
    return [check_edit(edit) for edit in build(state)]


def check_edit(edit: MemoryEdit) -> MemoryEdit:
    """Return an edit with cleaned values, or raise `InvalidRequest`."""
    is_summary = edit.target in SUMMARY_KEYS
    if edit.after is not None and isinstance(edit.after, Summary) != is_summary:
        raise InvalidRequest(f"value does not fit target {edit.target!r}")
    return MemoryEdit(edit.target, None if edit.after is None else check_item(edit.after), check_source(edit.source))


def check_item(item: MemoryItem) -> MemoryItem:
    """Return a fact or summary with cleaned values, or raise `InvalidRequest`."""
    if isinstance(item, Summary):
        return replace(item, summary=check_text(item.summary, "a summary", MAX_SUMMARY_CHARS))
    if item.category not in CATEGORIES:
        raise InvalidRequest(f"a fact's category is one of {', '.join(CATEGORIES)}, not {item.category!r}")
    if not (math.isfinite(item.confidence) and 0 <= item.confidence <= 1):
        raise InvalidRequest(f"a fact's confidence is between 0 and 1, not {item.confidence!r}")
    return replace(
        item,
        content=check_text(item.content, "a fact", MAX_FACT_CHARS),
        confidence=float(item.confidence),
        source=check_source(item.source),
        source_error=clean_text(item.source_error)[:MAX_FACT_CHARS] if item.source_error else None,
    )


def check_source(source: FactSource | None) -> FactSource | None:
    """Return a source with cleaned values."""
    if source is None:
        return None
    return FactSource(
        clean_text(source.thread_id)[:MAX_NAME_CHARS] if source.thread_id else None,
        clean_text(source.message_id)[:MAX_NAME_CHARS] if source.message_id else None,
        clean_text(source.quote)[:MAX_QUOTE_CHARS] if source.quote else None,
    )


def check_text(text: str, what: str, limit: int) -> str:
    """Return a cleaned text, or raise `InvalidRequest` when it is empty or too long."""
    cleaned = clean_text(text)
    if not cleaned:
        raise InvalidRequest(f"{what} cannot be empty")
    if len(cleaned) > limit:
        raise InvalidRequest(f"{what} has at most {limit} characters, not {len(cleaned)}")
    return cleaned


def clean_text(text: str) -> str:
    """Return a text without surrounding whitespace and without characters that a database cannot store."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode().strip()
