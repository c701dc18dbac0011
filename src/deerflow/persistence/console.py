"""What an owner has in all threads together."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from deerflow.domain.runs import RunRecord, RunStatus
from deerflow.persistence.runs import COLUMNS, to_record
from deerflow.persistence.tables import runs, threads


@dataclass(frozen=True, slots=True)
class RunOfThread:
    """A run, and the title of its thread."""

    run: RunRecord
    title: str | None


def count_threads(connection: Connection, owner: str) -> int:
    """How many threads there are."""
    return connection.execute(select(func.count()).select_from(threads).where(threads.c.owner == owner)).scalar() or 0


def count_runs(connection: Connection, owner: str) -> dict[RunStatus, int]:
    """How many runs there are of each status."""
    query = select(runs.c.status, func.count()).where(runs.c.owner == owner).group_by(runs.c.status)
    found = {RunStatus(status): count for status, count in connection.execute(query)}
    return {status: found.get(status, 0) for status in RunStatus}


def runs_of_owner(
    connection: Connection, owner: str, limit: int, offset: int, status: RunStatus | None
) -> Sequence[RunOfThread]:
    """The runs of all threads, newest first."""
    query = select(*COLUMNS, threads.c.title).join(threads, threads.c.thread_id == runs.c.thread_id)
    query = query.where(runs.c.owner == owner, threads.c.owner == owner)
    if status is not None:
        query = query.where(runs.c.status == status)
    page = query.order_by(runs.c.created_at.desc(), runs.c.run_id.desc()).limit(limit).offset(offset)
    found = [dict(row._mapping) for row in connection.execute(page)]
    return [RunOfThread(title=row.pop("title"), run=to_record(row)) for row in found]
