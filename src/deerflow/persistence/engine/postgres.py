"""PostgreSQL database, shared by several processes and machines."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

import psycopg
from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import DBAPIError, DisconnectionError, OperationalError

from deerflow.domain.errors import ConfigError, StorageUnavailable
from deerflow.persistence.engine.database import READ_LIMIT_S, ReadGuard, translate_errors
from deerflow.persistence.engine.schema import IdFile, migrate, read_database_id
from deerflow.persistence.queries.events import LoggedEvent, build_fenced_insert, list_owned_runs

T = TypeVar("T")
READ_CONNECTIONS = 4
WRITE_CONNECTIONS = 4
CONNECT_TIMEOUT_S = 10
IDLE_TIMEOUT_S = 10.0
"""Idle time after which the server ends a transaction, so that a frozen process does not block others."""
SELECT_ID = "SELECT database_id FROM installation"
MAX_ATTEMPTS = 5
RETRYABLE_SQLSTATES = frozenset({"23505", "40001", "40P01", "25P03"})
"""SQLSTATEs after which a transaction is retried: unique violation, serialization failure, deadlock, idle timeout.

The second attempt sees what the other transaction has committed.
"""


class PostgresDatabase:
    """Database that runs functions of a `Connection` in threads. The server does the group commit."""

    def __init__(self, reading: Engine, writing: Engine, appending: Engine, identity: "DatabaseIdentity") -> None:
        self._identity = identity
        self._reading = reading
        self._writing = writing
        self._appending = appending
        self._readers = ThreadPoolExecutor(READ_CONNECTIONS, "database-reader")
        self._writers = ThreadPoolExecutor(WRITE_CONNECTIONS, "database-writer")
        self._appender = ThreadPoolExecutor(1, "database-appender")
        self._cancellations = ThreadPoolExecutor(1, "database-cancellation")

    async def read(self, query: Callable[[Connection], T]) -> T:
        loop, guard = asyncio.get_running_loop(), ReadGuard()
        try:
            return await loop.run_in_executor(self._readers, self._query, query, guard)
        except asyncio.CancelledError:
            loop.run_in_executor(self._cancellations, guard.cancel)
            raise

    async def look_up(self, query: Callable[[Connection], T]) -> T:
        return await self.read(query)

    async def write(self, change: Callable[[Connection], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._writers, self._transact, change)

    async def append(self, events: Sequence[LoggedEvent]) -> Collection[str]:
        return await asyncio.get_running_loop().run_in_executor(self._appender, self._insert, events)

    async def aclose(self) -> None:
        for executor in (self._readers, self._writers, self._appender, self._cancellations):
            await asyncio.to_thread(executor.shutdown)

    def _query(self, query: Callable[[Connection], T], guard: ReadGuard) -> T:
        with translate_errors(), self._reading.connect() as connection:
            driver: Any = connection.connection.driver_connection
            with guard.watch(driver.cancel):
                return query(connection)

    def _transact(self, change: Callable[[Connection], T], attempts: int = MAX_ATTEMPTS) -> T:
        try:
            with translate_errors(), self._writing.begin() as connection:
                return change(connection)
        except (DBAPIError, StorageUnavailable) as problem:
            if attempts == 1 or not is_retryable(problem):
                raise
        return self._transact(change, attempts - 1)

    def _insert(self, events: Sequence[LoggedEvent]) -> Collection[str]:
        with translate_errors(), self._appending.connect() as connection:
            if connection.exec_driver_sql(*build_fenced_insert(events)).rowcount == len(events):
                return ()
            self._identity.check(connection.connection.driver_connection)  # another one has no runs of ours
            owned = list_owned_runs(connection, events)
        return {log.run_id for log in events}.difference(owned)


@asynccontextmanager
async def open_postgres(
    url: str, idle_timeout_s: float = IDLE_TIMEOUT_S, home: Path | None = None
) -> AsyncIterator[PostgresDatabase]:
    """Open the database at `url`; create its tables or migrate them first.

    Raises:
        ConfigError: It cannot be reached, is not the one used before, or was written by a newer version.
    """
    writing = create_postgres_engine(url, WRITE_CONNECTIONS)
    event.listen(writing, "connect", partial(limit_idle_transactions, idle_timeout_s))
    reading = create_postgres_engine(url, READ_CONNECTIONS)
    event.listen(reading, "connect", limit_statements)
    appending = create_postgres_engine(url, 1, isolation_level="AUTOCOMMIT")
    event.listen(appending, "connect", disable_synchronous_commit)
    try:
        with translate_connection_errors(url):
            identity = DatabaseIdentity(await asyncio.to_thread(prepare_database, writing, home))
        for engine in (writing, reading):
            event.listen(engine, "checkout", identity.check_out)
        async with aclosing(PostgresDatabase(reading, writing, appending, identity)) as database:
            yield database
    finally:
        for engine in (reading, writing, appending):
            engine.dispose()


@dataclass(frozen=True, slots=True)
class DatabaseIdentity:
    """Id of the database that was opened. Another one may be in its place later, at the same address."""

    database_id: str | None

    def check_out(self, connection: Any, _record: object, _proxy: object) -> None:
        """Check a connection before use: a change whose commit got no answer must not be retried.

        Raises:
            DisconnectionError: It is broken; the pool opens another one.
            StorageUnavailable: It leads to another database.
        """
        was_autocommit = connection.autocommit
        try:
            connection.autocommit = True
            self.check(connection)
        except psycopg.OperationalError as problem:
            raise DisconnectionError from problem
        finally:
            if not connection.closed:
                connection.autocommit = was_autocommit

    def check(self, connection: Any) -> None:
        """Raise `StorageUnavailable` when the database is another one than before, or has lost its tables."""
        try:
            row = connection.execute(SELECT_ID).fetchone()
        except psycopg.errors.UndefinedTable:
            row = None
        if row is None or row[0] != self.database_id:
            raise StorageUnavailable(
                "the database was emptied or replaced while it was in use; nothing more is written: restore it, or "
                "stop the server"
            )


def prepare_database(engine: Engine, home: Path | None) -> str | None:
    """Migrate the database, after comparing its id with the one that `home` holds. Return its id."""
    if home is None:
        migrate(engine)
        with engine.connect() as connection:
            return read_database_id(connection)
    name = engine.url.set(password=None).render_as_string()
    id_file = IdFile(home / "data" / f"postgresql-{sha256(name.encode()).hexdigest()[:16]}.id", name)
    with engine.connect() as connection:
        id_file.check(read_database_id(connection))
    migrate(engine)
    with engine.connect() as connection:
        if database_id := read_database_id(connection):
            id_file.write(database_id)
        return database_id


def create_postgres_engine(url: str, connections: int, **options: Any) -> Engine:
    """Return an engine with at most `connections` connections."""
    location = make_url(url).set(drivername="postgresql+psycopg")
    connect = {"connect_timeout": CONNECT_TIMEOUT_S, "application_name": "deerflow"}
    return create_engine(location, pool_size=connections, max_overflow=0, connect_args=connect, **options)


def disable_synchronous_commit(connection: Any, _record: object) -> None:
    """Do not wait for the disk on commit: commits survive a crash of this process, not of the server."""
    connection.execute("SET synchronous_commit TO off")
    connection.commit()


def limit_idle_transactions(seconds: float, connection: Any, _record: object) -> None:
    """Let the server end transactions that are idle for `seconds`, so that a frozen process holds no locks."""
    connection.execute(build_idle_timeout(seconds))
    connection.commit()


def limit_statements(connection: Any, _record: object) -> None:
    """Let the server stop statements that take too long."""
    connection.execute(f"SET statement_timeout TO {int(READ_LIMIT_S * 1000)}")
    connection.commit()


def build_idle_timeout(seconds: float) -> str:
    """Return the statement that limits how long a transaction may be idle."""
    return f"SET idle_in_transaction_session_timeout TO {int(seconds * 1000)}"


def is_retryable(problem: Exception) -> bool:
    """Return whether a change failed because of concurrent transactions or of the idle timeout."""
    cause = problem.__cause__ if isinstance(problem, StorageUnavailable) else problem
    return getattr(getattr(cause, "orig", None), "sqlstate", None) in RETRYABLE_SQLSTATES


@contextmanager
def translate_connection_errors(url: str) -> Iterator[None]:
    """Raise connection errors as `ConfigError` with the URL of the server, without its password."""
    try:
        yield
    except OperationalError as problem:
        location = make_url(url).render_as_string(hide_password=True)
        raise ConfigError(f"database.url: cannot use {location}: {problem.orig}") from problem
