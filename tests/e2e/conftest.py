"""Fixtures of the browser tests."""

from collections.abc import AsyncIterator, Iterator

import pytest
from playwright.async_api import Browser, async_playwright, expect

from tests.e2e.stage import PATIENCE_MS, RunningServer, Visitor, serving
from tests.support import needs

BROWSER_OPTIONS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="session")
def demo_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server as a newcomer starts it."""
    with serving(tmp_path_factory.mktemp("home")) as server:
        yield server


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    """Chromium."""
    path = needs("chromium")
    expect.set_options(timeout=PATIENCE_MS)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=BROWSER_OPTIONS)
        yield browser
        await browser.close()


@pytest.fixture
async def visitor(browser: Browser) -> AsyncIterator[Visitor]:
    """Whatever a test does: the console stays quiet and nothing is asked of another origin."""
    visitor = Visitor(browser)
    yield visitor
    assert visitor.faults == []
