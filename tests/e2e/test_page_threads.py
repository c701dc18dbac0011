"""The thread list, agents and the command palette in a real browser against a real server."""

from pathlib import Path

import httpx
from playwright.async_api import Page, expect

from deerflow.testing import ScriptedServer
from tests.e2e.server_process import RunningServer, serve
from tests.e2e.support import Visitor, serious_violations, serve_model


async def choose_action(page: Page, title: str, item: str) -> None:
    await page.get_by_role("link", name=title).hover()
    await page.get_by_role("button", name=f"Actions for “{title}”").click()
    await page.get_by_role("menuitem", name=item).click()


async def start_thread(page: Page, text: str) -> None:
    await page.get_by_role("textbox", name="Message").fill(text)
    await page.keyboard.press("Enter")
    await expect(page.get_by_text("Response complete")).to_be_attached(timeout=30_000)


async def test_a_thread_is_renamed_pinned_and_archived_and_stays_so_after_a_reload(
    tmp_path: Path, visitor: Visitor
) -> None:
    with serve(tmp_path) as server:
        page = await visitor.open(server.url, reduced_motion="reduce")
        await start_thread(page, "How do I connect a real model?")
        await choose_action(page, "How do I connect a real model?", "Rename")
        await page.keyboard.type("Keys")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", name="Keys", level=1)).to_be_visible()
        await choose_action(page, "Keys", "Pin")
        await expect(page.get_by_role("heading", name="Pinned")).to_be_visible()
        assert await serious_violations(page) == []
        await page.reload()
        await expect(page.get_by_role("heading", name="Pinned")).to_be_visible()
        await expect(page.get_by_role("heading", name="Keys", level=1)).to_be_visible()

        await choose_action(page, "Keys", "Archive")
        await expect(page.get_by_role("navigation").get_by_role("link", name="Keys")).to_have_count(0)
        await page.reload()
        await page.get_by_role("button", name="Archived threads").click()
        await choose_action(page, "Keys", "Unarchive")
        await page.get_by_role("button", name="Undo").click()
        await expect(page.get_by_role("link", name="Keys")).to_be_visible()


async def test_a_generated_title_appears_without_a_reload(tmp_path: Path, visitor: Visitor) -> None:
    async with ScriptedServer(["Green is steeped at seventy degrees.", "How to steep tea"], titles=True) as model:
        with serve_model(tmp_path, model, title={"model_name": model.model_config().name}) as server:
            page = await visitor.open(server.url, reduced_motion="reduce")
            await start_thread(page, "tell me at length how tea is made")
            nav = page.get_by_role("navigation", name="Threads")
            await expect(nav.get_by_role("link", name="How to steep tea")).to_be_visible(timeout=30_000)
            await expect(page.get_by_role("heading", level=1)).to_have_text("How to steep tea", timeout=30_000)


async def test_a_thread_is_exported_as_markdown_and_json(demo_server: RunningServer, visitor: Visitor) -> None:
    page = await visitor.open(demo_server.url)
    await start_thread(page, "a thread to export")
    for item, beginning in (("Export as Markdown", "# a thread to export"), ("Export as JSON", "{")):
        async with page.expect_download() as waiting:
            await choose_action(page, "a thread to export", item)
        download = await waiting.value
        text = Path(await download.path()).read_text()  # noqa: ASYNC240  # a small file at the end of the test
        assert download.suggested_filename.startswith("a thread to export.")
        assert text.startswith(beginning) and "a thread to export" in text


async def test_a_long_thread_list_is_rendered_on_scroll(tmp_path: Path, visitor: Visitor) -> None:
    with serve(tmp_path) as server:
        async with httpx.AsyncClient(base_url=server.url) as http:
            for number in range(230):
                await http.post("/api/threads", json={"metadata": {"title": f"Thread {number}"}})
        page = await visitor.open(server.url)
        nav = page.get_by_role("navigation")
        await expect(nav.get_by_role("link", name="Thread 229")).to_be_visible()
        assert await nav.get_by_role("listitem").count() < 60
        oldest = nav.get_by_role("link", name="Thread 0", exact=True)
        await nav.get_by_role("link", name="Thread 229").hover()
        for _ in range(20):
            await page.mouse.wheel(0, 2000)
            if await oldest.count():
                break
        await expect(oldest).to_be_visible()
        await page.get_by_role("searchbox", name="Search threads").fill("thread 11")
        await expect(nav.get_by_role("listitem")).to_have_count(12)  # 11, 110 … 119, and a heading


async def test_the_command_palette_opens_threads_and_views_by_keyboard(
    demo_server: RunningServer, visitor: Visitor
) -> None:
    page = await visitor.open(demo_server.url, reduced_motion="reduce")
    await start_thread(page, "a thread for the palette")
    address = page.url
    await page.keyboard.press("Control+k")
    await expect(page.get_by_role("listbox")).to_be_visible()
    await page.keyboard.type("settings")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="Keyboard shortcuts")).to_be_visible()
    assert page.url.endswith("/settings")
    await expect(page.get_by_text("Sandboxed: no access to your files")).to_be_visible()
    await expect(page.get_by_text("Default", exact=True)).to_be_visible()
    assert await serious_violations(page) == []
    await page.keyboard.press("Control+k")
    await expect(page.get_by_role("listbox")).to_be_visible()
    await page.keyboard.type("for the pal")
    await page.keyboard.press("Enter")
    await expect(page.locator("[data-role=user]")).to_have_text("a thread for the palette")
    assert page.url == address
    await page.go_back()
    await expect(page.get_by_role("heading", name="Keyboard shortcuts")).to_be_visible()


async def test_old_messages_are_found_from_the_list_and_the_command_palette(
    demo_server: RunningServer, visitor: Visitor
) -> None:
    async with httpx.AsyncClient(base_url=demo_server.url, timeout=30) as http:
        body = {"input": {"messages": [{"type": "human", "content": "About the quokka\n\nof **Rottnest**"}]}}
        assert (await http.post("/api/threads/old-quokka/runs/wait", json=body)).status_code == 200
        for number in range(3):  # newer threads
            await http.post("/api/threads", json={"metadata": {"title": f"Later {number}"}})
    page = await visitor.open(demo_server.url, reduced_motion="reduce")
    await page.get_by_role("searchbox", name="Search threads").fill("rottnest")
    await page.get_by_role("navigation").get_by_role("link", name="Rottnest").click()
    await expect(page.locator("[data-role=user]")).to_contain_text("Rottnest")
    assert page.url.endswith("/threads/old-quokka") and await serious_violations(page) == []

    await page.get_by_role("link", name="New thread").click()
    await page.keyboard.press("Control+k")
    await expect(page.get_by_role("listbox")).to_be_visible()
    await page.keyboard.type("rottnest")
    # The title is what was written; the snippet has no marks.
    await expect(page.get_by_role("option", name="About the quokka of Rottnest").first).to_be_visible()
    assert await serious_violations(page) == []
    await page.keyboard.press("Enter")
    await expect(page.locator("[data-role=user]")).to_contain_text("Rottnest")


async def test_an_agent_is_created_used_and_deleted(tmp_path: Path, visitor: Visitor) -> None:
    with serve(tmp_path) as server:
        page = await visitor.open(f"{server.url}/agents", reduced_motion="reduce")
        await page.get_by_role("link", name="New agent").click()
        await page.get_by_role("textbox", name="Name").fill("ada")
        await page.get_by_role("textbox", name="Description").fill("Counts")
        await page.get_by_role("textbox", name="Instructions").fill("You count.")
        assert await serious_violations(page) == []
        await page.get_by_role("button", name="Create").click()
        await expect(page.get_by_role("heading", name="ada", level=1)).to_be_visible()
        await page.reload()
        await expect(page.get_by_role("textbox", name="Instructions")).to_contain_text("You count.")

        await page.get_by_role("button", name="Chat").click()
        await start_thread(page, "hello ada")
        await page.reload()
        await expect(page.get_by_role("link", name="ada", exact=True)).to_be_visible()
        assert (await latest_run(server, page.url))["assistant_id"] == "ada"

        await page.get_by_role("link", name="ada", exact=True).click()
        await page.get_by_role("button", name="Delete ada").click()
        await page.get_by_role("button", name="Delete", exact=True).click()
        await expect(page.get_by_text("No custom agents yet")).to_be_visible()

        await page.get_by_role("button", name="Create with chat").first.click()
        await start_thread(page, "a poet, please")
        await page.reload()
        await expect(page.get_by_text("Creating an agent")).to_be_visible()
        assert (await latest_run(server, page.url))["metadata"]["deerflow_bootstrap"] is True


async def latest_run(server: RunningServer, address: str) -> dict[str, object]:
    async with httpx.AsyncClient(base_url=server.url) as http:
        runs: list[dict[str, object]] = (await http.get(f"/api/threads/{address.rsplit('/', 1)[1]}/runs")).json()
        return runs[0]
