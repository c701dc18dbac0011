"""Taking things out of memories for good: no row, no word and no mention of them is left.

What was made of something goes with it: every later version of a fact or a summary, for it was written from the one
before. What it was before stays, and is what is known again.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Text, cast, delete, insert, or_, select, update

from deerflow.domain.errors import NotFound
from deerflow.domain.ids import new_id
from deerflow.domain.memory import GONE, SUMMARY_KEYS, Fact, Known, MemoryScope, Source
from deerflow.persistence.memory import find_head, hold, latest, mine, moment_after
from deerflow.persistence.memory_search import index_fact, unindex_facts
from deerflow.persistence.memory_values import key_of, to_change, to_row
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
class Doomed:
    """A fact or a summary that goes, with the first change of it that does."""

    target: str
    since: int


def noted(connection: Connection, scope: MemoryScope, change: Callable[..., None]) -> str:
    """Erase something, and note that the bytes of it are yet to go; the note is that of a deleted thread without any.

    So a process that finds it, when this one dies or somebody is in the way, finishes what is left to do.
    """
    change(connection, scope)
    note = f"memory-{new_id()}"
    row = {"thread_id": note, "owner": scope.owner, "process": "memory", "created_at": moment_after(None)}
    connection.execute(insert(deletions), row)
    return note


def erase_fact(connection: Connection, scope: MemoryScope, fact_id: str) -> None:
    """Erase a fact with all that happened to it.

    Raises:
        NotFound: there never was one.
    """
    hold(connection, scope)
    query = select(rows.seq).where(mine(memory_changes, scope), rows.target == to_key(fact_id, 64))
    if connection.execute(query.limit(1)).first() is None:
        raise NotFound(f"no fact {fact_id!r} in memory")
    erase(connection, scope, [Doomed(fact_id, 0)])


def erase_learned(connection: Connection, scope: MemoryScope, thread_id: str) -> None:
    """Erase what was learned in a thread, and what is yet to be."""
    hold(connection, scope)
    skip_pending(connection, scope, memory_pending.c.thread_id == thread_id)
    query = select(rows.target, rows.seq).where(mine(memory_changes, scope), rows.source_thread == thread_id)
    first: dict[str, int] = {}
    for row in connection.execute(query.order_by(rows.seq)):
        first.setdefault(row.target, row.seq)
    erase(connection, scope, [Doomed(target, since) for target, since in first.items()])


def is_untouched(connection: Connection, scope: MemoryScope) -> bool:
    """Whether there is nothing that could be erased, and never was."""
    waiting = select(memory_pending.c.thread_id).where(mine(memory_pending, scope)).limit(1)
    return find_head(connection, scope) is None and connection.execute(waiting).first() is None


def erase_all(connection: Connection, scope: MemoryScope) -> None:
    """Erase a memory. What was said before is not learned again; that it is switched off is remembered."""
    hold(connection, scope)
    skip_pending(connection, scope, memory_pending.c.thread_id.is_not(None))
    for table in (memory_changes, memory_facts):
        connection.execute(delete(table).where(mine(table, scope)))
    connection.execute(delete(memory_scopes).where(mine(memory_scopes, scope), memory_scopes.c.is_off.is_(False)))


def scopes_of_thread(connection: Connection, owner: str, thread_id: str) -> Sequence[MemoryScope]:
    """The owner's memories in which a thread is spoken of."""
    query = select(rows.agent).where(rows.owner == owner, rows.source_thread == thread_id).distinct()
    return [MemoryScope(owner, agent or None) for agent in connection.execute(query).scalars()]


def forget_source(connection: Connection, scope: MemoryScope, thread_id: str) -> None:
    """Have what was learned in a thread no longer say in which, nor in whose words: the thread is deleted."""
    hold(connection, scope)
    told = select(rows.target).where(mine(memory_changes, scope), rows.source_thread == thread_id)
    targets = connection.execute(told.distinct()).scalars().all()
    query = select(memory_changes).where(mine(memory_changes, scope), rows.target.in_(targets))
    for row in connection.execute(query).all():
        change = to_change(row)
        rewrite(
            connection,
            scope,
            row,
            before=without_thread(change.before, thread_id),
            after=without_thread(change.after, thread_id),
            source=nameless(change.source, thread_id),
        )
    show_again(connection, scope, targets)


def erase(connection: Connection, scope: MemoryScope, doomed: Sequence[Doomed]) -> None:
    """Erase the later part of what happened to some targets."""
    for each in doomed:
        gone = mine(memory_changes, scope) & (rows.target == each.target) & (rows.seq >= each.since)
        connection.execute(delete(memory_changes).where(gone))
    targets = [each.target for each in doomed]
    unlinked = unlink(connection, scope, [target for target in targets if target not in SUMMARY_KEYS])
    show_again(connection, scope, {*targets, *unlinked})
    head = hold(connection, scope)
    # Whoever read the memory before has read what is no longer there.
    moved = {"seq": head.seq + 1, "updated_at": moment_after(head.updated_at)}
    connection.execute(update(memory_scopes).where(mine(memory_scopes, scope)), moved)


def unlink(connection: Connection, scope: MemoryScope, fact_ids: Sequence[str]) -> set[str]:
    """Have nothing say that it took the place of these facts, nor what was wrong with them; what used to."""
    changed: set[str] = set()
    for fact_id in fact_ids:
        mention = or_(*(mentions(rows[name], fact_id) for name in ("before", "after")))
        for row in connection.execute(select(memory_changes).where(mine(memory_changes, scope), mention)).all():
            change = to_change(row)
            before, after = without_link(change.before, fact_id), without_link(change.after, fact_id)
            if (before, after) != (change.before, change.after):
                rewrite(connection, scope, row, before=before, after=after)
                changed.add(row.target)
    return changed


def rewrite(connection: Connection, scope: MemoryScope, row: Any, **fields: Any) -> None:
    """Put other values into a change that has happened."""
    again = to_row(scope, replace(to_change(row), **fields))
    names = ("before", "after", "source", "source_thread")
    this = mine(memory_changes, scope) & (rows.seq == row.seq)
    connection.execute(update(memory_changes).where(this), {name: again[name] for name in names})


def show_again(connection: Connection, scope: MemoryScope, targets: Collection[str]) -> None:
    """Have what is known of these facts be what the last change left."""
    facts = [target for target in targets if target not in SUMMARY_KEYS]
    unindex_facts(connection, scope, facts)
    for known in latest(connection, scope, rows.target.in_(facts)).values():
        if isinstance(known, Fact) and known.valid_to is None:
            index_fact(connection, scope, known)


def skip_pending(connection: Connection, scope: MemoryScope, which: ColumnElement[bool]) -> None:
    """Have conversations that are yet to be read count as read."""
    columns = memory_pending.c
    query = select(columns.thread_id, columns.last_message_id).where(mine(memory_pending, scope), which)
    now = moment_after(None)
    for row in connection.execute(query).all():
        mark_read(connection, scope, row.thread_id, row.last_message_id, now)
    connection.execute(delete(memory_pending).where(mine(memory_pending, scope), which))


def mark_read(connection: Connection, scope: MemoryScope, thread_id: str, message_id: str, now: datetime) -> None:
    """Note that a thread has been read up to a message."""
    this = mine(memory_watermarks, scope) & (memory_watermarks.c.thread_id == thread_id)
    connection.execute(delete(memory_watermarks).where(this))
    mark = {**key_of(scope), "thread_id": thread_id, "message_id": message_id, "updated_at": now}
    connection.execute(insert(memory_watermarks), mark)


def mentions(column: ColumnElement[Any], fact_id: str) -> ColumnElement[bool]:
    """That there may be a fact's name in what is known: it is looked at again."""
    return cast(column, Text).contains(fact_id, autoescape=True)


def without_link(known: Known | None, fact_id: str) -> Known | None:
    """What is known, without what it says of the fact whose place it took."""
    if isinstance(known, Fact) and known.supersedes == fact_id:
        return replace(known, supersedes=None, source_error=None)
    return known


def without_thread(known: Known | None, thread_id: str) -> Known | None:
    """What is known, without where in a deleted thread it was learned."""
    return replace(known, source=nameless(known.source, thread_id)) if isinstance(known, Fact) else known


def nameless(source: Source | None, thread_id: str) -> Source | None:
    """A source, without what a deleted thread said."""
    return GONE if source is not None and source.thread_id == thread_id else source
