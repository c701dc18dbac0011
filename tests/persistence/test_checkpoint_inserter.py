"""Writer of checkpoints: groups, threads for what takes longer, and errors."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from deerflow.domain.errors import StorageUnavailable
from deerflow.persistence.checkpoints import sqlite
from deerflow.persistence.checkpoints.sqlite import CheckpointInserter
from deerflow.persistence.engine.sqlite import DatabaseFile, InsertStatement


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "checkpoints.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("PRAGMA journal_mode=WAL; CREATE TABLE rows (id INTEGER PRIMARY KEY, content BLOB);")
    return path


@pytest.fixture
async def inserter(file: Path) -> AsyncIterator[CheckpointInserter]:
    opened = CheckpointInserter(file, DatabaseFile(file))
    yield opened
    await opened.aclose()


@pytest.fixture
def other(file: Path) -> Iterator[sqlite3.Connection]:
    """Yield a connection of another process."""
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        yield connection


def row(number: int, size: int = 10) -> InsertStatement:
    return "INSERT INTO rows VALUES (?, ?)", (number, b"x" * size)


def list_rows(other: sqlite3.Connection) -> list[int]:
    return [number for (number,) in other.execute("SELECT id FROM rows ORDER BY id")]


async def test_rows_of_one_turn_are_committed_together(inserter: CheckpointInserter, other: sqlite3.Connection) -> None:
    version = other.execute("PRAGMA data_version").fetchone()
    await asyncio.gather(inserter.insert(row(1), row(2)), inserter.insert(row(3)))
    assert list_rows(other) == [1, 2, 3]
    assert other.execute("PRAGMA data_version").fetchone()[0] == version[0] + 1


async def test_large_rows_are_written_in_a_thread(inserter: CheckpointInserter, other: sqlite3.Connection) -> None:
    await inserter.insert(row(1, sqlite.MAX_BYTES_ON_LOOP + 1))
    await asyncio.gather(*(inserter.insert(row(number)) for number in range(2, 20)))
    assert list_rows(other) == list(range(1, 20))


async def test_a_locked_file_is_waited_for(inserter: CheckpointInserter, other: sqlite3.Connection) -> None:
    other.execute("BEGIN IMMEDIATE")
    inserting = asyncio.create_task(inserter.insert(row(1)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not inserting.done()
    other.execute("COMMIT")
    async with asyncio.timeout(30):
        await inserting
    assert list_rows(other) == [1]


async def test_a_refused_row_takes_no_other_along(inserter: CheckpointInserter, other: sqlite3.Connection) -> None:
    await inserter.insert(row(1))
    results = await asyncio.gather(
        inserter.insert(row(2)), inserter.insert(row(1)), inserter.insert(row(3)), return_exceptions=True
    )
    assert [isinstance(result, Exception) for result in results] == [False, True, False]
    assert list_rows(other) == [1, 2, 3]


async def test_rows_of_a_cancelled_caller_are_written(inserter: CheckpointInserter, other: sqlite3.Connection) -> None:
    inserting = asyncio.create_task(inserter.insert(row(1)))
    await asyncio.sleep(0)
    inserting.cancel()
    await inserter.insert(row(2))
    assert list_rows(other) == [1, 2]


async def test_the_log_is_merged_before_it_grows_long(
    inserter: CheckpointInserter, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "MAX_UNMERGED_BYTES", 400_000)
    for number in range(100):
        await inserter.insert(row(number, 20_000))
    await inserter.aclose()
    assert (await asyncio.to_thread(file.stat)).st_size > 1_000_000


async def test_a_moved_file_is_reported(inserter: CheckpointInserter, file: Path) -> None:
    await inserter.insert(row(1))
    await asyncio.to_thread(file.rename, file.with_name("moved.db"))
    with pytest.raises(StorageUnavailable, match="was moved"):
        await inserter.insert(row(2))
