"""The web page, in a real browser against a real server."""

import asyncio
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from deerflow.testing import Answer, CutAfter, ScriptedServer, ServerFault, Stall
from tests.e2e.server_process import RunningServer
from tests.e2e.support import PHONE, Visitor, send_message, serious_violations, serve_model, wait_for_answer


async def record_answer_lengths(page: Page) -> None:
    """Record every length of the answer from now on."""
    await page.evaluate(
        """() => {
            window.lengths = [];
            new MutationObserver(() => {
                const answer = document.querySelector("[data-role=assistant] .prose");
                const length = answer?.textContent.length ?? 0;
                if (length !== window.lengths.at(-1)) window.lengths.push(length);
            }).observe(document.body, { childList: true, subtree: true, characterData: true });
        }"""
    )


async def test_an_answer_is_streamed_and_shown_again_after_a_reload(
    demo_server: RunningServer, visitor: Visitor
) -> None:
    page = await visitor.open(demo_server.url)
    await record_answer_lengths(page)
    await send_message(page, "Show me what an answer can look like: headings, a table, code and a list.")
    await wait_for_answer(page)

    lengths = await page.evaluate("window.lengths")
    # A busy machine draws fewer frames; an answer that came as a whole would have one.
    assert len(lengths) > 10 and lengths[-1] > 200

    answer = page.locator("[data-role=assistant]")
    text = await answer.inner_text()
    assert "/threads/" in page.url
    await page.reload()
    await expect(answer.locator("table")).to_be_visible()
    # The duration of reasoning is only known to the page that streamed it.
    assert (await answer.inner_text()).splitlines()[1:] == text.splitlines()[1:]
    await expect(page.get_by_role("navigation").get_by_role("link").nth(1)).to_be_visible()


async def test_the_first_page_shows_demo_mode_and_starters(demo_server: RunningServer, visitor: Visitor) -> None:
    page = await visitor.open(demo_server.url)
    await expect(page.get_by_text("Demo mode: answers are scripted.")).to_be_visible()
    await page.get_by_role("list", name="Suggestions").get_by_role("button").first.click()
    await wait_for_answer(page)
    await expect(page.locator("[data-role=assistant]")).to_contain_text("DeerFlow")


async def test_a_question_is_answered_by_an_option_which_stays_selected(
    demo_server: RunningServer, visitor: Visitor
) -> None:
    page = await visitor.open(demo_server.url, reduced_motion="reduce")
    await page.get_by_role("button", name="Ask me a question first").click()
    question = page.get_by_role("group", name="Who is the report for?")
    option = question.get_by_role("button", name="My manager")
    await expect(option).to_be_enabled()
    await expect(page.get_by_text("The agent has a question")).to_be_attached()
    assert await serious_violations(page) == []

    await option.focus()
    await page.keyboard.press("Enter")
    await wait_for_answer(page)
    await expect(page.locator("[data-role=user]").last).to_have_text("My manager")
    await expect(page.get_by_role("textbox", name="Message")).to_be_focused()

    await page.reload()
    await expect(question.get_by_role("button", name="Selected: My manager")).to_be_disabled()
    await expect(question.get_by_role("button", name="My team")).to_be_disabled()
    assert await serious_violations(page) == []


async def expect_one_completed_plan(page: Page) -> None:
    done = page.get_by_role("list", name="To-do list 3 of 3 done")
    await expect(done.get_by_role("img", name="Done")).to_have_count(3)
    await expect(page.get_by_role("list", name="To-do list")).to_have_count(1)
    await expect(page.locator("[data-role=assistant]")).to_have_count(2)


async def test_a_plan_is_one_todo_list_whose_items_are_completed(demo_server: RunningServer, visitor: Visitor) -> None:
    page = await visitor.open(demo_server.url, reduced_motion="reduce")
    await page.get_by_role("button", name="Plan a project with a to-do list").click()
    await wait_for_answer(page)
    await expect_one_completed_plan(page)
    assert await serious_violations(page) == []
    await page.reload()
    await expect_one_completed_plan(page)


async def test_stopping_keeps_the_partial_answer(tmp_path: Path, visitor: Visitor) -> None:
    async with ScriptedServer([Stall(Answer("one two three"))]) as model:
        with serve_model(tmp_path, model) as server:
            page = await visitor.open(server.url)
            await send_message(page, "count")
            answer = page.locator("[data-role=assistant] .prose")
            await expect(answer).to_have_text("one two three")
            await page.keyboard.press("Escape")
            await expect(page.get_by_text("Response stopped")).to_be_visible()
            async with asyncio.timeout(10):
                await model.disconnected.wait()
            await page.reload()
            await expect(answer).to_have_text("one two three")


async def test_an_answer_resumes_after_the_server_is_killed_and_restarted(tmp_path: Path, visitor: Visitor) -> None:
    visitor.ignored_messages = "Failed to load resource"
    async with ScriptedServer([Stall(Answer("one two three")), "four five", "six"]) as model:
        with serve_model(tmp_path, model) as server:
            page = await visitor.open(server.url)
            await send_message(page, "count")
            answer = page.locator("[data-role=assistant] .prose")
            await expect(answer).to_have_text("one two three")
            server.kill()
            await expect(page.get_by_text("Connection lost. Reconnecting")).to_be_visible()
        with serve_model(tmp_path, model, port=server.port):
            await expect(answer).to_have_text("four five")
            await expect(page.get_by_text("Reconnecting")).to_have_count(0)
            await expect(page.get_by_role("alert")).to_have_count(0)
            await send_message(page, "go on")
            await expect(answer.last).to_have_text("six")


async def test_an_interrupted_answer_is_kept_with_the_error(tmp_path: Path, visitor: Visitor) -> None:
    faults = [CutAfter(3), ServerFault(400, "no such model"), ServerFault(401, "wrong key")]
    async with ScriptedServer(faults, endless=True) as model:
        with serve_model(tmp_path, model, others=["another"]) as server:
            page = await visitor.open(server.url)
            await send_message(page, "count")
            alert = page.get_by_role("alert")
            await expect(alert).to_contain_text("scripted isn’t available at its provider")
            await expect(alert).to_contain_text("The output so far is kept above.")
            await expect(page.locator("[data-role=assistant] .prose")).to_contain_text("one two three")
            await alert.get_by_text("Details").click()
            await expect(alert.get_by_text("no such model")).to_be_visible()
            assert await serious_violations(page) == []
            await alert.get_by_role("button", name="Use another model").click()
            await page.get_by_role("menuitem", name="another").click()
            for _ in range(2):
                await expect(alert).to_contain_text("The key for another was rejected")
                await expect(alert).not_to_contain_text("kept above")
                await page.reload()
            await alert.get_by_role("button", name="Update key").click()
            dialog = page.get_by_role("dialog", name="Key for another")
            await expect(dialog).to_contain_text("set up in the configuration of the server")
            await dialog.get_by_role("link", name="Model settings").click()
            await expect(page.get_by_role("heading", name="Models")).to_be_in_viewport()


async def test_a_second_page_joins_an_active_answer(tmp_path: Path, visitor: Visitor) -> None:
    async with ScriptedServer([Stall(Answer("one two three"))]) as model:
        with serve_model(tmp_path, model) as server:
            first = await visitor.open(server.url)
            await send_message(first, "count")
            await expect(first.locator("[data-role=assistant] .prose")).to_have_text("one two three")
            second = await visitor.open(first.url)
            await expect(second.locator("[data-role=user]")).to_have_text("count")
            await expect(second.locator("[data-role=assistant] .prose")).to_have_text("one two three")
            model.release()
            for page in (first, second):
                await wait_for_answer(page)
                await expect(page.locator("[data-role=assistant] .prose")).to_have_text("one two three")


async def test_the_view_follows_the_answer_only_at_the_bottom(tmp_path: Path, visitor: Visitor) -> None:
    lines = tuple(f"line {number}\n\n" for number in range(60))
    async with ScriptedServer([Stall(Answer(lines))]) as model:
        with serve_model(tmp_path, model) as server:
            page = await visitor.open(server.url)
            await send_message(page, "write a lot")
            await expect(page.get_by_text("line 59")).to_be_in_viewport()
            area = page.locator("[data-scroll-area]")
            await area.hover()
            await page.mouse.wheel(0, -5000)
            jump = page.get_by_role("button", name="Jump to latest")
            await expect(jump).to_be_visible()
            model.release()
            await wait_for_answer(page)
            assert await area.evaluate("area => area.scrollTop") == 0
            await jump.click()
            await expect(page.get_by_text("line 59")).to_be_in_viewport()
            await expect(jump).to_have_count(0)


async def test_the_selected_theme_persists(demo_server: RunningServer, visitor: Visitor) -> None:
    page = await visitor.open(demo_server.url, color_scheme="light")
    background = "getComputedStyle(document.body).backgroundColor"
    light = await page.evaluate(background)
    await page.get_by_role("link", name="Settings").click()
    await page.get_by_text("Dark", exact=True).click()
    dark = await page.evaluate(background)
    assert dark != light
    await page.reload()
    assert await page.evaluate(background) == dark


async def test_deleting_a_thread_can_be_undone(demo_server: RunningServer, visitor: Visitor) -> None:
    page = await visitor.open(demo_server.url)
    await send_message(page, "a thread to delete")
    await wait_for_answer(page)
    link = page.get_by_role("link", name="a thread to delete")
    menu = page.get_by_role("button", name="Actions for “a thread to delete”")
    delete = page.get_by_role("menuitem", name="Delete")
    await link.hover()
    await menu.click()
    await delete.click()
    await expect(link).to_have_count(0)
    await page.get_by_role("button", name="Undo").click()
    await expect(link).to_be_visible()

    await link.hover()
    await menu.click()
    await delete.click()
    await page.reload()  # leaving the page ends the undo period
    await expect(page.get_by_role("heading", name="What are we working on?")).to_be_visible()
    await expect(link).to_have_count(0)


async def test_on_a_phone_the_thread_list_is_a_drawer(demo_server: RunningServer, visitor: Visitor) -> None:
    page = await visitor.open(demo_server.url, **PHONE)
    await send_message(page, "hello from a phone")
    await wait_for_answer(page)
    await expect(page.get_by_role("navigation")).to_have_count(0)
    await page.get_by_role("button", name="Show threads").click()
    drawer = page.get_by_role("dialog", name="Threads")
    await expect(drawer).to_be_visible()
    assert await serious_violations(page) == []
    await drawer.get_by_role("link", name="New thread").click()
    await expect(drawer).not_to_be_visible()
    await expect(page.get_by_role("heading", name="What are we working on?")).to_be_visible()
    assert await page.evaluate("document.documentElement.scrollWidth") <= 390


async def test_the_page_uses_the_language_of_the_browser(demo_server: RunningServer, visitor: Visitor) -> None:
    page = await visitor.open(demo_server.url, locale="zh-CN")
    await expect(page.get_by_role("heading", name="今天做些什么？")).to_be_visible()
    assert await page.evaluate("document.documentElement.lang") == "zh"


async def test_an_unknown_thread_shows_not_found(demo_server: RunningServer, visitor: Visitor) -> None:
    visitor.ignored_messages = "404"
    page = await visitor.open(f"{demo_server.url}/threads/00000000-0000-4000-8000-000000000000")
    await expect(page.get_by_role("alert")).to_contain_text("Thread not found")


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_pages_have_no_serious_accessibility_violations(
    demo_server: RunningServer, visitor: Visitor, scheme: str
) -> None:
    page = await visitor.open(demo_server.url, color_scheme=scheme, reduced_motion="reduce")
    await expect(page.get_by_role("list", name="Suggestions").get_by_role("button").first).to_be_visible()
    assert await serious_violations(page) == []

    await send_message(page, "Show me what an answer can look like: headings, a table, code and a list.")
    await wait_for_answer(page)
    await expect(page.locator("pre .hljs-keyword, pre .hljs-built_in").first).to_be_visible()
    assert await serious_violations(page) == []

    for name, heading in (("Settings", "Models"), ("Agents", "Agents")):
        await page.get_by_role("link", name=name).click()
        await expect(page.get_by_role("heading", name=heading)).to_be_visible()
        assert await serious_violations(page) == []
    await page.get_by_role("link", name="New agent").click()
    await expect(page.get_by_role("textbox", name="Instructions")).to_be_visible()
    assert await serious_violations(page) == []
    await page.goto(f"{demo_server.url}/nowhere")
    await expect(page.get_by_role("heading", name="Page not found")).to_be_visible()
    assert await serious_violations(page) == []
    await page.keyboard.press("Control+k")
    await expect(page.get_by_role("listbox")).to_be_visible()
    assert await serious_violations(page) == []
