"""The memory page in a real browser against a real server."""

import asyncio
import json
from pathlib import Path

from playwright.async_api import Locator, Page, expect

from deerflow.testing import ScriptedServer, ServerRequest
from tests.e2e.support import PHONE, Visitor, send_message, serious_violations, serve_model, wait_for_answer
from tests.memory.support import build_extraction_output

MESSAGE = "I drink kingfisher tea in the morning"
FACT = {"content": "Drinks kingfisher tea in the morning", "message": 1, "quote": MESSAGE}


def answer_or_extract(request: ServerRequest) -> str:
    """Answer messages, and extract the fact about tea."""
    if "You keep the long-term memory" not in str(request.messages[0]):
        return "Noted."
    conversation = json.dumps(request.messages[1]["content"])
    return (
        build_extraction_output(FACT, workContext="Teaches physics.")
        if MESSAGE in conversation
        else build_extraction_output()
    )


async def delete_permanently(page: Page, row: Locator) -> None:
    await row.get_by_role("button", name="Actions for").click()
    await page.get_by_role("menuitem", name="Delete permanently").click()
    dialog = page.get_by_role("dialog", name="Delete this fact permanently?")
    await expect(dialog).to_contain_text("This can’t be undone.")
    assert await serious_violations(page) == []
    await dialog.get_by_role("button", name="Delete permanently").click()
    await expect(dialog).to_have_count(0)


async def test_a_fact_is_extracted_shown_with_its_source_injected_edited_restored_and_deleted(
    tmp_path: Path, visitor: Visitor
) -> None:
    async with ScriptedServer([answer_or_extract], endless=True) as model:
        with serve_model(tmp_path, model, memory={"debounce_seconds": 0.2}) as server:
            page = await visitor.open(server.url, reduced_motion="reduce")
            await send_message(page, MESSAGE)
            await wait_for_answer(page)
            thread = page.url.removeprefix(server.url)

            await page.get_by_role("link", name="Memory").click()
            facts = page.get_by_role("list", name="Facts")
            row = facts.get_by_role("listitem").filter(has_text="kingfisher")
            await expect(row).to_contain_text("Preference·90% confidence·from")
            await expect(page.get_by_role("region", name="Summaries")).to_contain_text("Teaches physics.")
            await row.get_by_role("button", name="Source").click()
            await expect(row.locator("blockquote")).to_have_text(MESSAGE)
            await expect(row.get_by_role("link").first).to_have_attribute("href", thread)
            assert await serious_violations(page) == []

            # The fact is injected into the next thread, and its run shows that.
            await page.get_by_role("link", name="New thread").click()
            await send_message(page, "What do I drink?")
            await wait_for_answer(page)
            assert any("kingfisher tea" in str(request.messages) for request in answer_requests(model)[-1:])
            await page.goto(f"{page.url}?panel=run")
            receipt = page.get_by_role("region", name="Memory used")
            await receipt.get_by_text("1 of 1 facts").click()
            await expect(receipt.get_by_role("listitem")).to_have_text("Drinks kingfisher tea in the morning")
            assert await serious_violations(page) == []

            # The page handles the command /memory, which searches facts.
            await send_message(page, "/memory kingfisher")
            await expect(page.get_by_role("searchbox", name="Search facts")).to_have_value("kingfisher")
            await row.get_by_role("button", name="Edit").click()
            await page.get_by_role("textbox", name="Fact").fill("Drinks heron tea at night")
            await page.get_by_role("button", name="Save").click()
            await page.get_by_role("searchbox", name="Search facts").fill("")
            await expect(facts).to_contain_text("heron")
            await page.get_by_role("button", name="Undo").click()
            await expect(facts).to_contain_text("kingfisher")
            await expect(page.get_by_text("Undone")).to_be_visible()  # the layout below has settled by then

            await page.get_by_text("History", exact=True).click()
            changes = page.get_by_role("list", name="History").get_by_role("listitem")
            await expect(changes.first).to_contain_text("Before:Drinks heron tea")
            await expect(changes.first).to_contain_text("After:Drinks kingfisher tea")
            assert await serious_violations(page) == []
            await page.get_by_role("link", name="View memory at this time").nth(1).click()
            await expect(facts).to_contain_text("heron")
            await page.get_by_role("button", name="Back to current").click()

            await page.get_by_text("Memories", exact=True).click()
            await delete_permanently(page, row)
            await expect(page.get_by_text("No memories yet.")).to_be_visible()
            await page.get_by_role("link", name="New thread").click()
            await send_message(page, "And now?")
            await wait_for_answer(page)
            request = str(answer_requests(model)[-1].messages)
            assert "And now?" in request and "kingfisher" not in request and "heron" not in request


def answer_requests(model: ScriptedServer) -> list[ServerRequest]:
    """Return the model requests for answers."""
    return [request for request in model.requests if "You keep the long-term memory" not in str(request.messages[0])]


async def test_memory_is_disabled_exported_and_imported_on_a_phone_in_dark_mode(
    tmp_path: Path, visitor: Visitor
) -> None:
    visitor.ignored_messages = "the server responded with a status of 4"
    async with ScriptedServer([answer_or_extract], endless=True) as model:
        with serve_model(tmp_path, model) as server:
            page = await visitor.open(f"{server.url}/memory", **PHONE, reduced_motion="reduce", color_scheme="dark")
            toggle = page.get_by_role("switch", name="Remember me")
            await toggle.click()
            await expect(page.get_by_text("Nothing new is saved and memory is not used.")).to_be_visible()
            await page.reload()
            await expect(toggle).to_have_attribute("aria-checked", "false")
            assert await serious_violations(page) == []

            await page.get_by_role("button", name="Add fact").first.click()
            await page.get_by_role("textbox", name="Fact").fill("Lives in Oslo")
            await page.locator("form").get_by_role("button", name="Add fact").click()
            facts = page.get_by_role("list", name="Facts")
            await expect(facts).to_contain_text("Lives in Oslo")
            async with page.expect_download() as download:
                await page.get_by_role("button", name="Memory actions").click()
                await page.get_by_role("menuitem", name="Export to file").click()
            exported = json.loads(await asyncio.to_thread((await (await download.value).path()).read_text))
            assert exported["facts"][0]["content"] == "Lives in Oslo"

            picker = page.locator("input[type=file]")
            for content, error in ((b"{", "invalid JSON"), (b'{"facts": [{}]}', "facts.0.content")):
                file = {"name": "memory.json", "mimeType": "application/json", "buffer": content}
                await picker.set_input_files([file])
                await expect(page.get_by_role("alert")).to_contain_text(error)
            changed_export = json.dumps({**exported, "facts": [{"content": "Lives in Rome"}]}).encode()
            await picker.set_input_files([{"name": "m.json", "mimeType": "application/json", "buffer": changed_export}])
            await expect(facts).to_contain_text("Lives in Rome")
            await page.get_by_role("button", name="Undo").click()
            await expect(facts).to_contain_text("Lives in Oslo")
            assert await page.evaluate("document.documentElement.scrollWidth") == 390
            assert await serious_violations(page) == []
