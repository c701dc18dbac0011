"""Requests that join a run instead of having one of their own."""

from collections.abc import Sequence
from datetime import UTC, datetime

from sqlalchemy import Connection

from deerflow.domain.events import FINAL_EVENT, StreamEvent
from deerflow.domain.runs import MultitaskStrategy, RunStatus
from deerflow.persistence.events import LoggedEvent, insert_events
from deerflow.persistence.runs import ClaimedRun, advance_run, oldest_first, read_claimed
from deerflow.persistence.tables import runs


def waiting_to_steer(connection: Connection, thread_id: str) -> Sequence[ClaimedRun]:
    """The requests that want to join the thread's run and have not been withdrawn, oldest first."""
    waiting = (runs.c.thread_id == thread_id) & (runs.c.status == RunStatus.PENDING)
    steering = waiting & (runs.c.multitask_strategy == MultitaskStrategy.STEER) & runs.c.cancel_action.is_(None)
    return [read_claimed(connection, run.run_id) for run in oldest_first(connection, steering)]


def end_joined(connection: Connection, joined: Sequence[ClaimedRun]) -> Sequence[LoggedEvent]:
    """Record that requests have joined a run, which is all they wanted; those that were withdrawn are passed over."""
    now = datetime.now(UTC)
    ended = [each.record for each in joined if advance_run(connection, each.record, RunStatus.SUCCESS)]
    events = [LoggedEvent(run.run_id, StreamEvent(2, FINAL_EVENT, b"null"), now) for run in ended]
    insert_events(connection, events)
    return events
