"""Memories in the database: a row for every change, and beside it what is known now."""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from sqlalchemy import ColumnElement, Connection, Row, Table, and_, func, insert, select, text, update

from deerflow.domain.errors import Conflict, NotFound
from deerflow.domain.ids import new_id
from deerflow.domain.memory import (
    SUMMARY_KEYS,
    Actor,
    Change,
    ChangeKind,
    Edit,
    Fact,
    Known,
    MemoryScope,
    MemoryState,
    Summary,
    SummaryKey,
    Why,
)
from deerflow.persistence.memory_search import index_fact, unindex_facts
from deerflow.persistence.memory_values import key_of, to_change, to_fact, to_known, to_row
from deerflow.persistence.tables import memory_changes, memory_facts, memory_scopes, to_key

INSTANT = timedelta(microseconds=1)
MAKE_HEAD = text(
    "INSERT INTO memory_scopes (owner, agent, seq, is_off) VALUES (:owner, :agent, 0, false) ON CONFLICT DO NOTHING"
)
"""Somebody else may be making it at this moment."""
rows = memory_changes.c


def read_state(connection: Connection, scope: MemoryScope) -> MemoryState:
    """What is known now."""
    head = find_head(connection, scope)
    if head is None:
        return MemoryState()
    query = select(memory_facts.c.data).where(mine(memory_facts, scope))
    facts = [to_fact(data) for data in connection.execute(query).scalars()]
    known = latest(connection, scope, rows.target.in_(SUMMARY_KEYS))
    return state_of([*facts, *known.values()], known, head.updated_at, head.seq)


def read_state_at(connection: Connection, scope: MemoryScope, moment: datetime) -> MemoryState:
    """What was known at a moment, as far as it has not been erased since."""
    known = latest(connection, scope, rows.at <= moment)
    newest = select(rows.at, rows.seq).where(mine(memory_changes, scope), rows.at <= moment)
    last = connection.execute(newest.order_by(rows.seq.desc()).limit(1)).first()
    if last is None:
        return MemoryState()
    return state_of(list(known.values()), known, last.at, last.seq)


def read_leading(
    connection: Connection, scope: MemoryScope, limit: int, categories: Collection[str] | None = None
) -> Sequence[Fact]:
    """The facts that are surest, newest first among those that are equally so."""
    query = select(memory_facts.c.data).where(mine(memory_facts, scope))
    if categories is not None:
        query = query.where(memory_facts.c.category.in_(categories))
    best = query.order_by(memory_facts.c.confidence.desc(), memory_facts.c.created_at.desc()).limit(limit)
    return [to_fact(data) for data in connection.execute(best).scalars()]


def count_facts(connection: Connection, scope: MemoryScope) -> int:
    """How many facts are known."""
    return connection.execute(select(func.count()).where(mine(memory_facts, scope))).scalar_one()


def read_summaries(connection: Connection, scope: MemoryScope) -> Mapping[SummaryKey, Summary]:
    """The summaries alone."""
    found = latest(connection, scope, rows.target.in_(SUMMARY_KEYS))
    return {cast(SummaryKey, key): known for key, known in found.items() if isinstance(known, Summary)}


def read_fact(connection: Connection, scope: MemoryScope, fact_id: str) -> Fact:
    """A fact that is known now.

    Raises:
        NotFound: there is none.
    """
    query = select(memory_facts.c.data).where(mine(memory_facts, scope), memory_facts.c.fact_id == to_key(fact_id, 64))
    data = connection.execute(query).scalar()
    if data is None:
        raise NotFound(f"no fact {fact_id!r} in memory")
    return to_fact(data)


def read_history(
    connection: Connection,
    scope: MemoryScope,
    limit: int,
    before: int | None = None,
    target: str | None = None,
) -> Sequence[Change]:
    """Changes, newest first, from the one before `before` on."""
    query = select(memory_changes).where(mine(memory_changes, scope))
    if before is not None:
        query = query.where(rows.seq < before)
    if target is not None:
        query = query.where(rows.target == to_key(target, 64))
    return [to_change(row) for row in connection.execute(query.order_by(rows.seq.desc()).limit(limit))]


def read_why(connection: Connection, scope: MemoryScope, fact_id: str, limit: int) -> Why:
    """Where a fact comes from; also one that is over, or that was taken back.

    Raises:
        NotFound: there never was one.
    """
    changes = read_history(connection, scope, limit, target=fact_id)
    held = [known for change in changes for known in (change.after, change.before) if isinstance(known, Fact)]
    if not held:
        raise NotFound(f"no fact {fact_id!r} in memory")
    superseded: list[Fact] = []
    seen = {fact_id}
    following = held[0].supersedes
    while following is not None and following not in seen:
        seen.add(following)
        earlier = latest(connection, scope, rows.target == following).get(following)
        if not isinstance(earlier, Fact):
            break
        superseded.append(earlier)
        following = earlier.supersedes
    return Why(held[0], changes, superseded)


def record(
    connection: Connection,
    scope: MemoryScope,
    edits: Callable[[MemoryState], Sequence[Edit]] | Sequence[Edit],
    actor: Actor,
    expected_seq: int | None = None,
) -> Sequence[Change]:
    """Carry out edits at once; those that change nothing are left out. They may be made from what is known.

    Raises:
        Conflict: something has changed since `expected_seq`.
        NotFound: a fact is to go that is not there.
    """
    head = hold(connection, scope)
    if expected_seq is not None and head.seq != expected_seq:
        raise Conflict(f"the memory has changed since: it is at {head.seq}, not at {expected_seq}; read it again")
    wanted = edits(read_state(connection, scope)) if callable(edits) else edits
    known = latest(connection, scope, rows.target.in_({edit.target for edit in wanted}))
    at, group = moment_after(head.updated_at), new_id()
    changes: list[Change] = []
    for edit in wanted:
        before = known.get(edit.target)
        if edit.after is None and before is None and edit.target not in SUMMARY_KEYS:
            raise NotFound(f"no fact {edit.target!r} in memory")
        if edit.after == before:
            continue
        kind = kind_of(edit.target, before, edit.after)
        seq = head.seq + len(changes) + 1
        changes.append(Change(new_id(), seq, at, actor, kind, edit.target, before, edit.after, edit.source, group))
        known[edit.target] = edit.after
    write(connection, scope, changes)
    return changes


def take_back(connection: Connection, scope: MemoryScope, which: str, actor: Actor) -> Sequence[Change]:
    """Undo a change, or all that was done in one group; what was undone can be undone in turn.

    Raises:
        NotFound: there is no such change.
        Conflict: what it changed has been changed again since.
    """
    head = hold(connection, scope)
    name = to_key(which, 64)
    named = (rows.change_id == name) | (rows.group_id == name)
    query = select(memory_changes).where(mine(memory_changes, scope), named).order_by(rows.seq.desc())
    found = [to_change(row) for row in connection.execute(query)]
    if not found:
        raise NotFound(f"no change {which!r} in memory")
    known = latest(connection, scope, rows.target.in_({change.target for change in found}))
    at, group = moment_after(head.updated_at), new_id()
    changes: list[Change] = []
    for change in found:
        if known.get(change.target) != change.after:
            raise Conflict(f"{change.target!r} has been changed since: undo that first")
        changes.append(
            Change(
                *(new_id(), head.seq + len(changes) + 1, at, actor, "undone", change.target),
                *(change.after, change.before, change.source, group, change.change_id),
            )
        )
        known[change.target] = change.before
    write(connection, scope, changes)
    return changes


def is_switched_off(connection: Connection, scope: MemoryScope) -> bool:
    """Whether the owner wants nothing to be remembered."""
    head = find_head(connection, scope)
    return head is not None and head.is_off


def switch(connection: Connection, scope: MemoryScope, *, is_off: bool) -> None:
    """Have a memory be used and added to, or neither."""
    hold(connection, scope)
    connection.execute(update(memory_scopes).where(mine(memory_scopes, scope)), {"is_off": is_off})


def mine(table: Table, scope: MemoryScope) -> ColumnElement[bool]:
    """That a row belongs to a memory."""
    return and_(*(table.c[name] == value for name, value in key_of(scope).items()))


def find_head(connection: Connection, scope: MemoryScope) -> Row[Any] | None:
    """How far a memory has come; None when nothing was ever in it."""
    return connection.execute(select(memory_scopes).where(mine(memory_scopes, scope))).first()


def hold(connection: Connection, scope: MemoryScope) -> Row[Any]:
    """Have nobody else change a memory until this transaction is over; how far it has come."""
    query = select(memory_scopes).where(mine(memory_scopes, scope)).with_for_update()
    head = connection.execute(query).first()
    if head is not None:
        return head
    connection.execute(MAKE_HEAD, key_of(scope))
    return connection.execute(query).one()


def latest(connection: Connection, scope: MemoryScope, which: ColumnElement[bool]) -> dict[str, Known | None]:
    """What the last of certain changes left, for each target."""
    of_scope = mine(memory_changes, scope)
    newest = select(func.max(rows.seq)).where(of_scope, which).group_by(rows.target)
    query = select(rows.target, rows.after).where(of_scope, rows.seq.in_(newest))
    return {row.target: to_known(row.after) for row in connection.execute(query)}


def state_of(
    values: Sequence[Known | None], known: Mapping[str, Known | None], last_updated: datetime | None, seq: int
) -> MemoryState:
    """What is known, in order, without what is over."""
    facts = [fact for fact in values if isinstance(fact, Fact) and fact.valid_to is None]
    summaries = {key: summary for key in SUMMARY_KEYS if isinstance(summary := known.get(key), Summary)}
    ordered = tuple(sorted(facts, key=lambda fact: (fact.created_at, fact.id)))
    return MemoryState(ordered, summaries, last_updated, seq)


def write(connection: Connection, scope: MemoryScope, changes: Sequence[Change]) -> None:
    """Keep changes, and what they leave to be found."""
    if not changes:
        return
    connection.execute(insert(memory_changes), [to_row(scope, change) for change in changes])
    left = {change.target: change.after for change in changes if change.target not in SUMMARY_KEYS}
    unindex_facts(connection, scope, left.keys())
    for known in left.values():
        if isinstance(known, Fact) and known.valid_to is None:
            index_fact(connection, scope, known)
    newest = {"seq": changes[-1].seq, "updated_at": changes[-1].at}
    connection.execute(update(memory_scopes).where(mine(memory_scopes, scope)), newest)


def kind_of(target: str, before: Known | None, after: Known | None) -> ChangeKind:
    """What a change is called."""
    if target in SUMMARY_KEYS:
        return "summary_set"
    if after is None or (isinstance(after, Fact) and after.valid_to is not None):
        return "fact_removed"
    return "fact_added" if before is None else "fact_changed"


def moment_after(last: datetime | None) -> datetime:
    """Now, or the next moment after the last change: no two happen at once, also when clocks are put back."""
    now = datetime.now(UTC)
    return now if last is None else max(now, last + INSTANT)
