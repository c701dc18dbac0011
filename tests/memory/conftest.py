"""A ledger of its own for every test, on SQLite and on PostgreSQL."""

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from deerflow.memory.ledger import Ledger
from deerflow.persistence.database import Place, open_database
from deerflow.persistence.scrubbing import scrub


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Where the memories are."""
    if request.param == "sqlite":
        return tmp_path / "memory.db"
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest.fixture
async def ledger(place: Place) -> AsyncIterator[Ledger]:
    """A ledger in which nothing is known."""
    async with open_database(place) as database:
        yield Ledger(database, partial(scrub, place))
