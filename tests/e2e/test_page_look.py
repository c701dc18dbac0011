"""Look of the page in a real browser: font, steps, colours, toast, folding list and reduced motion."""

from pathlib import Path

from playwright.async_api import expect

from deerflow.testing import Answer, ScriptedServer, calling
from tests.e2e.server_process import serve
from tests.e2e.support import PHONE, Visitor, send_message, serious_violations, serve_model, wait_for_answer

FONTS = "document.fonts.ready.then(all => [...all].filter(f => f.status == 'loaded').map(f => f.family))"
REPORT = "/mnt/user-data/outputs/report.md"


async def test_steps_have_no_borders_and_files_have_colours_by_kind(tmp_path: Path, visitor: Visitor) -> None:
    answers = [
        calling("write_file", description="Write the report", path=REPORT, content="# Report"),
        calling("present_files", filepaths=[REPORT]),
        "Here it is.",
    ]
    async with ScriptedServer(answers) as model:
        with serve_model(tmp_path, model) as server:
            page = await visitor.open(server.url, viewport={"width": 1100, "height": 800}, reduced_motion="reduce")
            await send_message(page, "write")
            await wait_for_answer(page)
            assert "Inter" in await page.evaluate(FONTS)
            step = page.locator("[data-steps] > div").first
            border = "element => getComputedStyle(element).borderTopWidth"
            assert await step.evaluate(border) == "0px"
            await step.get_by_role("button").click()
            assert await step.evaluate(border) == "0px"
            await expect(page.locator("[data-kind=document]").first).to_be_visible()
            assert await serious_violations(page) == []

            # Below 1200 px the list makes room for the panel, and can be opened over it.
            threads = page.get_by_role("navigation", name="Threads")
            panel = page.get_by_role("complementary", name="Panel")
            await expect(panel).to_be_visible()
            await expect(threads).to_be_hidden()
            assert await panel.evaluate("element => getComputedStyle(element).animationName") == "none"
            await page.get_by_role("button", name="Show threads").click()
            await expect(threads).to_be_visible()
            await page.keyboard.press("Escape")
            await page.get_by_role("button", name="Hide panel").first.click()
            await expect(threads).to_be_visible()


async def test_empty_pages_have_a_drawing_a_sentence_and_a_button(tmp_path: Path, visitor: Visitor) -> None:
    with serve(tmp_path) as server:
        page = await visitor.open(f"{server.url}/tools", reduced_motion="reduce")
        main = page.get_by_role("main")
        drawing = main.locator("svg[data-drawing]")
        await expect(page.get_by_role("link", name="Add server")).to_be_visible()
        await expect(drawing).to_be_visible()
        await page.goto(f"{server.url}/memory")
        await expect(page.get_by_text("No memories yet")).to_be_visible()
        await expect(drawing).to_be_visible()
        await page.get_by_role("button", name="Add fact").last.click()
        await expect(page.get_by_role("textbox", name="Fact")).to_be_visible()
        await page.goto(f"{server.url}/agents")
        await expect(drawing).to_be_visible()
        await page.get_by_role("button", name="Create with chat").last.click()
        await expect(page.get_by_role("heading", name="Let’s design your agent")).to_be_visible()


async def test_empty_lists_projects_usage_and_panel_have_a_drawing_and_a_button(
    tmp_path: Path, visitor: Visitor
) -> None:
    with serve(tmp_path) as server:
        page = await visitor.open(f"{server.url}/usage", reduced_motion="reduce")
        drawing = page.get_by_role("main").locator("svg[data-drawing]")
        await expect(drawing).to_be_visible()
        await page.get_by_role("main").get_by_role("button", name="Start a thread").click()
        await expect(page).to_have_url(f"{server.url}/")

        rail = page.get_by_role("navigation", name="Threads")
        await expect(rail.locator("svg[data-drawing]")).to_have_count(1)
        await rail.get_by_role("button", name="Start a thread").click()
        await expect(page.get_by_role("textbox", name="Message")).to_be_focused()
        await rail.get_by_role("button", name="New project").click()
        dialog = page.get_by_role("dialog", name="New project")
        await dialog.get_by_role("textbox", name="Name").fill("Empty")
        await dialog.get_by_role("button", name="Create").click()
        await expect(drawing).to_have_count(2)
        async with page.expect_file_chooser():
            await page.get_by_role("button", name="Choose files").click()
        assert await serious_violations(page) == []
        await page.get_by_role("main").get_by_role("button", name="Start a thread").click()
        await expect(page.get_by_role("textbox", name="Message")).to_be_visible()

        await page.get_by_role("button", name="Show panel").click()
        panel = page.get_by_role("complementary", name="Panel")
        for tab in ("Artifacts", "Run"):
            await panel.get_by_role("tab", name=tab).click()
            await expect(panel.locator("svg[data-drawing]")).to_be_visible()
            await panel.get_by_role("button", name="Write a message").click()
            await expect(page.get_by_role("textbox", name="Message")).to_be_focused()
        assert await serious_violations(page) == []


async def test_colours_rows_and_composer_follow_the_design(tmp_path: Path, visitor: Visitor) -> None:
    style = "(element, name) => getComputedStyle(element)[name]"
    words = Answer(tuple(f"word{number} " for number in range(150)), delay_s=0.05)
    async with ScriptedServer([words], endless=True) as model:
        with serve_model(tmp_path, model) as server:
            page = await visitor.open(server.url, color_scheme="light")
            composer = page.get_by_role("textbox", name="Message").locator("xpath=ancestor::form")
            assert await composer.evaluate(style, "borderRadius") == "12px"
            # The focused composer has no border in the accent colour.
            await expect(page.get_by_role("textbox", name="Message")).to_be_focused()
            assert await composer.evaluate(style, "borderTopColor") == "rgb(97, 107, 102)"
            await send_message(page, "colours")
            bubble = page.locator("[data-role=user] .bg-bubble")
            assert await bubble.evaluate(style, "backgroundColor") == "rgb(238, 244, 241)"
            row = page.get_by_role("navigation").get_by_role("link", name="colours")
            assert (await row.bounding_box() or {})["height"] == 32
            # A caret stands at the end of the text that is being written, unless motion is not wanted.
            text = page.locator("[data-role=assistant] .prose > p").last
            await expect(text).to_be_visible()
            caret = "element => getComputedStyle(element, '::after').animationName"
            assert await text.evaluate(caret) == "blink"
            await page.emulate_media(reduced_motion="reduce")
            assert await text.evaluate(caret) == "none"
            touch = await visitor.open(page.url, **PHONE, reduced_motion="reduce")
            await touch.get_by_role("button", name="Show threads").click()
            row = touch.get_by_role("navigation").get_by_role("link", name="colours")
            assert (await row.bounding_box() or {})["height"] == 44


async def test_built_in_skills_and_rules_are_chinese_on_the_chinese_page(tmp_path: Path, visitor: Visitor) -> None:
    with serve(tmp_path) as server:
        page = await visitor.open(f"{server.url}/skills", locale="zh-CN", reduced_motion="reduce")
        await expect(page.get_by_role("link", name="图表绘制")).to_be_visible()
        await page.get_by_role("searchbox").last.fill("幻灯片")
        await expect(page.get_by_role("link", name="幻灯片制作")).to_be_visible()
        await expect(page.get_by_role("link", name="图表绘制")).to_have_count(0)
        await page.goto(f"{server.url}/tools")
        await expect(page.get_by_text("这个网址由智能体自行拼成")).to_be_visible()
        assert await serious_violations(page) == []
