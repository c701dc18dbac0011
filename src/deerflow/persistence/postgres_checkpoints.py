"""Where graphs keep their state between steps, on PostgreSQL."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata, CheckpointTuple
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from psycopg import AsyncConnection
from psycopg.rows import DictRow, dict_row
from psycopg_pool import AsyncConnectionPool

from deerflow.domain.errors import RunLost
from deerflow.persistence.checkpoints import OWNER_KEY, RUN_KEY, plain_serializer
from deerflow.persistence.postgres import FROZEN_S, idle_limit
from deerflow.persistence.state_version import readable, version_in, versioned

CONNECTIONS = 4
SETTING_UP = 0xDEE7F11
"""The lock that whoever makes the tables holds."""
RETRY_S = 0.1
SETUP_LIMIT_S = 60.0

MADE = f"SELECT thread_id, checkpoint_ns, checkpoint_id FROM checkpoints WHERE metadata->>'{RUN_KEY}' = ANY(%s)"
FORGET_WRITES = f"DELETE FROM checkpoint_writes WHERE (thread_id, checkpoint_ns, checkpoint_id) IN ({MADE})"
FORGET_CHECKPOINTS = f"DELETE FROM checkpoints WHERE metadata->>'{RUN_KEY}' = ANY(%s) RETURNING thread_id"
FORGET_VALUES = """
DELETE FROM checkpoint_blobs AS blob WHERE thread_id = ANY(%s) AND NOT EXISTS (
  SELECT 1 FROM checkpoints AS kept
  WHERE kept.thread_id = blob.thread_id AND kept.checkpoint_ns = blob.checkpoint_ns
    AND kept.checkpoint->'channel_versions'->>blob.channel = blob.version)
"""
LATEST = """
SELECT metadata FROM checkpoints WHERE thread_id = %s AND checkpoint_ns = '' ORDER BY checkpoint_id DESC LIMIT 1
"""
# As with events: whoever takes a run over waits for the shared lock, and finds all that was written before.
HOLD = "SELECT 1 FROM runs WHERE run_id = %s AND attempt = %s FOR SHARE"


class PostgresCheckpoints(AsyncPostgresSaver):
    """LangGraph's own, which refuses what an old attempt writes, and can also forget what single runs have left."""

    def __init__(self, pool: AsyncConnectionPool[AsyncConnection[DictRow]]) -> None:
        super().__init__(pool, serde=plain_serializer())
        self._pool = pool

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Keep a checkpoint.

        Raises:
            RunLost: another process has taken over the run that makes it.
        """
        async with self._owned(config) as saver:
            return await saver.aput(config, checkpoint, versioned(metadata), new_versions)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Keep what a step has led to.

        Raises:
            RunLost: another process has taken over the run whose step it is.
        """
        async with self._owned(config) as saver:
            await saver.aput_writes(config, writes, task_id, task_path)

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
        async with self._cursor() as cursor:
            await cursor.execute(LATEST, (thread_id,))
            row = await cursor.fetchone()
        return None if row is None else version_in(row["metadata"])

    @asynccontextmanager
    async def _owned(self, config: RunnableConfig) -> AsyncIterator[AsyncPostgresSaver]:
        """What writes within one transaction, in which nobody takes over the run that writes."""
        owner = config["configurable"].get(OWNER_KEY)
        async with self._pool.connection() as connection, connection.transaction():
            if owner is not None:
                held = await connection.execute(HOLD, [owner.run_id, owner.attempt])
                if await held.fetchone() is None:
                    raise RunLost(f"run {owner.run_id!r} is another process's now")
            yield AsyncPostgresSaver(connection, serde=self.serde)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Remove the checkpoints that runs have made, what was written on top of them, and values only they had."""
        runs = [list(run_ids)]
        async with self._cursor() as cursor, cursor.connection.transaction():
            await cursor.execute(FORGET_WRITES, runs)
            await cursor.execute(FORGET_CHECKPOINTS, runs)
            threads = {row["thread_id"] for row in await cursor.fetchall()}
            await cursor.execute(FORGET_VALUES, [list(threads)])


@asynccontextmanager
async def open_postgres_checkpoints(url: str) -> AsyncIterator[PostgresCheckpoints]:
    """A checkpointer that keeps its data in tables beside the others."""
    # The journal is what must survive a power failure; checkpoints need only survive the process.
    options: dict[str, Any] = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
    pool = AsyncConnectionPool[AsyncConnection[DictRow]](
        url, min_size=1, max_size=CONNECTIONS, open=False, kwargs=options, configure=prepare
    )
    async with pool:
        saver = PostgresCheckpoints(pool)
        async with pool.connection() as connection:
            await set_up(saver, connection)
        yield saver


async def prepare(connection: AsyncConnection[DictRow]) -> None:
    """Have commits survive the death of this process, but perhaps not of the server; frozen, it holds nothing."""
    await connection.execute("SET synchronous_commit TO off")
    await connection.execute(idle_limit(FROZEN_S).encode())


async def set_up(saver: PostgresCheckpoints, connection: AsyncConnection[DictRow]) -> None:
    """Make the tables, or wait for another process to do so."""
    async with asyncio.timeout(SETUP_LIMIT_S):
        # Whoever waited in the database would keep it from making an index, and both would wait for ever.
        while not await is_granted(connection, "pg_try_advisory_lock"):  # noqa: ASYNC110
            await asyncio.sleep(RETRY_S)
        try:
            await saver.setup()
        finally:
            await is_granted(connection, "pg_advisory_unlock")


async def is_granted(connection: AsyncConnection[DictRow], function: str) -> bool:
    """What one of the functions for locks says."""
    cursor = await connection.execute(f"SELECT {function}({SETTING_UP}) AS granted".encode())
    row = await cursor.fetchone()
    return row is not None and bool(row["granted"])
