"""Tools at work: those that need approval, commands and files, in a real browser against a real server."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import yaml
from playwright.async_api import Locator, Page, expect

from deerflow.testing import Answer, ScriptedServer, calling, in_parallel
from tests.e2e.stage import Visitor, serious_violations, serving

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
# A function the server can import: it has only what is installed.
TOOL = {"name": "format_size", "group": "text", "use": "deerflow.agent_support.tools:format_size", "approval": "always"}
ASKS = calling("format_size", size=2048)


@asynccontextmanager
async def asking(home: Path, turns: Iterable[str | Answer]) -> AsyncIterator[tuple[str, ScriptedServer]]:
    """The address of a server whose only tool is asked about, and the model that answers there."""
    async with ScriptedServer(turns) as model:
        entry = model.model_config().model_dump(mode="json", exclude_unset=True)
        config = home / "config.yaml"
        quiet = {"suggestions": {"enabled": False}, "memory": {"debounce_seconds": 3600}}
        settings = {"models": [entry | {"api_key": "scripted-key"}], "tools": [TOOL], **quiet}
        config.write_text(yaml.safe_dump(settings))
        with serving(home, config=config) as server:
            yield server.url, model


async def say(page: Page, text: str) -> None:
    await page.get_by_role("textbox", name="Message").fill(text)
    await page.keyboard.press("Enter")


def question(page: Page) -> Locator:
    return page.get_by_role("group", name="Approval needed")


def told(model: ScriptedServer) -> list[str]:
    """The results of tools, as the model was last told them."""
    return [str(message["content"]) for message in model.requests[-1].messages if message["role"] == "tool"]


async def test_an_approved_tool_is_used(tmp_path: Path, visitor: Visitor) -> None:
    async with asking(tmp_path, [ASKS, "Two kilobytes."]) as (url, model):
        page = await visitor.open(url, reduced_motion="reduce")
        await say(page, "how much is it?")
        await expect(question(page)).to_contain_text("2048")
        await expect(page.get_by_role("status").filter(has_text="Approval needed")).to_be_attached()
        assert await serious_violations(page) == []

        await question(page).get_by_role("button", name="Approve").focus()
        await page.keyboard.press("Enter")
        await expect(page.get_by_text("Two kilobytes.")).to_be_visible()
        assert told(model) == ["2.0 KB"]
        await expect(question(page)).to_have_count(0)
        await expect(page.get_by_role("textbox", name="Message")).to_be_focused()
        await page.get_by_role("button", name="Used format_size").click()
        await expect(page.get_by_text("2.0 KB")).to_be_visible()


async def test_a_tool_is_used_with_what_the_user_made_of_it(tmp_path: Path, visitor: Visitor) -> None:
    async with asking(tmp_path, [ASKS, "Five kilobytes."]) as (url, model):
        page = await visitor.open(url, reduced_motion="reduce")
        await say(page, "how much is it?")
        await question(page).get_by_role("button", name="Edit").click()
        arguments = question(page).get_by_role("textbox", name="Arguments")
        await expect(arguments).to_be_focused()
        assert await serious_violations(page) == []
        await arguments.fill('{"size": 5120')
        await page.keyboard.press("Control+Enter")
        await expect(question(page).get_by_role("alert")).to_contain_text("Not a valid JSON object")
        await arguments.fill('{"size": 5120}')
        await page.keyboard.press("Control+Enter")

        await expect(page.get_by_text("Five kilobytes.")).to_be_visible()
        assert told(model)[0].endswith("5.0 KB")
        for _ in range(2):
            card = page.get_by_role("button", name="Used format_size Edited by you")
            await card.click()
            await expect(page.get_by_text("5120")).to_be_visible()
            await expect(page.get_by_text("5.0 KB", exact=True)).to_be_visible()
            await page.reload()


async def test_a_refused_tool_is_not_used_and_the_model_hears_why(tmp_path: Path, visitor: Visitor) -> None:
    async with asking(tmp_path, [ASKS, "As you like."]) as (url, model):
        page = await visitor.open(url, reduced_motion="reduce")
        await say(page, "how much is it?")
        await question(page).get_by_role("button", name="Reject").click()
        await expect(question(page).get_by_role("textbox", name="Reason")).to_be_focused()
        await page.keyboard.press("Escape")
        await expect(question(page).get_by_role("button", name="Reject")).to_be_focused()
        await page.keyboard.press("Enter")
        await page.keyboard.type("I know already")
        await page.keyboard.press("Enter")

        await expect(page.get_by_text("As you like.")).to_be_visible()
        assert told(model)[0].endswith("I know already")
        await expect(page.get_by_role("button", name="You rejected format_size")).to_be_visible()
        await expect(page.get_by_role("alert")).to_have_count(0)


async def test_a_question_waits_for_a_page_that_comes_back(tmp_path: Path, visitor: Visitor) -> None:
    async with asking(tmp_path, [ASKS, "Two kilobytes."]) as (url, model):
        page = await visitor.open(url)
        await say(page, "how much is it?")
        await expect(question(page)).to_be_enabled()
        await page.reload()
        await expect(question(page)).to_contain_text("2048")
        await expect(page.get_by_text("Response stopped")).to_have_count(0)
        assert len(model.requests) == 1

        phone = await visitor.open(page.url, **PHONE, color_scheme="dark", locale="zh-CN")
        await expect(phone.get_by_role("group", name="需要批准")).to_be_visible()
        assert await serious_violations(phone) == []
        assert await phone.evaluate("document.documentElement.scrollWidth") <= 390
        await phone.get_by_role("button", name="批准").click()
        await expect(phone.get_by_text("Two kilobytes.")).to_be_visible()
        await page.reload()
        await expect(page.get_by_text("Two kilobytes.")).to_be_visible()
        await expect(question(page)).to_have_count(0)


async def test_several_tools_are_decided_one_by_one(tmp_path: Path, visitor: Visitor) -> None:
    both = in_parallel(ASKS, calling("format_size", size=3072))
    async with asking(tmp_path, [both, "Done."]) as (url, model):
        page = await visitor.open(url, reduced_motion="reduce")
        await say(page, "how much is it?")
        await expect(question(page).get_by_role("listitem")).to_have_count(2)
        first, second = await question(page).get_by_role("listitem").all()
        await first.get_by_role("button", name="Approve").click()
        await expect(second.get_by_role("button", name="Approve")).to_be_focused()
        await second.get_by_role("button", name="Reject").click()
        await page.keyboard.press("Enter")
        assert await serious_violations(page) == []
        await expect(question(page).get_by_role("button", name="Continue")).to_be_focused()
        await page.keyboard.press("Enter")
        await expect(page.get_by_text("Done.")).to_be_visible()
        results = sorted(told(model))
        assert results[0] == "2.0 KB" and results[1].startswith("User rejected")


async def test_a_message_goes_on_without_the_tool(tmp_path: Path, visitor: Visitor) -> None:
    async with asking(tmp_path, [ASKS, "Never mind, then."]) as (url, _):
        page = await visitor.open(url)
        await say(page, "how much is it?")
        await expect(question(page)).to_be_enabled()
        await say(page, "no, leave it")
        await expect(page.get_by_text("Never mind, then.")).to_be_visible()
        await expect(question(page)).to_have_count(0)


async def test_a_command_is_watched_while_it_runs(tmp_path: Path, visitor: Visitor) -> None:
    command = "echo $((40 + 2)); until [ -e go ]; do sleep 0.05; done; echo $((40 + 3))"
    runs = calling("bash", description="Count on", command=command)
    async with asking(tmp_path, [runs, "Counted."]) as (url, _):
        page = await visitor.open(url, reduced_motion="reduce")
        await say(page, "count")
        running = page.get_by_role("button", name="Running echo")
        await expect(running).to_have_attribute("aria-expanded", "true")
        await expect(page.get_by_text("42", exact=True)).to_be_visible()
        assert await serious_violations(page) == []

        thread = page.url.rsplit("/", 1)[1]
        (tmp_path / f"users/local/threads/{thread}/user-data/workspace/go").touch()
        await expect(page.get_by_text("Counted.")).to_be_visible()
        await expect(running).to_have_count(0)
        ran = page.get_by_role("button", name="Ran echo")
        await expect(ran).to_have_attribute("aria-expanded", "false")
        await ran.click()
        await expect(page.locator("pre").last).to_have_text("42\n43")


async def test_a_plan_goes_on_after_an_approval_on_a_page_that_came_back(tmp_path: Path, visitor: Visitor) -> None:
    async with asking(tmp_path, [ASKS, "Two kilobytes."]) as (url, model):
        page = await visitor.open(url, reduced_motion="reduce")
        await page.get_by_role("button", name="Choose a mode:").click()
        await page.get_by_role("menuitemradio", name="Ultra").click()
        await say(page, "how much is it?")
        await expect(question(page)).to_be_enabled()
        # Another browser: nothing but the server knows how the run was begun.
        other = await visitor.open(page.url, reduced_motion="reduce")
        await question(other).get_by_role("button", name="Approve").click()
        await expect(other.get_by_text("Two kilobytes.")).to_be_visible()
        first, then = [{tool["function"]["name"] for tool in asked.body["tools"]} for asked in model.requests]
        assert {"write_todos", "task"} <= first
        assert then == first
