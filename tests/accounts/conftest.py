"""Fixtures for the tests of accounts, which run on SQLite and on PostgreSQL."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from deerflow.config.sections.base import Settings
from deerflow.config.sections.server import UsersConfig
from deerflow.persistence.engine import open_database
from deerflow.persistence.engine.database import Database, DatabaseLocation
from tests.accounts.support import Parts
from tests.databases import database_location, parametrize_database

__all__ = ["database_location"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test once per database."""
    parametrize_database(metafunc, Path(__file__).parent)


@pytest_asyncio.fixture
async def database(database_location: DatabaseLocation, tmp_path: Path) -> AsyncIterator[Database]:
    """Yield an empty database."""
    async with open_database(database_location, tmp_path / ".deer-flow") as opened:
        yield opened


@pytest.fixture
def parts(database: Database) -> Parts:
    """Return the services of one process."""
    return Parts.create(database, Settings(UsersConfig))
