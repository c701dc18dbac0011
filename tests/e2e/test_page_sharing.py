"""Shared threads in two browsers: of the owner and of a reader without access."""

import re
from pathlib import Path

import httpx
from playwright.async_api import Locator, Page, expect

from deerflow.testing import ScriptedServer, calling
from tests.e2e.long_thread import THREAD, write_long_thread
from tests.e2e.support import PHONE, Visitor, send_message, serious_violations, serve_model

OUTPUTS = "/mnt/user-data/outputs"
HTML = "<p id='p'>still</p><script>document.getElementById('p').textContent = 'moved in ' + self.origin</script>"
REPLIES = [
    calling("write_file", description="d", path=f"{OUTPUTS}/report.md", content="# Herons\n\nThey **wade**."),
    calling("write_file", description="d", path=f"{OUTPUTS}/page.html", content=HTML),
    calling("present_files", filepaths=[f"{OUTPUTS}/report.md", f"{OUTPUTS}/page.html"]),
    "Here is your report.",
    "Nobody else hears this.",
]


async def test_a_shared_thread_is_readable_until_its_link_is_revoked(tmp_path: Path, visitor: Visitor) -> None:
    async with ScriptedServer(REPLIES) as model:
        with serve_model(tmp_path, model, sharing={"enabled": True}) as server:
            page = await visitor.open(server.url, reduced_motion="reduce")
            await send_message(page, "write about herons")
            await expect(page.get_by_text("Here is your report.")).to_be_visible(timeout=30_000)
            link = await create_link(page)
            await send_message(page, "and between us")
            await expect(page.get_by_text("Nobody else hears this.")).to_be_visible(timeout=30_000)

            requests: list[str] = []
            reader = await visitor.open(f"{server.url}/icon.svg", reduced_motion="reduce", **PHONE)
            reader.on("request", lambda request: requests.append(request.url.removeprefix(server.url)))
            await reader.goto(link)
            await check_shared_thread(reader)
            calls = [path for path in requests if path.startswith("/api/")]
            assert calls and all(path.startswith("/api/shared/") for path in calls)

            await open_sharing(page)
            await page.get_by_role("button", name="Revoke link").click()
            await expect(page.get_by_role("list", name="Links to this thread")).to_have_count(0)
            visitor.ignored_messages = "Failed to load resource"
            await reader.reload()
            await expect(reader.get_by_role("heading", name="Link not found or expired")).to_be_visible()
            assert await serious_violations(reader) == []


async def open_sharing(page: Page) -> Locator:
    await page.get_by_role("link", name="write about herons").hover()
    await page.get_by_role("button", name="Actions for “write about herons”").click()
    await page.get_by_role("menuitem", name="Share").click()
    return page.get_by_role("dialog", name=re.compile("^Share “"))  # the title may be replaced meanwhile


async def create_link(page: Page) -> str:
    dialog = await open_sharing(page)
    await dialog.get_by_role("button", name="Create link").click()
    address = await dialog.get_by_role("textbox", name="Link address").input_value()
    await expect(dialog.get_by_role("list", name="Links to this thread").get_by_role("listitem")).to_have_count(1)
    assert await serious_violations(page) == []
    await page.keyboard.press("Escape")
    await expect(dialog).to_have_count(0)
    return address


async def check_shared_thread(reader: Page) -> None:
    await expect(reader.get_by_role("heading", name="write about herons", level=1)).to_be_visible()
    # It opens at its top, to be read.
    await expect(reader.locator("[data-said]").first).to_be_in_viewport()
    await expect(reader.get_by_text("Here is your report.")).to_be_visible()
    await expect(reader.get_by_text("Nobody else hears this.")).to_have_count(0)
    await expect(reader.get_by_role("textbox")).to_have_count(0)
    await expect(reader.get_by_role("navigation")).to_have_count(0)
    assert await serious_violations(reader) == []
    await reader.get_by_role("button", name="Open report.md").click()
    await expect(reader.get_by_role("dialog", name="report.md").locator("strong")).to_have_text("wade")
    assert await serious_violations(reader) == []
    await reader.keyboard.press("Escape")
    await reader.get_by_role("button", name="Open page.html").click()
    frame = reader.get_by_role("dialog", name="page.html").frame_locator("iframe").frame_locator("iframe")
    await expect(frame.locator("#p")).to_have_text("moved in null")
    await reader.keyboard.press("Escape")


async def test_a_long_shared_thread_opens_at_its_top(tmp_path: Path, visitor: Visitor) -> None:
    await write_long_thread(tmp_path, 500)  # more than one page of messages
    async with ScriptedServer([]) as model:
        with serve_model(tmp_path, model, sharing={"enabled": True}) as server:
            async with httpx.AsyncClient(base_url=server.url) as http:
                made = await http.post(f"/api/threads/{THREAD}/shares", json={"expires_in_days": 7})
            reader = await visitor.open(f"{server.url}{made.raise_for_status().json()['path']}", **PHONE)
            await expect(reader.get_by_text("What about part 0?", exact=True)).to_be_in_viewport()
            area = reader.locator("[data-scroll-area]")
            assert await area.evaluate("node => node.scrollHeight > 5 * node.clientHeight")
            jump = reader.get_by_role("button", name="Jump to latest")
            await expect(jump).to_have_count(0)
            await area.evaluate("node => node.scrollBy(0, 2 * node.clientHeight)")
            await jump.click()
            await expect(reader.get_by_text("What about part 249?", exact=True)).to_be_visible()


async def test_threads_that_wait_for_the_user_are_marked_in_the_list(tmp_path: Path, visitor: Visitor) -> None:
    question_call = calling(
        "ask_clarification", question="For whom?", clarification_type="missing_info", options=["Me", "You"]
    )
    tools = [{"name": "abspath", "group": "files", "use": "os.path:abspath", "approval": "always"}]
    async with ScriptedServer([question_call, calling("abspath", path="."), "For you, then."]) as model:
        with serve_model(tmp_path, model, tools=tools) as server:
            async with httpx.AsyncClient(base_url=server.url) as http:
                await run_to_end(http, "asks")
                page = await visitor.open(server.url, reduced_motion="reduce")
                nav = page.get_by_role("navigation")
                question = nav.get_by_role("img", name="Question for you")
                await expect(question).to_be_visible()
                await run_to_end(http, "acts")
            # The page updates without user action.
            await expect(nav.get_by_role("img", name="Approval needed")).to_be_visible(timeout=30_000)
            assert await serious_violations(page) == []
            await nav.get_by_role("link", name="this asks").click()
            await page.get_by_role("group", name="For whom?").get_by_role("button", name="You").click()
            await expect(page.get_by_text("For you, then.")).to_be_visible(timeout=30_000)
            await expect(question).to_have_count(0, timeout=30_000)


async def run_to_end(http: httpx.AsyncClient, name: str) -> None:
    body = {"input": {"messages": [{"type": "human", "content": f"this {name}"}]}}
    assert (await http.post(f"/api/threads/{name}/runs/wait", json=body, timeout=30)).status_code == 200
