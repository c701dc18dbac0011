"""Fixtures of the browser tests."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser

from tests.e2e.server_process import RunningServer, serve
from tests.e2e.support import Visitor

FOLDER = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all tests of this folder as slow: they start server processes."""
    for item in items:
        if item.path.is_relative_to(FOLDER):
            item.add_marker("slow")


@pytest.fixture(scope="session")
def demo_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server without configuration, with the demo model."""
    with serve(tmp_path_factory.mktemp("home")) as server:
        yield server


@pytest_asyncio.fixture(loop_scope="session")
async def visitor(browser: Browser) -> AsyncIterator[Visitor]:
    """A visitor whose pages must log no errors and request nothing from other origins."""
    visitor = Visitor(browser)
    yield visitor
    assert visitor.problems == []
