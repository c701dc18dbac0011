"""A ledger of its own for every test, on SQLite and on PostgreSQL."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from deerflow.memory.ledger import Ledger
from deerflow.persistence.engine import open_database
from deerflow.persistence.engine.database import DatabaseLocation
from deerflow.persistence.engine.maintenance import Purger


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> DatabaseLocation:
    """Return the location of the database."""
    if request.param == "sqlite":
        return tmp_path / "memory.db"
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest.fixture
async def ledger(place: DatabaseLocation) -> AsyncIterator[Ledger]:
    """Yield an empty ledger."""
    async with open_database(place) as database:
        yield Ledger(database, Purger(place).purge)
