"""Skills, in a real browser against a real server."""

import io
import zipfile
from pathlib import Path

from playwright.async_api import expect

from deerflow.testing import ScriptedModel, ScriptedServer
from tests.e2e.support import PHONE, Visitor, send_message, serious_violations, serve_model, wait_for_answer
from tests.skills.skill_host import REPOSITORY, open_skill_host
from tests.skills.skill_host import SKILL as TEA
from tests.skills.support import ALLOW
from tests.support import OpenHarness, browse

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
    """Write a custom skill into its folder."""
    folder = home / "users/local/skills/custom" / name
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(text)


async def test_skills_are_searched_shown_disabled_and_used_by_slash_command(tmp_path: Path, visitor: Visitor) -> None:
    write_skill(tmp_path, "house-style", SKILL)
    write_skill(tmp_path, "broken", "---\nname: broken\n---\n\nNo description.\n")
    async with ScriptedServer(["Moin."]) as model:
        with serve_model(tmp_path, model) as server:
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
            await send_message(page, "/house-style write to Anna")
            await wait_for_answer(page)
            assert "Begin with **Moin**." in str(model.requests[-1].messages)


def pack_skill(name: str, text: str) -> dict[str, object]:
    """Return a skill archive for a file input."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(name, text)
    return {"name": "pack.skill", "mimeType": "application/zip", "buffer": buffer.getvalue()}


async def test_custom_skills_are_created_changed_reverted_deleted_and_restored(
    tmp_path: Path, visitor: Visitor
) -> None:
    async with ScriptedServer([]) as model:
        with serve_model(tmp_path, model) as server:
            page = await visitor.open(f"{server.url}/skills", reduced_motion="reduce")
            await page.get_by_role("link", name="New skill").click()
            editor = page.get_by_role("textbox", name="SKILL.md")
            await editor.fill("no header")
            visitor.ignored_messages = "the server responded with a status of 4"
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


async def test_a_skill_is_installed_from_a_file_and_a_malicious_one_refused(tmp_path: Path, visitor: Visitor) -> None:
    visitor.ignored_messages = "the server responded with a status of 4"
    async with ScriptedServer(['{"decision": "allow", "reason": "Nothing but words."}']) as model:
        with serve_model(tmp_path, model) as server:
            page = await visitor.open(f"{server.url}/skills", reduced_motion="reduce")
            await expect(page.get_by_role("button", name="Install from file")).to_be_visible()
            picker = page.locator("input[type=file]")
            await picker.set_input_files([pack_skill("../house-style/SKILL.md", SKILL)])
            await expect(page.get_by_role("alert")).to_contain_text("Couldn’t install the skill")
            await picker.set_input_files([pack_skill("house-style/SKILL.md", SKILL)])
            await expect(page.get_by_role("article", name="SKILL.md")).to_contain_text("Begin with Moin.")
            await expect(page.get_by_role("list", name="History")).to_contain_text("Installed")
            # The temporary thread of the upload is deleted.
            await page.reload()
            await expect(page.get_by_text("No threads yet.")).to_be_visible()


async def test_a_skill_is_installed_from_a_url_and_updated_after_a_look_at_the_changes(
    tmp_path: Path, visitor: Visitor, harness_saying: OpenHarness
) -> None:
    visitor.ignored_messages = "the server responded with a status of 4"
    with open_skill_host(tmp_path / "host") as host:
        first = host.commit({"SKILL.md": TEA.format(body="Boil.")})
        async with harness_saying(ScriptedModel.saying(ALLOW, ALLOW)) as harness, browse(harness) as http:
            harness.resources.skill_downloader = host.downloader()
            page = await visitor.open(f"{http.base_url}/skills", **PHONE, reduced_motion="reduce")
            await page.get_by_role("button", name="Install from URL").click()
            url = page.get_by_role("textbox", name="URL")
            await expect(url).to_be_focused()
            await url.fill("git.example.org/tea")
            await page.keyboard.press("Enter")
            await expect(page.get_by_role("alert")).to_contain_text("Couldn’t install the skill.")
            await expect(url).to_have_value("git.example.org/tea")
            assert await page.evaluate("document.documentElement.scrollWidth") == 390
            assert await serious_violations(page) == []
            await url.fill(REPOSITORY)
            await page.keyboard.press("Enter")
            text = page.get_by_role("article", name="SKILL.md")
            await expect(text).to_have_text("Boil.")

            source = page.get_by_role("region", name="Source")
            await expect(source).to_contain_text(REPOSITORY)
            await expect(source).to_contain_text(first)
            second = host.commit({"SKILL.md": TEA.format(body="Steep.")})
            await source.get_by_role("button", name="Check for updates").click()
            await expect(source).to_contain_text("-Boil.")
            await expect(source).to_contain_text("+Steep.")
            assert await serious_violations(page) == []
            await source.get_by_role("button", name="Update", exact=True).click()
            await expect(text).to_have_text("Steep.")
            await expect(source).to_contain_text(second)
            await expect(source.get_by_role("button", name="Check for updates")).to_be_focused()
