"""The two moments of a run that must be whole: its acceptance and its end."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from deerflow.domain.errors import Conflict, NotFound
from deerflow.domain.runs import MultitaskStrategy, RunRecord, RunStatus
from deerflow.persistence.events import Change, LoggedEvent, insert_events, nothing_else
from deerflow.persistence.runs import (
    ClaimedRun,
    StoredRequest,
    active_runs,
    advance_run,
    claim_next,
    find_by_key,
    insert_run,
    order_stops,
)
from deerflow.persistence.threads import hold_thread, insert_thread, thread_exists, touch_thread


@dataclass(frozen=True, slots=True)
class Admission:
    """A run that was accepted, now or when it was first asked for, and the others of its thread."""

    run: RunRecord
    is_new: bool = True
    others: Sequence[RunRecord] = ()


@dataclass(frozen=True, slots=True)
class Finish:
    """Whether the end of a run was recorded, and the run of the thread whose turn it is now."""

    is_recorded: bool
    next: ClaimedRun | None = None


def accept_run(
    connection: Connection,
    run: RunRecord,
    request: StoredRequest,
    first: LoggedEvent,
    title: str | None,
    *,
    may_create_thread: bool,
) -> Admission:
    """Record a run, its first event and, where it is new, its thread.

    Raises:
        Conflict: the thread has a run under way and this one may not wait, or its key was used for another request.
        NotFound: the thread does not exist and may not be created, or is somebody else's.
    """
    has_thread = thread_exists(connection, run.thread_id, run.owner)
    if known := find_by_key(connection, run.owner, request):
        return Admission(known, is_new=False)
    if not has_thread:
        if not may_create_thread:
            raise NotFound(f"no thread {run.thread_id!r}")
        insert_thread(connection, run.thread_id, run.owner, {}, title)
    others = active_runs(connection, run.thread_id) if has_thread else ()
    if others:
        if run.multitask_strategy is MultitaskStrategy.REJECT:
            raise Conflict(f"thread {run.thread_id!r} is busy with another run")
        run = replace(run, status=RunStatus.PENDING)
        if action := run.multitask_strategy.stops:  # it holds also if nobody lives to carry it out
            order_stops(connection, run.thread_id, action)
    insert_run(connection, run, request)
    insert_events(connection, [first])
    if has_thread:
        touch_thread(connection, run.thread_id, title)
    return Admission(run, others=others)


def finish_run(
    connection: Connection,
    run: RunRecord,
    events: Sequence[LoggedEvent],
    status: RunStatus,
    error: str | None,
    also: Change[None] = nothing_else,
) -> Finish:
    """Record a run's last events, its final status and what else it leaves, unless it has ended; begin the next."""
    hold_thread(connection, run.thread_id)
    if not advance_run(connection, run, status, error):
        return Finish(False)
    insert_events(connection, events)
    also(connection)
    return Finish(True, claim_next(connection, run.thread_id, run.process))
