"""Databases of the tests of quotas."""

from pathlib import Path

import pytest


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, object]:
    """Return the setting of a database: a file, or a new one on a real PostgreSQL."""
    return {} if request.param == "sqlite" else {"database": {"url": request.getfixturevalue("postgres_url")}}
