"""Runs and their events with the times at which things happened, for whoever wants to know what went on."""

from collections.abc import Collection, Sequence

from sqlalchemy import Connection, select

from deerflow.domain.events import EventName, StreamEvent
from deerflow.domain.runs import RunRecord
from deerflow.persistence.events import LoggedEvent
from deerflow.persistence.runs import select_runs
from deerflow.persistence.tables import run_events, runs


def read_timed_events(
    connection: Connection, run_id: str, after: int, limit: int, names: Collection[EventName] = ()
) -> Sequence[LoggedEvent]:
    """The run's events with a `seq` above `after`, in order; only those called one of `names`, if any are given."""
    query = (
        select(run_events.c.seq, run_events.c.event, run_events.c.data, run_events.c.created_at)
        .where(run_events.c.run_id == run_id, run_events.c.seq > after)
        .order_by(run_events.c.seq)
        .limit(limit)
    )
    if names:
        query = query.where(run_events.c.event.in_(names))
    return [LoggedEvent(run_id, StreamEvent(*event), at) for *event, at in connection.execute(query)]


def latest_runs(connection: Connection, owner: str, limit: int) -> Sequence[RunRecord]:
    """The runs of all threads, newest first."""
    return select_runs(connection, runs.c.owner == owner, limit)


def runs_called(connection: Connection, owner: str, beginning: str, limit: int) -> Sequence[RunRecord]:
    """The runs whose ids begin so."""
    return select_runs(
        connection, (runs.c.owner == owner) & runs.c.run_id.startswith(beginning, autoescape=True), limit
    )
