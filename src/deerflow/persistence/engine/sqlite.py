"""SQLite database: many readers, and one writer that commits all pending writes in one transaction."""

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event

from deerflow.domain.errors import StorageUnavailable
from deerflow.persistence.engine.database import DatabaseLocation, translate_errors
from deerflow.persistence.engine.schema import migrate
from deerflow.persistence.queries.events import LoggedEvent, build_insert

InsertStatement = tuple[str, tuple[object, ...]]
"""SQL statement of the driver, and its values."""

SLOW_APPEND_S = 0.005
PAUSE_S = 10.0
APPENDS_PER_CHECKPOINT = 1000


class Appender:
    """Connection that waits neither for a lock nor for the disk."""

    def __init__(self, file: Path, slow_s: float = SLOW_APPEND_S) -> None:
        """Open `file`. After an append that took longer than `slow_s`, the appender refuses for a while."""
        self._connection = sqlite3.connect(file, timeout=0, isolation_level=None)
        for setting in ("foreign_keys=ON", "synchronous=NORMAL", "wal_autocheckpoint=0"):
            self._connection.execute(f"PRAGMA {setting}")
        self._slow_s = slow_s
        self._avoid_until = 0.0
        self._count = 0

    def append(self, insert: InsertStatement) -> bool:
        """Execute `insert` if that is possible at once; return whether it was. If not, the caller uses a thread."""
        began = time.monotonic()
        if began < self._avoid_until:
            return False
        try:
            self._connection.execute(*insert)
        except sqlite3.OperationalError:  # locked or disk full: the thread waits, or raises the error
            return False
        if time.monotonic() - began > self._slow_s:
            self._avoid_until = began + PAUSE_S
        return True

    def is_checkpoint_due(self) -> bool:
        """Count an append; return True once per `APPENDS_PER_CHECKPOINT` calls."""
        self._count = (self._count + 1) % APPENDS_PER_CHECKPOINT
        return self._count == 0

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


T = TypeVar("T")
READ_CONNECTIONS = 4
BUSY_TIMEOUT_S = 60.0
"""Wait for a lock. A rewrite after a deletion (`Purger`) holds it for seconds in a large database."""
PURGE_LOCK_TIMEOUT_S = 5.0
CHECKPOINT_TIMEOUT_S = 0.25
"""Wait for readers of an old snapshot. Writers have to wait as long, so it is short and repeated."""
TRUNCATE_TIMEOUT_S = 5.0
RETRY_S = 0.05


@dataclass(frozen=True, slots=True)
class PendingWrite:
    """Function to run inside a transaction, and the future of its result."""

    change: Callable[[Connection], Any]
    done: asyncio.Future[Any]


class SqliteDatabase:
    """Database that runs functions of a `Connection` outside the event loop.

    Writes that arrive during a commit share the next transaction, and survive a power failure.
    """

    def __init__(self, reading: Engine, writing: Engine, appender: Appender) -> None:
        self._reading = reading
        self._writing = writing
        self._appender = appender
        self._readers = ThreadPoolExecutor(READ_CONNECTIONS, "database-reader")
        self._writer = ThreadPoolExecutor(1, "database-writer")
        self._waiting: list[PendingWrite] = []
        self._draining: asyncio.Task[None] | None = None

    async def read(self, query: Callable[[Connection], T]) -> T:
        """Run `query` and return its result."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, self._query, query)

    async def write(self, change: Callable[[Connection], T]) -> T:
        """Run `change`; it is committed when this returns."""
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append(PendingWrite(change, done))
        if self._draining is None:
            self._draining = asyncio.create_task(self._drain())
        return await done

    async def append(self, events: Sequence[LoggedEvent]) -> Collection[str]:
        """Add events. They survive a crash of the process, but not always a power failure."""
        insert = build_insert(events)
        is_free = self._draining is None  # the writer waits for the disk while it commits
        if not (is_free and self._appender.append(insert)):
            await asyncio.get_running_loop().run_in_executor(self._writer, self._insert, insert)
        if self._appender.is_checkpoint_due():
            self._writer.submit(self._checkpoint)
        return ()  # a living process keeps its runs: liveness is decided by locks, not by clocks

    async def aclose(self) -> None:
        """Commit pending writes, then close the file."""
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

    async def _commit(self, group: Sequence[PendingWrite]) -> None:
        transaction = asyncio.get_running_loop().run_in_executor(self._writer, self._transact, group)
        await asyncio.wait({transaction})
        problem = transaction.exception()
        if problem is None:
            for work, result in zip(group, transaction.result(), strict=True):
                if not work.done.done():  # the waiting task may have been cancelled
                    work.done.set_result(result)
        elif len(group) > 1:  # one of them failed: commit each alone
            for work in group:
                await self._commit([work])
        elif not group[0].done.done():
            group[0].done.set_exception(problem)

    def _transact(self, group: Sequence[PendingWrite]) -> list[Any]:
        with self._writing.connect() as connection, translate_errors(), connection.begin():
            return [work.change(connection) for work in group]

    def _insert(self, insert: InsertStatement) -> None:
        with self._writing.connect() as connection, translate_errors(), connection.begin():
            connection.exec_driver_sql(*insert)

    def _checkpoint(self) -> None:
        with self._reading.connect() as connection:
            connection.exec_driver_sql("PRAGMA wal_checkpoint(PASSIVE)")

    def _query(self, query: Callable[[Connection], T]) -> T:
        with translate_errors(), self._reading.connect() as connection:
            return query(connection)


@asynccontextmanager
async def open_sqlite(file: Path) -> AsyncIterator[SqliteDatabase]:
    """Open the database in `file`; create its tables or migrate them first.

    Raises:
        ConfigError: The file was written by a newer version of this program.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    reading = create_sqlite_engine(file, READ_CONNECTIONS, isolation_level="AUTOCOMMIT")
    writing = create_sqlite_engine(file, 1, synchronous="FULL")
    event.listen(writing, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
    try:
        await asyncio.to_thread(migrate, writing)
        async with aclosing(SqliteDatabase(reading, writing, Appender(file))) as database:
            yield database
    finally:
        reading.dispose()
        writing.dispose()


def create_sqlite_engine(
    file: Path, connections: int, *, synchronous: Literal["FULL", "NORMAL"] = "NORMAL", **options: Any
) -> Engine:
    """Return an engine whose connections begin transactions only explicitly."""
    limits = {"pool_size": connections, "max_overflow": 0, "connect_args": {"timeout": BUSY_TIMEOUT_S}}
    engine = create_engine(f"sqlite:///{file}", **limits, **options)

    def prepare(connection: sqlite3.Connection, _record: object) -> None:
        connection.isolation_level = None
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA foreign_keys=ON")
        connection.execute("PRAGMA secure_delete=ON")  # deleted and replaced content is overwritten with zeros
        connection.execute(f"PRAGMA synchronous={synchronous}")

    event.listen(engine, "connect", prepare)
    return engine


class Purger:
    """Removal of deleted content from the files of a SQLite database.

    `secure_delete` overwrites freed rows and pages with zeros. When SQLite splits or merges pages, however, it leaves
    copies of the moved rows in unused parts of pages; only `VACUUM` removes those. Concurrent calls share one rewrite.
    """

    def __init__(self, location: DatabaseLocation) -> None:
        self._files = [location, locate_checkpoints(location)] if isinstance(location, Path) else []
        self._lock = asyncio.Lock()
        self._requested = 0
        self._completed = 0

    async def purge(self) -> bool:
        """Rewrite the database files; return False when another connection prevents it.

        Does nothing for PostgreSQL, which reclaims space by itself.

        Raises:
            StorageUnavailable: A file cannot be rewritten.
        """
        self._requested += 1
        request = self._requested
        async with self._lock:
            if self._completed >= request:  # by a rewrite that began after this call
                return True
            covered = self._requested
            done = [await rewrite(file) for file in self._files if file.exists()]  # each, whatever the others return
            if not all(done):
                return False
            self._completed = covered
            return True


def locate_checkpoints(database: Path) -> Path:
    """Return the file of the checkpoints that belong to a SQLite database."""
    return database.with_name("checkpoints.db")


async def rewrite(file: Path) -> bool:
    """Rewrite one database file in a thread; return False when another connection prevents it."""
    with closing(sqlite3.connect(file, isolation_level=None, check_same_thread=False)) as connection:
        work = asyncio.ensure_future(asyncio.to_thread(vacuum, connection))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            connection.interrupt()
            await asyncio.wait({work})
            raise


def vacuum(connection: sqlite3.Connection) -> bool:
    """Run `VACUUM` and empty the write-ahead log; return False when another connection prevents it.

    Raises:
        StorageUnavailable: The file is damaged, or the disk is full.
    """
    try:
        connection.execute("PRAGMA synchronous=NORMAL")
        if not truncate_log(connection):
            return False
        connection.execute(f"PRAGMA busy_timeout={int(PURGE_LOCK_TIMEOUT_S * 1000)}")
        connection.execute("VACUUM")
        return truncate_log(connection)
    except sqlite3.DatabaseError as problem:
        if problem.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return False
        raise StorageUnavailable(f"cannot remove deleted data from the database: {problem}") from problem


def truncate_log(connection: sqlite3.Connection) -> bool:
    """Move the write-ahead log into the database file and empty it; return False when a reader prevents it."""
    connection.execute(f"PRAGMA busy_timeout={int(CHECKPOINT_TIMEOUT_S * 1000)}")
    deadline = time.monotonic() + TRUNCATE_TIMEOUT_S
    while time.monotonic() < deadline:
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)")  # most of the work, during which writers do not wait
        busy: int = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        if not busy:
            return True
        time.sleep(RETRY_S)  # another connection may be running a checkpoint, for which SQLite does not wait
    return False
