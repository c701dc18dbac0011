"""Checkpoints of graphs in a SQLite file, and the choice of the checkpointer."""

import inspect
import json
import sqlite3
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, cast

import aiosqlite
import orjson
from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from deerflow.config.imports import require_extra
from deerflow.domain.errors import ConfigError, StorageUnavailable
from deerflow.persistence.checkpoints import (
    RUN_KEY,
    WRITER_KEY,
    CheckpointWriter,
    VersionedSaver,
    add_version,
    create_serializer,
    follow_checkpoint,
    read_version,
)
from deerflow.persistence.checkpoints.inserter import CheckpointInserter
from deerflow.persistence.engine.database import Database, DatabaseLocation, translate_driver_errors
from deerflow.persistence.engine.schema import DatabaseFile, IdFile, locate_id_file
from deerflow.persistence.engine.sqlite import (
    BUSY_TIMEOUT_S,
    CACHE_SIZE,
    PAUSE_S,
    InsertStatement,
    SqliteDatabase,
    create_folder,
    locate_checkpoints,
    translate_open_errors,
)

SELECT_LATEST = """
SELECT metadata, checkpoint_id FROM checkpoints
WHERE thread_id = ? AND checkpoint_ns = '' ORDER BY checkpoint_id DESC LIMIT 1
"""
INSERT_CHECKPOINT = """
INSERT OR REPLACE INTO checkpoints
(thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata)
VALUES (?, ?, ?, ?, ?, ?, ?)
"""
INSERT_WRITE = """
INSERT OR {} INTO writes (thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, value)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
SLOW_READ_S = 0.02
"""Time of a read, with the parsing of the state, from which on checkpoints are read in a thread for a while."""
RUN_OF_CHECKPOINT = f"json_extract(CAST(metadata AS TEXT), '$.{RUN_KEY}')"


def open_checkpointer(
    location: DatabaseLocation, database: Database | None = None
) -> AbstractAsyncContextManager[BaseCheckpointSaver[str]]:
    """Open the checkpointer of the database at `location`: a SQLite file next to it, or tables of the same server.

    With `database`, the opened one, checkpoints in SQLite are committed together with its events.
    """
    if isinstance(location, Path):
        journal = database if isinstance(database, SqliteDatabase) else None
        return open_sqlite_checkpoints(locate_checkpoints(location), locate_id_file(location).read(), journal)
    with require_extra("postgres", "database.url"):
        from deerflow.persistence.checkpoints.postgres import open_postgres_checkpoints
    return open_postgres_checkpoints(location)


class LoopCursor:
    """Cursor with the interface of `aiosqlite` that reads on the event loop: a hand-over to a thread takes longer."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._cursor = connection.cursor()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._cursor.close()

    async def execute(self, statement: str, values: Sequence[object] = ()) -> None:
        """Execute a query."""
        self._cursor.execute(statement, values)

    async def fetchone(self) -> Any:
        """Return the next row, None if there is no more."""
        return self._cursor.fetchone()

    async def fetchall(self) -> list[Any]:
        """Return all other rows."""
        return self._cursor.fetchall()


class LoopReader(VersionedSaver, AsyncSqliteSaver):
    """Reads single checkpoints on the event loop, until the disk is slow."""

    def __init__(self, file: Path, slow_s: float = SLOW_READ_S) -> None:
        """Open `file`, which has its tables. After a read that took longer than `slow_s` it refuses for a while."""
        self._file = sqlite3.connect(file, timeout=0, isolation_level=None)
        self._file.executescript(f"PRAGMA query_only=ON; PRAGMA {CACHE_SIZE}")
        # The saver needs nothing but cursors to read a checkpoint.
        super().__init__(cast(aiosqlite.Connection, self), serde=create_serializer())
        self.is_setup = True
        self._slow_s = slow_s
        self._avoid_until = 0.0

    def cursor(self) -> LoopCursor:
        """Return a cursor."""
        return LoopCursor(self._file)

    @property
    def is_fast(self) -> bool:
        """Whether the last reads were fast."""
        return time.monotonic() >= self._avoid_until

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return a checkpoint."""
        began = time.monotonic()
        try:
            return await super().aget_tuple(config)
        finally:
            if (now := time.monotonic()) - began > self._slow_s:
                self._avoid_until = now + PAUSE_S

    def read_latest(self, thread_id: str) -> tuple[bytes, str] | None:
        """Return metadata and id of the latest checkpoint of a thread."""
        found: tuple[bytes, str] | None = self._file.execute(SELECT_LATEST, (thread_id,)).fetchone()
        return found

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class SqliteCheckpoints(VersionedSaver, AsyncSqliteSaver):
    """LangGraph's SQLite checkpointer with state versions, deletion by run, named errors and a faster writer."""

    inserter: CheckpointInserter
    reader: LoopReader
    """Both are set when the tables exist."""

    def __init__(self, connection: aiosqlite.Connection, file: Path) -> None:
        super().__init__(connection, serde=create_serializer())
        self.guard = DatabaseFile(file)

    async def check_storage(self) -> None:
        """Raise `StorageUnavailable` when the file was moved away or cannot be read."""
        self.guard.check()
        with translate_driver_errors():
            async with self.lock, self.conn.execute("SELECT 1 FROM checkpoints LIMIT 1"):
                pass

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return a checkpoint."""
        await self.inserter.flush_for_reading()
        with translate_driver_errors():
            if self.reader.is_fast:
                with suppress(sqlite3.OperationalError):  # locked: the thread waits
                    return await self.reader.aget_tuple(config)
            return await super().aget_tuple(config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Yield checkpoints, newest first."""
        await self.inserter.flush_for_reading()
        async for found in super().alist(config, filter=filter, before=before, limit=limit):
            yield found

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint with its state version."""
        thread_id, namespace = str(config["configurable"]["thread_id"]), config["configurable"]["checkpoint_ns"]
        kind, state = self.serde.dumps_typed(checkpoint)
        about = json.dumps(get_checkpoint_metadata(config, add_version(metadata)), ensure_ascii=False)
        parent = config["configurable"].get("checkpoint_id")
        values = (thread_id, namespace, checkpoint["id"], parent, kind, state, about.encode(errors="ignore"))
        await self._insert(config, (INSERT_CHECKPOINT, values))
        return {"configurable": {"thread_id": thread_id, "checkpoint_ns": namespace, "checkpoint_id": checkpoint["id"]}}

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store the writes of a task."""
        place = [str(config["configurable"][key]) for key in ("thread_id", "checkpoint_ns", "checkpoint_id")]
        is_special = all(channel in WRITES_IDX_MAP for channel, _ in writes)
        statement = INSERT_WRITE.format("REPLACE" if is_special else "IGNORE")
        rows = (
            (*place, task_id, task_path, WRITES_IDX_MAP.get(channel, index), channel, *self.serde.dumps_typed(value))
            for index, (channel, value) in enumerate(writes)
        )
        await self._insert(config, *((statement, row) for row in rows))

    # LangGraph asks for it at the start of every run, and to derive it takes a third of a millisecond.
    aput_writes.__signature__ = inspect.signature(aput_writes)  # type: ignore[attr-defined]

    async def _insert(self, config: RunnableConfig, *inserts: InsertStatement) -> None:
        """Write rows: those of a run with its next events, others at once."""
        writer: CheckpointWriter | None = config["configurable"].get(WRITER_KEY)
        if writer is None:
            await self.inserter.insert(*inserts)
        else:
            self.inserter.add(*inserts, run_id=writer.run_id)

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete the checkpoints of a thread."""
        async with self._write():
            await super().adelete_thread(thread_id)

    async def state_version(self, thread_id: str) -> int | None:
        """Return the version of a thread's state, None when it has none; refuse when the file was moved away."""
        self.guard.check()
        await self.inserter.flush_for_reading()
        with translate_driver_errors():
            row = await self._read_latest(thread_id)
        if row is None:
            return None
        follow_checkpoint(row[1])
        return read_version(orjson.loads(row[0]))

    async def _read_latest(self, thread_id: str) -> tuple[bytes, str] | None:
        """Return metadata and id of the latest checkpoint of a thread."""
        with suppress(sqlite3.OperationalError):  # locked: the thread waits
            return self.reader.read_latest(thread_id)
        async with self.lock, self.conn.execute(SELECT_LATEST, (thread_id,)) as cursor:
            found: Any = await cursor.fetchone()
            return found  # type: ignore[no-any-return]

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints that runs have written, and their pending writes."""
        await self.setup()
        values = ",".join("?" * len(run_ids))
        written = (
            f"SELECT thread_id, checkpoint_ns, checkpoint_id FROM checkpoints WHERE {RUN_OF_CHECKPOINT} IN ({values})"
        )
        async with self._write(), self.lock:
            for table in ("writes", "checkpoints"):
                where = f"(thread_id, checkpoint_ns, checkpoint_id) IN ({written})"
                await self.conn.execute(f"DELETE FROM {table} WHERE {where}", tuple(run_ids))
            await self.conn.commit()

    @asynccontextmanager
    async def _write(self) -> AsyncIterator[None]:
        """Check the file before a change; roll back what the database refuses."""
        self.guard.check()
        await self.inserter.flush()
        try:
            with translate_driver_errors():
                yield
        except StorageUnavailable:
            async with self.lock:
                with suppress(sqlite3.Error):
                    await self.conn.rollback()
            raise


@asynccontextmanager
async def open_sqlite_checkpoints(
    file: Path, database_id: str | None = None, database: SqliteDatabase | None = None
) -> AsyncIterator[SqliteCheckpoints]:
    """Open a checkpointer that stores its data in `file`, which belongs to the database with that id.

    Raises:
        ConfigError: The file is missing, or belongs to another database.
        StorageUnavailable: The file is damaged, or cannot be read or written.
    """
    with translate_open_errors(file):
        create_folder(file)
    async with aiosqlite.connect(file, timeout=BUSY_TIMEOUT_S) as connection:
        with translate_open_errors(file):
            # The journal is what must survive a power failure; checkpoints need only survive the process.
            for setting in ("synchronous=NORMAL", "secure_delete=ON", CACHE_SIZE):
                await connection.execute(f"PRAGMA {setting}")
            saver = SqliteCheckpoints(connection, file)
            await saver.setup()
            if database_id is not None:
                await check_id(connection, locate_id_file(file), database_id)
            saver.inserter, saver.reader = CheckpointInserter(file, saver.guard), LoopReader(file)
            if database is not None:
                database.attach(saver.inserter)
        try:
            yield saver
        finally:
            await saver.inserter.aclose()
            saver.reader.close()


async def check_id(connection: aiosqlite.Connection, id_file: IdFile, database_id: str) -> None:
    """Store the id of the database in the file of the checkpoints, or compare it with the one that is stored there.

    Raises:
        ConfigError: The file belongs to another database, or was emptied.
    """
    await connection.execute("CREATE TABLE IF NOT EXISTS installation (database_id TEXT PRIMARY KEY)")
    async with connection.execute("SELECT database_id FROM installation") as cursor:
        row = await cursor.fetchone()
    if row is None:
        id_file.check(None)
        await connection.execute("INSERT INTO installation VALUES (?)", (database_id,))
        await connection.commit()
    elif row[0] != database_id:
        raise ConfigError(
            f"checkpoints {id_file.database} belong to the database with id {row[0]}, not to the one with id "
            f"{database_id} next to it; restore both files from the same backup, or move the checkpoints and "
            f"{id_file.path.name!r} away to go on without the history that models see"
        )
    id_file.write(database_id)


@dataclass(frozen=True, slots=True)
class PublicThread:
    """A thread in a SQLite file of the public DeerFlow."""

    file: Path
    thread_id: str
    title: str | None = None

    def read_messages(self) -> list[BaseMessage]:
        """Return the messages of the latest state. Blocks.

        Raises:
            StorageUnavailable: There are none, or they cannot be read.
        """
        with open_public_database(self.file) as connection:
            kind, state = connection.execute(SELECT_PUBLIC_STATE, (self.thread_id,)).fetchone()
            values = create_serializer().loads_typed((kind, state)).get("channel_values", {})
        if "messages" not in values:
            raise StorageUnavailable("the latest state holds no messages; only states in full mode can be read")
        return [message for message in values["messages"] if isinstance(message, BaseMessage)]


SELECT_PUBLIC_THREADS = """
SELECT thread_id FROM checkpoints WHERE checkpoint_ns = '' GROUP BY thread_id ORDER BY max(checkpoint_id)
"""
SELECT_PUBLIC_STATE = """
SELECT type, checkpoint FROM checkpoints
WHERE thread_id = ? AND checkpoint_ns = '' ORDER BY checkpoint_id DESC LIMIT 1
"""


def list_public_threads(file: Path, user: str | None) -> list[PublicThread]:
    """Return the threads of a user in a SQLite file of the public DeerFlow, oldest first. Blocks.

    Raises:
        StorageUnavailable: The file is no database, or has other tables.
    """
    with open_public_database(file) as connection:
        titles = read_public_titles(connection, user)
        threads = [thread_id for (thread_id,) in connection.execute(SELECT_PUBLIC_THREADS)]
    if titles is None:
        return [PublicThread(file, thread_id) for thread_id in threads]
    return [PublicThread(file, thread_id, titles[thread_id]) for thread_id in threads if thread_id in titles]


def read_public_titles(connection: sqlite3.Connection, user: str | None) -> dict[str, str | None] | None:
    """Return the titles of the user's threads by id; None if the file does not know who owns a thread."""
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if "threads_meta" not in tables:
        return None
    rows = connection.execute("SELECT thread_id, display_name, user_id FROM threads_meta")
    return {thread: title for thread, title, owner in rows if owner in (user, "default", None)}


@contextmanager
def open_public_database(file: Path) -> Iterator[sqlite3.Connection]:
    """Open a SQLite file of the public DeerFlow for reading."""
    try:
        with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            yield connection
    except (sqlite3.Error, ValueError, TypeError, AttributeError) as problem:
        raise StorageUnavailable(str(problem)) from problem
