"""Fixtures for the tests of persistence."""

import pytest


@pytest.fixture(autouse=True)
def fast_migration() -> None:
    """Here the tables are created by the migrations themselves."""
