"""Skills, in a real browser against a real server."""

import io
import zipfile
from pathlib import Path

from playwright.async_api import expect

from deerflow.testing import ScriptedServer
from tests.e2e.stage import Visitor, serious_violations
from tests.e2e.test_page import say, serving_model, until_answered

SKILL = """---
name: house-style
description: How we write letters here.
license: MIT
allowed-tools: [read_file]
---

# House style

Begin with **Moin**.
"""


def write_skill(home: Path, name: str, text: str) -> None:
    """Have an own skill in a folder, as somebody would put it there by hand."""
    folder = home / "users/local/skills/custom" / name
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(text)


async def test_skills_are_found_read_switched_and_used_by_their_names(tmp_path: Path, visitor: Visitor) -> None:
    write_skill(tmp_path, "house-style", SKILL)
    write_skill(tmp_path, "broken", "---\nname: broken\n---\n\nNo description.\n")
    async with ScriptedServer(["Moin."]) as model:
        with serving_model(tmp_path, model) as server:
            page = await visitor.open(server.url, reduced_motion="reduce")
            await page.get_by_role("link", name="Skills").click()
            refused = page.get_by_role("region", name="Failed to load")
            await expect(refused).to_contain_text("custom/broken")
            await expect(refused).to_contain_text("description")
            assert await serious_violations(page) == []
            await page.get_by_role("searchbox", name="Search skills").fill("house-style")
            await expect(page.get_by_role("switch")).to_have_count(1)
            toggle = page.get_by_role("switch", name="Use house-style")
            for checked in ("false", "true"):
                await toggle.click()
                await expect(toggle).to_have_attribute("aria-checked", checked)
                await page.reload()
                await expect(toggle).to_have_attribute("aria-checked", checked)

            await page.get_by_role("link", name="house-style").click()
            text = page.get_by_role("article", name="SKILL.md")
            await expect(text.get_by_role("heading", name="House style")).to_be_visible()
            await expect(page.get_by_text("allowed-tools")).to_have_count(0)
            await page.emulate_media(color_scheme="dark", reduced_motion="reduce")
            assert await serious_violations(page) == []

            await page.goto(server.url)
            box = page.get_by_role("textbox", name="Message")
            await box.press_sequentially("/hou")
            await expect(page.get_by_role("option", name="/house-style")).to_have_attribute("aria-selected", "true")
            assert await serious_violations(page) == []
            await page.keyboard.press("Tab")
            await expect(box).to_have_value("/house-style ")
            await say(page, "/house-style write to Anna")
            await until_answered(page)
            assert "Begin with **Moin**." in str(model.requests[-1].messages)


def packed(name: str, text: str) -> dict[str, object]:
    """An archive of a skill, as a browser sends it."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr(name, text)
    return {"name": "pack.skill", "mimeType": "application/zip", "buffer": made.getvalue()}


async def test_own_skills_are_made_changed_undone_deleted_and_brought_back(tmp_path: Path, visitor: Visitor) -> None:
    async with ScriptedServer([]) as model:
        with serving_model(tmp_path, model) as server:
            page = await visitor.open(f"{server.url}/skills", reduced_motion="reduce")
            await page.get_by_role("link", name="New skill").click()
            editor = page.get_by_role("textbox", name="SKILL.md")
            await editor.fill("no header")
            visitor.tolerated = "the server responded with a status of 4"
            await page.get_by_role("button", name="Create").click()
            await expect(page.get_by_role("alert")).to_contain_text("Couldn’t save. Your text is still here.")
            assert await serious_violations(page) == []
            await editor.fill(SKILL)
            await page.get_by_role("button", name="Create").click()
            text = page.get_by_role("article", name="SKILL.md")
            await expect(text).to_contain_text("Begin with Moin.")

            await page.get_by_role("button", name="Edit").click()
            await editor.fill(SKILL.replace("Moin", "Hello"))
            await page.get_by_role("button", name="Save").click()
            await expect(text).to_contain_text("Begin with Hello.")
            history = page.get_by_role("list", name="History")
            await history.get_by_role("button", name="Changed SKILL.md").click()
            await expect(history).to_contain_text("-Begin with **Moin**.")
            await expect(history).to_contain_text("+Begin with **Hello**.")
            assert await serious_violations(page) == []
            await history.get_by_role("button", name="Undo").click()
            await expect(text).to_contain_text("Begin with Moin.")
            await expect(history.get_by_role("listitem")).to_have_count(3)

            await page.get_by_role("button", name="Delete").click()
            await expect(page.get_by_text("“house-style” deleted")).to_be_visible()
            await expect(page.get_by_role("link", name="house-style")).to_have_count(0)
            await page.get_by_role("button", name="Undo").click()
            await expect(text).to_contain_text("Begin with Moin.")


async def test_a_skill_is_installed_from_a_file_and_a_hostile_one_is_refused(tmp_path: Path, visitor: Visitor) -> None:
    visitor.tolerated = "the server responded with a status of 4"
    async with ScriptedServer(['{"decision": "allow", "reason": "Nothing but words."}']) as model:
        with serving_model(tmp_path, model) as server:
            page = await visitor.open(f"{server.url}/skills", reduced_motion="reduce")
            await expect(page.get_by_role("button", name="Install from file")).to_be_visible()
            picker = page.locator("input[type=file]")
            await picker.set_input_files([packed("../house-style/SKILL.md", SKILL)])
            await expect(page.get_by_role("alert")).to_contain_text("Couldn’t install the skill")
            await picker.set_input_files([packed("house-style/SKILL.md", SKILL)])
            await expect(page.get_by_role("article", name="SKILL.md")).to_contain_text("Begin with Moin.")
            await expect(page.get_by_role("list", name="History")).to_contain_text("Installed")
            # The thread that carried it is gone.
            await page.reload()
            await expect(page.get_by_text("No threads yet.")).to_be_visible()
