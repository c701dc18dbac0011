"""Reads end with their caller, and after a time limit; look-ups do not leave the event loop."""

import asyncio
import threading
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import Connection, text

from deerflow.domain.errors import StorageUnavailable
from deerflow.persistence.engine import database as database_module
from deerflow.persistence.engine import open_database, postgres
from deerflow.persistence.engine.database import Database
from deerflow.persistence.queries.threads import insert_thread

LIMIT_S = 30
READERS = 4
ENDLESS = {
    "sqlite": "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c",
    "postgresql": "SELECT pg_sleep(3600)",
}


def run_endlessly(connection: Connection) -> None:
    connection.execute(text(ENDLESS[connection.dialect.name]))


def count_reads(connection: Connection) -> int:
    """Return the number of queries under way; SQLite needs none to be."""
    if connection.dialect.name == "sqlite":
        return READERS
    query = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'SELECT pg_sleep%'"
    return connection.execute(text(query)).scalar_one()


def count(connection: Connection) -> int:
    return connection.execute(text("SELECT count(*) FROM threads")).scalar_one()


@pytest.fixture(params=["sqlite", "postgres"])
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Database]:
    is_sqlite = request.param == "sqlite"
    location = tmp_path / "d.db" if is_sqlite else request.getfixturevalue("postgres_url")
    async with open_database(location) as opened:
        yield opened


async def test_cancelled_reads_make_room_for_others(database: Database) -> None:
    async with asyncio.timeout(LIMIT_S):
        reads = [asyncio.create_task(database.read(run_endlessly)) for _ in range(3 * READERS)]
        while await database.write(count_reads) < READERS:
            pass
        for read in reads:
            read.cancel()
        await asyncio.wait(reads)
        assert all(read.cancelled() for read in reads)
        assert await asyncio.gather(*(database.read(count) for _ in range(READERS))) == [0] * READERS


@pytest.fixture
def short_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (database_module, postgres):
        monkeypatch.setattr(module, "READ_LIMIT_S", 0.2)


async def test_a_read_that_takes_too_long_is_stopped(short_limit: None, database: Database) -> None:
    async with asyncio.timeout(LIMIT_S):
        with pytest.raises(StorageUnavailable, match=r"took longer than 0\.2 s|statement timeout"):
            await database.read(run_endlessly)
        assert await database.read(count) == 0


class NotedThreads:
    """Query that notes the threads in which it runs."""

    def __init__(self, statement: str = "SELECT count(*) FROM threads") -> None:
        self.threads: list[int] = []
        self._statement = statement

    def __call__(self, connection: Connection) -> int:
        self.threads.append(threading.get_ident())
        found: int = connection.execute(text(self._statement)).scalar_one()
        return found


LONG = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 100000) SELECT count(*) FROM c"


async def test_a_look_up_sees_what_was_written_before(database: Database) -> None:
    assert await database.look_up(count) == 0
    await database.write(partial(insert_thread, thread_id="t", owner="o", metadata={}))
    assert await database.look_up(count) == 1


async def test_a_look_up_in_sqlite_runs_on_the_event_loop(tmp_path: Path) -> None:
    query = NotedThreads()
    async with open_database(tmp_path / "d.db") as database:
        assert await database.look_up(query) == 0
        assert await database.look_up(query) == 0
    assert query.threads == [threading.get_ident()] * 2


async def test_a_long_look_up_is_repeated_in_a_thread_and_the_next_begin_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, long, short = threading.get_ident(), NotedThreads(LONG), NotedThreads()
    async with open_database(tmp_path / "d.db") as database:
        await database.look_up(short)
        monkeypatch.setattr(database_module, "LOOK_UP_LIMIT_S", 0.0)
        assert await database.look_up(long) == 100_000
        assert await database.look_up(short) == 0
    assert long.threads[0] == here != long.threads[1]
    assert short.threads[0] == here != short.threads[1]


async def test_a_refused_look_up_is_reported_like_a_read_and_the_next_succeeds(database: Database) -> None:
    for call in (database.look_up, database.read):
        with pytest.raises(StorageUnavailable):
            await call(NotedThreads("SELECT count(*) FROM nothing"))
    assert await database.look_up(count) == 0
