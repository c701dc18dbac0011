"""SQLite database: many readers, and one writer that commits all pending writes in one transaction."""

import asyncio
import errno
import os
import shutil
import sqlite3
import sys
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError

from deerflow.domain.errors import StorageFull, StorageUnavailable
from deerflow.persistence.engine.database import LoopConnection, ReadGuard, translate_errors
from deerflow.persistence.engine.schema import DatabaseFile, IdFile, locate_id_file, migrate, read_database_id
from deerflow.persistence.queries.events import LoggedEvent, build_insert

InsertStatement = tuple[str, tuple[object, ...]]
"""SQL statement of the driver, and its values."""

SLOW_APPEND_S = 0.005
PAUSE_S = 10.0
APPENDS_PER_CHECKPOINT = 1000
CACHE_SIZE = "cache_size=-128"
"""Setting of a connection: at most 128 kB of pages in memory. The system caches files as well."""
QUERY_CACHE_SIZE = "cache_size=-256"
"""Setting of a connection for queries that read many pages, such as search."""
FULL_BYTES = 256 * 1024
"""Free space below which an unspecific failure of SQLite is taken for a full disk."""


class DeferredRows(Protocol):
    """Rows of another file that are written with the next events, and before any other write."""

    @property
    def file(self) -> Path:
        """The other file."""

    def peek(self) -> Sequence[InsertStatement] | None:
        """Return the rows that wait, None if they have to be written by `flush`."""

    def mark_written(self) -> None:
        """Forget the rows that wait: they are committed."""

    async def flush(self) -> None:
        """Write the rows that wait."""


class Appender:
    """Connection that waits neither for a lock nor for the disk."""

    def __init__(self, file: Path, slow_s: float = SLOW_APPEND_S) -> None:
        """Open `file`. After an append that took longer than `slow_s`, the appender refuses for a while."""
        self._connection = sqlite3.connect(file, timeout=0, isolation_level=None)
        for setting in (
            "foreign_keys=ON",
            "synchronous=NORMAL",
            "secure_delete=ON",
            "wal_autocheckpoint=0",
            CACHE_SIZE,
        ):
            self._connection.execute(f"PRAGMA {setting}")
        self._slow_s = slow_s
        self._avoid_until = 0.0
        self._count = 0

    def attach(self, file: Path) -> None:
        """Make the tables of another database available, under names that this one does not have."""
        self._connection.execute("ATTACH DATABASE ? AS other", (str(file),))
        for setting in ("synchronous=NORMAL", "secure_delete=ON", CACHE_SIZE):
            self._connection.execute(f"PRAGMA other.{setting}")

    def append(self, *inserts: InsertStatement) -> bool:
        """Execute `inserts` if that is possible at once; return whether it was. If not, the caller uses a thread."""
        began = time.monotonic()
        if began < self._avoid_until:
            return False
        try:
            execute_all(self._connection, inserts)
        except sqlite3.OperationalError:  # locked or disk full: the thread waits, or raises the error
            return False
        if time.monotonic() - began > self._slow_s:
            self._avoid_until = began + PAUSE_S
        return True

    def has_event(self, run_id: str, seq: int) -> bool:
        """Return whether an event is committed. A failed append of several files may have committed the first."""
        with suppress(sqlite3.OperationalError):
            query = "SELECT 1 FROM run_events WHERE run_id = ? AND seq = ?"
            return self._connection.execute(query, (run_id, seq)).fetchone() is not None
        return False

    def is_checkpoint_due(self) -> bool:
        """Count an append; return True once per `APPENDS_PER_CHECKPOINT` calls."""
        self._count = (self._count + 1) % APPENDS_PER_CHECKPOINT
        return self._count == 0

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def execute_all(connection: sqlite3.Connection, inserts: Sequence[InsertStatement]) -> None:
    """Execute statements in one transaction of a connection that commits each by itself."""
    if len(inserts) == 1:
        connection.execute(*inserts[0])
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        for insert in inserts:
            connection.execute(*insert)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


T = TypeVar("T")
READ_CONNECTIONS = 4
STEPS_PER_CHECK = 100_000
"""Steps of SQLite's virtual machine, some milliseconds, after which it is asked whether to go on with a query."""
BUSY_TIMEOUT_S = 60.0
"""Wait for a lock. A rewrite after a deletion (`Purger`) holds it for seconds in a large database."""


@dataclass(frozen=True, slots=True)
class PendingWrite:
    """Function to run inside a transaction, and the future of its result."""

    change: Callable[[Connection], Any]
    done: asyncio.Future[Any]


class SqliteDatabase:
    """Database that runs functions of a `Connection` outside the event loop.

    Writes that arrive during a commit share the next transaction, and survive a power failure.
    """

    def __init__(self, reading: Engine, writing: Engine, appender: Appender, file: DatabaseFile) -> None:
        self._reading = reading
        self._writing = writing
        self._quick = LoopConnection(reading, PAUSE_S)
        self._appender = appender
        self._file = file
        self._readers = ThreadPoolExecutor(READ_CONNECTIONS, "database-reader")
        self._writer = ThreadPoolExecutor(1, "database-writer")
        self._waiting: list[PendingWrite] = []
        self._draining: asyncio.Task[None] | None = None
        self._inserting = 0
        self._deferred: DeferredRows | None = None

    def attach(self, rows: DeferredRows) -> None:
        """Write these rows in the transaction of the next events."""
        self._appender.attach(rows.file)
        self._deferred = rows

    async def read(self, query: Callable[[Connection], T]) -> T:
        """Run `query` and return its result; stop it when the caller is cancelled."""
        guard = ReadGuard()
        try:
            return await asyncio.get_running_loop().run_in_executor(self._readers, self._query, query, guard)
        except asyncio.CancelledError:
            guard.cancel()
            raise

    async def look_up(self, query: Callable[[Connection], T]) -> T:
        """Run a short `query` on the event loop if possible, and return its result."""
        found = self._quick.try_query(query)
        return await self.read(query) if found is None else found[0]

    async def write(self, change: Callable[[Connection], T]) -> T:
        """Run `change`; it is committed when this returns."""
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append(PendingWrite(change, done))
        if self._draining is None:
            self._draining = asyncio.create_task(self._drain())
        return await done

    async def append(self, events: Sequence[LoggedEvent]) -> Collection[str]:
        """Add events. They survive a crash of the process, but not always a power failure."""
        self._file.check()
        insert = build_insert(events)
        if not self._append_at_once(events[0], insert):
            await self._flush_deferred()
            self._inserting += 1
            try:
                await asyncio.get_running_loop().run_in_executor(self._writer, self._insert, insert)
            finally:
                self._inserting -= 1
        if self._appender.is_checkpoint_due():
            self._writer.submit(self._checkpoint)
        return ()  # a living process keeps its runs: liveness is decided by locks, not by clocks

    def _append_at_once(self, first: LoggedEvent, insert: InsertStatement) -> bool:
        """Add events together with rows that wait, if that is possible at once; return whether the events are added.

        Each file is committed by itself, that of the events first: if the other is full, only the rows still wait.
        """
        if self._draining is not None:  # the writer waits for the disk while it commits
            return False
        rows = self._deferred.peek() if self._deferred else ()
        try:
            if rows is None or not self._appender.append(*rows, insert):
                return bool(rows) and self._appender.has_event(first.run_id, first.event.seq)
        except sqlite3.Error:
            if rows:  # one of them may be refused, which must not keep events out
                return False
            raise
        if self._deferred:
            self._deferred.mark_written()
        return True

    async def _flush_deferred(self) -> None:
        """Write rows that wait before what follows from them."""
        if self._deferred is not None:
            await self._deferred.flush()

    async def aclose(self) -> None:
        """Commit pending writes, then close the file."""
        if self._draining is not None:
            await self._draining
        for executor in (self._readers, self._writer):
            await asyncio.to_thread(executor.shutdown)
        self._quick.close()
        self._appender.close()

    async def _drain(self) -> None:
        while self._waiting:
            group, self._waiting = self._waiting, []
            await self._commit(group)
        self._draining = None

    async def _commit(self, group: Sequence[PendingWrite]) -> None:
        try:
            await self._flush_deferred()
        except StorageUnavailable as refusal:
            for work in group:
                if not work.done.done():
                    work.done.set_exception(refusal)
            return
        transaction = asyncio.get_running_loop().run_in_executor(self._writer, self._transact, group)
        await asyncio.wait({transaction})
        problem = transaction.exception()
        if problem is None:
            results = transaction.result()
            self._waiting[:0] = group[len(results) :]
            for work, result in zip(group, results, strict=False):
                if not work.done.done():  # the waiting task may have been cancelled
                    work.done.set_result(result)
        elif len(group) > 1:  # one of them failed: commit each alone
            for work in group:
                await self._commit([work])
        elif not group[0].done.done():
            group[0].done.set_exception(problem)

    def _transact(self, group: Sequence[PendingWrite]) -> list[Any]:
        """Apply changes in one transaction. Those that are left when events wait come after the events."""
        with self._writing.connect() as connection, translate_errors(), connection.begin():
            results = [group[0].change(connection)]
            for work in group[1:]:
                if self._inserting:
                    break
                results.append(work.change(connection))
            self._file.check()
            return results

    def _insert(self, insert: InsertStatement) -> None:
        with self._writing.connect() as connection, translate_errors(), connection.begin():
            connection.exec_driver_sql(*insert)

    def _checkpoint(self) -> None:
        with self._reading.connect() as connection:
            connection.exec_driver_sql("PRAGMA wal_checkpoint(PASSIVE)")

    def _query(self, query: Callable[[Connection], T], guard: ReadGuard) -> T:
        with translate_errors(), self._reading.connect() as connection, guard.watch():
            driver: Any = connection.connection.driver_connection
            driver.set_progress_handler(guard.is_over, STEPS_PER_CHECK)
            try:
                return query(connection)
            finally:
                driver.set_progress_handler(None, 0)


@asynccontextmanager
async def open_sqlite(file: Path) -> AsyncIterator[SqliteDatabase]:
    """Open the database in `file`; create its tables or migrate them first.

    Raises:
        ConfigError: The file is not the one used before, or was written by a newer version of this program.
        StorageUnavailable: The file is damaged, or cannot be read or written.
    """
    with translate_open_errors(file):
        create_folder(file)
    reading = create_sqlite_engine(file, READ_CONNECTIONS + 1, isolation_level="AUTOCOMMIT")
    writing = create_sqlite_engine(file, 1, synchronous="FULL")
    event.listen(writing, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
    try:
        with translate_open_errors(file):
            await asyncio.to_thread(prepare_database, writing, locate_id_file(file))
            database = SqliteDatabase(reading, writing, Appender(file), DatabaseFile(file))
        async with aclosing(database):
            yield database
    finally:
        reading.dispose()
        writing.dispose()


def create_folder(file: Path) -> None:
    """Create the folder of a database file. Nothing may be created in place of a file that is missing or empty.

    Raises:
        ConfigError: The file is missing or empty, but was used before.
    """
    if not file.exists() or not file.stat().st_size:
        locate_id_file(file).check(None)
    file.parent.mkdir(parents=True, exist_ok=True)


def prepare_database(engine: Engine, id_file: IdFile) -> None:
    """Migrate the database, after comparing its id with the one in `id_file`."""
    if id_file.read() is not None:
        with engine.connect() as connection:
            id_file.check(read_database_id(connection))
    migrate(engine)
    with engine.connect() as connection:
        if database_id := read_database_id(connection):
            id_file.write(database_id)


@contextmanager
def translate_open_errors(file: Path) -> Iterator[None]:
    """Raise errors of opening a database file as one sentence with the remedy."""
    try:
        yield
    except (OSError, sqlite3.Error, DBAPIError) as problem:
        cause = problem.orig if isinstance(problem, DBAPIError) else problem
        raise explain_open_error(file, cause or problem) from problem


def explain_open_error(file: Path, problem: BaseException) -> StorageUnavailable:
    """Return the error for a database file that cannot be opened."""
    folder = next(each for each in file.parents if each.exists())
    code = getattr(problem, "sqlite_errorcode", 0) & 0xFF
    is_full = code == sqlite3.SQLITE_FULL or getattr(problem, "errno", None) in (errno.ENOSPC, errno.EDQUOT)
    # SQLite reports some failures on a full disk as "disk I/O error" only.
    if is_full or (code == sqlite3.SQLITE_IOERR and shutil.disk_usage(folder).free < FULL_BYTES):
        return StorageFull(
            f"the disk of {str(folder)!r} is full; free some space, or set DEER_FLOW_HOME to another disk"
        )
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return StorageUnavailable(f"database {str(file)!r} is damaged ({problem}); run: deerflow db repair")
    if code == sqlite3.SQLITE_BUSY:
        return StorageUnavailable(f"database {str(file)!r} is locked by another program; close it and try again")
    if not can_write(folder) or (file.exists() and not os.access(file, os.W_OK)):
        return StorageUnavailable(
            f"{str(folder)!r} cannot be written; change that, or set DEER_FLOW_HOME to another folder"
        )
    return StorageUnavailable(f"cannot open database {str(file)!r}: {problem}")


def can_write(folder: Path) -> bool:
    """Return whether this user may create files in `folder`, on a file system that is not read-only."""
    is_read_only = sys.platform != "win32" and os.statvfs(folder).f_flag & os.ST_RDONLY
    return not is_read_only and os.access(folder, os.W_OK | os.X_OK)


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
        connection.execute(f"PRAGMA {QUERY_CACHE_SIZE}")

    event.listen(engine, "connect", prepare)
    return engine


def locate_checkpoints(database: Path) -> Path:
    """Return the file of the checkpoints that belong to a SQLite database."""
    return database.with_name("checkpoints.db")
