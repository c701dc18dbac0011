"""Runs in the database. Their status changes only from an unfinished one."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from sqlalchemy import ColumnElement, Connection, RowMapping, insert, select, update
from sqlalchemy.exc import IntegrityError

from deerflow.domain.errors import Conflict, NotFound
from deerflow.domain.runs import DisconnectMode, RunRecord, RunStatus
from deerflow.persistence.tables import runs

ACTIVE = runs.c.status.in_([RunStatus.PENDING, RunStatus.RUNNING])
COLUMNS = [runs.c[name] for name in RunRecord.__slots__]


def insert_run(connection: Connection, record: RunRecord, request: Mapping[str, object]) -> None:
    """Accept a run.

    Raises:
        Conflict: the thread has one under way.
    """
    row = {name: getattr(record, name) for name in RunRecord.__slots__}
    try:
        connection.execute(insert(runs), {**row, "metadata": dict(record.metadata), "request": dict(request)})
    except IntegrityError as problem:
        raise Conflict(f"thread {record.thread_id!r} is busy with another run") from problem


def advance_run(connection: Connection, run_id: str, status: RunStatus, error: str | None = None) -> bool:
    """Move an unfinished run to `status`; False when it had already ended."""
    columns = {"status": status, "error": error, "updated_at": datetime.now(UTC)}
    result = connection.execute(update(runs).where(runs.c.run_id == run_id, ACTIVE), columns)
    return result.rowcount == 1


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


def list_runs(connection: Connection, thread_id: str, owner: str, limit: int, offset: int) -> Sequence[RunRecord]:
    """The thread's runs, newest first."""
    return select_runs(connection, (runs.c.thread_id == thread_id) & (runs.c.owner == owner), limit, offset)


def unfinished_runs(connection: Connection) -> Sequence[RunRecord]:
    """Runs that have not reached a final status."""
    return select_runs(connection, ACTIVE)


def select_runs(
    connection: Connection, which: ColumnElement[bool], limit: int | None = None, offset: int = 0
) -> list[RunRecord]:
    """Runs `which` holds for, newest first."""
    query = select(*COLUMNS).where(which).order_by(runs.c.created_at.desc()).limit(limit).offset(offset)
    return [to_record(row._mapping) for row in connection.execute(query)]


def to_record(row: RowMapping) -> RunRecord:
    """A row in the words of the domain."""
    words = {"status": RunStatus(row["status"]), "on_disconnect": DisconnectMode(row["on_disconnect"])}
    return RunRecord(**{**row, **words})
