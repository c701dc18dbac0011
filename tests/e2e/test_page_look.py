"""Look of the page in a real browser: font, steps, colours, gaps, folding list and reduced motion."""

import asyncio
import re
from pathlib import Path

from playwright.async_api import Locator, expect

from deerflow.testing import Answer, ScriptedServer, calling
from tests.e2e.server_process import serve
from tests.e2e.support import PHONE, Visitor, send_message, serious_violations, serve_model, wait_for_answer

FONTS = "document.fonts.ready.then(all => [...all].filter(f => f.status == 'loaded').map(f => f.family))"
OUTPUTS = "/mnt/user-data/outputs"
REPORT = f"{OUTPUTS}/report.md"
TABLE = f"{OUTPUTS}/sales.csv"
DIAGRAM = "```mermaid\ngraph LR\n  A[Collect the figures] --> B[Draw the chart]\n```\n"
CHINESE = re.compile("[\u4e00-\u9fff]")
# Draws a picture as it is, and without the font in it; both are equal as long as the font is not used.
FONT_CHANGES_PICTURE = """async image => {
    const draw = async source => {
        const copy = new Image();
        copy.src = source;
        await copy.decode();
        const canvas = new OffscreenCanvas(copy.naturalWidth, copy.naturalHeight).getContext("2d");
        canvas.drawImage(copy, 0, 0);
        return canvas.getImageData(0, 0, copy.naturalWidth, copy.naturalHeight).data.toString();
    };
    const plain = decodeURIComponent(image.src).replace(/@font-face{[^}]*}/, "");
    const comma = plain.indexOf(",") + 1;
    const other = plain.slice(0, comma) + encodeURIComponent(plain.slice(comma));
    return await draw(image.src) !== await draw(other);
}"""


GAP_BELOW = """bubble => {
    const answer = document.querySelector("[data-role=assistant]");
    return answer.getBoundingClientRect().top - bubble.getBoundingClientRect().bottom;
}"""


async def top_of(locator: Locator) -> float:
    return (await locator.bounding_box() or {})["y"]


async def test_steps_have_no_borders_and_files_have_colours_by_kind(tmp_path: Path, visitor: Visitor) -> None:
    answers = [
        calling("write_file", description="Write the report", path=REPORT, content="# Report"),
        calling("write_file", description="Write the table", path=TABLE, content="month,sold\n1,2\n"),
        calling("present_files", filepaths=[REPORT, TABLE]),
        "Here they are.",
    ]
    async with ScriptedServer(answers) as model:
        with serve_model(tmp_path, model) as server:
            page = await visitor.open(server.url, viewport={"width": 1100, "height": 800}, reduced_motion="reduce")
            await send_message(page, "write")
            await wait_for_answer(page)
            assert "Inter" in await page.evaluate(FONTS)
            rail = page.locator("[data-step]").first
            assert await rail.evaluate("element => getComputedStyle(element).borderLeftWidth") == "1px"
            step = page.locator("[data-steps] > div").first
            border = "element => getComputedStyle(element).borderTopWidth"
            assert await step.evaluate(border) == "0px"
            await step.get_by_role("button").click()
            assert await step.evaluate(border) == "0px"
            colours = set()
            for kind in ("document", "table"):
                icon = page.locator(f"[data-kind={kind}]").first
                await expect(icon).to_be_visible()
                colours.add(await icon.evaluate("element => getComputedStyle(element).color"))
            assert len(colours) == 2
            assert await serious_violations(page) == []

            # Below 1200 px the list makes room for the panel, and can be opened over it.
            threads = page.get_by_role("navigation", name="Threads")
            panel = page.get_by_role("complementary", name="Panel")
            await expect(panel).to_be_visible()
            await expect(threads).to_be_hidden()
            assert await panel.evaluate("element => getComputedStyle(element).animationName") == "none"
            # In the narrow column the name of the model has the space.
            hint = page.get_by_text("Enter to send, Shift+Enter for a new line")
            await expect(hint).to_be_hidden()
            name = page.get_by_role("button", name="Choose a model:").locator("span")
            assert await name.evaluate("element => element.scrollWidth <= element.clientWidth")
            send = page.get_by_role("button", name="Send", exact=True)
            assert await send.evaluate("button => button.closest('form').getBoundingClientRect().right") - 10 <= (
                await send.evaluate("button => button.getBoundingClientRect().right")
            )
            await page.get_by_role("button", name="Show threads").click()
            await expect(threads).to_be_visible()
            await page.keyboard.press("Escape")
            await page.get_by_role("button", name="Hide panel").first.click()
            await expect(threads).to_be_visible()
            await expect(hint).to_be_visible()
            await page.emulate_media(reduced_motion="no-preference")
            await page.get_by_role("button", name="Show panel").click()
            assert await panel.evaluate("element => getComputedStyle(element).animationName") == "slide-left"
            assert await panel.evaluate("element => getComputedStyle(element).animationDuration") == "0.16s"


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
            for name in ("Attach files", "Choose a mode:", "Send"):
                button = composer.get_by_role("button", name=name)
                assert (await button.bounding_box() or {})["height"] == 36
            # The focused composer has no border in the accent colour.
            await expect(page.get_by_role("textbox", name="Message")).to_be_focused()
            assert await composer.evaluate(style, "borderTopColor") == "rgb(97, 107, 102)"
            await send_message(page, "colours")
            bubble = page.locator("[data-role=user] .bg-bubble")
            assert await bubble.evaluate(style, "backgroundColor") == "rgb(238, 244, 241)"
            # The hidden actions of a message take no space, and appear between it and the answer.
            await expect(page.locator("[data-role=assistant] .prose > p").last).to_be_visible()
            assert round(await bubble.evaluate(GAP_BELOW)) == 24
            actions = page.get_by_role("button", name="Copy message").locator("xpath=..")
            await page.mouse.move(0, 0)
            await expect(actions).to_have_css("opacity", "0")
            await bubble.hover()
            await expect(actions).to_have_css("opacity", "1")
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


async def test_diagrams_are_drawn_in_the_font_of_the_page(tmp_path: Path, visitor: Visitor) -> None:
    async with ScriptedServer([DIAGRAM]) as model:
        with serve_model(tmp_path, model) as server:
            page = await visitor.open(server.url, reduced_motion="reduce")
            await send_message(page, "draw")
            await wait_for_answer(page)
            diagram = page.get_by_role("img", name="Diagram")
            await expect(diagram).to_be_visible()
            async with asyncio.timeout(30):
                while not await diagram.evaluate(FONT_CHANGES_PICTURE):
                    continue


async def test_skills_and_tools_are_described_for_people(tmp_path: Path, visitor: Visitor) -> None:
    with serve(tmp_path) as server:
        page = await visitor.open(f"{server.url}/skills", reduced_motion="reduce")
        rows = page.get_by_role("region", name="Built-in").get_by_role("listitem")
        await expect(rows.first).to_be_visible()
        assert [text for text in await rows.all_inner_texts() if "Use when" in text] == []
        # Two columns where there is room.
        assert await top_of(rows.nth(0)) == await top_of(rows.nth(1))
        await page.set_viewport_size({"width": 1024, "height": 800})
        assert await top_of(rows.nth(0)) < await top_of(rows.nth(1))
        await page.goto(f"{server.url}/tools")
        tools = page.get_by_role("region", name="Built-in").get_by_role("listitem")
        await expect(tools.filter(has_text="present_files")).to_contain_text("Shows you finished files.")


async def test_built_in_skills_and_rules_are_chinese_on_the_chinese_page(tmp_path: Path, visitor: Visitor) -> None:
    with serve(tmp_path) as server:
        page = await visitor.open(f"{server.url}/skills", locale="zh-CN", reduced_motion="reduce")
        await expect(page.get_by_role("link", name="图表绘制")).to_be_visible()
        await page.get_by_role("searchbox").last.fill("幻灯片")
        await expect(page.get_by_role("link", name="幻灯片制作")).to_be_visible()
        await expect(page.get_by_role("link", name="图表绘制")).to_have_count(0)
        await page.get_by_role("searchbox").last.fill("")
        skills = page.get_by_role("region", name="内置").get_by_role("listitem")
        await expect(skills.nth(1)).to_be_visible()
        assert [text for text in await skills.all_inner_texts() if not CHINESE.search(text)] == []
        await page.get_by_role("link", name="图表绘制").click()
        await expect(page.get_by_role("heading", name="图表绘制", level=1)).to_be_visible()
        await page.goto(f"{server.url}/tools")
        await expect(page.get_by_text("这个网址由智能体自行拼成")).to_be_visible()
        tools = page.get_by_role("region", name="内置").get_by_role("listitem")
        await expect(tools.first).to_be_visible()
        assert [text for text in await tools.all_inner_texts() if not CHINESE.search(text)] == []
        assert await serious_violations(page) == []
