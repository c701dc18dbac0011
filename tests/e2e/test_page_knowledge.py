"""Project files found by meaning, cited in the list of sources, and project memory, in a real browser."""

import io
import re
from pathlib import Path

from playwright.async_api import Page, expect
from reportlab.pdfgen.canvas import Canvas

from deerflow.testing import ScriptedServer, ServerRequest, calling
from tests.e2e.support import Visitor, send_message, serious_violations, serve_model, wait_for_answer

KEY = "sk-embed-canary-90aa17"
CITATION = re.compile(r"\[citation:report\.pdf, page 2\]\(/projects/[^)]*\)")


def answer(request: ServerRequest) -> object:
    """Search the project, then answer with a right and a wrong number."""
    last = request.messages[-1]
    if last["role"] != "tool":
        return calling("search_knowledge", query="cost of the paint")
    found = CITATION.search(str(last["content"]))
    assert found is not None
    unknown = found[0].replace("passage=", "passage=9")
    return f"It costs 4200 euros {found[0]}. It is blue {unknown}."


def make_pdf() -> bytes:
    file = io.BytesIO()
    canvas = Canvas(file)
    for text in ("The kingfisher bridge is painted blue.", "The paint of the bridge costs 4200 euros."):
        canvas.drawString(40, 800, text)
        canvas.showPage()
    canvas.save()
    return file.getvalue()


async def create_project(page: Page, name: str) -> None:
    await page.get_by_role("button", name="New project").click()
    dialog = page.get_by_role("dialog", name="New project")
    await dialog.get_by_role("textbox", name="Name").fill(name)
    await dialog.get_by_role("button", name="Create").click()
    await expect(page.get_by_role("heading", name=name, level=1)).to_be_visible()


async def add_report(page: Page) -> None:
    file = {"name": "report.pdf", "mimeType": "application/pdf", "buffer": make_pdf()}
    await page.get_by_label("Add files").last.set_input_files([file])  # type: ignore[list-item]
    await expect(page.get_by_role("list", name="Files")).to_contain_text("Searchable", timeout=30_000)


async def test_a_cited_page_is_a_source_with_its_state_and_project_memory_reaches_the_model(
    tmp_path: Path, visitor: Visitor
) -> None:
    async with ScriptedServer([answer], endless=True) as model:
        with serve_model(tmp_path, model) as server:
            page = await visitor.open(server.url, reduced_motion="reduce")
            await create_project(page, "Bridge")
            await add_report(page)
            await page.get_by_role("textbox", name="New fact").fill("The client is the town of Oulu.")
            await page.get_by_role("button", name="Add", exact=True).click()
            await expect(page.get_by_role("list", name="Memory")).to_contain_text("Oulu")
            await page.get_by_role("button", name="New thread in this project").click()
            await send_message(page, "What does the paint cost?")
            await wait_for_answer(page)
            assert "The client is the town of Oulu." in str(model.requests[0].messages)

            await page.get_by_role("button", name="2 sources").click()
            sources = page.get_by_role("region", name="2 sources")
            rows = sources.get_by_role("listitem")
            await expect(rows.nth(0)).to_contain_text("report.pdf, page 2")
            await expect(rows.nth(0)).to_contain_text("Verified")
            await expect(rows.nth(1)).to_contain_text("Not among the passages found")
            assert await serious_violations(page) == []
            async with page.context.expect_page() as opened:
                await rows.nth(0).get_by_role("link").click()
            passage = await opened.value
            await expect(passage.get_by_role("blockquote", name="Cited passage")).to_contain_text("4200 euros")
            await expect(passage.get_by_role("heading", name="Page 2")).to_be_visible()


async def test_an_embedding_model_is_connected_from_the_project_page(tmp_path: Path, visitor: Visitor) -> None:
    async with (
        ScriptedServer(["Hello."], endless=True) as model,
        ScriptedServer(models=["gpt-5", "text-embed-small"], key=KEY) as provider,
    ):
        with serve_model(tmp_path, model) as server:
            page = await visitor.open(server.url, reduced_motion="reduce")
            await create_project(page, "Bridge")
            await add_report(page)
            address = page.url
            await page.get_by_role("link", name="Connect an embedding model").click()
            section = page.get_by_role("region", name="Embeddings")
            await expect(section).to_contain_text("Project files are searched by words.")
            await section.get_by_role("button", name="Connect a provider").click()
            await section.get_by_label("Address").fill(provider.base_url)
            await section.get_by_label("API key").fill("sk-wrong")
            await section.get_by_role("button", name="Check").click()
            await expect(section.get_by_role("alert")).to_contain_text("refused the key")
            await section.get_by_label("API key").fill(KEY)
            await section.get_by_role("button", name="Check").click()
            await expect(section).to_contain_text("text-embed-small works (256 dimensions).")
            for scheme in ("light", "dark"):
                await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
                assert await serious_violations(page) == []
            await section.get_by_role("button", name="Use this model").click()
            await expect(section).to_contain_text("In use: text-embed-small")
            await expect(section.get_by_label("API key")).to_have_count(0)
            assert KEY not in await page.content()

            await page.goto(address)
            await expect(page.get_by_role("status").filter(has_text="by meaning")).to_contain_text("text-embed-small")
            await page.goto(f"{server.url}/settings#embeddings")
            await section.get_by_role("button", name="Use it").click()
            await expect(section).to_contain_text("In use: all-minilm-l6-v2")
            await section.get_by_role("button", name="Remove").click()
            await expect(section).to_contain_text("Project files are searched by words.")
