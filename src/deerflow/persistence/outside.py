"""Changes of a thread that no agent made: kept in its journal as a run that has already ended."""

from collections.abc import Sequence

from sqlalchemy import Connection

from deerflow.domain.errors import Conflict
from deerflow.domain.runs import RunRecord
from deerflow.domain.search import SaidMessage
from deerflow.persistence.events import LoggedEvent, insert_events
from deerflow.persistence.runs import ACTIVE, StoredRequest, active_runs, insert_run, oldest_first
from deerflow.persistence.search import index_said, unindex
from deerflow.persistence.tables import runs
from deerflow.persistence.threads import find_thread, hold_thread, insert_thread, touch_thread


def record_change(
    connection: Connection,
    run: RunRecord,
    request: StoredRequest,
    events: Sequence[LoggedEvent],
    said: Sequence[SaidMessage],
    unsaid: Sequence[str],
) -> None:
    """Record an ended run and all its events, and have what it says be found, and what it takes back no longer.

    Raises:
        NotFound: the thread has been deleted.
    """
    hold_thread(connection, run.thread_id)
    find_thread(connection, run.thread_id, run.owner)
    insert_run(connection, run, request)
    insert_events(connection, events)
    unindex(connection, run.thread_id, run.owner, unsaid)
    index_said(connection, run.thread_id, run.owner, said, run.run_id)
    touch_thread(connection, run.thread_id, None)


def refuse_when_busy(connection: Connection, thread_id: str, owner: str) -> None:
    """Raise `NotFound` when there is no such thread, and `Conflict` when a run is under way in it."""
    hold_thread(connection, thread_id)
    find_thread(connection, thread_id, owner)
    if active_runs(connection, thread_id):
        raise Conflict(f"thread {thread_id!r} is busy with a run: wait for its end, or stop it")


def unfinished_of(connection: Connection, owner: str, thread_id: str | None) -> Sequence[RunRecord]:
    """The owner's runs that are under way or wait, oldest first: of one thread, or of all."""
    mine = (runs.c.owner == owner) & ACTIVE
    return oldest_first(connection, mine if thread_id is None else mine & (runs.c.thread_id == thread_id))


def begin_copy(connection: Connection, thread_id: str, owner: str, copy_id: str) -> None:
    """Make a thread with the title and the metadata of another."""
    thread = find_thread(connection, thread_id, owner)
    insert_thread(connection, copy_id, owner, thread.metadata)
    touch_thread(connection, copy_id, thread.title)
