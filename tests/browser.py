"""Chromium for tests: one process per worker, without contexts of other tests."""

import shutil
from collections.abc import AsyncIterator

import pytest_asyncio
from playwright.async_api import Browser, async_playwright, expect

from tests.support import needs

PATIENCE_MS = 30_000
"""Timeout of waits on a busy machine."""
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


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def chromium() -> AsyncIterator[Browser]:
    """Yield Chromium, started by the first test of a worker that needs it."""
    # The shell is the same engine without the windows of a browser, and needs a third less CPU.
    path = shutil.which("chromium-headless-shell") or needs("chromium")
    expect.set_options(timeout=PATIENCE_MS)
    async with async_playwright() as playwright:
        started = await playwright.chromium.launch(executable_path=path, args=BROWSER_OPTIONS)
        yield started
        await started.close()


@pytest_asyncio.fixture(loop_scope="session")
async def browser(chromium: Browser) -> AsyncIterator[Browser]:
    """Yield Chromium, and close the contexts of the test."""
    yield chromium
    for context in chromium.contexts:
        await context.close()
