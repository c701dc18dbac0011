"""SQLite: many readers, and one writer that commits whatever is waiting in one transaction."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event

from deerflow.persistence.appender import Appender, Insert
from deerflow.persistence.events import LoggedEvent, insertion
from deerflow.persistence.failures import naming_failures
from deerflow.persistence.schema import bring_up_to_date

T = TypeVar("T")
READERS = 4
BUSY_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Work:
    """Something to do inside a transaction, and who waits for it."""

    change: Callable[[Connection], Any]
    done: asyncio.Future[Any]


class SqliteDatabase:
    """Runs functions of a `Connection` off the event loop.

    Writes that arrive while one is being committed share the next transaction, and survive a power failure.
    """

    def __init__(self, reading: Engine, writing: Engine, appender: Appender) -> None:
        self._reading = reading
        self._writing = writing
        self._appender = appender
        self._readers = ThreadPoolExecutor(READERS, "database-reader")
        self._writer = ThreadPoolExecutor(1, "database-writer")
        self._waiting: list[Work] = []
        self._draining: asyncio.Task[None] | None = None

    async def read(self, query: Callable[[Connection], T]) -> T:
        """What `query` finds."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, self._query, query)

    async def write(self, change: Callable[[Connection], T]) -> T:
        """Carry out `change`; it is committed when this returns."""
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append(Work(change, done))
        if self._draining is None:
            self._draining = asyncio.create_task(self._drain())
        return await done

    async def append(self, events: Sequence[LoggedEvent]) -> Collection[str]:
        """Add events. They survive the death of the process, but perhaps not a power failure."""
        insert = insertion(events)
        is_free = self._draining is None  # the writer waits for the disk while it commits
        if not (is_free and self._appender.append(insert)):
            await asyncio.get_running_loop().run_in_executor(self._writer, self._insert, insert)
        if self._appender.is_checkpoint_due():
            self._writer.submit(self._checkpoint)
        return ()  # whoever lives keeps its runs: a lock on the same machine says so, and no clock

    async def aclose(self) -> None:
        """Commit what is waiting, then let go of the file."""
        if self._draining is not None:
            await self._draining
        for executor in (self._readers, self._writer):
            await asyncio.to_thread(executor.shutdown)
        self._appender.close()

    async def _drain(self) -> None:
        while self._waiting:
            group, self._waiting = self._waiting, []
            await self._commit(group)
        self._draining = None

    async def _commit(self, group: Sequence[Work]) -> None:
        transaction = asyncio.get_running_loop().run_in_executor(self._writer, self._transact, group)
        await asyncio.wait({transaction})
        problem = transaction.exception()
        if problem is None:
            for work, result in zip(group, transaction.result(), strict=True):
                if not work.done.done():  # whoever waited may have been cancelled
                    work.done.set_result(result)
        elif len(group) > 1:  # one of them is at fault: let each stand alone
            for work in group:
                await self._commit([work])
        elif not group[0].done.done():
            group[0].done.set_exception(problem)

    def _transact(self, group: Sequence[Work]) -> list[Any]:
        with self._writing.connect() as connection, naming_failures(), connection.begin():
            return [work.change(connection) for work in group]

    def _insert(self, insert: Insert) -> None:
        with self._writing.connect() as connection, naming_failures(), connection.begin():
            connection.exec_driver_sql(*insert)

    def _checkpoint(self) -> None:
        with self._reading.connect() as connection:
            connection.exec_driver_sql("PRAGMA wal_checkpoint(PASSIVE)")

    def _query(self, query: Callable[[Connection], T]) -> T:
        with naming_failures(), self._reading.connect() as connection:
            return query(connection)


@asynccontextmanager
async def open_sqlite(file: Path) -> AsyncIterator[SqliteDatabase]:
    """The database in `file`, made or brought up to date first.

    Raises:
        ConfigError: the file was written by a newer version of this program.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    reading = sqlite_engine(file, READERS, isolation_level="AUTOCOMMIT")
    writing = sqlite_engine(file, 1, synchronous="FULL")
    event.listen(writing, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
    try:
        await asyncio.to_thread(bring_up_to_date, writing)
        async with aclosing(SqliteDatabase(reading, writing, Appender(file))) as database:
            yield database
    finally:
        reading.dispose()
        writing.dispose()


def sqlite_engine(
    file: Path, connections: int, *, synchronous: Literal["FULL", "NORMAL"] = "NORMAL", **options: Any
) -> Engine:
    """An engine whose connections begin transactions only when told to."""
    limits = {"pool_size": connections, "max_overflow": 0, "connect_args": {"timeout": BUSY_TIMEOUT_S}}
    engine = create_engine(f"sqlite:///{file}", **limits, **options)

    def prepare(connection: sqlite3.Connection, _record: object) -> None:
        connection.isolation_level = None
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA foreign_keys=ON")
        connection.execute("PRAGMA secure_delete=ON")  # what is deleted or replaced is zeroed
        connection.execute(f"PRAGMA synchronous={synchronous}")

    event.listen(engine, "connect", prepare)
    return engine
