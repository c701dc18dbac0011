"""Tests of services with a database run on SQLite and on PostgreSQL."""

from pathlib import Path

import pytest

from deerflow.config.source import ConfigSource, open_source

FOLDER = Path(__file__).parent


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    names = metafunc.fixturenames
    if "tmp_path" in names and "postgres_url" not in names and metafunc.definition.path.is_relative_to(FOLDER):
        if "database_place" not in names:
            names.insert(0, "database_place")
        metafunc.parametrize("database_place", ["sqlite", "postgres"], indirect=True)


@pytest.fixture
def database_place(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    """Return the location of the database that a configuration in `tmp_path` uses."""
    if request.param == "sqlite":
        return tmp_path / ".deer-flow" / "data" / "deerflow.db"
    url: str = request.getfixturevalue("postgres_url")
    (tmp_path / "config.yaml").write_text(f"database:\n  url: {url}\n")
    return url


@pytest.fixture
def source(database_place: Path | str, tmp_path: Path) -> ConfigSource:
    """Return the default configuration with this database."""
    return open_source(directory=tmp_path, environment={})
