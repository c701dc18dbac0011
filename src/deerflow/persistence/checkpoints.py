"""Where graphs keep their state between steps."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import aiosqlite
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from deerflow.config.imports import load_extra

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
    """LangGraph's own, which can also forget what single runs have left."""

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
