"""Where graphs keep their state between steps, on PostgreSQL."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from psycopg import AsyncConnection
from psycopg.rows import DictRow, dict_row
from psycopg_pool import AsyncConnectionPool

from deerflow.persistence.checkpoints import RUN_KEY, plain_serializer

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


class PostgresCheckpoints(AsyncPostgresSaver):
    """LangGraph's own, which can also forget what single runs have left."""

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
        url, min_size=1, max_size=CONNECTIONS, open=False, kwargs=options, configure=forgo_waiting_for_the_disk
    )
    async with pool:
        saver = PostgresCheckpoints(pool, serde=plain_serializer())
        async with pool.connection() as connection:
            await set_up(saver, connection)
        yield saver


async def forgo_waiting_for_the_disk(connection: AsyncConnection[DictRow]) -> None:
    """Have commits survive the death of this process, but perhaps not of the server."""
    await connection.execute("SET synchronous_commit TO off")


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
