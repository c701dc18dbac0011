"""Deletion of threads and of people: first they are hidden, then their data is deleted in batches."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlalchemy import ColumnElement, Connection, Table, delete, insert, select, update

from deerflow.domain.errors import Conflict
from deerflow.domain.identity import DELETED_OWNER, new_id
from deerflow.domain.threads import TEMPORARY
from deerflow.persistence.queries.threads import find_thread, lock_thread, match_json
from deerflow.persistence.tables import (
    ACTIVE,
    deletions,
    insert_or_ignore,
    mcp_pins,
    metadata,
    projects,
    run_events,
    runs,
    search_messages,
    store_items,
    threads,
    usage_entries,
    user_deletions,
)

BATCH_SIZE, MESSAGE_BATCH_SIZE = 200, 50
"""Number of events and of searchable messages deleted in one transaction: other writers wait for some milliseconds."""
PINNED: Mapping[str, object] = {"pinned": True}


@dataclass(frozen=True, slots=True)
class Deletion:
    """Deletion in progress: the thread, its former owner and the deleting process."""

    thread_id: str
    owner: str
    process: str


def begin_deletion(connection: Connection, thread_id: str, owner: str, process: str) -> Deletion:
    """Hide a thread from its owner. Its id can be used again when the deletion has finished.

    Raises:
        NotFound: It does not exist, or has another owner.
        Conflict: It has an active run.
    """
    lock_thread(connection, thread_id)
    if find_thread(connection, thread_id, owner).status == "busy":
        raise Conflict(f"thread {thread_id!r} is busy; stop its run first, or delete it with stop_runs")
    mark = Deletion(thread_id, owner, process)
    row = {"thread_id": thread_id, "owner": owner, "process": process, "created_at": datetime.now(UTC)}
    connection.execute(insert(deletions), row)
    hidden: dict[str, object] = {"owner": DELETED_OWNER, "title": None, "agent_title": None, "metadata": {}}
    owned = (threads.c.thread_id == thread_id) & (threads.c.owner == owner)
    connection.execute(update(threads).where(owned), {**hidden, "project_id": None})
    anonymous = {"owner": DELETED_OWNER, "idempotency_key": None}
    connection.execute(update(runs).where(runs.c.thread_id == thread_id, runs.c.owner == owner), anonymous)
    return mark


def delete_events(connection: Connection, mark: Deletion) -> bool:
    """Delete a batch of a thread's events; return whether there may be more."""
    run_ids = select(runs.c.run_id).where(runs.c.thread_id == mark.thread_id, runs.c.owner == DELETED_OWNER)
    for run_id in connection.execute(run_ids).scalars().all():
        some = (
            select(run_events.c.seq).where(run_events.c.run_id == run_id).order_by(run_events.c.seq).limit(BATCH_SIZE)
        )
        seqs = connection.execute(some).scalars().all()
        if seqs:
            upto = run_events.c.seq <= seqs[-1]
            connection.execute(delete(run_events).where(run_events.c.run_id == run_id, upto))
            return True
    return False


def delete_messages(connection: Connection, mark: Deletion) -> bool:
    """Delete a batch of a thread's searchable messages; return whether there may be more."""
    some = select(search_messages.c.row_id).where(search_messages.c.thread_id == mark.thread_id)
    row_ids = connection.execute(some.limit(MESSAGE_BATCH_SIZE)).scalars().all()
    connection.execute(delete(search_messages).where(search_messages.c.row_id.in_(row_ids)))
    return len(row_ids) == MESSAGE_BATCH_SIZE


def delete_thread(connection: Connection, mark: Deletion) -> None:
    """Delete the rest of a thread: its runs, and the store items in its namespace."""
    connection.execute(delete(threads).where(threads.c.thread_id == mark.thread_id, threads.c.owner == DELETED_OWNER))
    name, namespace = f"threads.{mark.thread_id}", store_items.c.namespace
    items = (namespace == name) | namespace.startswith(f"{name}.", autoescape=True)
    connection.execute(delete(store_items).where(store_items.c.owner == mark.owner, items))


def finish_deletions(connection: Connection, thread_ids: Collection[str]) -> None:
    """Record that the deletions of these threads have finished."""
    connection.execute(delete(deletions).where(deletions.c.thread_id.in_(thread_ids)))


def postpone_purge(connection: Connection, thread_ids: Collection[str], process: str) -> None:
    """Record that only the purge is left of these deletions. The ids of the threads can be used again."""
    finish_deletions(connection, thread_ids)
    row = {"thread_id": f"purge-{new_id()}", "owner": DELETED_OWNER, "process": process}
    connection.execute(insert(deletions), {**row, "created_at": datetime.now(UTC)})


def list_unfinished_deletions(connection: Connection) -> Sequence[Deletion]:
    """Return the unfinished deletions of all processes, oldest first."""
    query = select(deletions.c.thread_id, deletions.c.owner, deletions.c.process).order_by(deletions.c.created_at)
    return [Deletion(*row) for row in connection.execute(query)]


def claim_deletion(connection: Connection, mark: Deletion, process: str) -> Deletion | None:
    """Take over a deletion of a dead process; return None when another process was faster."""
    expected = (deletions.c.thread_id == mark.thread_id) & (deletions.c.process == mark.process)
    if connection.execute(update(deletions).where(expected), {"process": process}).rowcount != 1:
        return None
    return Deletion(mark.thread_id, mark.owner, process)


@dataclass(frozen=True, slots=True)
class UserDeletion:
    """Deletion of a person in progress, and the deleting process."""

    user_id: str
    process: str


def begin_user_deletion(connection: Connection, user_id: str, process: str, now: datetime) -> None:
    """Record that everything of a person is to be deleted."""
    insert_or_ignore(connection, user_deletions, {"user_id": user_id, "process": process, "created_at": now})


def list_user_deletions(connection: Connection) -> Sequence[UserDeletion]:
    """Return the unfinished deletions of people of all processes, oldest first."""
    query = select(user_deletions.c.user_id, user_deletions.c.process).order_by(user_deletions.c.created_at)
    return [UserDeletion(*row) for row in connection.execute(query)]


def claim_user_deletion(connection: Connection, mark: UserDeletion, process: str) -> bool:
    """Take over a deletion of a dead process; return False when another process was faster."""
    expected = (user_deletions.c.user_id == mark.user_id) & (user_deletions.c.process == mark.process)
    return connection.execute(update(user_deletions).where(expected), {"process": process}).rowcount == 1


def list_owned_threads(connection: Connection, owner: str, limit: int) -> Sequence[str]:
    """Return ids of threads of a person."""
    return connection.execute(select(threads.c.thread_id).where(threads.c.owner == owner).limit(limit)).scalars().all()


def list_owned_tables() -> Sequence[Table]:
    """Return the tables whose rows belong to a person, without those that the deletion of threads empties."""
    kept = (threads, runs, deletions)
    return [table for table in reversed(metadata.sorted_tables) if "owner" in table.c and table not in kept]


def delete_owned_rows(connection: Connection, table: Table, owner: str, keeps_usage: bool) -> None:
    """Delete the rows of a person in a table; usage is kept without the person if `keeps_usage`."""
    owned = table.c.owner == owner
    if table is usage_entries and keeps_usage:
        connection.execute(update(table).where(owned), {"owner": DELETED_OWNER})
    else:
        connection.execute(delete(table).where(owned))


def has_unfinished_parts(connection: Connection, owner: str) -> bool:
    """Return whether threads or projects of a person are still being deleted."""
    parts = (
        select(threads.c.thread_id).where(threads.c.owner == owner),
        select(deletions.c.thread_id).where(deletions.c.owner == owner),
        select(projects.c.project_id).where(projects.c.former_owner == owner),
    )
    return any(connection.execute(query.limit(1)).first() is not None for query in parts)


def finish_user_deletion(connection: Connection, user_id: str) -> None:
    """Record that everything of a person is deleted."""
    connection.execute(update(mcp_pins).where(mcp_pins.c.accepted_by == user_id), {"accepted_by": None})
    connection.execute(delete(user_deletions).where(user_deletions.c.user_id == user_id))


def list_expired_threads(
    connection: Connection, before: datetime, limit: int, *, temporary: bool = False
) -> Sequence[tuple[str, str]]:
    """Return ids and owners of threads without activity since `before`, oldest first.

    Pinned threads are excluded. `temporary`: only temporary threads, pinned or not.
    """
    busy = select(runs.c.run_id).where(runs.c.thread_id == threads.c.thread_id, ACTIVE).exists()
    old = threads.c.updated_at < before
    query = select(threads.c.thread_id, threads.c.owner).where(
        old, threads.c.owner != DELETED_OWNER, ~busy, *select_kind(temporary)
    )
    return [(row.thread_id, row.owner) for row in connection.execute(query.order_by(threads.c.updated_at).limit(limit))]


def find_next_expiry(connection: Connection, age: timedelta, *, temporary: bool = False) -> datetime | None:
    """Return when the oldest thread that is not pinned, or is temporary, reaches `age`; None when there is none."""
    query = select(threads.c.updated_at).where(threads.c.owner != DELETED_OWNER, *select_kind(temporary))
    oldest: datetime | None = connection.execute(query.order_by(threads.c.updated_at).limit(1)).scalar()
    return oldest + age if oldest is not None else None


def select_kind(temporary: bool) -> list[ColumnElement[bool]]:
    """Return the conditions that match temporary threads, or threads which are not pinned."""
    return match_json(threads.c.metadata, {TEMPORARY: True}) if temporary else exclude_pinned()


def exclude_pinned() -> list[ColumnElement[bool]]:
    """Return the conditions that match threads which are not pinned."""
    return [condition.isnot(True) for condition in match_json(threads.c.metadata, PINNED)]
