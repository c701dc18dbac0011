"""Events of runs: appended and read, never changed."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import TypeVar

from sqlalchemy import Connection, Select, func, select, tuple_

from deerflow.domain.errors import RunLost
from deerflow.domain.runs import EventName, RunEvent
from deerflow.persistence.tables import run_events, runs, to_stored

T = TypeVar("T")
WriteFunction = Callable[[Connection], T]
MAX_ROWS = 1000

INSERT = "INSERT INTO run_events (run_id, seq, event, data, created_at) VALUES "
# A process that takes a run over waits for the shared lock, so it reads every event written before. The order prevents
# deadlocks. An event that is written twice because the first answer was lost is kept once.
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
    """Event to be written to the database."""

    run_id: str
    event: RunEvent
    created_at: datetime
    attempt: int = 1
    """Attempt of the run that emits the event."""


def insert_events(connection: Connection, events: Sequence[LoggedEvent]) -> None:
    """Append events to the logs of their runs.

    Raises:
        RunLost: Another process has taken one of the runs over.
    """
    for start in range(0, len(events), MAX_ROWS):
        group = events[start : start + MAX_ROWS]
        if connection.dialect.name == "sqlite":
            connection.exec_driver_sql(*build_insert(group))
        elif connection.exec_driver_sql(*build_fenced_insert(group)).rowcount < len(group):
            raise RunLost(f"run {group[-1].run_id!r} was taken over by another process")


def insert_events_with(connection: Connection, events: Sequence[LoggedEvent], also: WriteFunction[T]) -> T:
    """Append events and apply another change in the same transaction."""
    insert_events(connection, events)
    return also(connection)


def do_nothing(connection: Connection) -> None:
    """Do nothing; for events that are appended alone."""


def apply_all(connection: Connection, changes: Sequence[WriteFunction[None]]) -> None:
    """Apply changes in their order."""
    for change in changes:
        change(connection)


def build_insert(events: Sequence[LoggedEvent]) -> tuple[str, tuple[object, ...]]:
    """Return one statement that inserts at most `MAX_ROWS` events. The hot path: it bypasses SQLAlchemy."""
    rows = ((log.run_id, log.event.seq, log.event.event, log.event.data, to_stored(log.created_at)) for log in events)
    return INSERT + ",".join(["(?, ?, ?, ?, ?)"] * len(events)), tuple(chain.from_iterable(rows))


def build_fenced_insert(events: Sequence[LoggedEvent]) -> tuple[str, tuple[object, ...]]:
    """Return the statement for PostgreSQL, which skips events of runs that another process has taken over."""
    columns = (
        [log.run_id for log in events],
        [log.attempt for log in events],
        [log.event.seq for log in events],
        [log.event.event for log in events],
        [log.event.data for log in events],
        [to_stored(log.created_at) for log in events],
    )
    return FENCED_INSERT, columns


def list_owned_runs(connection: Connection, events: Sequence[LoggedEvent]) -> Collection[str]:
    """Return the runs of `events` that no other process has taken over."""
    attempts = {(log.run_id, log.attempt) for log in events}
    query = select(runs.c.run_id).where(tuple_(runs.c.run_id, runs.c.attempt).in_(attempts))
    return connection.execute(query).scalars().all()


def read_events(connection: Connection, run_id: str, after: int, limit: int) -> Sequence[RunEvent]:
    """Return the run's events with a `seq` above `after`, in order."""
    query = (
        select(run_events.c.seq, run_events.c.event, run_events.c.data)
        .where(run_events.c.run_id == run_id, run_events.c.seq > after)
        .order_by(run_events.c.seq)
        .limit(limit)
    )
    return [RunEvent(*row) for row in connection.execute(query).fetchall()]  # all at once: a quarter cheaper


def read_last_seq(connection: Connection, run_id: str) -> int:
    """Return the `seq` of the run's latest event, 0 when it has none."""
    query = select(func.max(run_events.c.seq)).where(run_events.c.run_id == run_id)
    return connection.execute(query).scalar() or 0


def read_earlier_changes(connection: Connection, thread_id: str, run_id: str, upto: int) -> Sequence[bytes]:
    """Return the data of the thread's `changes` events before event `upto` of the run, oldest first."""
    this_run = select(runs.c.position).where(runs.c.run_id == run_id).scalar_subquery()
    before = (runs.c.position < this_run) | ((runs.c.run_id == run_id) & (run_events.c.seq <= upto))
    return connection.execute(select_changes(thread_id).where(before)).scalars().all()


def read_changes(connection: Connection, thread_id: str) -> Sequence[bytes]:
    """Return the data of the thread's `changes` events, oldest first."""
    return connection.execute(select_changes(thread_id)).scalars().all()


def select_changes(thread_id: str) -> Select[bytes]:
    """Select the data of a thread's `changes` events, oldest first."""
    changes: EventName = "changes"
    return (
        select(run_events.c.data)
        .join(runs, runs.c.run_id == run_events.c.run_id)
        .where(runs.c.thread_id == thread_id, run_events.c.event == changes)
        .order_by(runs.c.position, run_events.c.seq)
    )


def iterate_latest_changes(connection: Connection, thread_id: str) -> Iterator[tuple[bytes, datetime]]:
    """Yield data and time of the thread's `changes` events, newest first; rows are fetched on demand."""
    changes: EventName = "changes"
    query = (
        select(run_events.c.data, run_events.c.created_at)
        .join(runs, runs.c.run_id == run_events.c.run_id)
        .where(runs.c.thread_id == thread_id, run_events.c.event == changes)
        .order_by(runs.c.position.desc(), run_events.c.seq.desc())
        .execution_options(yield_per=100)
    )
    with connection.execute(query) as rows:  # rows that are not needed stay on the server
        for row in rows:
            yield row.data, row.created_at
