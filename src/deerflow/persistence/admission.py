"""The two moments of a run that must be whole: its acceptance and its end."""

from collections.abc import Mapping, Sequence

from sqlalchemy import Connection

from deerflow.domain.errors import NotFound
from deerflow.domain.runs import RunRecord, RunStatus
from deerflow.persistence.events import LoggedEvent, insert_events
from deerflow.persistence.runs import advance_run, insert_run
from deerflow.persistence.threads import insert_thread, thread_exists, touch_thread


def accept_run(
    connection: Connection,
    run: RunRecord,
    request: Mapping[str, object],
    first: LoggedEvent,
    title: str | None,
    *,
    may_create_thread: bool,
) -> None:
    """Record a run, its first event and, where it is new, its thread.

    Raises:
        Conflict: the thread has a run under way.
        NotFound: the thread does not exist and may not be created, or is somebody else's.
    """
    if not thread_exists(connection, run.thread_id, run.owner):
        if not may_create_thread:
            raise NotFound(f"no thread {run.thread_id!r}")
        insert_thread(connection, run.thread_id, run.owner, {})
    insert_run(connection, run, request)
    insert_events(connection, [first])
    touch_thread(connection, run.thread_id, title)


def finish_run(
    connection: Connection, run_id: str, events: Sequence[LoggedEvent], status: RunStatus, error: str | None
) -> bool:
    """Record a run's last events and its final status; False, and nothing recorded, when it had one already."""
    if not advance_run(connection, run_id, status, error):
        return False
    insert_events(connection, events)
    return True
