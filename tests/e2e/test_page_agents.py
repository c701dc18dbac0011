"""Custom agents and tests of skills in a real browser against a real server."""

import re
from pathlib import Path

from playwright.async_api import expect

from tests.e2e.server_process import serve
from tests.e2e.support import PHONE, Visitor, serious_violations

SKILL = "---\nname: greeter\ndescription: Greets.\n---\nSay hello.\n"
TEST = "description: it greets\nprompt: greet\nsteps:\n  - say: {say}\nexpect:\n  answer: [hello]\n"


async def test_an_agent_has_ticks_for_tools_and_its_own_start_page(tmp_path: Path, visitor: Visitor) -> None:
    with serve(tmp_path) as server:
        page = await visitor.open(f"{server.url}/agents/_new", reduced_motion="reduce")
        await page.get_by_role("textbox", name="Name").fill("ada")
        await page.get_by_role("textbox", name="Description").fill("Counts things")
        await page.get_by_role("textbox", name="Instructions").fill("Count aloud.")
        await expect(page.get_by_label(re.compile("soul", re.IGNORECASE))).to_have_count(0)
        await page.get_by_role("checkbox", name="All tools").uncheck()
        await page.get_by_role("checkbox", name="Run commands").uncheck()
        await page.get_by_role("checkbox", name="All skills that are turned on").uncheck()
        await page.get_by_role("checkbox", name="podcast-script").uncheck()
        await page.get_by_role("textbox", name="Example messages").fill("Count to ten\n\nCount my files")
        assert await serious_violations(page) == []
        await page.get_by_role("button", name="Create").click()
        await expect(page.get_by_role("heading", name="ada", level=1)).to_be_visible()
        await page.reload()
        await expect(page.get_by_role("checkbox", name="Run commands")).not_to_be_checked()
        await expect(page.get_by_role("checkbox", name="Read files")).to_be_checked()
        await expect(page.get_by_role("checkbox", name="podcast-script")).not_to_be_checked()

        await page.get_by_role("button", name="Chat").click()
        await expect(page.get_by_role("heading", name="ada", level=2)).to_be_visible()
        await expect(page.get_by_text("Counts things")).to_be_visible()
        starters = page.get_by_role("list", name="Examples of this agent").get_by_role("button")
        await expect(starters).to_have_text(["Count to ten", "Count my files"])
        assert await serious_violations(page) == []
        await starters.first.click()
        await expect(page.locator("[data-role=user]")).to_contain_text("Count to ten")


async def test_creating_with_chat_begins_with_a_question_in_both_languages(tmp_path: Path, visitor: Visitor) -> None:
    with serve(tmp_path) as server:
        page = await visitor.open(f"{server.url}/agents", reduced_motion="reduce")
        await page.get_by_role("button", name="Create with chat").first.click()
        await expect(page.get_by_text("What should it do for you?")).to_be_visible()
        examples = page.get_by_role("list", name="Examples").get_by_role("button")
        await expect(examples).to_have_text(["A weekly news digest", "A careful editor", "A data analyst"])
        await examples.nth(1).click()
        await expect(page.locator("[data-said]")).to_contain_text("edits my drafts")
        await expect(page.get_by_text("Creating an agent")).to_be_visible()

        page = await visitor.open(f"{server.url}/agents", **PHONE, reduced_motion="reduce", locale="zh-CN")
        await page.get_by_role("button", name="通过对话创建").first.click()
        await expect(page.get_by_role("heading", name="一起来设计你的智能体")).to_be_visible()
        await expect(page.get_by_text("它要为你做什么？")).to_be_visible()
        await expect(page.get_by_role("list", name="示例").get_by_role("button")).to_have_count(3)
        assert await page.evaluate("document.documentElement.scrollWidth") == 390
        assert await serious_violations(page) == []
        await page.emulate_media(color_scheme="dark", reduced_motion="reduce")
        assert await serious_violations(page) == []


async def test_the_tests_of_a_skill_are_run_from_its_page(
    tmp_path: Path, visitor: Visitor, toolbox_environment: dict[str, str]
) -> None:
    folder = tmp_path / "users/local/skills/custom/greeter"
    (folder / "tests").mkdir(parents=True)
    (folder / "SKILL.md").write_text(SKILL)
    for name, say in (("good", "hello you"), ("wrong", "goodbye")):
        (folder / "tests" / f"{name}.yaml").write_text(TEST.format(say=say))
    with serve(tmp_path) as server:
        page = await visitor.open(f"{server.url}/skills/greeter", reduced_motion="reduce")
        await page.get_by_role("button", name="Run tests").click()
        tests = page.get_by_role("region", name="Tests")
        await expect(tests).to_contain_text("1 of 2 passed", timeout=120_000)
        await expect(tests).to_contain_text("expected 'hello', got 'goodbye'")
        assert await serious_violations(page) == []
