"""Fixtures for the tests of the gateway."""

from collections.abc import Iterator

import pytest

from tests.gateway.api_world import World


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A server with something of everything in it; tests of one module share it."""
    limits = {"max_body_mb": 0.25, "body_idle_seconds": 1.0, "body_total_seconds": 2.0}
    with World(tmp_path_factory.mktemp("world"), gateway=limits).opened() as opened:
        yield opened
