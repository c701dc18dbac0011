"""Keyboard shortcuts, the command palette, drafts and the start page in a real browser."""

import asyncio
import re
from pathlib import Path

from playwright.async_api import Page, Route, expect

from deerflow.testing import ScriptedServer, calling
from tests.e2e.server_process import RunningServer
from tests.e2e.support import PHONE, Visitor, send_message, serious_violations, serve_model, wait_for_answer


async def test_keys_start_a_thread_collapse_the_list_and_show_keys(
    demo_server: RunningServer, visitor: Visitor
) -> None:
    page = await visitor.open(demo_server.url, reduced_motion="reduce")
    await send_message(page, "Ask me a question first")
    await expect(page.locator("[data-said]")).to_have_count(1)
    await page.keyboard.press("Control+Shift+O")
    await expect(page.get_by_role("heading", name="What are we working on?")).to_be_visible()
    await expect(page.get_by_role("textbox", name="Message")).to_be_focused()

    threads = page.get_by_role("navigation", name="Threads")
    await expect(threads).to_be_visible()
    await page.keyboard.press("Control+B")
    await expect(threads).to_be_hidden()
    await page.keyboard.press("Control+B")
    await expect(threads).to_be_visible()

    # A question mark is text in a field.
    await page.keyboard.type("Why?")
    message = page.get_by_role("textbox", name="Message")
    await expect(message).to_have_value("Why?")
    # So is a slash; elsewhere it moves to the message.
    await page.evaluate("document.activeElement.blur()")
    await page.keyboard.press("/")
    await expect(message).to_be_focused()
    await expect(message).to_have_value("Why?")
    await page.keyboard.press("/")
    await expect(message).to_have_value("Why?/")
    await page.evaluate("document.activeElement.blur()")
    await page.keyboard.press("?")
    await expect(page.get_by_role("heading", name="Keyboard shortcuts")).to_be_in_viewport()
    assert await serious_violations(page) == []


async def test_a_draft_survives_a_reload_and_belongs_to_its_thread(
    demo_server: RunningServer, visitor: Visitor
) -> None:
    page = await visitor.open(demo_server.url, reduced_motion="reduce")
    field = page.get_by_role("textbox", name="Message")
    await field.fill("half a thought")
    await wait_for_draft(page, "half a thought")
    await page.reload()
    await expect(field).to_have_value("half a thought")
    await field.fill("What is DeerFlow?")
    await page.keyboard.press("Enter")
    await wait_for_answer(page)
    await field.fill("only here")
    await wait_for_draft(page, "only here")
    await page.keyboard.press("Control+Shift+O")
    await expect(field).to_have_value("")
    await page.go_back()
    await page.reload()
    await expect(field).to_have_value("only here")


async def wait_for_draft(page: Page, text: str) -> None:
    """Wait until a draft is stored, which happens a moment after typing."""
    await page.wait_for_function("text => localStorage.getItem('deerflow.drafts')?.includes(text) ?? false", arg=text)


async def test_every_button_of_the_header_has_a_key(tmp_path: Path, visitor: Visitor) -> None:
    async with ScriptedServer(["One."]) as model:
        with serve_model(tmp_path, model, model_settings={"context_window": 20_000}) as server:
            page = await visitor.open(server.url, reduced_motion="reduce")
            await send_message(page, "count")
            await wait_for_answer(page)
            await page.keyboard.press("Control+/")
            await expect(page.get_by_role("menuitem", name="Rename")).to_be_visible()
            await page.keyboard.press("Escape")
            await expect(page.get_by_role("button", name="count Thread actions")).to_be_focused()
            await expect(page.get_by_role("button", name=re.compile(r"^Context \d+% full"))).to_be_visible()
            await page.keyboard.press("Control+Shift+Y")
            await expect(page.get_by_role("dialog", name="Context")).to_be_visible()
            await page.keyboard.press("Escape")
            await page.keyboard.press("Control+.")
            await expect(page.get_by_role("button", name="Hide panel").first).to_be_visible()
            await page.keyboard.press("Control+.")
            await page.keyboard.press("Control+Shift+L")
            dialog = page.get_by_role("dialog", name=re.compile("^Share “"))
            await expect(dialog).to_contain_text("Sharing is off on this server.")
            await expect(dialog).to_contain_text("enabled: true")
            for scheme in ("light", "dark"):
                await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
                assert await serious_violations(page) == []
            await page.keyboard.press("Escape")
            await page.keyboard.press("Control+,")
            keys = page.locator("#keyboard")
            for name in (
                "Thread actions",
                "Share",
                "Context",
                "Toggle panel",
                "Toggle thread list",
                "Settings",
                "Write a message",
            ):
                await expect(keys).to_contain_text(name)


async def test_the_palette_shows_recent_threads_and_commands_with_their_keys(tmp_path: Path, visitor: Visitor) -> None:
    async with ScriptedServer(["One.", "Two."]) as model:
        with serve_model(tmp_path, model, others=["other"], title={"enabled": False}) as server:
            created = await visitor.open(server.url, reduced_motion="reduce")
            project = await created.request.post(f"{server.url}/api/projects", data={"name": "Herons"})
            assert project.ok
            page = await visitor.open(server.url, reduced_motion="reduce")
            await send_message(page, "count the herons")
            await wait_for_answer(page)
            await page.keyboard.press("Control+K")
            palette = page.get_by_role("listbox", name="Command palette")
            options = palette.get_by_role("option")
            await expect(options.nth(1)).to_contain_text("New thread")
            await expect(options.nth(1)).to_contain_text("Ctrl+Shift+O")
            commands = ("Temporary chat", "Share", "Usage", "Toggle panel", "Write a message", "Attach files")
            for name in (*commands, "Project: Herons", "Use model: other", "Use mode: Pro"):
                await expect(palette.get_by_role("option", name=name)).to_have_count(1)
            for scheme in ("light", "dark"):
                await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
                assert await serious_violations(page) == []
            await page.keyboard.type("use model")
            await page.keyboard.press("Enter")
            await expect(page.get_by_role("button", name="Choose a model: other")).to_be_visible()
            await page.keyboard.press("Control+K")
            await page.keyboard.type("use mode: pro")
            await page.keyboard.press("Enter")
            await expect(page.get_by_role("button", name="Choose a mode: Pro")).to_be_visible()
            await page.keyboard.press("Control+K")
            await page.keyboard.type("attach")
            await expect(options).to_have_count(1)
            async with page.expect_file_chooser():
                await page.keyboard.press("Enter")
            await page.keyboard.press("Control+K")
            await page.keyboard.type("write")
            await page.keyboard.press("Enter")
            await expect(page.get_by_role("textbox", name="Message")).to_be_focused()
            await page.keyboard.press("Control+K")
            await page.keyboard.type("share")
            await page.keyboard.press("Enter")
            await expect(page.get_by_role("dialog", name=re.compile("^Share “"))).to_be_visible()
            await page.keyboard.press("Escape")
            await page.keyboard.press("Control+K")
            await page.keyboard.type("temporary")
            await page.keyboard.press("Enter")
            await expect(page.get_by_role("switch", name="Temporary chat")).to_be_checked()
            await page.keyboard.press("Control+K")
            await page.keyboard.type("project")
            await page.keyboard.press("Enter")
            await expect(page.get_by_role("heading", name="Herons")).to_be_visible()


async def test_what_is_typed_before_the_palette_has_loaded_is_searched_and_not_sent(
    tmp_path: Path, visitor: Visitor
) -> None:
    async with ScriptedServer([]) as model:
        with serve_model(tmp_path, model) as server:
            page = await visitor.open(server.url, reduced_motion="reduce")
            is_shown = asyncio.Event()

            async def hold(route: Route) -> None:
                await is_shown.wait()
                await route.continue_()

            await page.route("**/assets/ChoiceList-*.js", hold)
            await page.reload()
            message = page.get_by_role("textbox", name="Message")
            await expect(message).to_be_focused()
            await page.keyboard.press("Control+K")
            await page.keyboard.type("settin")
            field = page.get_by_role("combobox", name="Command palette")
            await expect(field).to_have_value("settin")
            await expect(page.get_by_role("option")).to_have_count(0)
            is_shown.set()
            await expect(page.get_by_role("option", name="Settings")).to_be_visible()
            await page.keyboard.type("gs")
            await page.keyboard.press("Enter")
            await expect(page).to_have_url(f"{server.url}/settings")
            await page.get_by_role("link", name="New thread").click()
            await expect(message).to_have_value("")


async def test_the_start_page_has_six_cards_and_the_notice_leads_to_a_model(
    demo_server: RunningServer, visitor: Visitor
) -> None:
    page = await visitor.open(demo_server.url, reduced_motion="reduce", **PHONE)
    cards = page.get_by_role("list", name="Suggestions").get_by_role("button")
    await expect(cards).to_have_count(6)
    await expect(cards.locator("svg")).to_have_count(6)
    for scheme in ("light", "dark"):
        await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
        assert await serious_violations(page) == []
    assert await page.evaluate("document.documentElement.scrollWidth") == 390
    await page.get_by_role("button", name="How do I connect a real model?").click()
    await expect(page.locator("[data-said]")).to_have_count(1)
    await wait_for_answer(page)


async def test_a_real_model_gets_tasks_with_a_result(tmp_path: Path, visitor: Visitor) -> None:
    async with ScriptedServer(["Which team?"]) as model:
        with serve_model(tmp_path, model, title={"enabled": False}) as server:
            page = await visitor.open(server.url, reduced_motion="reduce")
            cards = page.get_by_role("list", name="Suggestions").get_by_role("button")
            await expect(cards).to_have_count(6)
            await expect(page.get_by_text("real model")).to_have_count(0)
            await cards.filter(has_text="Plan a project").click()
            await wait_for_answer(page)
        assert "write_todos" in str(model.requests[0].body["tools"])


async def test_enter_makes_a_new_line_on_touch_and_the_hint_ends_after_five_messages(
    tmp_path: Path, visitor: Visitor
) -> None:
    async with ScriptedServer(["Yes."], endless=True) as model:
        with serve_model(tmp_path, model, title={"enabled": False}) as server:
            phone = await visitor.open(server.url, reduced_motion="reduce", **PHONE)
            field = phone.get_by_role("textbox", name="Message")
            await field.press_sequentially("one")
            await phone.keyboard.press("Enter")
            await phone.keyboard.type("two")
            await expect(field).to_have_value("one\ntwo")
            assert model.requests == []

            page = await visitor.open(server.url, reduced_motion="reduce")
            hint = page.get_by_text("Enter to send, Shift+Enter for a new line")
            for number in range(1, 6):
                await expect(hint).to_be_visible()
                await send_message(page, "again")
                await expect(page.locator("[data-role=assistant] .prose")).to_have_count(number)
                await wait_for_answer(page)
            await page.reload()
            await expect(page.locator("[data-said]")).to_have_count(5)
            await expect(hint).to_have_count(0)


async def test_a_branch_says_where_it_comes_from(tmp_path: Path, visitor: Visitor) -> None:
    async with ScriptedServer(["One."]) as model:
        with serve_model(tmp_path, model) as server:
            page = await visitor.open(server.url, reduced_motion="reduce")
            await send_message(page, "count herons")
            await wait_for_answer(page)
            origin = page.url
            await page.get_by_role("button", name="Thread actions").click()
            await page.get_by_role("menuitem", name="Branch into new thread").click()
            await expect(page).not_to_have_url(origin)
            await expect(page.get_by_role("heading", level=1)).to_contain_text("count herons (branch)")
            row = page.get_by_role("navigation", name="Threads").get_by_role("link", name="(branch)")
            await expect(row.get_by_role("img", name="Branched from “count herons”")).to_be_visible()
            assert await serious_violations(page) == []


async def test_presented_files_show_their_size_and_pictures_open_in_the_lightbox(
    tmp_path: Path, visitor: Visitor
) -> None:
    pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    outputs = "/mnt/user-data/outputs"
    draw = f"echo {pixel} | base64 -d > {outputs}/dot.png; head -c 2048 /dev/zero > {outputs}/zeros.bin"
    steps = [
        calling("bash", description="Draw", command=draw),
        calling("present_files", filepaths=[f"{outputs}/dot.png", f"{outputs}/zeros.bin"]),
        "Here they are.",
    ]
    async with ScriptedServer(steps) as model:
        with serve_model(tmp_path, model, title={"enabled": False}) as server:
            page = await visitor.open(server.url, reduced_motion="reduce")
            asked: list[str] = []
            page.on("request", lambda request: asked.append(f"{request.method} {request.url}"))
            await send_message(page, "draw")
            await wait_for_answer(page)
            files = page.get_by_role("region", name="Conversation").get_by_role("list", name="Files")
            await expect(files.get_by_role("listitem").last).to_contain_text("BIN file · 2.05 kB")
            await expect(files.get_by_role("listitem").first).to_contain_text(re.compile(r"PNG image · \d+ B"))
            assert not [each for each in asked if each.startswith("HEAD ")]
            await page.reload()
            await files.get_by_role("button", name="dot.png").first.click()
            lightbox = page.get_by_role("dialog", name="dot.png")
            await expect(lightbox.get_by_role("img", name="dot.png")).to_be_visible()
            assert await serious_violations(page) == []
            await page.keyboard.press("Escape")
            await expect(lightbox).to_have_count(0)
