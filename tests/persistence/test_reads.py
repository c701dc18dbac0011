"""Reads end with their caller, and after a time limit."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import Connection, text

from deerflow.domain.errors import StorageUnavailable
from deerflow.persistence.engine import database as database_module
from deerflow.persistence.engine import open_database, postgres
from deerflow.persistence.engine.database import Database

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
