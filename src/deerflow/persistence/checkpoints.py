"""Where graphs keep their state between steps."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import aiosqlite
import orjson
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
)
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from deerflow.config.imports import load_extra
from deerflow.persistence.state_version import readable, version_in, versioned

RUN_KEY = "deerflow_run"
"""Under this name every checkpoint says which run made it."""
OWNER_KEY = "__deerflow_owner"
"""Under this name whoever writes says for which attempt."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The attempt at a run that writes checkpoints; where processes have leases, only while it is the latest."""

    run_id: str
    attempt: int


class SqliteCheckpoints(AsyncSqliteSaver):
    """LangGraph's own, which knows versions of states, and can also forget what single runs have left."""

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Keep a checkpoint, with its version."""
        return await super().aput(config, checkpoint, versioned(metadata), new_versions)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint that is meant, or `StateTooNew`."""
        found = await super().aget_tuple(config)
        return found and readable(found)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Checkpoints, newest first, or `StateTooNew`."""
        async for found in super().alist(config, filter=filter, before=before, limit=limit):
            yield readable(found)

    async def state_version(self, thread_id: str) -> int | None:
        """The version of what a thread holds; None when it holds nothing."""
        async with self.lock, self.conn.execute(LATEST, (thread_id,)) as cursor:
            row = await cursor.fetchone()
        return None if row is None else version_in(orjson.loads(row[0]))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Remove the checkpoints that runs have made, and what was written on top of them."""
        await self.setup()
        gone = ",".join("?" * len(run_ids))
        made = f"SELECT thread_id, checkpoint_ns, checkpoint_id FROM checkpoints WHERE {MADE_BY} IN ({gone})"
        async with self.lock:
            for table in ("writes", "checkpoints"):
                where = f"(thread_id, checkpoint_ns, checkpoint_id) IN ({made})"
                await self.conn.execute(f"DELETE FROM {table} WHERE {where}", tuple(run_ids))
            await self.conn.commit()


def plain_serializer() -> JsonPlusSerializer:
    """Stored data revives LangChain's own message classes and plain values, nothing else."""
    return JsonPlusSerializer(allowed_msgpack_modules=None)


LATEST = """
SELECT metadata FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = '' ORDER BY checkpoint_id DESC LIMIT 1
"""
MADE_BY = f"json_extract(CAST(metadata AS TEXT), '$.{RUN_KEY}')"


def open_checkpointer(place: Path | str) -> AbstractAsyncContextManager[BaseCheckpointSaver[str]]:
    """A checkpointer that keeps its data beside the database: in a file of its own, or in tables of the server."""
    if isinstance(place, Path):
        return open_sqlite_checkpoints(checkpoints_file(place))
    opener = load_extra(
        "deerflow.persistence.postgres_checkpoints:open_postgres_checkpoints", "postgres", "database.url"
    )
    return cast(Callable[[str], AbstractAsyncContextManager[BaseCheckpointSaver[str]]], opener)(place)


def checkpoints_file(database: Path) -> Path:
    """Where the states of graphs are, beside a database of ours."""
    return database.with_name("checkpoints.db")


@asynccontextmanager
async def open_sqlite_checkpoints(file: Path) -> AsyncIterator[SqliteCheckpoints]:
    """A checkpointer that keeps its data in `file`."""
    file.parent.mkdir(parents=True, exist_ok=True)
    async with aiosqlite.connect(file) as connection:
        # The journal is what must survive a power failure; checkpoints need only survive the process.
        await connection.execute("PRAGMA synchronous=NORMAL")
        await connection.execute("PRAGMA secure_delete=ON")
        saver = SqliteCheckpoints(connection, serde=plain_serializer())
        await saver.setup()
        yield saver
