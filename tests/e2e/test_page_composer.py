"""The message composer in a real browser: attachments, mentions, suggestions, models and modes."""

import asyncio
import json
from base64 import b64decode
from pathlib import Path

from playwright.async_api import Route, expect

from deerflow.testing import ScriptedServer
from tests.e2e.server_process import RunningServer
from tests.e2e.support import Visitor, send_message, serious_violations, serve_model, wait_for_answer

FOLDER = "/mnt/user-data/uploads"
PICTURE = b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==")
DISPATCH_FILE = """([name, type]) => {
    const transfer = new DataTransfer();
    transfer.items.add(new File(["a,b\\n1,2\\n"], name, { type: "text/csv" }));
    const options = { bubbles: true, cancelable: true };
    const event = type === "paste"
        ? new ClipboardEvent("paste", { ...options, clipboardData: transfer })
        : new DragEvent(type, { ...options, dataTransfer: transfer });
    document.getElementById("composer").dispatchEvent(event);
}"""


async def test_files_are_attached_by_drop_paste_and_file_picker(tmp_path: Path, visitor: Visitor) -> None:
    async with ScriptedServer(["Thanks."]) as model:
        limits = {"max_files": 3, "max_file_size": 1000, "max_total_size": 2000}
        with serve_model(tmp_path, model, uploads=limits) as server:
            page = await visitor.open(server.url, reduced_motion="reduce")
            await expect(page.get_by_role("button", name="Attach files")).to_be_visible()
            await page.evaluate(DISPATCH_FILE, ["dropped.csv", "drop"])
            await expect(page.get_by_text("dropped.csv")).to_be_visible()
            await page.evaluate(DISPATCH_FILE, ["pasted.csv", "paste"])
            await page.locator("input[type=file]").set_input_files(
                [{"name": "large.csv", "mimeType": "text/csv", "buffer": b"a" * 1001}]
            )
            await expect(page.get_by_role("alert").last).to_have_text("Too large. The limit is 1 kB per file.")
            picture = {"name": "dot.png", "mimeType": "image/png", "buffer": PICTURE}
            await page.locator("input[type=file]").set_input_files([picture])
            await expect(page.get_by_role("list", name="Attached files").locator("img")).to_be_visible()
            # Nothing is created before the message is sent.
            await expect(page.get_by_role("heading", name="What are we working on?")).to_be_visible()
            threads = await page.request.post(f"{server.url}/api/threads/search", data={})
            assert await threads.json() == []
            assert await serious_violations(page) == []
            for name in ("large.csv", "pasted.csv"):
                await page.get_by_role("button", name=f"Remove {name}").click()
            await send_message(page, "look at this")
            await wait_for_answer(page)
            for _ in range(2):
                await expect(page.get_by_role("link", name="dropped.csv")).to_be_visible()
                await expect(page.get_by_text("pasted.csv")).to_have_count(0)
                await page.reload()
            await page.get_by_role("button", name="dot.png").click()
            await expect(page.get_by_role("dialog", name="dot.png").get_by_role("img")).to_be_visible()
            assert await serious_violations(page) == []
            await page.keyboard.press("Escape")
            assert "dropped.csv" in json.dumps(model.requests[0].messages)


async def test_a_file_is_mentioned_by_autocompletion(tmp_path: Path, visitor: Visitor) -> None:
    async with ScriptedServer(["One.", "Two."]) as model:
        with serve_model(tmp_path, model) as server:
            page = await visitor.open(server.url, reduced_motion="reduce")
            await expect(page.get_by_role("button", name="Attach files")).to_be_visible()
            await page.evaluate(DISPATCH_FILE, ["sales.csv", "drop"])
            await expect(page.get_by_text("sales.csv")).to_be_visible()
            await send_message(page, "begin")
            await wait_for_answer(page)
            box = page.get_by_role("textbox", name="Message")
            await box.press_sequentially("sum up @sal")
            option = page.get_by_role("option", name="sales.csv")
            await expect(option).to_have_attribute("aria-selected", "true")
            assert await serious_violations(page) == []
            await page.keyboard.press("Enter")
            await expect(option).to_have_count(0)
            await expect(box).to_have_value(f"sum up {FOLDER}/sales.csv ")


async def test_suggestions_are_sent_and_prompt_improvement_can_be_undone(tmp_path: Path, visitor: Visitor) -> None:
    suggestions = '["What about May?", "Draw it"]'
    async with ScriptedServer(["Please sum up the sales.", "One.", suggestions, "Two.", "[]"]) as model:
        with serve_model(tmp_path, model, suggestions={"enabled": True}) as server:
            page = await visitor.open(server.url, reduced_motion="reduce")
            box = page.get_by_role("textbox", name="Message")
            await box.fill("sum up teh sales plz")
            await page.get_by_role("button", name="Improve prompt").click()
            await expect(box).to_have_value("Please sum up the sales.")
            await page.get_by_role("button", name="Undo improvement").click()
            await expect(box).to_have_value("sum up teh sales plz")
            await page.keyboard.press("Escape")
            await box.press("Enter")
            await wait_for_answer(page)
            await page.get_by_role("list", name="Suggested follow-ups").get_by_role("button", name="Draw it").click()
            await expect(page.locator("[data-role=user]").last).to_have_text("Draw it")
            await expect(page.get_by_text("Two.")).to_be_visible()


async def test_the_selected_model_answers_also_after_a_reload(tmp_path: Path, visitor: Visitor) -> None:
    async with ScriptedServer(["One.", "Two."]) as model:
        with serve_model(tmp_path, model, others=["second"]) as server:
            page = await visitor.open(server.url, reduced_motion="reduce")
            picker = page.get_by_role("button", name="Choose a model")
            await picker.focus()
            await page.keyboard.press("Enter")
            assert await serious_violations(page) == []
            await page.keyboard.press("ArrowDown")
            await page.keyboard.press("Enter")
            await expect(picker).to_have_text("second")
            for text in ("hello", "again"):
                await send_message(page, text)
                await wait_for_answer(page)
                assert model.requests[-1].model == "second"
                await page.reload()


async def test_arrow_keys_recall_previous_messages(demo_server: RunningServer, visitor: Visitor) -> None:
    page = await visitor.open(demo_server.url)
    for text in ("first words", "second words"):
        await send_message(page, text)
        await expect(page.locator("[data-role=user]").last).to_have_text(text)
        await wait_for_answer(page)
    box = page.get_by_role("textbox", name="Message")
    for key, value in [("Up", "second words"), ("Up", "first words"), ("Down", "second words"), ("Down", "")]:
        await box.press(f"Arrow{key}")
        await expect(box).to_have_value(value)


async def test_a_menu_that_is_opened_while_the_page_loads_stays_open(
    demo_server: RunningServer, visitor: Visitor
) -> None:
    page = await visitor.open(demo_server.url, reduced_motion="reduce")
    loads = asyncio.Event()

    async def hold(route: Route) -> None:
        await loads.wait()
        await route.continue_()

    await page.route("**/api/**", hold)
    await page.reload()
    await page.get_by_role("button", name="Choose a mode:").click()
    await expect(page.get_by_role("menuitemradio")).to_have_count(4)
    await expect(page.get_by_role("button", name="Attach files")).to_have_count(0)
    loads.set()
    await expect(page.get_by_role("button", name="Attach files")).to_be_visible()
    await page.get_by_role("menuitemradio", name="Ultra").click()
    await expect(page.get_by_role("button", name="Choose a mode:")).to_have_text("Ultra")


async def test_the_mode_of_a_thread_persists_and_is_sent_with_messages(
    demo_server: RunningServer, visitor: Visitor
) -> None:
    page = await visitor.open(demo_server.url, reduced_motion="reduce")
    contexts: list[dict[str, object]] = []
    page.on(
        "request",
        lambda request: (
            contexts.append(json.loads(request.post_data or "{}")["context"])
            if request.url.endswith("/runs/stream")
            else None
        ),
    )
    picker = page.get_by_role("button", name="Choose a mode:")
    await expect(picker).to_have_text("Thinking")
    await picker.click()
    await expect(page.get_by_role("menuitemradio")).to_have_count(4)
    assert await serious_violations(page) == []
    await page.get_by_role("menuitemradio", name="Ultra").click()
    await send_message(page, "hello")
    await wait_for_answer(page)
    assert contexts[0]["is_plan_mode"] is True and contexts[0]["subagent_enabled"] is True

    thread = page.url
    await page.goto(demo_server.url)
    await picker.click()
    await page.get_by_role("menuitemradio", name="Flash").click()
    await page.goto(thread)
    await expect(picker).to_have_text("Ultra")
