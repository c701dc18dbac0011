"""Projects in a real browser against a real server."""

import re
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from deerflow.testing import ScriptedServer, ServerRequest, calling
from tests.e2e.support import PHONE, Visitor, send_message, serious_violations, serve_model, wait_for_answer

PLAN = "# Plan\n\nThe kingfisher bridge is painted blue.\n\n# Cost\n\nThe paint costs 4200 euros.\n"
CITATION = re.compile(r"\[citation:[^\]]*\]\(/projects/[^)]*\)")


def answer(request: ServerRequest) -> object:
    """Search the project, then answer with the citation of the first passage."""
    last = request.messages[-1]
    if last["role"] != "tool":
        return calling("search_knowledge", query="price of the paint")
    found = CITATION.search(str(last["content"]))
    assert found is not None
    return f"It costs 4200 euros {found[0]}."


async def create_project(page: Page, name: str) -> None:
    await page.get_by_role("button", name="New project").click()
    dialog = page.get_by_role("dialog", name="New project")
    await dialog.get_by_role("textbox", name="Name").fill(name)
    await dialog.get_by_role("button", name="Create").click()
    await expect(page.get_by_role("heading", name=name, level=1)).to_be_visible()


async def add_file(page: Page, name: str, content: bytes) -> None:
    await page.get_by_label("Add files").last.set_input_files(
        [{"name": name, "mimeType": "application/octet-stream", "buffer": content}]
    )


async def test_a_project_is_created_filled_asked_and_its_cited_passage_is_opened(
    tmp_path: Path, visitor: Visitor
) -> None:
    async with ScriptedServer([answer], endless=True) as model:
        with serve_model(tmp_path, model) as server:
            page = await visitor.open(server.url, reduced_motion="reduce")
            await create_project(page, "Bridge")
            await page.get_by_role("textbox", name="Instructions").fill("Answer briefly.")
            await page.get_by_role("button", name="Save").click()
            await expect(page.get_by_text("Saved")).to_be_visible()
            await add_file(page, "plan.md", PLAN.encode())
            files = page.get_by_role("list", name="Files")
            await expect(files).to_contain_text("Searchable")
            await expect(files.locator("[data-kind=document]")).to_be_visible()
            await expect(page.get_by_text("Passages are found by their words.")).to_be_visible()
            assert await serious_violations(page) == []

            await page.get_by_role("button", name="New thread in this project").click()
            await send_message(page, "What does the paint cost?")
            await wait_for_answer(page)
            assert "Answer briefly." in str(model.requests[0].messages)
            link = page.get_by_role("link", name=re.compile("plan.md, line"))
            async with page.context.expect_page() as opened:
                await link.click()
            passage = await opened.value
            cited = passage.get_by_role("blockquote", name="Cited passage")
            await expect(cited).to_contain_text("4200 euros")
            await expect(passage.get_by_role("heading", name="Line 5")).to_be_visible()
            assert await serious_violations(passage) == []

            await page.get_by_role("button", name="Threads of Bridge").click()
            folder = page.get_by_role("region", name="Projects")
            await expect(folder.get_by_role("link", name=re.compile("paint cost"))).to_be_visible()


async def test_a_thread_is_moved_by_its_menu(tmp_path: Path, visitor: Visitor) -> None:
    async with ScriptedServer(["Hello."], endless=True) as model:
        with serve_model(tmp_path, model) as server:
            page = await visitor.open(server.url, reduced_motion="reduce")
            await send_message(page, "Wanderer")
            await wait_for_answer(page)
            await create_project(page, "Home")
            row = page.get_by_role("listitem").filter(has_text="Wanderer").first
            await row.hover()
            await page.get_by_role("button", name=re.compile("Wanderer")).click()
            await page.get_by_role("menuitem", name="Move to project").click()
            dialog = page.get_by_role("dialog", name=re.compile("Move"))
            await dialog.get_by_role("radio", name="Home").check()
            assert await serious_violations(page) == []
            await dialog.get_by_role("button", name="Move").click()
            await expect(dialog).to_have_count(0)
            await page.reload()
            await expect(page.get_by_role("list", name="Threads")).to_contain_text("Wanderer")
            await page.get_by_role("button", name="Threads of Home").click()
            await expect(page.get_by_role("region", name="Projects")).to_contain_text("Wanderer")


async def test_a_file_that_cannot_be_read_says_why_and_can_be_retried_and_deleted(
    tmp_path: Path, visitor: Visitor
) -> None:
    async with ScriptedServer(["Hello."], endless=True) as model:
        with serve_model(tmp_path, model) as server:
            page = await visitor.open(server.url, reduced_motion="reduce")
            await create_project(page, "Broken")
            await add_file(page, "photo.bin", b"\0\1\2")
            files = page.get_by_role("list", name="Files")
            await expect(files).to_contain_text("It isn’t text")
            await page.get_by_role("button", name="Index photo.bin again").click()
            await expect(files).to_contain_text("It isn’t text")
            assert await serious_violations(page) == []
            await page.get_by_role("button", name="Delete photo.bin").click()
            await expect(page.get_by_text("No files yet")).to_be_visible()


async def test_facts_are_kept_in_the_project_and_its_deletion_can_be_undone(tmp_path: Path, visitor: Visitor) -> None:
    async with ScriptedServer(["Hello."], endless=True) as model:
        with serve_model(tmp_path, model) as server:
            visitor.ignored_messages = "status of 409"
            page = await visitor.open(server.url, reduced_motion="reduce", **PHONE)
            await page.get_by_role("button", name="Show threads").click()
            await create_project(page, "Small")
            await page.get_by_role("textbox", name="New fact").fill("The river is deep.")
            await page.get_by_role("button", name="Add", exact=True).click()
            await expect(page.get_by_role("list", name="Memory")).to_contain_text("The river is deep.")
            await page.get_by_role("textbox", name="New fact").fill("the river is deep.")
            await page.get_by_role("button", name="Add", exact=True).click()
            await expect(page.get_by_role("alert")).to_have_text("This fact is already remembered.")
            await page.get_by_role("button", name="Rename project").click()
            await page.get_by_role("textbox", name="Name").fill("Large")
            await page.get_by_role("button", name="Save").first.click()
            await expect(page.get_by_role("heading", name="Large", level=1)).to_be_visible()
            await page.get_by_role("button", name="Delete project").click()
            await page.get_by_role("button", name="Undo").click()
            await expect(page.get_by_role("button", name="Undo")).to_have_count(0)
            assert await serious_violations(page) == []
            await page.get_by_role("button", name="Delete project").click()
            await expect(page).to_have_url(f"{server.url}/")
            assert (await page.request.get(f"{server.url}/api/projects")).ok
            projects = await (await page.request.get(f"{server.url}/api/projects")).json()
            assert projects == {"projects": []}


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_the_project_page_fits_every_width_in_both_themes(tmp_path: Path, visitor: Visitor, theme: str) -> None:
    async with ScriptedServer(["Hello."], endless=True) as model:
        with serve_model(tmp_path, model) as server:
            page = await visitor.open(server.url, reduced_motion="reduce", color_scheme=theme)
            await create_project(page, "A project with quite a long name that has to be cut somewhere")
            await add_file(page, "a-file-with-a-very-long-name-" * 5 + ".md", PLAN.encode())
            await expect(page.get_by_role("list", name="Files")).to_contain_text("Searchable")
            for width in (1440, 1024, 390):
                await page.set_viewport_size({"width": width, "height": 900})
                await expect(page.locator("html")).to_have_js_property("scrollWidth", width)
                assert await serious_violations(page) == []
