"""Facts, summaries and the history of their changes."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from sqlalchemy import ColumnElement, Connection, Row, Table, and_, bindparam, func, insert, select, text, update

from deerflow.domain.errors import Conflict, NotFound
from deerflow.domain.identity import new_id
from deerflow.domain.memory import (
    SUMMARY_KEYS,
    Actor,
    ChangeKind,
    Fact,
    FactProvenance,
    MemoryChange,
    MemoryEdit,
    MemoryItem,
    MemoryScope,
    MemoryState,
    Summary,
    SummaryKey,
)
from deerflow.memory.queries.search import (
    add_to_index,
    remove_from_index,
    search_facts,
    to_change,
    to_change_row,
    to_fact,
    to_item,
    to_scope_key,
)
from deerflow.persistence.tables import memory_changes, memory_facts, memory_scopes, to_key

MICROSECOND = timedelta(microseconds=1)
INSERT_SCOPE = text(
    "INSERT INTO memory_scopes (owner, agent, seq, is_off) VALUES (:owner, :agent, 0, false) ON CONFLICT DO NOTHING"
)
"""Another process may insert the row at the same time."""
rows = memory_changes.c


def read_state(connection: Connection, scope: MemoryScope) -> MemoryState:
    """Return the current state."""
    scope_row = find_scope_row(connection, scope)
    if scope_row is None:
        return MemoryState()
    query = select(memory_facts.c.data).where(owned_by(memory_facts, scope))
    facts = [to_fact(data) for data in connection.execute(query).scalars()]
    known = read_latest(connection, scope, rows.target.in_(SUMMARY_KEYS))
    return build_state([*facts, *known.values()], known, scope_row.updated_at, scope_row.seq)


def read_state_at(connection: Connection, scope: MemoryScope, moment: datetime) -> MemoryState:
    """Return the state at a point in time, except for what was erased since."""
    known = read_latest(connection, scope, rows.at <= moment)
    newest = select(rows.at, rows.seq).where(owned_by(memory_changes, scope), rows.at <= moment)
    last = connection.execute(newest.order_by(rows.seq.desc()).limit(1)).first()
    if last is None:
        return MemoryState()
    return build_state(list(known.values()), known, last.at, last.seq)


def read_top_facts(
    connection: Connection, scope: MemoryScope, limit: int, categories: Collection[str] | None = None
) -> Sequence[Fact]:
    """Return the facts of highest confidence, newest first among equals."""
    query = select(memory_facts.c.data).where(owned_by(memory_facts, scope))
    if categories is not None:
        query = query.where(memory_facts.c.category.in_(categories))
    best = query.order_by(memory_facts.c.confidence.desc(), memory_facts.c.created_at.desc()).limit(limit)
    return [to_fact(data) for data in connection.execute(best).scalars()]


def count_facts(connection: Connection, scope: MemoryScope) -> int:
    """Return the number of facts."""
    return connection.execute(select(func.count()).where(owned_by(memory_facts, scope))).scalar_one()


def read_summaries(connection: Connection, scope: MemoryScope) -> Mapping[SummaryKey, Summary]:
    """Return the summaries."""
    found = read_latest(connection, scope, rows.target.in_(SUMMARY_KEYS))
    return {cast(SummaryKey, key): known for key, known in found.items() if isinstance(known, Summary)}


def read_fact(connection: Connection, scope: MemoryScope, fact_id: str) -> Fact:
    """Return a current fact.

    Raises:
        NotFound: It does not exist.
    """
    query = select(memory_facts.c.data).where(
        owned_by(memory_facts, scope), memory_facts.c.fact_id == to_key(fact_id, 64)
    )
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
) -> Sequence[MemoryChange]:
    """Return changes, newest first, starting before number `before`."""
    query = select(memory_changes).where(owned_by(memory_changes, scope))
    if before is not None:
        query = query.where(rows.seq < before)
    if target is not None:
        query = query.where(rows.target == to_key(target, 64))
    return [to_change(row) for row in connection.execute(query.order_by(rows.seq.desc()).limit(limit))]


def read_provenance(connection: Connection, scope: MemoryScope, fact_id: str, limit: int) -> FactProvenance:
    """Return the provenance of a fact, also of one that is no longer valid or was removed.

    Raises:
        NotFound: There never was such a fact.
    """
    changes = read_history(connection, scope, limit, target=fact_id)
    versions = [known for change in changes for known in (change.after, change.before) if isinstance(known, Fact)]
    if not versions:
        raise NotFound(f"no fact {fact_id!r} in memory")
    superseded: list[Fact] = []
    seen = {fact_id}
    following = versions[0].supersedes
    while following is not None and following not in seen:
        seen.add(following)
        earlier = read_latest(connection, scope, rows.target == following).get(following)
        if not isinstance(earlier, Fact):
            break
        superseded.append(earlier)
        following = earlier.supersedes
    return FactProvenance(versions[0], changes, superseded)


def record_edits(
    connection: Connection,
    scope: MemoryScope,
    edits: Callable[[MemoryState], Sequence[MemoryEdit]] | Sequence[MemoryEdit],
    actor: Actor,
    expected_seq: int | None = None,
) -> Sequence[MemoryChange]:
    """Apply edits, or those derived from the current state, as one group of changes; skip edits without effect.

    Raises:
        Conflict: The memory has changed since `expected_seq`.
        NotFound: A fact to remove does not exist.
    """
    scope_row = lock_row(connection, scope)
    if expected_seq is not None and scope_row.seq != expected_seq:
        raise Conflict(f"the memory has changed since: it is at {scope_row.seq}, not at {expected_seq}; read it again")
    wanted = edits(read_state(connection, scope)) if callable(edits) else edits
    known = read_latest(connection, scope, rows.target.in_({edit.target for edit in wanted}))
    at, group = next_timestamp(scope_row.updated_at), new_id()
    changes: list[MemoryChange] = []
    for edit in wanted:
        before = known.get(edit.target)
        if edit.after is None and before is None and edit.target not in SUMMARY_KEYS:
            raise NotFound(f"no fact {edit.target!r} in memory")
        if edit.after == before:
            continue
        kind = classify_change(edit.target, before, edit.after)
        seq = scope_row.seq + len(changes) + 1
        changes.append(
            MemoryChange(new_id(), seq, at, actor, kind, edit.target, before, edit.after, edit.source, group)
        )
        known[edit.target] = edit.after
    write_changes(connection, scope, changes)
    return changes


def undo_changes(connection: Connection, scope: MemoryScope, which: str, actor: Actor) -> Sequence[MemoryChange]:
    """Undo a change, or all changes of a group; the undo can be undone in turn.

    Raises:
        NotFound: There is no such change.
        Conflict: The same target was changed again since.
    """
    scope_row = lock_row(connection, scope)
    name = to_key(which, 64)
    condition = (rows.change_id == name) | (rows.group_id == name)
    query = select(memory_changes).where(owned_by(memory_changes, scope), condition).order_by(rows.seq.desc())
    found = [to_change(row) for row in connection.execute(query)]
    if not found:
        raise NotFound(f"no change {which!r} in memory")
    known = read_latest(connection, scope, rows.target.in_({change.target for change in found}))
    at, group = next_timestamp(scope_row.updated_at), new_id()
    changes: list[MemoryChange] = []
    for change in found:
        if known.get(change.target) != change.after:
            raise Conflict(f"{change.target!r} was changed again since; undo that first")
        changes.append(
            MemoryChange(
                *(new_id(), scope_row.seq + len(changes) + 1, at, actor, "undone", change.target),
                *(change.after, change.before, change.source, group, change.change_id),
            )
        )
        known[change.target] = change.before
    write_changes(connection, scope, changes)
    return changes


def is_switched_off(connection: Connection, scope: MemoryScope) -> bool:
    """Return whether the owner has disabled the memory."""
    scope_row = find_scope_row(connection, scope)
    return scope_row is not None and scope_row.is_off


def set_off(connection: Connection, scope: MemoryScope, *, is_off: bool) -> None:
    """Disable or enable a memory."""
    lock_row(connection, scope)
    connection.execute(update(memory_scopes).where(owned_by(memory_scopes, scope)), {"is_off": is_off})


def owned_by(table: Table, scope: MemoryScope) -> ColumnElement[bool]:
    """Return the condition that a row belongs to a memory."""
    return and_(*(table.c[name] == value for name, value in to_scope_key(scope).items()))


FIND_SCOPE = select(memory_scopes).where(
    memory_scopes.c.owner == bindparam("owner"), memory_scopes.c.agent == bindparam("agent")
)
"""Built once: every run looks for its memory, and building takes longer than SQLite takes to find the row."""


def find_scope_row(connection: Connection, scope: MemoryScope) -> Row[Any] | None:
    """Return the row of a memory, None when nothing was ever stored in it."""
    return connection.execute(FIND_SCOPE, to_scope_key(scope)).first()


def lock_row(connection: Connection, scope: MemoryScope) -> Row[Any]:
    """Lock the row of a memory until the end of the transaction, and return it; insert it if needed."""
    query = select(memory_scopes).where(owned_by(memory_scopes, scope)).with_for_update()
    scope_row = connection.execute(query).first()
    if scope_row is not None:
        return scope_row
    connection.execute(INSERT_SCOPE, to_scope_key(scope))
    return connection.execute(query).one()


def read_latest(connection: Connection, scope: MemoryScope, which: ColumnElement[bool]) -> dict[str, MemoryItem | None]:
    """Return the value of each target after the last of the matching changes."""
    of_scope = owned_by(memory_changes, scope)
    newest = select(func.max(rows.seq)).where(of_scope, which).group_by(rows.target)
    query = select(rows.target, rows.after).where(of_scope, rows.seq.in_(newest))
    return {row.target: to_item(row.after) for row in connection.execute(query)}


def build_state(
    values: Sequence[MemoryItem | None], known: Mapping[str, MemoryItem | None], last_updated: datetime | None, seq: int
) -> MemoryState:
    """Return a state with sorted facts, without those that are no longer valid."""
    facts = [fact for fact in values if isinstance(fact, Fact) and fact.valid_to is None]
    summaries = {key: summary for key in SUMMARY_KEYS if isinstance(summary := known.get(key), Summary)}
    ordered = tuple(sorted(facts, key=lambda fact: (fact.created_at, fact.id)))
    return MemoryState(ordered, summaries, last_updated, seq)


def write_changes(connection: Connection, scope: MemoryScope, changes: Sequence[MemoryChange]) -> None:
    """Insert changes, and update the current facts and their index."""
    if not changes:
        return
    connection.execute(insert(memory_changes), [to_change_row(scope, change) for change in changes])
    current = {change.target: change.after for change in changes if change.target not in SUMMARY_KEYS}
    remove_from_index(connection, scope, current.keys())
    for known in current.values():
        if isinstance(known, Fact) and known.valid_to is None:
            add_to_index(connection, scope, known)
    newest = {"seq": changes[-1].seq, "updated_at": changes[-1].at}
    connection.execute(update(memory_scopes).where(owned_by(memory_scopes, scope)), newest)


def classify_change(target: str, before: MemoryItem | None, after: MemoryItem | None) -> ChangeKind:
    """Return the kind of a change."""
    if target in SUMMARY_KEYS:
        return "summary_set"
    if after is None or (isinstance(after, Fact) and after.valid_to is not None):
        return "fact_removed"
    return "fact_added" if before is None else "fact_changed"


def next_timestamp(last: datetime | None) -> datetime:
    """Return the current time, or the microsecond after `last`: timestamps increase even if clocks are set back."""
    now = datetime.now(UTC)
    return now if last is None else max(now, last + MICROSECOND)


@dataclass(frozen=True, slots=True)
class InjectionCandidates:
    """Candidates for an injection; each list is sorted, best first."""

    seq: int
    count: int = 0
    """Total number of facts, including those in no list."""
    summaries: Mapping[SummaryKey, Summary] = field(default_factory=dict)
    corrections: Sequence[Fact] = ()
    matching: Sequence[Fact] = ()
    """Facts that share words with the user's message."""
    top: Sequence[Fact] = ()
    """Facts of highest confidence."""


def read_candidates(connection: Connection, scope: MemoryScope, words: str, limit: int) -> InjectionCandidates | None:
    """Return at most `limit` candidates of each kind; None when the memory is disabled."""
    scope_row = find_scope_row(connection, scope)
    if scope_row is None:
        return InjectionCandidates(seq=0)
    if scope_row.is_off:
        return None
    count = count_facts(connection, scope)
    matching = [hit.fact for hit in search_facts(connection, scope, words, limit)] if count > limit else []
    return InjectionCandidates(
        seq=scope_row.seq,
        count=count,
        summaries=read_summaries(connection, scope),
        corrections=read_top_facts(connection, scope, limit // 2, ["correction"]),
        matching=matching,
        top=read_top_facts(connection, scope, limit - len(matching)) if len(matching) < limit else (),
    )


def read_items_at(
    connection: Connection, scope: MemoryScope, targets: Collection[str], seq: int
) -> Mapping[str, MemoryItem]:
    """Return facts and summaries as of `seq`, except for what was erased since; none when the memory is disabled."""
    scope_row = find_scope_row(connection, scope)
    if scope_row is None or scope_row.is_off:
        return {}
    rows = memory_changes.c
    found = read_latest(connection, scope, rows.target.in_(targets) & (rows.seq <= seq))
    return {target: known for target, known in found.items() if known is not None}
