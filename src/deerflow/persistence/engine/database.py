"""The interface of a database. Functions of a `Connection` run outside the event loop."""

import sqlite3
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import DataError, DBAPIError, OperationalError

from deerflow.domain.errors import InvalidRequest, StorageFull, StorageUnavailable
from deerflow.persistence.queries.events import LoggedEvent

T = TypeVar("T")
DatabaseLocation = Path | str
"""Path of a SQLite file, or URL of a PostgreSQL database."""
DISK_FULL_SQLSTATE = "53100"


class Database(Protocol):
    """Database of one server. Writes survive a power failure; appends, which are frequent, may not."""

    async def read(self, query: Callable[[Connection], T]) -> T:
        """Run `query` and return its result."""

    async def write(self, change: Callable[[Connection], T]) -> T:
        """Run `change` in one transaction; it is committed when this returns."""

    async def append(self, events: Sequence[LoggedEvent]) -> Collection[str]:
        """Add events to the logs of their runs.

        Return the ids of runs whose events were refused because another process has taken the run over.
        """

    async def aclose(self) -> None:
        """Commit pending writes, then close the database."""


@contextmanager
def translate_errors() -> Iterator[None]:
    """Raise driver errors as `InvalidRequest` (unsupported value) or `StorageUnavailable` (database unusable)."""
    try:
        yield
    except (DataError, OverflowError) as problem:  # a null character in a text, a number too large for a column
        raise InvalidRequest("the database cannot store or compare such a value") from problem
    except DBAPIError as problem:
        if isinstance(problem.orig, sqlite3.DatabaseError) and (explained := explain_sqlite_error(problem.orig)):
            raise explained from problem
        if getattr(problem.orig, "sqlstate", None) == DISK_FULL_SQLSTATE:
            raise StorageFull("the disk of the database server is full") from problem
        if not isinstance(problem, OperationalError) and not problem.connection_invalidated:
            raise
        raise StorageUnavailable(f"database unavailable: {problem.orig}") from problem


@contextmanager
def translate_driver_errors() -> Iterator[None]:
    """Raise errors of the SQLite driver itself as `translate_errors` does."""
    try:
        yield
    except sqlite3.DatabaseError as problem:
        if explained := explain_sqlite_error(problem):
            raise explained from problem
        if not isinstance(problem, sqlite3.OperationalError):
            raise
        raise StorageUnavailable(f"database unavailable: {problem}") from problem


def explain_sqlite_error(problem: BaseException) -> StorageUnavailable | None:
    """Return the error for a full disk or a damaged file, None for other errors."""
    code = getattr(problem, "sqlite_errorcode", 0) & 0xFF  # the rest of the number tells the detail
    if code == sqlite3.SQLITE_FULL:
        return StorageFull("the disk of the database is full")
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return StorageUnavailable(f"the database is damaged: {problem}; stop the server and run: deerflow db check")
    return None
