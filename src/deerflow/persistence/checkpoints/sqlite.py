"""Checkpoints of graphs in a SQLite file, and the choice of the checkpointer."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import aiosqlite
import orjson
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, ChannelVersions, Checkpoint, CheckpointMetadata
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from deerflow.config.imports import require_extra
from deerflow.persistence.checkpoints import (
    RUN_KEY,
    VersionedSaver,
    add_version,
    create_serializer,
    follow_checkpoint,
    read_version,
)
from deerflow.persistence.engine.database import DatabaseLocation
from deerflow.persistence.engine.sqlite import BUSY_TIMEOUT_S, locate_checkpoints

SELECT_LATEST = """
SELECT metadata, checkpoint_id FROM checkpoints
WHERE thread_id = ? AND checkpoint_ns = '' ORDER BY checkpoint_id DESC LIMIT 1
"""
RUN_OF_CHECKPOINT = f"json_extract(CAST(metadata AS TEXT), '$.{RUN_KEY}')"


def open_checkpointer(location: DatabaseLocation) -> AbstractAsyncContextManager[BaseCheckpointSaver[str]]:
    """Open the checkpointer of the database at `location`: a SQLite file next to it, or tables of the same server."""
    if isinstance(location, Path):
        return open_sqlite_checkpoints(locate_checkpoints(location))
    with require_extra("postgres", "database.url"):
        from deerflow.persistence.checkpoints.postgres import open_postgres_checkpoints
    return open_postgres_checkpoints(location)


class SqliteCheckpoints(VersionedSaver, AsyncSqliteSaver):
    """LangGraph's SQLite checkpointer with state versions and deletion by run."""

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint with its state version."""
        return await super().aput(config, checkpoint, add_version(metadata), new_versions)

    async def state_version(self, thread_id: str) -> int | None:
        """Return the version of a thread's state, None when it has none."""
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
        async with self.lock:
            for table in ("writes", "checkpoints"):
                where = f"(thread_id, checkpoint_ns, checkpoint_id) IN ({written})"
                await self.conn.execute(f"DELETE FROM {table} WHERE {where}", tuple(run_ids))
            await self.conn.commit()


@asynccontextmanager
async def open_sqlite_checkpoints(file: Path) -> AsyncIterator[SqliteCheckpoints]:
    """Open a checkpointer that stores its data in `file`."""
    file.parent.mkdir(parents=True, exist_ok=True)
    async with aiosqlite.connect(file, timeout=BUSY_TIMEOUT_S) as connection:
        # The journal is what must survive a power failure; checkpoints need only survive the process.
        await connection.execute("PRAGMA synchronous=NORMAL")
        await connection.execute("PRAGMA secure_delete=ON")
        saver = SqliteCheckpoints(connection, serde=create_serializer())
        await saver.setup()
        yield saver
