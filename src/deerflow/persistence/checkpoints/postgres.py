"""Checkpoints of graphs in PostgreSQL."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from psycopg import AsyncConnection, AsyncCursor, OperationalError
from psycopg import Error as DriverError
from psycopg.rows import DictRow, dict_row
from psycopg_pool import AsyncConnectionPool

from deerflow.domain.errors import RunLost, StorageUnavailable
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
from deerflow.persistence.engine.database import UNUSABLE, UNUSABLE_SQLSTATES
from deerflow.persistence.engine.postgres import IDLE_TIMEOUT_S, build_idle_timeout

CONNECTIONS = 4
SETUP_LOCK_ID = 0xDEE7F11
"""Advisory lock that is held while the tables are created."""
RETRY_S = 0.1
SETUP_TIMEOUT_S = 60.0

SELECT_BY_RUN = (
    f"SELECT thread_id, checkpoint_ns, checkpoint_id FROM checkpoints WHERE metadata->>'{RUN_KEY}' = ANY(%s)"
)
DELETE_WRITES = f"DELETE FROM checkpoint_writes WHERE (thread_id, checkpoint_ns, checkpoint_id) IN ({SELECT_BY_RUN})"
DELETE_CHECKPOINTS = f"DELETE FROM checkpoints WHERE metadata->>'{RUN_KEY}' = ANY(%s) RETURNING thread_id"
DELETE_BLOBS = """
DELETE FROM checkpoint_blobs AS blob WHERE thread_id = ANY(%s) AND NOT EXISTS (
  SELECT 1 FROM checkpoints AS kept
  WHERE kept.thread_id = blob.thread_id AND kept.checkpoint_ns = blob.checkpoint_ns
    AND kept.checkpoint->'channel_versions'->>blob.channel = blob.version)
"""
SELECT_LATEST = """
SELECT metadata, checkpoint_id FROM checkpoints
WHERE thread_id = %s AND checkpoint_ns = '' ORDER BY checkpoint_id DESC LIMIT 1
"""
# As with events: a process that takes the run over waits for the shared lock and then reads everything written before.
LOCK_RUN = "SELECT 1 FROM runs WHERE run_id = %s AND attempt = %s FOR SHARE"


class PostgresCheckpoints(VersionedSaver, AsyncPostgresSaver):
    """LangGraph's PostgreSQL checkpointer with state versions and deletion by run; refuses writes of old attempts."""

    def __init__(self, pool: AsyncConnectionPool[AsyncConnection[DictRow]]) -> None:
        super().__init__(pool, serde=create_serializer())
        self._pool = pool

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint.

        Raises:
            RunLost: Another process has taken over the run that writes it.
        """
        async with self._lock_run(config) as saver:
            return await saver.aput(config, checkpoint, add_version(metadata), new_versions)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store the writes of a step.

        Raises:
            RunLost: Another process has taken over the run of the step.
        """
        async with self._lock_run(config) as saver:
            await saver.aput_writes(config, writes, task_id, task_path)

    async def state_version(self, thread_id: str) -> int | None:
        """Return the version of a thread's state, None when it has none."""
        row = await self._read_latest(thread_id)
        if row is None:
            return None
        follow_checkpoint(row["checkpoint_id"])
        return read_version(row["metadata"])

    async def _read_latest(self, thread_id: str, attempts: int = CONNECTIONS + 1) -> DictRow | None:
        """Return metadata and id of the latest checkpoint of a thread. Broken connections leave the pool by this."""
        try:
            async with self._cursor() as cursor:
                await cursor.execute(SELECT_LATEST, (thread_id,))
                return await cursor.fetchone()
        except StorageUnavailable as problem:
            if attempts == 1 or not isinstance(problem.__cause__, OperationalError):
                raise
        return await self._read_latest(thread_id, attempts - 1)

    @asynccontextmanager
    async def _cursor(self, *, pipeline: bool = False) -> AsyncIterator[AsyncCursor[DictRow]]:
        """Yield a cursor; driver errors are raised as `StorageUnavailable`."""
        with translate_driver_errors():
            async with super()._cursor(pipeline=pipeline) as cursor:
                yield cursor

    @asynccontextmanager
    async def _lock_run(self, config: RunnableConfig) -> AsyncIterator[AsyncPostgresSaver]:
        """Yield a saver within one transaction during which no other process can take over the run."""
        writer: CheckpointWriter | None = config["configurable"].get(WRITER_KEY)
        with translate_driver_errors():
            async with self._pool.connection() as connection, connection.transaction():
                if writer is not None:
                    locked = await connection.execute(LOCK_RUN, [writer.run_id, writer.attempt])
                    if await locked.fetchone() is None:
                        raise RunLost(f"run {writer.run_id!r} was taken over by another process")
                yield AsyncPostgresSaver(connection, serde=self.serde)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints that runs have written, their pending writes, and blobs that are no longer used."""
        runs = [list(run_ids)]
        async with self._cursor() as cursor, cursor.connection.transaction():
            await cursor.execute(DELETE_WRITES, runs)
            await cursor.execute(DELETE_CHECKPOINTS, runs)
            threads = {row["thread_id"] for row in await cursor.fetchall()}
            await cursor.execute(DELETE_BLOBS, [list(threads)])


@contextmanager
def translate_driver_errors() -> Iterator[None]:
    """Raise errors of an unusable database as `StorageUnavailable`."""
    try:
        yield
    except DriverError as problem:
        if isinstance(problem, OperationalError):
            raise StorageUnavailable(f"database unavailable: {problem}") from problem
        if problem.sqlstate in UNUSABLE_SQLSTATES:
            raise StorageUnavailable(f"{UNUSABLE}: {problem}") from problem
        raise


@asynccontextmanager
async def open_postgres_checkpoints(url: str) -> AsyncIterator[PostgresCheckpoints]:
    """Open a checkpointer that stores its data in tables of the database at `url`."""
    # The journal is what must survive a power failure; checkpoints need only survive the process.
    options: dict[str, Any] = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
    pool = AsyncConnectionPool[AsyncConnection[DictRow]](
        url, min_size=1, max_size=CONNECTIONS, open=False, kwargs=options, configure=configure_connection
    )
    async with pool:
        saver = PostgresCheckpoints(pool)
        async with pool.connection() as connection:
            await create_tables(saver, connection)
        yield saver


async def configure_connection(connection: AsyncConnection[DictRow]) -> None:
    """Do not wait for the disk on commit, and let the server end idle transactions so that locks are released."""
    await connection.execute("SET synchronous_commit TO off")
    await connection.execute(build_idle_timeout(IDLE_TIMEOUT_S).encode())


async def create_tables(saver: PostgresCheckpoints, connection: AsyncConnection[DictRow]) -> None:
    """Create the tables, or wait for another process to do so."""
    async with asyncio.timeout(SETUP_TIMEOUT_S):
        # Waiting inside the database would block CREATE INDEX CONCURRENTLY of the other process: a deadlock.
        while not await call_lock_function(connection, "pg_try_advisory_lock"):  # noqa: ASYNC110
            await asyncio.sleep(RETRY_S)
        try:
            await saver.setup()
        finally:
            await call_lock_function(connection, "pg_advisory_unlock")


async def call_lock_function(connection: AsyncConnection[DictRow], function: str) -> bool:
    """Call an advisory lock function; return whether the lock was granted or released."""
    cursor = await connection.execute(f"SELECT {function}({SETUP_LOCK_ID}) AS granted".encode())
    row = await cursor.fetchone()
    return row is not None and bool(row["granted"])
