"""The agent's computer, seen in the browser: files written, a script run, results presented."""

import asyncio
import os
from collections.abc import Iterator

import pytest
from playwright.async_api import expect
from pptx import Presentation

from deerflow.config.sections.sandbox import ToolboxConfig
from deerflow.sandbox.local.toolbox import ToolboxBuilder
from tests.e2e.stage import RunningServer, Visitor, serious_violations, serving
from tests.support import user_cache

pytestmark = [pytest.mark.external, pytest.mark.timeout(600)]  # the toolbox is fetched and built

LONG_WAIT_MS = 60_000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server whose commands have the Python packages; built once per machine, then found."""
    environment = dict(os.environ)  # noqa: TID251
    asyncio.run(ToolboxBuilder(ToolboxConfig(), user_cache() / "deerflow", environment).build())
    with serving(tmp_path_factory.mktemp("home")) as server:
        yield server


async def test_the_chart_starter_writes_runs_and_presents_files(server: RunningServer, visitor: Visitor) -> None:
    page = await visitor.open(server.url, reduced_motion="reduce")
    await page.get_by_role("button", name="Analyze data and draw a chart").click()
    await expect(page.get_by_text("Response complete")).to_be_attached(timeout=LONG_WAIT_MS)

    files = page.get_by_role("list", name="Files")
    for _ in range(2):
        await expect(page.get_by_role("button", name="Wrote sales.csv")).to_be_visible()
        picture = files.get_by_role("img", name="chart.png")
        await expect(picture).to_be_visible()
        await expect(picture).to_have_js_property("complete", True)
        assert await picture.evaluate("picture => picture.naturalWidth") > 700, "matplotlib drew it"
        await page.reload()

    async with page.expect_download() as started:
        await files.get_by_role("link", name="Download report.md").click()
    assert "Coffee" in (await (await started.value).path()).read_text()
    assert await serious_violations(page) == []


async def test_the_slides_starter_uses_a_skill(server: RunningServer, visitor: Visitor) -> None:
    page = await visitor.open(server.url, reduced_motion="reduce")
    await page.get_by_role("button", name="Create slides with a skill").click()
    await expect(page.get_by_text("Response complete")).to_be_attached(timeout=LONG_WAIT_MS)
    await page.get_by_role("button", name="make_deck.py").click()
    await expect(page.get_by_text("3 slides, no problems")).to_be_visible()
    async with page.expect_download() as started:
        await page.get_by_role("link", name="Download drinks.pptx").click()
    deck = Presentation(str(await (await started.value).path()))
    assert deck.slides[1].shapes.title.text == "Coffee earns more than half"
