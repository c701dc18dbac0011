"""The events of runs in the database: added and read, never changed."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import TypeVar

from sqlalchemy import Connection, Select, func, select, tuple_

from deerflow.domain.errors import RunLost
from deerflow.domain.events import EventName, StreamEvent
from deerflow.persistence.tables import run_events, runs, to_stored

T = TypeVar("T")
Change = Callable[[Connection], T]
STATEMENT_LIMIT = 1000

INSERT = "INSERT INTO run_events (run_id, seq, event, data, created_at) VALUES "
# Whoever takes a run over waits for the shared lock, so it reads all that was said before; in one order, so that
# nobody waits in a circle. What was written already and is written again, its answer having been lost, stays.
FENCED_INSERT = """
INSERT INTO run_events (run_id, seq, event, data, created_at)
SELECT new.run_id, new.seq, new.event, new.data, new.created_at
FROM unnest(%s::text[], %s::int[], %s::int[], %s::text[], %s::bytea[], %s::bigint[])
  AS new (run_id, attempt, seq, event, data, created_at)
JOIN runs ON runs.run_id = new.run_id AND runs.attempt = new.attempt
ORDER BY new.run_id, new.seq
FOR SHARE OF runs
ON CONFLICT (run_id, seq) DO NOTHING
"""


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """An event on its way into the database."""

    run_id: str
    event: StreamEvent
    created_at: datetime
    attempt: int = 1
    """Of the run, when it says this."""


def insert_events(connection: Connection, events: Sequence[LoggedEvent]) -> None:
    """Add events to their runs' logs.

    Raises:
        RunLost: another process has taken one of the runs over.
    """
    for start in range(0, len(events), STATEMENT_LIMIT):
        group = events[start : start + STATEMENT_LIMIT]
        if connection.dialect.name == "sqlite":
            connection.exec_driver_sql(*insertion(group))
        elif connection.exec_driver_sql(*fenced_insertion(group)).rowcount < len(group):
            raise RunLost(f"run {group[-1].run_id!r} is another process's now")


def insert_with(connection: Connection, events: Sequence[LoggedEvent], also: Change[T]) -> T:
    """Add events together with another change."""
    insert_events(connection, events)
    return also(connection)


def nothing_else(connection: Connection) -> None:
    """For events that are added alone."""


def insertion(events: Sequence[LoggedEvent]) -> tuple[str, tuple[object, ...]]:
    """One statement that adds at most `STATEMENT_LIMIT` events: the hot path, so the driver is spoken to directly."""
    rows = ((log.run_id, log.event.seq, log.event.event, log.event.data, to_stored(log.created_at)) for log in events)
    return INSERT + ",".join(["(?, ?, ?, ?, ?)"] * len(events)), tuple(chain.from_iterable(rows))


def fenced_insertion(events: Sequence[LoggedEvent]) -> tuple[str, tuple[object, ...]]:
    """The same for PostgreSQL, where a run may have moved to another machine: what an old attempt says is left out."""
    columns = (
        [log.run_id for log in events],
        [log.attempt for log in events],
        [log.event.seq for log in events],
        [log.event.event for log in events],
        [log.event.data for log in events],
        [to_stored(log.created_at) for log in events],
    )
    return FENCED_INSERT, columns


def still_owned(connection: Connection, events: Sequence[LoggedEvent]) -> Collection[str]:
    """The runs among those of `events` that nobody has taken over."""
    attempts = {(log.run_id, log.attempt) for log in events}
    query = select(runs.c.run_id).where(tuple_(runs.c.run_id, runs.c.attempt).in_(attempts))
    return connection.execute(query).scalars().all()


def read_events(connection: Connection, run_id: str, after: int, limit: int) -> Sequence[StreamEvent]:
    """The run's events with a `seq` above `after`, in order."""
    query = (
        select(run_events.c.seq, run_events.c.event, run_events.c.data)
        .where(run_events.c.run_id == run_id, run_events.c.seq > after)
        .order_by(run_events.c.seq)
        .limit(limit)
    )
    return [StreamEvent(*row) for row in connection.execute(query).fetchall()]  # all at once: a quarter cheaper


def last_seq(connection: Connection, run_id: str) -> int:
    """The `seq` of the run's latest event, 0 when it has none."""
    query = select(func.max(run_events.c.seq)).where(run_events.c.run_id == run_id)
    return connection.execute(query).scalar() or 0


def earlier_changes(connection: Connection, thread_id: str, run_id: str, upto: int) -> Sequence[bytes]:
    """What `changes` events say of the thread before event `upto` of the run, oldest first."""
    this_run = select(runs.c.created_at).where(runs.c.run_id == run_id).scalar_subquery()
    before = (runs.c.created_at < this_run) | ((runs.c.run_id == run_id) & (run_events.c.seq <= upto))
    return connection.execute(changes_of(thread_id).where(before)).scalars().all()


def all_changes(connection: Connection, thread_id: str) -> Sequence[bytes]:
    """What `changes` events say of the thread, oldest first."""
    return connection.execute(changes_of(thread_id)).scalars().all()


def changes_of(thread_id: str) -> Select[bytes]:
    """The `changes` events of a thread, oldest first."""
    changes: EventName = "changes"
    return (
        select(run_events.c.data)
        .join(runs, runs.c.run_id == run_events.c.run_id)
        .where(runs.c.thread_id == thread_id, run_events.c.event == changes)
        .order_by(runs.c.created_at, run_events.c.seq)
    )


def latest_changes(connection: Connection, thread_id: str) -> Iterator[tuple[bytes, datetime]]:
    """What `changes` events say of the thread and when, newest first, read as they are asked for."""
    changes: EventName = "changes"
    query = (
        select(run_events.c.data, run_events.c.created_at)
        .join(runs, runs.c.run_id == run_events.c.run_id)
        .where(runs.c.thread_id == thread_id, run_events.c.event == changes)
        .order_by(runs.c.created_at.desc(), run_events.c.seq.desc())
        .execution_options(yield_per=100)
    )
    with connection.execute(query) as rows:  # whoever has found enough leaves the rest with the server
        for row in rows:
            yield row.data, row.created_at
