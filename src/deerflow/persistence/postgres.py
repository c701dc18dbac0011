"""PostgreSQL: several processes, also on several machines, share one database."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, asynccontextmanager, contextmanager
from functools import partial
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import DBAPIError, OperationalError

from deerflow.domain.errors import ConfigError, StorageUnavailable
from deerflow.persistence.events import LoggedEvent, fenced_insertion, still_owned
from deerflow.persistence.failures import naming_failures
from deerflow.persistence.schema import bring_up_to_date

T = TypeVar("T")
READERS = 4
WRITERS = 4
CONNECT_TIMEOUT_S = 10
FROZEN_S = 10.0
"""Whoever is silent for so long in the middle of a transaction is frozen; others must not wait for what it holds."""
ATTEMPTS = 5
WORTH_ANOTHER_TRY = frozenset({"23505", "40001", "40P01", "25P03"})
"""A key that is taken, or two who wait for each other: whoever looks again sees what the other has done.

And whoever was frozen for too long: nothing of the change is there, and if it is somebody else's turn now, that tells.
"""


class PostgresDatabase:
    """Runs functions of a `Connection` in threads. The server itself commits together what comes together."""

    def __init__(self, reading: Engine, writing: Engine, appending: Engine) -> None:
        self._reading = reading
        self._writing = writing
        self._appending = appending
        self._readers = ThreadPoolExecutor(READERS, "database-reader")
        self._writers = ThreadPoolExecutor(WRITERS, "database-writer")
        self._appender = ThreadPoolExecutor(1, "database-appender")

    async def read(self, query: Callable[[Connection], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._readers, self._query, query)

    async def write(self, change: Callable[[Connection], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._writers, self._transact, change)

    async def append(self, events: Sequence[LoggedEvent]) -> Collection[str]:
        return await asyncio.get_running_loop().run_in_executor(self._appender, self._insert, events)

    async def aclose(self) -> None:
        for executor in (self._readers, self._writers, self._appender):
            await asyncio.to_thread(executor.shutdown)

    def _query(self, query: Callable[[Connection], T]) -> T:
        with naming_failures(), self._reading.connect() as connection:
            return query(connection)

    def _transact(self, change: Callable[[Connection], T], attempts: int = ATTEMPTS) -> T:
        try:
            with naming_failures(), self._writing.begin() as connection:
                return change(connection)
        except (DBAPIError, StorageUnavailable) as problem:
            if attempts == 1 or not is_worth_another_try(problem):
                raise
        return self._transact(change, attempts - 1)

    def _insert(self, events: Sequence[LoggedEvent]) -> Collection[str]:
        with naming_failures(), self._appending.connect() as connection:
            if connection.exec_driver_sql(*fenced_insertion(events)).rowcount == len(events):
                return ()
            owned = still_owned(connection, events)
        return {log.run_id for log in events}.difference(owned)


@asynccontextmanager
async def open_postgres(url: str, frozen_s: float = FROZEN_S) -> AsyncIterator[PostgresDatabase]:
    """The database at `url`, its tables made or brought up to date first.

    Raises:
        ConfigError: it cannot be reached, or was written by a newer version of this program.
    """
    # A closed connection is noticed before it is used: a change whose commit got no answer is not tried twice.
    writing = postgres_engine(url, WRITERS, pool_pre_ping=True)
    event.listen(writing, "connect", partial(hold_nothing_when_frozen, frozen_s))
    reading = postgres_engine(url, READERS, pool_pre_ping=True)
    appending = postgres_engine(url, 1, isolation_level="AUTOCOMMIT")
    event.listen(appending, "connect", forgo_waiting_for_the_disk)
    try:
        with naming_the_server(url):
            await asyncio.to_thread(bring_up_to_date, writing)
        async with aclosing(PostgresDatabase(reading, writing, appending)) as database:
            yield database
    finally:
        for engine in (reading, writing, appending):
            engine.dispose()


def postgres_engine(url: str, connections: int, **options: Any) -> Engine:
    """An engine with at most so many connections."""
    place = make_url(url).set(drivername="postgresql+psycopg")
    connect = {"connect_timeout": CONNECT_TIMEOUT_S, "application_name": "deerflow"}
    return create_engine(place, pool_size=connections, max_overflow=0, connect_args=connect, **options)


def forgo_waiting_for_the_disk(connection: Any, _record: object) -> None:
    """Have commits survive the death of this process, but perhaps not of the server."""
    connection.execute("SET synchronous_commit TO off")
    connection.commit()


def hold_nothing_when_frozen(seconds: float, connection: Any, _record: object) -> None:
    """Have the server end a transaction that nobody goes on with, so that a frozen process keeps no locks."""
    connection.execute(idle_limit(seconds))
    connection.commit()


def idle_limit(seconds: float) -> str:
    """What tells the server how long a transaction may be silent."""
    return f"SET idle_in_transaction_session_timeout TO {int(seconds * 1000)}"


def is_worth_another_try(problem: Exception) -> bool:
    """Whether a change failed for what others did at the same time, or for being late."""
    cause = problem.__cause__ if isinstance(problem, StorageUnavailable) else problem
    return getattr(getattr(cause, "orig", None), "sqlstate", None) in WORTH_ANOTHER_TRY


@contextmanager
def naming_the_server(url: str) -> Iterator[None]:
    """Say which server cannot be used, without the password."""
    try:
        yield
    except OperationalError as problem:
        place = make_url(url).render_as_string(hide_password=True)
        raise ConfigError(f"database.url: {place} cannot be used: {problem.orig}") from problem
