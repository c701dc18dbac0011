"""Permanent erasure from memory: no row, index term or reference is left.

Later versions of an erased fact or summary are erased with it, because they were derived from it. The version before
becomes current again.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Text, cast, delete, insert, or_, select, update

from deerflow.domain.errors import NotFound
from deerflow.domain.identity import new_id
from deerflow.domain.memory import DELETED_SOURCE, SUMMARY_KEYS, Fact, FactSource, MemoryItem, MemoryScope
from deerflow.memory.queries.facts import find_scope_row, lock_row, next_timestamp, owned_by, read_latest
from deerflow.memory.queries.search import add_to_index, remove_from_index, to_change, to_change_row, to_scope_key
from deerflow.persistence.tables import (
    deletions,
    memory_changes,
    memory_facts,
    memory_pending,
    memory_scopes,
    memory_watermarks,
    to_key,
)

rows = memory_changes.c


@dataclass(frozen=True, slots=True)
class ErasureTarget:
    """Fact or summary to erase, from change number `since` on."""

    target: str
    since: int


def erase_and_record(connection: Connection, scope: MemoryScope, change: Callable[..., None]) -> str:
    """Erase something, and record in `deletions` that its bytes are still in the files; return the id of the record.

    After a crash, or when the files are in use, another process finishes the erasure by this record.
    """
    change(connection, scope)
    deletion_id = f"memory-{new_id()}"
    row = {"thread_id": deletion_id, "owner": scope.owner, "process": "memory", "created_at": next_timestamp(None)}
    connection.execute(insert(deletions), row)
    return deletion_id


def erase_fact(connection: Connection, scope: MemoryScope, fact_id: str) -> None:
    """Erase a fact with its history.

    Raises:
        NotFound: There never was such a fact.
    """
    lock_row(connection, scope)
    query = select(rows.seq).where(owned_by(memory_changes, scope), rows.target == to_key(fact_id, 64))
    if connection.execute(query.limit(1)).first() is None:
        raise NotFound(f"no fact {fact_id!r} in memory")
    erase_targets(connection, scope, [ErasureTarget(fact_id, 0)])


def erase_thread(connection: Connection, scope: MemoryScope, thread_id: str) -> None:
    """Erase what was extracted from a thread, and its pending messages."""
    lock_row(connection, scope)
    skip_pending(connection, scope, memory_pending.c.thread_id == thread_id)
    query = select(rows.target, rows.seq).where(owned_by(memory_changes, scope), rows.source_thread == thread_id)
    first: dict[str, int] = {}
    for row in connection.execute(query.order_by(rows.seq)):
        first.setdefault(row.target, row.seq)
    erase_targets(connection, scope, [ErasureTarget(target, since) for target, since in first.items()])


def is_empty(connection: Connection, scope: MemoryScope) -> bool:
    """Return whether there is nothing to erase, and never was."""
    waiting = select(memory_pending.c.thread_id).where(owned_by(memory_pending, scope)).limit(1)
    return find_scope_row(connection, scope) is None and connection.execute(waiting).first() is None


def erase_all(connection: Connection, scope: MemoryScope) -> None:
    """Erase a memory. Earlier messages are not extracted again; a disabled memory stays disabled."""
    lock_row(connection, scope)
    skip_pending(connection, scope, memory_pending.c.thread_id.is_not(None))
    for table in (memory_changes, memory_facts):
        connection.execute(delete(table).where(owned_by(table, scope)))
    connection.execute(delete(memory_scopes).where(owned_by(memory_scopes, scope), memory_scopes.c.is_off.is_(False)))


def list_scopes(connection: Connection, owner: str) -> Sequence[MemoryScope]:
    """Return all memories of a user."""
    query = select(memory_scopes.c.agent).where(memory_scopes.c.owner == owner)
    return [MemoryScope(owner, agent or None) for agent in connection.execute(query).scalars()]


def list_scopes_of_thread(connection: Connection, owner: str, thread_id: str) -> Sequence[MemoryScope]:
    """Return the owner's memories that refer to a thread."""
    query = select(rows.agent).where(rows.owner == owner, rows.source_thread == thread_id).distinct()
    return [MemoryScope(owner, agent or None) for agent in connection.execute(query).scalars()]


def anonymize_source(connection: Connection, scope: MemoryScope, thread_id: str) -> None:
    """Remove a deleted thread and quotes from it from the sources of facts."""
    lock_row(connection, scope)
    learned = select(rows.target).where(owned_by(memory_changes, scope), rows.source_thread == thread_id)
    targets = connection.execute(learned.distinct()).scalars().all()
    query = select(memory_changes).where(owned_by(memory_changes, scope), rows.target.in_(targets))
    for row in connection.execute(query).all():
        change = to_change(row)
        rewrite_change(
            connection,
            scope,
            row,
            before=remove_thread(change.before, thread_id),
            after=remove_thread(change.after, thread_id),
            source=anonymize(change.source, thread_id),
        )
    reindex(connection, scope, targets)


def erase_targets(connection: Connection, scope: MemoryScope, targets_since: Sequence[ErasureTarget]) -> None:
    """Erase the later part of the history of some targets."""
    for each in targets_since:
        erased = owned_by(memory_changes, scope) & (rows.target == each.target) & (rows.seq >= each.since)
        connection.execute(delete(memory_changes).where(erased))
    targets = [each.target for each in targets_since]
    unlinked = remove_references(connection, scope, [target for target in targets if target not in SUMMARY_KEYS])
    reindex(connection, scope, {*targets, *unlinked})
    scope_row = lock_row(connection, scope)
    # Readers with an earlier `seq` have read what no longer exists.
    advanced = {"seq": scope_row.seq + 1, "updated_at": next_timestamp(scope_row.updated_at)}
    connection.execute(update(memory_scopes).where(owned_by(memory_scopes, scope)), advanced)


def remove_references(connection: Connection, scope: MemoryScope, fact_ids: Sequence[str]) -> set[str]:
    """Remove references to these facts from facts that superseded them; return the ids of the changed ones."""
    changed: set[str] = set()
    for fact_id in fact_ids:
        condition = or_(*(may_mention(rows[name], fact_id) for name in ("before", "after")))
        for row in connection.execute(select(memory_changes).where(owned_by(memory_changes, scope), condition)).all():
            change = to_change(row)
            before, after = remove_link(change.before, fact_id), remove_link(change.after, fact_id)
            if (before, after) != (change.before, change.after):
                rewrite_change(connection, scope, row, before=before, after=after)
                changed.add(row.target)
    return changed


def rewrite_change(connection: Connection, scope: MemoryScope, row: Any, **fields: Any) -> None:
    """Replace values of a recorded change."""
    row_values = to_change_row(scope, replace(to_change(row), **fields))
    names = ("before", "after", "source", "source_thread")
    this = owned_by(memory_changes, scope) & (rows.seq == row.seq)
    connection.execute(update(memory_changes).where(this), {name: row_values[name] for name in names})


def reindex(connection: Connection, scope: MemoryScope, targets: Collection[str]) -> None:
    """Rebuild the current rows and index entries of these facts from their last change."""
    facts = [target for target in targets if target not in SUMMARY_KEYS]
    remove_from_index(connection, scope, facts)
    for known in read_latest(connection, scope, rows.target.in_(facts)).values():
        if isinstance(known, Fact) and known.valid_to is None:
            add_to_index(connection, scope, known)


def skip_pending(connection: Connection, scope: MemoryScope, which: ColumnElement[bool]) -> None:
    """Mark the pending messages of threads as processed."""
    columns = memory_pending.c
    query = select(columns.thread_id, columns.last_message_id).where(owned_by(memory_pending, scope), which)
    now = next_timestamp(None)
    for row in connection.execute(query).all():
        set_watermark(connection, scope, row.thread_id, row.last_message_id, now)
    connection.execute(delete(memory_pending).where(owned_by(memory_pending, scope), which))


def set_watermark(connection: Connection, scope: MemoryScope, thread_id: str, message_id: str, now: datetime) -> None:
    """Record that a thread was processed up to a message."""
    this = owned_by(memory_watermarks, scope) & (memory_watermarks.c.thread_id == thread_id)
    connection.execute(delete(memory_watermarks).where(this))
    mark = {**to_scope_key(scope), "thread_id": thread_id, "message_id": message_id, "updated_at": now}
    connection.execute(insert(memory_watermarks), mark)


def may_mention(column: ColumnElement[Any], fact_id: str) -> ColumnElement[bool]:
    """Return the condition that a value may contain a fact id; matches are checked again."""
    return cast(column, Text).contains(fact_id, autoescape=True)


def remove_link(known: MemoryItem | None, fact_id: str) -> MemoryItem | None:
    """Return an item without its reference to a superseded fact."""
    if isinstance(known, Fact) and known.supersedes == fact_id:
        return replace(known, supersedes=None, source_error=None)
    return known


def remove_thread(known: MemoryItem | None, thread_id: str) -> MemoryItem | None:
    """Return an item whose source does not refer to a deleted thread."""
    return replace(known, source=anonymize(known.source, thread_id)) if isinstance(known, Fact) else known


def anonymize(source: FactSource | None, thread_id: str) -> FactSource | None:
    """Return a source without the deleted thread."""
    return DELETED_SOURCE if source is not None and source.thread_id == thread_id else source
