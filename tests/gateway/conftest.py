"""Fixtures for the tests of the gateway."""

from collections.abc import Iterator

import pytest

from tests.gateway.populated_server import PopulatedServer


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PopulatedServer]:
    """Server with data of every kind, shared by the tests of a module."""
    limits = {"max_body_mb": 0.25, "body_idle_seconds": 1.0, "body_total_seconds": 2.0}
    with PopulatedServer(tmp_path_factory.mktemp("server"), gateway=limits).opened() as opened:
        yield opened
