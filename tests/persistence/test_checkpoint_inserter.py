"""Writer of checkpoints: groups, threads for what takes longer, and errors."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from deerflow.domain.errors import StorageUnavailable
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import RunEvent, RunRequest
from deerflow.persistence.checkpoints import inserter as module
from deerflow.persistence.checkpoints.inserter import CheckpointInserter, merge_log
from deerflow.persistence.engine.schema import DatabaseFile
from deerflow.persistence.engine.sqlite import InsertStatement, SqliteDatabase, execute_all, open_sqlite
from deerflow.persistence.queries.events import LoggedEvent, read_events
from deerflow.persistence.queries.runs import StoredRequest
from deerflow.persistence.queries.transactions import accept_run
from deerflow.runtime.runs.request import create_run_record
from tests.support import fill_disk, mount_disk


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


def logged(seq: int) -> LoggedEvent:
    return LoggedEvent("run", RunEvent(seq, "custom", b"{}"), datetime.now(UTC))


@pytest.fixture
async def database(tmp_path: Path, inserter: CheckpointInserter) -> AsyncIterator[SqliteDatabase]:
    """Yield a database that writes the rows, with the run of the events."""
    async with open_sqlite(tmp_path / "deerflow.db") as opened:
        await begin_run(opened)
        opened.attach(inserter)
        yield opened


async def begin_run(database: SqliteDatabase) -> None:
    """Record the run of the events."""
    run = replace(create_run_record(RunRequest("thread"), LOCAL_USER, "process"), run_id="run")
    accept = partial(accept_run, request=StoredRequest({}, ""), first=logged(1), title=None, may_create_thread=True)
    await database.write(partial(accept, run=run))


@pytest.fixture
def events(tmp_path: Path, database: SqliteDatabase) -> Iterator[sqlite3.Connection]:
    """Yield a connection of another process to the database."""
    with closing(sqlite3.connect(tmp_path / "deerflow.db", isolation_level=None)) as connection:
        yield connection


def count_events(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT count(*) FROM run_events").fetchone()[0])


async def list_numbers(database: SqliteDatabase) -> list[int]:
    found = await database.read(partial(read_events, run_id="run", after=0, limit=100))
    return [event.seq for event in found]


def list_rows(other: sqlite3.Connection) -> list[int]:
    return [number for (number,) in other.execute("SELECT id FROM rows ORDER BY id")]


async def test_rows_that_wait_are_committed_together(inserter: CheckpointInserter, other: sqlite3.Connection) -> None:
    version = other.execute("PRAGMA data_version").fetchone()
    inserter.add(row(1), row(2), run_id="a")
    inserter.add(row(3), run_id="b")
    assert list_rows(other) == []
    await inserter.flush()
    assert list_rows(other) == [1, 2, 3]
    assert other.execute("PRAGMA data_version").fetchone()[0] == version[0] + 1


async def test_rows_are_written_after_a_while_without_a_request(
    inserter: CheckpointInserter, other: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "DELAY_S", 0)
    inserter.add(row(1), run_id="a")
    for _ in range(5):
        await asyncio.sleep(0)
    assert list_rows(other) == [1]


async def test_rows_that_wait_are_written_with_the_next_events(
    inserter: CheckpointInserter, database: SqliteDatabase, other: sqlite3.Connection, events: sqlite3.Connection
) -> None:
    inserter.add(row(1), run_id="a")
    await database.append([logged(2)])
    assert (list_rows(other), count_events(events)) == ([1], 2)


async def test_no_event_is_written_before_rows_that_take_longer(
    inserter: CheckpointInserter, database: SqliteDatabase, other: sqlite3.Connection, events: sqlite3.Connection
) -> None:
    inserter.add(row(1, module.MAX_BYTES_ON_LOOP + 1), run_id="a")
    other.execute("BEGIN IMMEDIATE")
    appending = asyncio.create_task(database.append([logged(2)]))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not appending.done()
    assert count_events(events) == 1
    other.execute("COMMIT")
    async with asyncio.timeout(30):
        await appending
    assert (list_rows(other), count_events(events)) == ([1], 2)


async def test_a_refused_row_keeps_no_events_out(
    inserter: CheckpointInserter, database: SqliteDatabase, other: sqlite3.Connection, events: sqlite3.Connection
) -> None:
    inserter.add(row(1), row(1), run_id="a")
    inserter.add(row(2), run_id="b")
    await database.append([logged(2)])
    assert (list_rows(other), count_events(events)) == ([2], 2)
    with pytest.raises(sqlite3.IntegrityError):
        inserter.add(row(3), run_id="a")


async def test_every_other_write_is_made_after_the_rows_that_wait(
    inserter: CheckpointInserter, database: SqliteDatabase, file: Path
) -> None:
    def read(_connection: object) -> list[int]:
        with closing(sqlite3.connect(file)) as other:
            return list_rows(other)

    inserter.add(row(1), run_id="a")
    assert await database.write(read) == [1]


def move(file: Path, name: str) -> Path:
    """Rename a file at once: rows that wait must not be written meanwhile."""
    return file.rename(file.with_name(name))


async def test_events_and_writes_are_refused_while_the_file_of_the_rows_is_gone(
    inserter: CheckpointInserter, database: SqliteDatabase, file: Path
) -> None:
    await inserter.insert(row(1))
    inserter.add(row(2), run_id="a")
    moved = move(file, "moved.db")
    with pytest.raises(StorageUnavailable, match="was moved"):
        await database.append([logged(2)])
    with pytest.raises(StorageUnavailable, match="was moved"):
        await database.write(lambda connection: None)
    with pytest.raises(StorageUnavailable, match="was moved"):
        inserter.add(row(3), run_id="b")
    move(moved, file.name)
    await database.append([logged(2)])
    await inserter.insert(row(3))
    with closing(sqlite3.connect(file)) as other:
        assert list_rows(other) == [1, 2, 3]


async def test_large_rows_are_written_in_a_thread(inserter: CheckpointInserter, other: sqlite3.Connection) -> None:
    await inserter.insert(row(1, module.MAX_BYTES_ON_LOOP + 1))
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


async def test_a_refused_row_affects_no_other_and_fails_its_run(
    inserter: CheckpointInserter, other: sqlite3.Connection
) -> None:
    await inserter.insert(row(1))
    for number, run_id in ((2, "a"), (1, "b"), (3, "c")):
        inserter.add(row(number), run_id=run_id)
    await inserter.flush()
    assert list_rows(other) == [1, 2, 3]
    inserter.add(row(4), run_id="a")
    with pytest.raises(sqlite3.IntegrityError):
        inserter.add(row(5), run_id="b")
    inserter.add(row(5), run_id="b")
    await inserter.flush()
    assert list_rows(other) == [1, 2, 3, 4, 5]


async def test_a_row_that_a_thread_cannot_write_affects_no_other_and_fails_its_run(
    inserter: CheckpointInserter, other: sqlite3.Connection
) -> None:
    await inserter.insert(row(1))
    size = module.MAX_BYTES_ON_LOOP + 1
    for number, run_id in ((2, "a"), (1, "b"), (3, "c")):
        inserter.add(row(number, size), run_id=run_id)
    await inserter.flush()
    assert list_rows(other) == [1, 2, 3]
    with pytest.raises(sqlite3.IntegrityError):
        inserter.add(row(4), run_id="b")


async def test_rows_that_wait_for_a_thread_are_written_in_one_transaction(
    inserter: CheckpointInserter, other: sqlite3.Connection
) -> None:
    seen = set[int]()
    other.execute("BEGIN IMMEDIATE")
    for number in range(20):
        inserter.add(row(number, module.MAX_BYTES_ON_LOOP // 10))
    writing = asyncio.create_task(inserter.flush())
    await asyncio.sleep(0)
    other.execute("COMMIT")
    async with asyncio.timeout(30):
        while not writing.done():
            seen.add(len(list_rows(other)))
            await asyncio.sleep(0)
        await writing
    assert list_rows(other) == list(range(20)) and seen <= {0, 20}


async def test_a_row_that_is_written_at_once_raises_if_it_was_refused(inserter: CheckpointInserter) -> None:
    await inserter.insert(row(1))
    with pytest.raises(sqlite3.IntegrityError):
        await inserter.insert(row(1))


async def test_rows_of_a_cancelled_caller_are_written(inserter: CheckpointInserter, other: sqlite3.Connection) -> None:
    inserting = asyncio.create_task(inserter.insert(row(1, module.MAX_BYTES_ON_LOOP + 1)))
    await asyncio.sleep(0)
    inserting.cancel()
    await inserter.insert(row(2))
    assert list_rows(other) == [1, 2]


async def test_the_log_is_merged_before_it_grows_long(
    inserter: CheckpointInserter, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_UNMERGED_BYTES", 400_000)
    for number in range(100):
        await inserter.insert(row(number, 20_000))
    await inserter.aclose()
    assert (await asyncio.to_thread(file.stat)).st_size > 1_000_000


def test_rows_are_committed_after_the_log_was_merged(file: Path) -> None:
    rows = row(1), row(2)
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        in_progress = connection.execute("PRAGMA wal_checkpoint(PASSIVE)")  # as a future that keeps it for a moment
        with pytest.raises(sqlite3.OperationalError, match="statements in progress"):
            execute_all(connection, rows)
        in_progress.close()
        merge_log(connection)
        execute_all(connection, rows)
        assert list_rows(connection) == [1, 2]


async def test_a_moved_file_is_reported(inserter: CheckpointInserter, file: Path) -> None:
    await inserter.insert(row(1))
    await asyncio.to_thread(file.rename, file.with_name("moved.db"))
    with pytest.raises(StorageUnavailable, match="was moved"):
        await inserter.insert(row(2))


async def test_a_row_whose_failure_was_raised_is_not_written_later(inserter: CheckpointInserter, file: Path) -> None:
    await inserter.insert(row(1))
    moved = await asyncio.to_thread(file.rename, file.with_name("moved.db"))
    with pytest.raises(StorageUnavailable, match="was moved"):
        await inserter.insert(row(2))
    await asyncio.to_thread(moved.rename, file)
    await inserter.insert(row(3))
    with closing(sqlite3.connect(file)) as other:
        assert list_rows(other) == [1, 3]


@pytest.mark.external
async def test_events_are_written_once_when_only_the_file_of_the_rows_is_full(tmp_path: Path) -> None:
    """Each file is committed by itself, so the events are committed although the transaction failed."""
    with mount_disk(tmp_path / "disk", 2) as disk:
        file = disk / "checkpoints.db"
        with closing(sqlite3.connect(file)) as connection:
            connection.executescript(
                "PRAGMA journal_mode=WAL; CREATE TABLE rows (id INTEGER PRIMARY KEY, content BLOB);"
            )
        inserter = CheckpointInserter(file, DatabaseFile(file))
        async with open_sqlite(tmp_path / "deerflow.db") as database:
            await begin_run(database)
            database.attach(inserter)
            fill_disk(disk / "filler")
            inserter.add(row(1, 50_000))
            await database.append([logged(2), logged(3)])
            assert await list_numbers(database) == [1, 2, 3]
            with pytest.raises(StorageUnavailable):
                await inserter.flush()
            (disk / "filler").unlink()
            await database.append([logged(4)])
            await inserter.flush()
            assert await list_numbers(database) == [1, 2, 3, 4]
        with closing(sqlite3.connect(file)) as connection:
            assert connection.execute("SELECT id FROM rows").fetchall() == [(1,)]
        await inserter.aclose()
