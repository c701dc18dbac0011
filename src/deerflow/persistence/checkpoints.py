"""Where graphs keep their state between steps."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiosqlite
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver


@asynccontextmanager
async def open_checkpointer(file: Path) -> AsyncIterator[BaseCheckpointSaver[str]]:
    """A checkpointer that keeps its data in `file`."""
    file.parent.mkdir(parents=True, exist_ok=True)
    async with aiosqlite.connect(file) as connection:
        # The journal is what must survive a power failure; checkpoints need only survive the process.
        await connection.execute("PRAGMA synchronous=NORMAL")
        # None: stored data revives LangChain's own message classes and plain values, nothing else.
        saver = AsyncSqliteSaver(connection, serde=JsonPlusSerializer(allowed_msgpack_modules=None))
        await saver.setup()
        yield saver
