"""Fixtures by which the tests of a folder run on SQLite and on PostgreSQL."""

from pathlib import Path

import pytest

from deerflow.config.source import ConfigSource, open_source
from deerflow.persistence.engine.database import DatabaseLocation


def parametrize_database(metafunc: pytest.Metafunc, folder: Path) -> None:
    """Run a test below `folder` that has a home of its own once per database."""
    names = metafunc.fixturenames
    if "tmp_path" in names and "postgres_url" not in names and metafunc.definition.path.is_relative_to(folder):
        if "database_location" not in names:
            names.insert(0, "database_location")
        metafunc.parametrize("database_location", ["sqlite", "postgres"], indirect=True)


@pytest.fixture
def database_location(request: pytest.FixtureRequest, tmp_path: Path) -> DatabaseLocation:
    """Return the location of the database that a configuration in `tmp_path` uses."""
    if request.param == "sqlite":
        return tmp_path / ".deer-flow" / "data" / "deerflow.db"
    url: str = request.getfixturevalue("postgres_url")
    (tmp_path / "config.yaml").write_text(f"database:\n  url: {url}\n")
    return url


@pytest.fixture
def source(database_location: DatabaseLocation, tmp_path: Path) -> ConfigSource:
    """Return the default configuration with this database, whose file has been written before."""
    return open_source(directory=tmp_path, environment={})
