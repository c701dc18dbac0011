"""Reading of checkpoints on the event loop."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import empty_checkpoint

from deerflow.domain.errors import StateTooNew
from deerflow.persistence import checkpoints
from deerflow.persistence.checkpoints.sqlite import LoopReader, SqliteCheckpoints, open_sqlite_checkpoints

THREAD: RunnableConfig = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}


@pytest.fixture
async def saver(tmp_path: Path) -> AsyncIterator[SqliteCheckpoints]:
    async with open_sqlite_checkpoints(tmp_path / "checkpoints.db") as opened:
        yield opened


async def put(saver: SqliteCheckpoints) -> str:
    checkpoint = empty_checkpoint()
    made = await saver.aput(THREAD, checkpoint, {"step": 1}, {})
    await saver.aput_writes(made, [("messages", ["hello"])], "task")
    return checkpoint["id"]


async def test_a_thread_without_checkpoints_has_none(saver: SqliteCheckpoints) -> None:
    assert await saver.aget_tuple(THREAD) is None
    assert await saver.state_version("t") is None


async def test_the_latest_checkpoint_is_read_with_its_pending_writes(saver: SqliteCheckpoints) -> None:
    await put(saver)
    latest = await put(saver)
    found = await saver.aget_tuple(THREAD)
    assert found is not None and found.checkpoint["id"] == latest
    assert found.pending_writes == [("task", "messages", ["hello"])]
    assert await saver.state_version("t") == checkpoints.STATE_VERSION


async def test_after_a_slow_read_the_thread_of_the_driver_is_used(saver: SqliteCheckpoints, tmp_path: Path) -> None:
    saver.reader.close()
    saver.reader = LoopReader(tmp_path / "checkpoints.db", slow_s=0)
    latest = await put(saver)
    for is_fast in (True, False):
        assert saver.reader.is_fast is is_fast
        found = await saver.aget_tuple(THREAD)
        assert found is not None and found.checkpoint["id"] == latest


async def test_a_locked_file_is_read_in_the_thread_of_the_driver(saver: SqliteCheckpoints) -> None:
    latest = await put(saver)
    saver.reader.close()

    class LockedReader(LoopReader):
        def cursor(self) -> sqlite3.Cursor:  # type: ignore[override]
            raise sqlite3.OperationalError("database is locked")

        def read_latest(self, thread_id: str) -> tuple[bytes, str] | None:
            raise sqlite3.OperationalError("database is locked")

    saver.reader = LockedReader(saver.inserter.file)
    found = await saver.aget_tuple(THREAD)
    assert found is not None and found.checkpoint["id"] == latest
    assert await saver.state_version("t") == checkpoints.STATE_VERSION


async def test_a_newer_state_is_refused(saver: SqliteCheckpoints, monkeypatch: pytest.MonkeyPatch) -> None:
    await put(saver)
    monkeypatch.setattr(checkpoints, "STATE_VERSION", checkpoints.STATE_VERSION - 1)
    with pytest.raises(StateTooNew, match="newer DeerFlow"):
        await saver.aget_tuple(THREAD)


async def test_nothing_can_be_written_by_the_reader(saver: SqliteCheckpoints) -> None:
    with closing(saver.reader.cursor()._cursor) as cursor, pytest.raises(sqlite3.OperationalError, match="readonly"):
        cursor.execute("DELETE FROM checkpoints")
