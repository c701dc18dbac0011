"""Very long threads, in a real browser against a real server."""

from pathlib import Path

from playwright.async_api import Page, expect

from deerflow.testing import Answer, ScriptedServer, Stall
from tests.e2e.long_thread import THREAD, write_long_thread
from tests.e2e.support import Visitor, send_message, serious_violations, serve_model, wait_for_answer

MESSAGES = 10_000
MAX_RENDERED = 80


async def count_rendered(page: Page) -> int:
    return await page.locator("[data-role]").count()


async def test_a_thread_of_10000_messages_opens_at_its_end_and_loads_earlier_messages_on_scroll(
    tmp_path: Path, visitor: Visitor
) -> None:
    await write_long_thread(tmp_path, MESSAGES)
    async with ScriptedServer([Stall(Answer(tuple(f"line {number}\n\n" for number in range(40)))), "Short."]) as model:
        with serve_model(tmp_path, model) as server:
            page = await visitor.open(f"{server.url}/threads/{THREAD}", reduced_motion="reduce")
            requests: list[str] = []
            page.on("request", lambda request: requests.append(request.url) if "/messages" in request.url else None)
            await expect(page.get_by_role("heading", name=f"Part {MESSAGES // 2 - 1}")).to_be_in_viewport()
            await expect(page.get_by_role("heading", name="A very long thread")).to_be_visible()
            assert await count_rendered(page) < MAX_RENDERED
            assert await serious_violations(page) == []

            area = page.locator("[data-scroll-area]")
            await area.hover()
            for _ in range(30):
                await page.mouse.wheel(0, -4000)
                await page.evaluate("new Promise(requestAnimationFrame)")
            await expect(page.get_by_role("button", name="Jump to latest")).to_be_visible()
            assert await count_rendered(page) < MAX_RENDERED
            assert requests and all("limit=" in url for url in requests)
            assert len(requests) < MESSAGES / 200 / 2

            # Loading earlier messages does not move the visible ones.
            message = page.locator("[data-role=user]").nth(4)
            before = await message.bounding_box()
            await page.wait_for_load_state("networkidle")
            after = await message.bounding_box()
            assert before is not None and after is not None and abs(before["y"] - after["y"]) < 2

            await send_message(page, "write a lot")
            await expect(page.get_by_text("line 39")).to_be_in_viewport()
            model.release()
            await wait_for_answer(page)
            assert await count_rendered(page) < MAX_RENDERED
