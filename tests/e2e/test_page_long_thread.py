"""Very long threads, in a real browser against a real server."""

from pathlib import Path

from playwright.async_api import Page, expect

from deerflow.testing import Answer, ScriptedServer, Stall
from tests.e2e.long_thread import THREAD, write_long_thread
from tests.e2e.stage import Visitor, serious_violations
from tests.e2e.test_page import say, serving_model, until_answered

MESSAGES = 10_000
MOST_DRAWN = 80


async def drawn(page: Page) -> int:
    return await page.locator("[data-role]").count()


async def test_ten_thousand_messages_open_at_their_end_and_are_fetched_as_the_reader_goes_back(
    tmp_path: Path, visitor: Visitor
) -> None:
    await write_long_thread(tmp_path, MESSAGES)
    async with ScriptedServer([Stall(Answer(tuple(f"line {number}\n\n" for number in range(40)))), "Short."]) as model:
        with serving_model(tmp_path, model) as server:
            page = await visitor.open(f"{server.url}/threads/{THREAD}", reduced_motion="reduce")
            fetched: list[str] = []
            page.on("request", lambda request: fetched.append(request.url) if "/messages" in request.url else None)
            await expect(page.get_by_role("heading", name=f"Part {MESSAGES // 2 - 1}")).to_be_in_viewport()
            await expect(page.get_by_role("heading", name="A very long thread")).to_be_visible()
            assert await drawn(page) < MOST_DRAWN
            assert await serious_violations(page) == []

            area = page.locator("[data-scroll-area]")
            await area.hover()
            for _ in range(30):
                await page.mouse.wheel(0, -4000)
                await page.evaluate("new Promise(requestAnimationFrame)")
            await expect(page.get_by_role("button", name="Jump to latest")).to_be_visible()
            assert await drawn(page) < MOST_DRAWN
            assert fetched and all("limit=" in url for url in fetched)
            assert len(fetched) < MESSAGES / 200 / 2

            # What comes in front of the reader does not move what they read.
            place = page.locator("[data-role=user]").nth(4)
            before = await place.bounding_box()
            await page.wait_for_load_state("networkidle")
            after = await place.bounding_box()
            assert before is not None and after is not None and abs(before["y"] - after["y"]) < 2

            await say(page, "write a lot")
            await expect(page.get_by_text("line 39")).to_be_in_viewport()
            model.release()
            await until_answered(page)
            assert await drawn(page) < MOST_DRAWN
