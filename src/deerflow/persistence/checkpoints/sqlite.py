"""Checkpoints of graphs in a SQLite file, and the choice of the checkpointer."""

import sqlite3
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiosqlite
import orjson
from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
)
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from deerflow.config.imports import require_extra
from deerflow.domain.errors import ConfigError, StorageUnavailable
from deerflow.persistence.checkpoints import (
    RUN_KEY,
    VersionedSaver,
    add_version,
    create_serializer,
    follow_checkpoint,
    read_version,
)
from deerflow.persistence.engine.database import DatabaseLocation, translate_driver_errors
from deerflow.persistence.engine.schema import IdFile, locate_id_file
from deerflow.persistence.engine.sqlite import (
    BUSY_TIMEOUT_S,
    DatabaseFile,
    create_folder,
    locate_checkpoints,
    translate_open_errors,
)

SELECT_LATEST = """
SELECT metadata, checkpoint_id FROM checkpoints
WHERE thread_id = ? AND checkpoint_ns = '' ORDER BY checkpoint_id DESC LIMIT 1
"""
RUN_OF_CHECKPOINT = f"json_extract(CAST(metadata AS TEXT), '$.{RUN_KEY}')"


def open_checkpointer(location: DatabaseLocation) -> AbstractAsyncContextManager[BaseCheckpointSaver[str]]:
    """Open the checkpointer of the database at `location`: a SQLite file next to it, or tables of the same server."""
    if isinstance(location, Path):
        return open_sqlite_checkpoints(locate_checkpoints(location), locate_id_file(location).read())
    with require_extra("postgres", "database.url"):
        from deerflow.persistence.checkpoints.postgres import open_postgres_checkpoints
    return open_postgres_checkpoints(location)


class SqliteCheckpoints(VersionedSaver, AsyncSqliteSaver):
    """LangGraph's SQLite checkpointer with state versions, deletion by run and named errors."""

    def __init__(self, connection: aiosqlite.Connection, file: Path) -> None:
        super().__init__(connection, serde=create_serializer())
        self._file = DatabaseFile(file)

    async def check_storage(self) -> None:
        """Raise `StorageUnavailable` when the file was moved away or cannot be read."""
        self._file.check()
        with translate_driver_errors():
            async with self.lock, self.conn.execute("SELECT 1 FROM checkpoints LIMIT 1"):
                pass

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return a checkpoint."""
        with translate_driver_errors():
            return await super().aget_tuple(config)

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint with its state version."""
        async with self._write():
            return await super().aput(config, checkpoint, add_version(metadata), new_versions)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store the writes of a task."""
        async with self._write():
            await super().aput_writes(config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete the checkpoints of a thread."""
        async with self._write():
            await super().adelete_thread(thread_id)

    async def state_version(self, thread_id: str) -> int | None:
        """Return the version of a thread's state, None when it has none."""
        with translate_driver_errors():
            async with self.lock, self.conn.execute(SELECT_LATEST, (thread_id,)) as cursor:
                row = await cursor.fetchone()
        if row is None:
            return None
        follow_checkpoint(row[1])
        return read_version(orjson.loads(row[0]))

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
        self._file.check()
        try:
            with translate_driver_errors():
                yield
        except StorageUnavailable:
            async with self.lock:
                with suppress(sqlite3.Error):
                    await self.conn.rollback()
            raise


@asynccontextmanager
async def open_sqlite_checkpoints(file: Path, database_id: str | None = None) -> AsyncIterator[SqliteCheckpoints]:
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
            await connection.execute("PRAGMA synchronous=NORMAL")
            await connection.execute("PRAGMA secure_delete=ON")
            saver = SqliteCheckpoints(connection, file)
            await saver.setup()
            if database_id is not None:
                await check_id(connection, locate_id_file(file), database_id)
        yield saver


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
    """A thread of the public DeerFlow."""

    thread_id: str
    title: str | None
    messages: list[BaseMessage]


SELECT_PUBLIC_STATES = """
SELECT thread_id, type, checkpoint, max(checkpoint_id) FROM checkpoints
WHERE checkpoint_ns = '' GROUP BY thread_id ORDER BY max(checkpoint_id)
"""


def read_public_threads(file: Path, user: str | None) -> list[PublicThread]:
    """Return the threads of a user in a SQLite file of the public DeerFlow, each with its latest messages. Blocks.

    Raises:
        StorageUnavailable: The file is no database, or has other tables or contents.
    """
    try:
        with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            titles = read_public_titles(connection, user)
            return [
                make_public_thread(thread_id, (kind, state), titles)
                for thread_id, kind, state, _ in connection.execute(SELECT_PUBLIC_STATES)
                if titles is None or thread_id in titles
            ]
    except (sqlite3.Error, ValueError, TypeError, AttributeError) as problem:
        raise StorageUnavailable(str(problem)) from problem


def make_public_thread(
    thread_id: str, state: tuple[str, bytes], titles: Mapping[str, str | None] | None
) -> PublicThread:
    """Return a thread with the messages of a stored state."""
    values = create_serializer().loads_typed(state).get("channel_values", {})
    messages = [each for each in values.get("messages", ()) if isinstance(each, BaseMessage)]
    title = (titles or {}).get(thread_id) or values.get("title")
    return PublicThread(thread_id, title if isinstance(title, str) else None, messages)


def read_public_titles(connection: sqlite3.Connection, user: str | None) -> dict[str, str | None] | None:
    """Return the titles of the user's threads by id; None if the file does not know who owns a thread."""
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if "threads_meta" not in tables:
        return None
    rows = connection.execute("SELECT thread_id, display_name, user_id FROM threads_meta")
    return {thread: title for thread, title, owner in rows if owner in (user, "default", None)}
