"""Tries out whether the database can be used, and counts what is unfinished in it."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TypeVar

from sqlalchemy import Connection, delete, func, insert, select

from deerflow.domain.errors import StorageUnavailable
from deerflow.domain.ids import NOBODY, new_id
from deerflow.domain.runs import RunStatus
from deerflow.persistence.runs import ACTIVE
from deerflow.persistence.tables import deletions, runs

T = TypeVar("T")
Query = Callable[[Connection], T]
"""Something to be found or changed, for those who only hand it on."""


def read_back(connection: Connection) -> None:
    """Write something and find it again; nothing is left of it.

    Raises:
        StorageUnavailable: it was not there.
    """
    name = new_id()
    mine = deletions.c.thread_id == name
    row = {"thread_id": name, "owner": NOBODY, "process": "", "created_at": datetime.now(UTC)}
    connection.execute(insert(deletions), row)
    if connection.execute(select(deletions.c.owner).where(mine)).scalar() != NOBODY:
        raise StorageUnavailable("what was written into the database is not there")
    connection.execute(delete(deletions).where(mine))


def count_unfinished(connection: Connection) -> Mapping[str, int]:
    """How many runs of everybody are under way, and how many wait."""
    query = select(runs.c.status, func.count().label("number")).where(ACTIVE).group_by(runs.c.status)
    found = {row.status: row.number for row in connection.execute(query)}
    return {status.value: found.get(status.value, 0) for status in (RunStatus.PENDING, RunStatus.RUNNING)}
