"""The side panel in a real browser: artifacts, files and runs."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from zipfile import ZipFile

from playwright.async_api import Page, expect

from deerflow.domain.identity import LOCAL_USER
from deerflow.sandbox.files.mounts import user_data_folder
from deerflow.testing import ScriptedServer, calling
from tests.e2e.support import Visitor, send_message, serious_violations, serve_model

OUTPUTS = "/mnt/user-data/outputs"
SMALL_WINDOW = {"viewport": {"width": 900, "height": 800}}
PAGE = """<!doctype html><title>x</title><p id="p">still</p><a href="#far">far</a><i id="far"></i><script>
document.getElementById("p").textContent = `moved in ${self.origin}`;
const tried = [];
fetch("/api/threads/search", {method: "POST", body: "{}"}).then(() => tried.push("fetch"), () => {});
try { parent.document.title = "taken"; tried.push("parent"); } catch {}
try { localStorage.setItem("a", "b"); tried.push("storage"); } catch {}
const image = new Image(); image.onload = () => tried.push("image"); image.src = "/icon.svg";
document.querySelector("a").click();
const told = () => ` and reached ${tried.join() || "nothing"} but ${location.hash}`;
setTimeout(() => { document.getElementById("p").textContent += told(); }, 300);
</script>"""
CSV = "city,number\n" + "".join(f"place {number},{number}\n" for number in range(5000))
PDF = (
    b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj 2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n"
    b"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 100]/Contents 4 0 R>>endobj\n"
    b"4 0 obj<</Length 26>>stream\n0 0 0 rg 0 0 100 100 re f \nendstream endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n"
)
FILES = {
    "page.html": PAGE.encode(),
    "table.csv": CSV.encode(),
    "paper.pdf": PDF,
    "code.py": b"def f():\n    return 1\n",
}
MODEL_SETTINGS = {"context_window": 100_000, "pricing": {"currency": "USD", "input": 1000, "output": 1000}}


@asynccontextmanager
async def open_thread_with_files(home: Path, visitor: Visitor, **options: object) -> AsyncIterator[Page]:
    """Open the page of a thread in which the agent has presented files."""
    names = ["notes.md", *FILES]
    write = calling("write_file", description="notes", path=f"{OUTPUTS}/notes.md", content="# Notes\n\nAll **good**.")
    present = calling("present_files", filepaths=[f"{OUTPUTS}/{name}" for name in names])
    async with ScriptedServer([write, "Begun.", present, "There you are."]) as model:
        with serve_model(home, model, model_settings=MODEL_SETTINGS) as server:
            page = await visitor.open(server.url, **{"reduced_motion": "reduce", **options})
            await send_message(page, "make files")
            await expect(page.get_by_text("Begun.")).to_be_visible(timeout=30_000)
            write_files(home, page.url.rsplit("/", 1)[1].split("?")[0])
            await send_message(page, "show them")
            await expect(page.get_by_text("There you are.")).to_be_visible(timeout=30_000)
            yield page


def write_files(home: Path, thread_id: str) -> None:
    folder = user_data_folder(home, LOCAL_USER.user_id, thread_id) / "outputs"
    for name, content in FILES.items():
        (folder / name).write_bytes(content)


async def test_presented_files_are_shown_by_type_and_the_url_restores_the_panel(
    tmp_path: Path, visitor: Visitor
) -> None:
    # The browser logs everything it blocked in the page of the agent.
    visitor.ignored_messages = (
        "Content Security Policy|sandboxed|has been blocked|Access to fetch|Failed to load resource"
    )
    async with open_thread_with_files(tmp_path, visitor) as page:
        await page.get_by_role("button", name="Open notes.md").click()
        panel = page.get_by_role("complementary", name="Panel")
        await expect(panel.locator("strong")).to_have_text("good")
        assert await serious_violations(page) == []
        await panel.get_by_text("Source", exact=True).click()
        await expect(panel.get_by_role("textbox", name="notes.md")).to_contain_text("All **good**.")
        assert await serious_violations(page) == []

        await panel.get_by_role("button", name="Back").click()
        await panel.get_by_role("button", name="page.html", exact=True).click()
        paragraph = panel.frame_locator("iframe").frame_locator("iframe").locator("#p")
        await expect(paragraph).to_have_text("moved in null and reached nothing but #far")

        await panel.get_by_role("button", name="Back").click()
        await panel.get_by_role("button", name="table.csv", exact=True).click()
        await expect(panel.get_by_role("cell", name="place 0", exact=True)).to_be_visible()
        await expect(panel.get_by_text("5000 rows, 2 columns")).to_be_visible()
        assert await panel.get_by_role("row").count() < 80
        assert await serious_violations(page) == []

        await panel.get_by_role("button", name="Back").click()
        await panel.get_by_role("button", name="paper.pdf", exact=True).click()
        sheet = panel.get_by_role("img", name="Page 1")
        await expect(sheet).to_be_visible()
        await wait_until_rendered(page)

        await page.reload()
        await expect(sheet).to_be_visible()
        await expect(panel.get_by_role("tab", name="Artifacts", selected=True)).to_be_visible()


async def test_files_are_shown_as_a_tree_and_runs_with_steps(tmp_path: Path, visitor: Visitor) -> None:
    async with open_thread_with_files(tmp_path, visitor) as page:
        panel = page.get_by_role("complementary", name="Panel")
        await panel.get_by_role("tab", name="Files").click()
        await expect(panel.get_by_role("button", name="workspace")).to_be_visible()
        await panel.get_by_role("button", name="code.py").click()
        await expect(panel.get_by_role("textbox", name="code.py")).to_contain_text("return 1")
        assert "panel=files" in page.url and "code.py" in page.url

        await panel.get_by_role("tab", name="Run").click()
        steps = panel.get_by_role("list", name="Steps").get_by_role("listitem")
        await expect(steps).to_have_count(3)
        await expect(steps.nth(1)).to_contain_text("Presented notes.md")
        await expect(steps.nth(1)).to_contain_text(re.compile(r"\d ?m?s"))
        await expect(steps.first).to_contain_text(re.compile(r"\d tokens"))
        for fact in ("Duration", "Input tokens", "Output tokens", "Cost"):
            await expect(panel.get_by_role("term").filter(has_text=fact)).to_be_visible()
        await expect(panel.get_by_role("definition").last).to_contain_text("$")
        await expect(page.get_by_role("button", name=re.compile(r"Context \d+% full"))).to_be_visible()
        assert await serious_violations(page) == []
        await panel.get_by_role("combobox").select_option(index=1)
        await expect(steps.nth(1)).to_contain_text("Wrote notes.md")

        edge = panel.get_by_role("separator", name="Panel width")
        before = (await panel.bounding_box() or {"width": 0.0})["width"]
        await edge.focus()
        await page.keyboard.press("ArrowLeft")
        await expect(edge).to_have_attribute("aria-valuenow", "44")
        assert (await panel.bounding_box() or {"width": 0.0})["width"] > before
        await page.keyboard.press("Control+.")
        await expect(panel).to_have_count(0)


async def test_files_are_downloaded_as_an_archive_and_an_edit_conflict_loses_no_text(
    tmp_path: Path, visitor: Visitor
) -> None:
    visitor.ignored_messages = "409"  # the browser logs every error status
    async with open_thread_with_files(tmp_path, visitor) as page:
        thread_id = page.url.rsplit("/", 1)[1].split("?")[0]
        notes = user_data_folder(tmp_path, LOCAL_USER.user_id, thread_id) / "outputs/notes.md"
        await page.get_by_role("button", name="Open notes.md").click()
        panel = page.get_by_role("complementary", name="Panel")
        await panel.get_by_role("button", name="Back").click()
        async with page.expect_download() as waiting:
            await panel.get_by_role("link", name="Download all").click()
        with ZipFile(await (await waiting.value).path()) as bundle:
            assert {name.rsplit("/", 1)[-1] for name in bundle.namelist()} == {"notes.md", *FILES}

        await panel.get_by_role("button", name="notes.md", exact=True).click()
        await panel.get_by_text("Source", exact=True).click()
        await panel.get_by_role("button", name="Edit").click()
        editor = panel.get_by_role("textbox", name="notes.md")
        await editor.click()
        await page.keyboard.press("Control+End")
        await page.keyboard.type(" Mine.")
        notes.write_text("Theirs.")
        await panel.get_by_role("button", name="Save").click()
        await expect(panel.get_by_role("alert")).to_contain_text("Nothing was overwritten")
        await expect(editor).to_contain_text("All **good**. Mine.")
        assert notes.read_text() == "Theirs." and await serious_violations(page) == []
        await panel.get_by_role("button", name="Save mine as a copy").click()
        await expect(panel.get_by_text("Your text was saved as notes-mine.md")).to_be_visible()
        await expect(editor).to_contain_text("Theirs.")
        assert notes.with_name("notes-mine.md").read_text().endswith("All **good**. Mine.")
        assert await serious_violations(page) == []


async def test_in_a_small_window_the_panel_is_a_dialog(tmp_path: Path, visitor: Visitor) -> None:
    async with open_thread_with_files(tmp_path, visitor, **SMALL_WINDOW) as page:
        await page.get_by_role("button", name="Open notes.md").click()
        sheet = page.get_by_role("dialog", name="Panel")
        await expect(sheet.locator("strong")).to_have_text("good")
        assert await serious_violations(page) == []
        await page.keyboard.press("Escape")
        await expect(sheet).to_have_count(0)
        await expect(page.get_by_role("button", name="Open notes.md")).to_be_visible()


async def wait_until_rendered(page: Page) -> None:
    """Wait until a document page is rendered. Waiting functions of Playwright need `eval`, which the CSP forbids."""
    pixel = "canvas.getContext('2d').getImageData(canvas.width / 4, canvas.height / 2, 1, 1).data.join()"
    drawn = f"new Promise(requestAnimationFrame).then(() => {pixel})"
    async with asyncio.timeout(30):
        while await page.locator("aside canvas").first.evaluate(f"canvas => {drawn}") != "0,0,0,255":
            continue
