"""Runs in the database. Their status changes only from an unfinished one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Boolean, ColumnElement, Connection, RowMapping, delete, insert, literal_column, select, update

from deerflow.domain.errors import Conflict, NotFound
from deerflow.domain.runs import CancelAction, DisconnectMode, MultitaskStrategy, RunRecord, RunStatus
from deerflow.persistence.tables import runs
from deerflow.persistence.threads import hold_thread

# As in the index on these runs: with values to fill in, it could not be used.
ACTIVE: ColumnElement[bool] = literal_column("runs.status IN ('pending', 'running')", Boolean)
COLUMNS = [runs.c[name] for name in RunRecord.__slots__]


@dataclass(frozen=True, slots=True)
class StoredRequest:
    """What a run was asked for, as it is kept."""

    content: Mapping[str, Any]
    hash: str
    idempotency_key: str | None = None


@dataclass(frozen=True, slots=True)
class ClaimedRun:
    """A run that somebody has taken on, and what it was asked for."""

    record: RunRecord
    request: Mapping[str, Any]
    stop: CancelAction | None = None
    """What was ordered before it was taken on: there is nothing left but to end it."""


@dataclass(frozen=True, slots=True)
class Order:
    """Which attempt at a run counts, and whether it is to be stopped."""

    attempt: int
    stop: CancelAction | None


def insert_run(connection: Connection, record: RunRecord, request: StoredRequest) -> None:
    """Record a run."""
    row = {name: getattr(record, name) for name in RunRecord.__slots__}
    asked = {"request": dict(request.content), "request_hash": request.hash, "idempotency_key": request.idempotency_key}
    connection.execute(insert(runs), {**row, "metadata": dict(record.metadata), **asked})


def find_by_key(connection: Connection, owner: str, request: StoredRequest) -> RunRecord | None:
    """The run that was asked for with this key before.

    Raises:
        Conflict: something else was asked for with it.
    """
    if request.idempotency_key is None:
        return None
    mine = (runs.c.owner == owner) & (runs.c.idempotency_key == request.idempotency_key)
    found = select_runs(connection, mine, limit=1)
    if not found:
        return None
    if connection.execute(select(runs.c.request_hash).where(mine)).scalar() != request.hash:
        raise Conflict(
            f"the idempotency key {request.idempotency_key!r} was used for another request; choose a new one"
        )
    return found[0]


def advance_run(connection: Connection, run: RunRecord, status: RunStatus, error: str | None = None) -> bool:
    """Move a run from what its record says to `status`; False when it has ended, or somebody else has begun it."""
    columns = {"status": status, "error": error, "updated_at": datetime.now(UTC)}
    ours = (runs.c.run_id == run.run_id) & (runs.c.attempt == run.attempt) & (runs.c.status == run.status)
    return connection.execute(update(runs).where(ours), columns).rowcount == 1


def claim_next(connection: Connection, thread_id: str, process: str) -> ClaimedRun | None:
    """Begin the run of a thread that has waited longest, unless one is under way."""
    hold_thread(connection, thread_id)
    if select_runs(connection, (runs.c.thread_id == thread_id) & (runs.c.status == RunStatus.RUNNING), limit=1):
        return None
    waiting = (runs.c.thread_id == thread_id) & (runs.c.status == RunStatus.PENDING)
    found = oldest_first(connection, waiting)
    if not found:
        return None
    columns = {"status": RunStatus.RUNNING, "process": process, "updated_at": datetime.now(UTC)}
    connection.execute(update(runs).where(runs.c.run_id == found[0].run_id), columns)
    return read_claimed(connection, found[0].run_id)


def reclaim_run(connection: Connection, run: RunRecord, process: str) -> ClaimedRun | None:
    """Take a run over from a process that is gone; None when somebody else was faster."""
    columns = {"process": process, "attempt": run.attempt + 1, "updated_at": datetime.now(UTC)}
    still = (runs.c.run_id == run.run_id) & (runs.c.attempt == run.attempt) & (runs.c.process == run.process) & ACTIVE
    if connection.execute(update(runs).where(still), columns).rowcount != 1:
        return None
    return read_claimed(connection, run.run_id)


def order_stop(connection: Connection, run_id: str, action: CancelAction) -> str | None:
    """Note that a run is to be stopped by whoever carries it out; who that is, None when it has ended."""
    columns = {"cancel_action": action, "updated_at": datetime.now(UTC)}
    order = update(runs).where((runs.c.run_id == run_id) & ACTIVE).returning(runs.c.process)
    return connection.execute(order, columns).scalar()


def order_stops(connection: Connection, thread_id: str, action: CancelAction) -> None:
    """Note that whatever is under way in a thread, or waits there, is to be stopped."""
    columns = {"cancel_action": action, "updated_at": datetime.now(UTC)}
    connection.execute(update(runs).where((runs.c.thread_id == thread_id) & ACTIVE), columns)


def read_orders(connection: Connection, run_ids: Sequence[str]) -> Mapping[str, Order]:
    """What the rows of these runs say of them; those that are gone are missing."""
    query = select(runs.c.run_id, runs.c.attempt, runs.c.status, runs.c.cancel_action).where(runs.c.run_id.in_(run_ids))
    return {
        row.run_id: Order(row.attempt, None if RunStatus(row.status).is_final else to_action(row.cancel_action))
        for row in connection.execute(query)
    }


def to_action(stored: str | None) -> CancelAction | None:
    """What was ordered, if anything."""
    return CancelAction(stored) if stored else None


def is_unfinished(connection: Connection, run_id: str) -> bool:
    """Whether something more may come of a run."""
    return connection.execute(select(runs.c.run_id).where((runs.c.run_id == run_id) & ACTIVE)).first() is not None


def read_claimed(connection: Connection, run_id: str) -> ClaimedRun:
    """A run with what it was asked for."""
    query = select(*COLUMNS, runs.c.request, runs.c.cancel_action).where(runs.c.run_id == run_id)
    row = connection.execute(query).one()._mapping
    record = to_record({name: row[name] for name in RunRecord.__slots__})
    return ClaimedRun(record, row["request"], to_action(row["cancel_action"]))


def find_run(connection: Connection, thread_id: str, run_id: str, owner: str) -> RunRecord:
    """The run.

    Raises:
        NotFound: there is none, or it is somebody else's.
    """
    mine = (runs.c.run_id == run_id) & (runs.c.thread_id == thread_id) & (runs.c.owner == owner)
    found = select_runs(connection, mine, limit=1)
    if not found:
        raise NotFound(f"no run {run_id!r} in thread {thread_id!r}")
    return found[0]


def delete_ended_run(connection: Connection, thread_id: str, run_id: str, owner: str) -> None:
    """Remove a run and its events.

    Raises:
        NotFound: there is none, or it is somebody else's.
        Conflict: it is under way.
    """
    if not find_run(connection, thread_id, run_id, owner).status.is_final:
        raise Conflict(f"run {run_id!r} is under way: stop it before deleting it")
    connection.execute(delete(runs).where(runs.c.run_id == run_id))


def list_runs(
    connection: Connection, thread_id: str, owner: str, limit: int, offset: int, status: RunStatus | None = None
) -> Sequence[RunRecord]:
    """The thread's runs, newest first."""
    which = (runs.c.thread_id == thread_id) & (runs.c.owner == owner)
    return select_runs(connection, which & (runs.c.status == status) if status else which, limit, offset)


def active_runs(connection: Connection, thread_id: str) -> Sequence[RunRecord]:
    """The thread's runs that are under way or wait, oldest first."""
    return oldest_first(connection, (runs.c.thread_id == thread_id) & ACTIVE)


def unfinished_runs(connection: Connection) -> Sequence[RunRecord]:
    """Runs that have not reached a final status, oldest first."""
    return oldest_first(connection, ACTIVE)


def oldest_first(connection: Connection, which: ColumnElement[bool]) -> Sequence[RunRecord]:
    """Runs `which` holds for, in the order they were asked for."""
    return select_runs(connection, which)[::-1]


def select_runs(
    connection: Connection, which: ColumnElement[bool], limit: int | None = None, offset: int = 0
) -> list[RunRecord]:
    """Runs `which` holds for, newest first."""
    query = select(*COLUMNS).where(which).order_by(runs.c.created_at.desc(), runs.c.run_id.desc())
    return [to_record(row._mapping) for row in connection.execute(query.limit(limit).offset(offset))]


def to_record(row: RowMapping | Mapping[str, Any]) -> RunRecord:
    """A row in the words of the domain."""
    words = {
        "status": RunStatus(row["status"]),
        "on_disconnect": DisconnectMode(row["on_disconnect"]),
        "multitask_strategy": MultitaskStrategy(row["multitask_strategy"]),
    }
    return RunRecord(**{**row, **words})
