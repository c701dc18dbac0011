"""Runs, their requests, control and file changes."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from sqlalchemy import (
    ColumnElement,
    Connection,
    RowMapping,
    bindparam,
    delete,
    func,
    insert,
    select,
    update,
)

from deerflow.domain.errors import Conflict, NotFound, StorageUnavailable
from deerflow.domain.identity import DELETED_OWNER, new_id
from deerflow.domain.runs import (
    FINAL_EVENT,
    CancelAction,
    DisconnectMode,
    EventName,
    MultitaskStrategy,
    RunEvent,
    RunRecord,
    RunStatus,
)
from deerflow.persistence.queries.events import LoggedEvent, insert_events
from deerflow.persistence.queries.threads import lock_thread
from deerflow.persistence.tables import ACTIVE, deletions, run_events, runs
from deerflow.persistence.tables import run_file_changes as changes

RUN_COLUMNS = [runs.c[name] for name in RunRecord.__slots__]


@dataclass(frozen=True, slots=True)
class StoredRequest:
    """Request of a run, as stored."""

    content: Mapping[str, Any]
    hash: str
    idempotency_key: str | None = None


@dataclass(frozen=True, slots=True)
class ClaimedRun:
    """Run that a process has claimed, and its request."""

    record: RunRecord
    request: Mapping[str, Any]
    stop: CancelAction | None = None
    """Stop that was requested before the run was claimed: it is only ended."""


@dataclass(frozen=True, slots=True)
class RunControl:
    """Current attempt of a run, and the stop requested for it."""

    attempt: int
    stop: CancelAction | None


# Statements of every run are built once: building one takes longer than SQLite takes to execute it.
# The thread is locked, so the position is above those of its earlier runs.
NEXT_POSITION = select(func.coalesce(func.max(runs.c.position), 0) + 1).scalar_subquery()
INSERT_RUN = insert(runs).values(position=NEXT_POSITION)


def insert_run(connection: Connection, record: RunRecord, request: StoredRequest) -> None:
    """Insert a run."""
    row = {name: getattr(record, name) for name in RunRecord.__slots__}
    stored = {
        "request": dict(request.content),
        "request_hash": request.hash,
        "idempotency_key": request.idempotency_key,
    }
    connection.execute(INSERT_RUN, {**row, "metadata": dict(record.metadata), **stored})


def find_run_by_key(connection: Connection, owner: str, request: StoredRequest) -> RunRecord | None:
    """Return the run that was created with the same idempotency key.

    Raises:
        Conflict: The key was used for a different request.
    """
    if request.idempotency_key is None:
        return None
    owned = (runs.c.owner == owner) & (runs.c.idempotency_key == request.idempotency_key)
    found = select_runs(connection, owned, limit=1)
    if not found:
        return None
    if connection.execute(select(runs.c.request_hash).where(owned)).scalar() != request.hash:
        raise Conflict(f"idempotency key {request.idempotency_key!r} was used for another request; choose a new one")
    return found[0]


ADVANCE_RUN = update(runs).where(
    runs.c.run_id == bindparam("id_of_run"),
    runs.c.attempt == bindparam("recorded_attempt"),
    runs.c.status == bindparam("recorded_status"),
)
LIST_ACTIVE = (
    select(runs.c.run_id, runs.c.status)
    .where(runs.c.thread_id == bindparam("thread"), ACTIVE)
    .order_by(runs.c.position, runs.c.run_id)
)


def advance_run(connection: Connection, run: RunRecord, status: RunStatus, error: str | None = None) -> bool:
    """Move a run from its recorded status to `status`; return False when it has ended or another process claimed it."""
    columns = {"status": status, "error": error, "updated_at": datetime.now(UTC)}
    expected = {"id_of_run": run.run_id, "recorded_attempt": run.attempt, "recorded_status": run.status}
    return connection.execute(ADVANCE_RUN, {**columns, **expected}).rowcount == 1


def claim_next_run(connection: Connection, thread_id: str, process: str) -> ClaimedRun | None:
    """Start the oldest pending run of a thread, unless one is running."""
    lock_thread(connection, thread_id)
    active = connection.execute(LIST_ACTIVE, {"thread": thread_id}).all()
    if not active or any(row.status == RunStatus.RUNNING for row in active):
        return None
    columns = {"status": RunStatus.RUNNING, "process": process, "updated_at": datetime.now(UTC)}
    connection.execute(update(runs).where(runs.c.run_id == active[0].run_id), columns)
    return read_claimed_run(connection, active[0].run_id)


def reclaim_run(connection: Connection, run: RunRecord, process: str) -> ClaimedRun | None:
    """Take over a run of a dead process; return None when another process was faster."""
    columns = {"process": process, "attempt": run.attempt + 1, "updated_at": datetime.now(UTC)}
    expected = (
        (runs.c.run_id == run.run_id) & (runs.c.attempt == run.attempt) & (runs.c.process == run.process) & ACTIVE
    )
    if connection.execute(update(runs).where(expected), columns).rowcount != 1:
        return None
    return read_claimed_run(connection, run.run_id)


def request_stop(connection: Connection, run_id: str, action: CancelAction) -> str | None:
    """Record that a run is to be stopped; return the process that executes it, None when it has ended."""
    columns = {"cancel_action": action, "updated_at": datetime.now(UTC)}
    statement = update(runs).where((runs.c.run_id == run_id) & ACTIVE).returning(runs.c.process)
    return connection.execute(statement, columns).scalar()


def request_stops(connection: Connection, thread_id: str, action: CancelAction) -> None:
    """Record that all running and pending runs of a thread are to be stopped."""
    columns = {"cancel_action": action, "updated_at": datetime.now(UTC)}
    connection.execute(update(runs).where((runs.c.thread_id == thread_id) & ACTIVE), columns)


def read_run_controls(connection: Connection, run_ids: Sequence[str]) -> Mapping[str, RunControl]:
    """Return the control of these runs; deleted runs are missing."""
    query = select(runs.c.run_id, runs.c.attempt, runs.c.status, runs.c.cancel_action).where(runs.c.run_id.in_(run_ids))
    return {
        row.run_id: RunControl(
            row.attempt, None if RunStatus(row.status).is_final else to_cancel_action(row.cancel_action)
        )
        for row in connection.execute(query)
    }


def to_cancel_action(stored: str | None) -> CancelAction | None:
    """Convert a stored cancel action, None when there is none."""
    return CancelAction(stored) if stored else None


def is_unfinished(connection: Connection, run_id: str) -> bool:
    """Return whether a run has not reached a final status."""
    return connection.execute(select(runs.c.run_id).where((runs.c.run_id == run_id) & ACTIVE)).first() is not None


def read_claimed_run(connection: Connection, run_id: str) -> ClaimedRun:
    """Return a run with its request."""
    query = select(*RUN_COLUMNS, runs.c.request, runs.c.cancel_action).where(runs.c.run_id == run_id)
    row = connection.execute(query).one()._mapping
    record = to_run_record({name: row[name] for name in RunRecord.__slots__})
    return ClaimedRun(record, row["request"], to_cancel_action(row["cancel_action"]))


def read_requests(connection: Connection, run_ids: Collection[str], owner: str) -> Mapping[str, Mapping[str, Any]]:
    """Return the stored requests of runs by run id."""
    query = select(runs.c.run_id, runs.c.request).where(runs.c.run_id.in_(run_ids), runs.c.owner == owner)
    return {row.run_id: row.request for row in connection.execute(query)}


FIND_RUN = select(*RUN_COLUMNS).where(
    runs.c.run_id == bindparam("run"), runs.c.thread_id == bindparam("thread"), runs.c.owner == bindparam("of_owner")
)


def find_run(connection: Connection, thread_id: str, run_id: str, owner: str) -> RunRecord:
    """Return a run.

    Raises:
        NotFound: It does not exist, or has another owner.
    """
    row = connection.execute(FIND_RUN, {"run": run_id, "thread": thread_id, "of_owner": owner}).first()
    if row is None:
        raise NotFound(f"no run {run_id!r} in thread {thread_id!r}")
    return to_run_record(row._mapping)


def delete_ended_run(connection: Connection, thread_id: str, run_id: str, owner: str) -> None:
    """Delete a run and its events.

    Raises:
        NotFound: It does not exist, or has another owner.
        Conflict: It is active.
    """
    if not find_run(connection, thread_id, run_id, owner).status.is_final:
        raise Conflict(f"run {run_id!r} is active; stop it before deleting it")
    connection.execute(delete(runs).where(runs.c.run_id == run_id))


def list_runs(
    connection: Connection, thread_id: str, owner: str, limit: int, offset: int, status: RunStatus | None = None
) -> Sequence[RunRecord]:
    """Return the thread's runs, newest first."""
    which = (runs.c.thread_id == thread_id) & (runs.c.owner == owner)
    return select_runs(connection, which & (runs.c.status == status) if status else which, limit, offset)


def list_active_runs(connection: Connection, thread_id: str) -> Sequence[RunRecord]:
    """Return the thread's running and pending runs, oldest first."""
    return select_oldest_first(connection, (runs.c.thread_id == thread_id) & ACTIVE)


def list_unfinished_runs(connection: Connection) -> Sequence[RunRecord]:
    """Return all runs that have not reached a final status, oldest first."""
    return select_oldest_first(connection, ACTIVE)


def select_oldest_first(connection: Connection, which: ColumnElement[bool]) -> Sequence[RunRecord]:
    """Return the runs that match `which`, oldest first."""
    return select_runs(connection, which)[::-1]


def select_runs(
    connection: Connection, which: ColumnElement[bool], limit: int | None = None, offset: int = 0
) -> list[RunRecord]:
    """Return the runs that match `which`, newest first."""
    query = select(*RUN_COLUMNS).where(which).order_by(runs.c.position.desc(), runs.c.run_id.desc())
    return [to_run_record(row._mapping) for row in connection.execute(query.limit(limit).offset(offset))]


def to_run_record(row: RowMapping | Mapping[str, Any]) -> RunRecord:
    """Convert a row to a record."""
    enums = {
        "status": RunStatus(row["status"]),
        "on_disconnect": DisconnectMode(row["on_disconnect"]),
        "multitask_strategy": MultitaskStrategy(row["multitask_strategy"]),
    }
    return RunRecord(**{**row, **enums})


def list_steering_requests(connection: Connection, run: RunRecord) -> Sequence[ClaimedRun]:
    """Return the requests of the same person that want to join a run and were not cancelled, oldest first.

    Those of other people wait: the run acts with the logins and the money of the person who started it.
    """
    same_person = runs.c.started_by.is_not_distinct_from(run.started_by)
    waiting = (runs.c.thread_id == run.thread_id) & (runs.c.status == RunStatus.PENDING) & same_person
    steering = waiting & (runs.c.multitask_strategy == MultitaskStrategy.STEER) & runs.c.cancel_action.is_(None)
    return [read_claimed_run(connection, run.run_id) for run in select_oldest_first(connection, steering)]


def finish_joined(connection: Connection, joined: Sequence[ClaimedRun]) -> Sequence[LoggedEvent]:
    """Record that requests have joined a run, which ends them; skip cancelled ones. Return their final events."""
    now = datetime.now(UTC)
    ended = [each.record for each in joined if advance_run(connection, each.record, RunStatus.SUCCESS)]
    events = [LoggedEvent(run.run_id, RunEvent(2, FINAL_EVENT, b"null"), now) for run in ended]
    insert_events(connection, events)
    return events


def read_timed_events(
    connection: Connection, run_id: str, after: int, limit: int, names: Collection[EventName] = ()
) -> Sequence[LoggedEvent]:
    """Return the run's events with a `seq` above `after`, in order; only those named in `names`, if given."""
    query = (
        select(run_events.c.seq, run_events.c.event, run_events.c.data, run_events.c.created_at)
        .where(run_events.c.run_id == run_id, run_events.c.seq > after)
        .order_by(run_events.c.seq)
        .limit(limit)
    )
    if names:
        query = query.where(run_events.c.event.in_(names))
    return [LoggedEvent(run_id, RunEvent(*event), at) for *event, at in connection.execute(query)]


def list_latest_runs(connection: Connection, owner: str, limit: int) -> Sequence[RunRecord]:
    """Return the owner's runs in all threads, newest first."""
    return select_runs(connection, runs.c.owner == owner, limit)


def find_runs_by_prefix(connection: Connection, owner: str, beginning: str, limit: int) -> Sequence[RunRecord]:
    """Return the owner's runs whose ids begin with `beginning`."""
    return select_runs(
        connection, (runs.c.owner == owner) & runs.c.run_id.startswith(beginning, autoescape=True), limit
    )


T = TypeVar("T")
QueryFunction = Callable[[Connection], T]
"""Query or change, as passed on by code that does not use SQLAlchemy."""


def check_writable(connection: Connection) -> None:
    """Write a row, read it back and delete it.

    Raises:
        StorageUnavailable: The row could not be read back.
    """
    name = new_id()
    owned = deletions.c.thread_id == name
    row = {"thread_id": name, "owner": DELETED_OWNER, "process": "", "created_at": datetime.now(UTC)}
    connection.execute(insert(deletions), row)
    if connection.execute(select(deletions.c.owner).where(owned)).scalar() != DELETED_OWNER:
        raise StorageUnavailable("a row written to the database could not be read back")
    connection.execute(delete(deletions).where(owned))


def count_unfinished_runs(connection: Connection) -> Mapping[str, int]:
    """Return the number of running and of pending runs of all owners."""
    query = select(runs.c.status, func.count().label("number")).where(ACTIVE).group_by(runs.c.status)
    found = {row.status: row.number for row in connection.execute(query)}
    return {status.value: found.get(status.value, 0) for status in (RunStatus.PENDING, RunStatus.RUNNING)}


def store_file_changes(connection: Connection, run_id: str, owner: str, data: bytes) -> None:
    """Store the file changes of a run; replace those of an earlier attempt."""
    connection.execute(delete(changes).where(changes.c.run_id == run_id, changes.c.owner == owner))
    connection.execute(insert(changes), {"run_id": run_id, "owner": owner, "data": data})


def read_file_changes(connection: Connection, run_id: str, owner: str) -> bytes | None:
    """Return the file changes of a run, None when there are none."""
    owned = select(changes.c.data).where(changes.c.run_id == run_id, changes.c.owner == owner)
    return connection.execute(owned).scalar()
