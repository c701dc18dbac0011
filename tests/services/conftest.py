"""Tests of services with a database run on SQLite and on PostgreSQL."""

from pathlib import Path

import pytest

from tests.databases import database_location, parametrize_database, source

__all__ = ["database_location", "source"]  # fixtures


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    parametrize_database(metafunc, Path(__file__).parent)
