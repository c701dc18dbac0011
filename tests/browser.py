"""Chromium for tests: one process per worker, without contexts of other tests."""

import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio
from playwright.async_api import Browser, async_playwright, expect

from tests.support import needs

PATIENCE_MS = 30_000
"""Timeout of waits on a busy machine."""
LAUNCHER = Path(__file__).with_name("chromium_launcher.py")
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
        environment = {**os.environ, "CHROMIUM": path}  # noqa: TID251
        started = await playwright.chromium.launch(executable_path=LAUNCHER, args=BROWSER_OPTIONS, env=environment)
        yield started
        await started.close()


@pytest_asyncio.fixture(loop_scope="session")
async def browser(chromium: Browser) -> AsyncIterator[Browser]:
    """Yield Chromium, and close the contexts of the test."""
    yield chromium
    for context in chromium.contexts:
        await context.close()
