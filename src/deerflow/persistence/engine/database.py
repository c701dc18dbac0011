"""The interface of a database. Functions of a `Connection` run outside the event loop."""

import sqlite3
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Protocol, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DataError, DBAPIError, OperationalError

from deerflow.domain.errors import InvalidRequest, StorageFull, StorageUnavailable
from deerflow.persistence.queries.events import LoggedEvent

T = TypeVar("T")
DatabaseLocation = Path | str
"""Path of a SQLite file, or URL of a PostgreSQL database."""
DISK_FULL_SQLSTATE = "53100"
UNUSABLE_SQLSTATES = frozenset({"25006", "3D000", "3F000", "42P01"})
"""SQLSTATEs of a PostgreSQL database that is read-only, or has lost its tables: they are no fault of a request."""
UNUSABLE = "the database is read-only, or its tables are missing"
READ_LIMIT_S = 60.0
"""Time limit of a read."""


class Database(Protocol):
    """Database of one server. Writes survive a power failure; appends, which are frequent, may not."""

    async def read(self, query: Callable[[Connection], T]) -> T:
        """Run `query` and return its result. It is stopped when the caller is cancelled, or after `READ_LIMIT_S`."""

    async def look_up(self, query: Callable[[Connection], T]) -> T:
        """Run `query`, which reads a few rows by their keys, and return its result.

        On SQLite it runs on the event loop, where it takes a tenth of the time of a hand-over to a thread.
        """

    async def write(self, change: Callable[[Connection], T]) -> T:
        """Run `change` in one transaction; it is committed when this returns."""

    async def append(self, events: Sequence[LoggedEvent]) -> Collection[str]:
        """Add events to the logs of their runs.

        Return the ids of runs whose events were refused because another process has taken the run over.
        """

    async def aclose(self) -> None:
        """Commit pending writes, then close the database."""


class ReadGuard:
    """Stops a running query when its caller is cancelled, or when it takes too long."""

    def __init__(self) -> None:
        self.is_cancelled = False
        self._stop: Callable[[], object] | None = None
        self._lock = Lock()
        self._deadline = float("inf")

    @contextmanager
    def watch(self, stop: Callable[[], object] | None = None) -> Iterator[None]:
        """Watch the query of this block. `stop` is called from another thread to stop it."""
        self._deadline = time.monotonic() + READ_LIMIT_S
        with self._lock:
            if self.is_cancelled:
                raise StorageUnavailable("the caller of the query is gone")
            self._stop = stop
        try:
            yield
        finally:
            with self._lock:  # the connection serves another query after this
                self._stop = None

    def is_over(self) -> bool:
        """Return whether the query is to be stopped."""
        return self.is_cancelled or time.monotonic() > self._deadline

    def cancel(self) -> None:
        """Stop the query."""
        self.is_cancelled = True
        with self._lock:
            if self._stop is not None:
                self._stop()


LOOK_UP_LIMIT_S = 0.01
"""Time after which a query may not go on on the event loop."""
STEPS_PER_LOOK = 10_000
"""Steps of SQLite's virtual machine, less than a millisecond, between two looks at the clock."""


class LoopConnection:
    """Connection to SQLite for short queries on the event loop. It waits for no lock."""

    def __init__(self, engine: Engine, pause_s: float) -> None:
        """Take a connection of `engine` on first use. After a query that took too long, refuse for `pause_s`."""
        self._engine = engine
        self._pause_s = pause_s
        self._connection: Connection | None = None
        self._deadline = self._avoid_until = float("-inf")

    def try_query(self, query: Callable[[Connection], T]) -> tuple[T] | None:
        """Return the result of `query` as the only item of a tuple; None if it has to run in a thread."""
        began = time.monotonic()
        if began < self._avoid_until:
            return None
        self._deadline = began + LOOK_UP_LIMIT_S
        try:
            return (query(self._connect()),)
        except (DBAPIError, OverflowError):  # the thread waits, or raises the error
            self.close()
            return None
        finally:
            if time.monotonic() > self._deadline:
                self._avoid_until = began + self._pause_s

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.invalidate()  # its settings are not those of other queries
            self._connection.close()
            self._connection = None

    def _connect(self) -> Connection:
        if self._connection is None:
            self._connection = self._engine.connect()
            driver = self._connection.connection.driver_connection
            assert isinstance(driver, sqlite3.Connection)
            driver.execute("PRAGMA busy_timeout=0")
            driver.set_progress_handler(lambda: time.monotonic() > self._deadline, STEPS_PER_LOOK)
        return self._connection


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
        if getattr(problem.orig, "sqlstate", None) in UNUSABLE_SQLSTATES:
            raise StorageUnavailable(f"{UNUSABLE}: {problem.orig}") from problem
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
    """Return the error for a full disk, a damaged file or a stopped query, None for other errors."""
    code = getattr(problem, "sqlite_errorcode", 0) & 0xFF  # the rest of the number tells the detail
    if code == sqlite3.SQLITE_FULL:
        return StorageFull("the disk of the database is full")
    if code == sqlite3.SQLITE_INTERRUPT:
        return StorageUnavailable(
            f"the query was stopped: it took longer than {READ_LIMIT_S:g} s, or nobody waits for it"
        )
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return StorageUnavailable(f"the database is damaged: {problem}; stop the server and run: deerflow db check")
    return None
