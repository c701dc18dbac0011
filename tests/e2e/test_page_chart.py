"""Starters that use the sandbox, in a real browser."""

import asyncio
import os
from collections.abc import Iterator

import pytest
from playwright.async_api import expect
from pptx import Presentation

from deerflow.config.sections.sandbox import ToolboxConfig
from deerflow.sandbox.local.toolbox import ToolboxBuilder
from tests.e2e.server_process import RunningServer, serve
from tests.e2e.support import Visitor, serious_violations
from tests.support import user_cache

pytestmark = [pytest.mark.external, pytest.mark.timeout(600)]  # the toolbox is fetched and built

ANSWER_TIMEOUT_MS = 60_000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server with the Python toolbox, which is built once per machine."""
    environment = dict(os.environ)  # noqa: TID251
    asyncio.run(ToolboxBuilder(ToolboxConfig(), user_cache() / "deerflow", environment).build())
    with serve(tmp_path_factory.mktemp("home")) as server:
        yield server


async def test_the_chart_starter_runs_code_and_presents_files(server: RunningServer, visitor: Visitor) -> None:
    page = await visitor.open(server.url, reduced_motion="reduce")
    await page.get_by_role("button", name="Analyze data and draw a chart").click()
    await expect(page.get_by_text("Response complete")).to_be_attached(timeout=ANSWER_TIMEOUT_MS)

    files = page.get_by_role("list", name="Files")
    for _ in range(2):
        await page.get_by_role("button", name="Worked").click()
        await expect(page.get_by_role("button", name="Wrote sales.csv")).to_be_visible()
        image = files.get_by_role("img", name="chart.png")
        await expect(image).to_be_visible()
        await expect(image).to_have_js_property("complete", True)
        assert await image.evaluate("picture => picture.naturalWidth") > 700, "matplotlib drew it"
        await page.reload()

    async with page.expect_download() as started:
        await files.get_by_role("link", name="Download report.md").click()
    assert "Coffee" in (await (await started.value).path()).read_text()
    assert await serious_violations(page) == []


async def test_the_slides_starter_uses_a_skill(server: RunningServer, visitor: Visitor) -> None:
    page = await visitor.open(server.url, reduced_motion="reduce")
    await page.get_by_role("button", name="Create slides with a skill").click()
    await expect(page.get_by_text("Response complete")).to_be_attached(timeout=ANSWER_TIMEOUT_MS)
    await page.get_by_role("button", name="Make the deck and check it").click()
    await expect(page.get_by_text("3 slides, no problems")).to_be_visible()
    async with page.expect_download() as started:
        await page.get_by_role("list", name="Files").get_by_role("link", name="Download drinks.pptx").click()
    deck = Presentation(str(await (await started.value).path()))
    assert deck.slides[1].shapes.title.text == "Coffee earns more than half"
