"""Threads on their way out: first nobody sees them any more, then what belongs to them goes, piece by piece."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlalchemy import ColumnElement, Connection, delete, insert, select, update

from deerflow.domain.errors import Conflict
from deerflow.domain.ids import NOBODY
from deerflow.persistence.matching import holds
from deerflow.persistence.runs import ACTIVE
from deerflow.persistence.store import inside
from deerflow.persistence.tables import deletions, run_events, runs, store_items, threads
from deerflow.persistence.threads import find_thread, hold_thread

PIECE = 2000
"""So many events go at once, so that others who write need not wait for all of them."""
PINNED: Mapping[str, object] = {"pinned": True}


@dataclass(frozen=True, slots=True)
class Deletion:
    """A thread that is being deleted, whose it was, and the process that is at it."""

    thread_id: str
    owner: str
    process: str


def begin_deletion(connection: Connection, thread_id: str, owner: str, process: str) -> Deletion:
    """Take a thread from its owner for good. Its name is free again when the deletion has ended.

    Raises:
        NotFound: there is none, or it is somebody else's.
        Conflict: a run is under way.
    """
    hold_thread(connection, thread_id)
    if find_thread(connection, thread_id, owner).status == "busy":
        raise Conflict(f"thread {thread_id!r} is busy: stop its run before deleting it, or delete it with stop_runs")
    mark = Deletion(thread_id, owner, process)
    row = {"thread_id": thread_id, "owner": owner, "process": process, "created_at": datetime.now(UTC)}
    connection.execute(insert(deletions), row)
    gone: dict[str, object] = {"owner": NOBODY, "title": None, "agent_title": None, "metadata": {}}
    connection.execute(update(threads).where(threads.c.thread_id == thread_id, threads.c.owner == owner), gone)
    nameless = {"owner": NOBODY, "idempotency_key": None}
    connection.execute(update(runs).where(runs.c.thread_id == thread_id, runs.c.owner == owner), nameless)
    return mark


def drop_events(connection: Connection, mark: Deletion) -> bool:
    """Remove some of the events of a thread that is being deleted; whether there may be more."""
    mine = select(runs.c.run_id).where(runs.c.thread_id == mark.thread_id, runs.c.owner == NOBODY)
    for run_id in connection.execute(mine).scalars().all():
        some = select(run_events.c.seq).where(run_events.c.run_id == run_id).order_by(run_events.c.seq).limit(PIECE)
        seqs = connection.execute(some).scalars().all()
        if seqs:
            upto = run_events.c.seq <= seqs[-1]
            connection.execute(delete(run_events).where(run_events.c.run_id == run_id, upto))
            return True
    return False


def drop_thread(connection: Connection, mark: Deletion) -> None:
    """Remove the rest of a thread that is being deleted: its runs, and what is kept under its name."""
    connection.execute(delete(threads).where(threads.c.thread_id == mark.thread_id, threads.c.owner == NOBODY))
    kept = inside(("threads", mark.thread_id))
    connection.execute(delete(store_items).where(store_items.c.owner == mark.owner, *kept))


def end_deletions(connection: Connection, thread_ids: Collection[str]) -> None:
    """Note that nothing is left of these threads."""
    connection.execute(delete(deletions).where(deletions.c.thread_id.in_(thread_ids)))


def unfinished_deletions(connection: Connection) -> Sequence[Deletion]:
    """What has been begun and not ended, by whatever process."""
    query = select(deletions.c.thread_id, deletions.c.owner, deletions.c.process).order_by(deletions.c.created_at)
    return [Deletion(*row) for row in connection.execute(query)]


def claim_deletion(connection: Connection, mark: Deletion, process: str) -> Deletion | None:
    """Take a deletion over from a process that is gone; None when somebody else was faster."""
    still = (deletions.c.thread_id == mark.thread_id) & (deletions.c.process == mark.process)
    if connection.execute(update(deletions).where(still), {"process": process}).rowcount != 1:
        return None
    return Deletion(mark.thread_id, mark.owner, process)


def expired_threads(connection: Connection, before: datetime, limit: int) -> Sequence[tuple[str, str]]:
    """Threads of everybody, with their owners, in which nothing has happened since, oldest first; pinned ones stay."""
    busy = select(runs.c.run_id).where(runs.c.thread_id == threads.c.thread_id, ACTIVE).exists()
    old = threads.c.updated_at < before
    query = select(threads.c.thread_id, threads.c.owner).where(old, threads.c.owner != NOBODY, ~busy, *unpinned())
    return [(row.thread_id, row.owner) for row in connection.execute(query.order_by(threads.c.updated_at).limit(limit))]


def next_expiry(connection: Connection, age: timedelta) -> datetime | None:
    """When the oldest thread that is not pinned will be so old; None when there is none."""
    query = select(threads.c.updated_at).where(threads.c.owner != NOBODY, *unpinned())
    oldest: datetime | None = connection.execute(query.order_by(threads.c.updated_at).limit(1)).scalar()
    return oldest + age if oldest is not None else None


def unpinned() -> list[ColumnElement[bool]]:
    """What holds for threads that people have not asked to keep."""
    return [condition.isnot(True) for condition in holds(threads.c.metadata, PINNED)]
