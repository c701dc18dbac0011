"""Results in the side panel, in a real browser: previews of files, files being written, and files changed."""

import io
import math
import struct
import wave
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import Locator, Page, expect
from reportlab.pdfgen.canvas import Canvas

from deerflow.domain.identity import LOCAL_USER
from deerflow.sandbox.files.mounts import user_data_folder
from deerflow.testing import ScriptedServer, Stall, calling
from tests.e2e.support import PHONE, Visitor, check_both_themes, send_message, serious_violations, serve_model
from tests.office_files import HOSTILE_FILES, OFFICE_FILES, book_of_numbers, book_of_sheets, zip_of

OUTPUTS = "/mnt/user-data/outputs"
NOTES = calling("write_file", description="notes", path=f"{OUTPUTS}/notes.txt", content="Notes")
PREVIEW_TIMEOUT_MS = 60_000
REFUSED = "Failed to load resource"
"""What the browser logs about each answer with an error status."""


CLIP = Path(__file__).with_name("clip.webm").read_bytes()
"""Second of 64 × 48 pixels, whose background goes from green to orange while a yellow square moves to the right."""
PIXEL_AT = """async (film, at) => {
  film.currentTime = at;
  await new Promise((resolve) => film.addEventListener("seeked", resolve, { once: true }));
  const canvas = document.createElement("canvas").getContext("2d");
  canvas.drawImage(film, 0, 0);
  return [...canvas.getImageData(2, 2, 1, 1).data].slice(0, 3);
}"""


IS_DRAWN = """(page) => {
  const { data } = page.getContext("2d").getImageData(0, 0, page.width, page.height);
  let dark = 0;
  for (let at = 0; at < data.length; at += 4) if (data[at + 3] > 200 && data[at] < 100) dark++;
  return dark > 50;
}"""


def make_pdf(text: str) -> bytes:
    """Return a PDF of one page."""
    target = io.BytesIO()
    page = Canvas(target)
    page.drawString(72, 700, text)
    page.save()
    return target.getvalue()


def make_sound(seconds: float = 1.0) -> bytes:
    """Return a tone as a WAV file."""
    target = io.BytesIO()
    with wave.open(target, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(8000)
        tone = (int(9000 * math.sin(number / 5)) for number in range(int(8000 * seconds)))
        sound.writeframes(b"".join(struct.pack("<h", each) for each in tone))
    return target.getvalue()


@asynccontextmanager
async def open_thread(
    home: Path, visitor: Visitor, files: Mapping[str, bytes], **options: object
) -> AsyncIterator[Page]:
    """Open the page of a thread in which the agent has presented files."""
    present = calling("present_files", filepaths=[f"{OUTPUTS}/{name}" for name in files])
    async with ScriptedServer([NOTES, "Begun.", present, "There you are."]) as model:
        with serve_model(home, model) as server:
            page = await visitor.open(server.url, **{"reduced_motion": "reduce", **options})
            await send_message(page, "make files")
            await expect(page.get_by_text("Begun.")).to_be_visible()
            thread_id = page.url.rsplit("/", 1)[1].split("?")[0]
            folder = user_data_folder(home, LOCAL_USER.user_id, thread_id) / "outputs"
            for name, content in files.items():
                (folder / name).write_bytes(content)
            await send_message(page, "show them")
            await expect(page.get_by_text("There you are.")).to_be_visible()
            yield page
            await page.close()


def panel_of(page: Page) -> Locator:
    return page.get_by_role("complementary", name="Panel")


async def open_file(page: Page, name: str) -> Locator:
    await page.get_by_role("button", name=f"Open {name}", exact=True).click()
    shown = panel_of(page).get_by_role("region", name=name)
    await expect(shown).to_be_visible()
    return shown


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("toolbox_environment")
async def test_office_files_and_archives_are_shown_in_the_panel(tmp_path: Path, visitor: Visitor) -> None:
    visitor.ignored_messages = REFUSED
    files = {
        "deck.pptx": OFFICE_FILES["skill.pptx"](),
        "text.docx": OFFICE_FILES["skill.docx"](),
        "book.xlsx": book_of_numbers(),
        "sheets.xlsx": book_of_sheets(),
        "bundle.zip": zip_of({"src/main.py": b"x" * 5000, "readme.md": b"hello"}),
        "locked.docx": HOSTILE_FILES["locked.docx"][0](),
        "laughs.docx": HOSTILE_FILES["laughs.docx"][0](),
        "data.parquet": b"PAR1",
    }
    async with open_thread(tmp_path, visitor, files, viewport={"width": 1440, "height": 900}) as page:
        # The first presented file is open.
        slides = panel_of(page).get_by_role("img", name="Slide 1")
        await expect(slides.first).to_be_visible(timeout=PREVIEW_TIMEOUT_MS)
        await expect(slides.first).to_have_js_property("complete", True)
        assert await slides.first.evaluate("slide => slide.naturalWidth") > 500
        await expect(panel_of(page).get_by_text("9 slides", exact=True)).to_be_visible()
        await expect(panel_of(page).get_by_text("Notes:").first).to_be_visible()
        await check_both_themes(page)

        await panel_of(page).get_by_role("button", name="Next file").click()
        text = panel_of(page).get_by_role("article", name="text.docx")
        await expect(text.get_by_role("heading").first).to_be_visible(timeout=PREVIEW_TIMEOUT_MS)
        await expect(text.get_by_role("table").first).to_be_visible()
        await check_both_themes(page)

        book = await open_file(page, "book.xlsx")
        table = book.get_by_role("table", name="Figures")
        await expect(table.get_by_role("row").nth(1)).to_contain_text("item 0", timeout=PREVIEW_TIMEOUT_MS)
        for _ in range(2):
            await table.get_by_role("columnheader", name="Amount").get_by_role("button").click()
        await expect(table.get_by_role("row").nth(1)).to_contain_text("35,800.50")
        await check_both_themes(page)

        sheets = await open_file(page, "sheets.xlsx")
        await sheets.get_by_role("tab", name="Sheet of 2 (hidden)").click(timeout=PREVIEW_TIMEOUT_MS)
        await expect(sheets.get_by_role("tab", selected=True)).to_have_text("Sheet of 2 (hidden)")

        bundle = await open_file(page, "bundle.zip")
        await expect(bundle.get_by_role("cell", name="src/main.py")).to_be_visible(timeout=PREVIEW_TIMEOUT_MS)
        await expect(bundle.get_by_text("2 entries")).to_be_visible()
        await check_both_themes(page)

        for name, reason in (("locked.docx", "protected with a password"), ("laughs.docx", "made to harm programs")):
            refused = await open_file(page, name)
            await expect(refused.get_by_text(reason).first).to_be_visible(timeout=PREVIEW_TIMEOUT_MS)
            await expect(refused.get_by_role("link", name="Download", exact=True)).to_be_visible()
        await check_both_themes(page)

        unknown = await open_file(page, "data.parquet")
        await expect(unknown.get_by_text("No preview for this file type.")).to_be_visible()
        async with page.expect_download() as started:
            await unknown.get_by_role("link", name="Download", exact=True).click()
        assert (await (await started.value).path()).read_bytes() == b"PAR1"


async def test_sound_is_played_and_files_have_actions(tmp_path: Path, visitor: Visitor) -> None:
    visitor.ignored_messages = "sandboxed|Content Security Policy"
    page_of_agent = b"<title>x</title><p id=p>origin</p><script>p.textContent = self.origin</script>"
    files = {"notes.md": b"# Notes", "tone.wav": make_sound(), "clip.webm": CLIP, "page.html": page_of_agent}
    async with open_thread(tmp_path, visitor, files) as page:
        ranges: list[str] = []
        page.on("response", lambda answer: ranges.append(f"{answer.status} {answer.url.rsplit('/', 1)[1]}"))
        sound = await open_file(page, "tone.wav")
        player = sound.locator("audio")
        await expect(player).to_have_js_property("duration", 1)
        await player.evaluate("player => { player.currentTime = 0.5; }")
        await expect(player).to_have_js_property("currentTime", 0.5)
        assert "206 tone.wav" in ranges
        film = (await open_file(page, "clip.webm")).locator("video")
        await expect(film).to_have_js_property("duration", 1)
        await expect(film).to_have_js_property("videoWidth", 64)
        red, green, blue = await film.evaluate(PIXEL_AT, 0.8)
        assert red > 100 and 90 < green < 150 and blue < 100, "the picture at 0.8 s is orange"
        async with page.context.expect_page() as opened:
            await panel_of(page).get_by_role("link", name="Open in a new tab").click()
        tab = await opened.value
        await expect(tab.locator("video")).to_have_js_property("videoWidth", 64)
        await tab.close()
        assert await serious_violations(page) == []

        await open_file(page, "notes.md")
        shown = panel_of(page)
        await expect(shown.get_by_text("1 of 4")).to_be_visible()
        await expect(shown.get_by_role("button", name="Previous file")).to_be_disabled()
        await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        await shown.get_by_role("button", name="Copy text").click()
        assert await page.evaluate("navigator.clipboard.readText()") == "# Notes"
        await shown.get_by_role("button", name="Full screen").click()
        await expect(shown.get_by_role("button", name="Exit full screen")).to_be_visible()
        await shown.get_by_role("button", name="Exit full screen").click()
        for _ in range(3):
            await shown.get_by_role("button", name="Next file").click()
        await expect(shown.get_by_role("region", name="page.html")).to_be_visible()
        async with page.context.expect_page() as opened:
            await shown.get_by_role("link", name="Open in a new tab").click()
        tab = await opened.value
        await expect(tab.frame_locator("iframe").locator("#p")).to_have_text("null")


async def test_a_pdf_is_shown_in_the_panel_and_in_a_tab(tmp_path: Path, visitor: Visitor) -> None:
    async with open_thread(tmp_path, visitor, {"letter.pdf": make_pdf("Dear heron")}) as page:
        for shown in (page, await open_tab(page)):
            first = panel_of(shown).get_by_role("img", name="Page 1")
            await expect(first).to_be_visible()
            await shown.wait_for_function(IS_DRAWN, arg=await first.element_handle())
            await check_both_themes(shown)


async def open_tab(page: Page) -> Page:
    async with page.context.expect_page() as opened:
        await panel_of(page).get_by_role("link", name="Open in a new tab").click()
    return await opened.value


async def test_a_page_is_shown_while_it_is_written(tmp_path: Path, visitor: Visitor) -> None:
    visitor.ignored_messages = f"Content Security Policy|sandboxed|target origin|{REFUSED}"
    html = "<title>x</title><style>p { font-weight: 700 }</style><p>Growing</p><script>document.title = 1</script>"
    write = calling("write_file", description="page", path=f"{OUTPUTS}/page.html", content=html)
    text = calling("write_file", description="text", path=f"{OUTPUTS}/text.md", content="# Title\n\nSome **bold** text")
    async with ScriptedServer([Stall(write), Stall(text), "Done."]) as model:
        with serve_model(tmp_path, model) as server:
            page = await visitor.open(server.url, reduced_motion="reduce")
            await send_message(page, "write")
            frame = panel_of(page).frame_locator("iframe[src='/live.html']")
            await expect(frame.get_by_text("Growing")).to_have_css("font-weight", "700")
            await expect(panel_of(page).get_by_text("Being written")).to_be_visible()
            assert await serious_violations(page) == []
            model.release()
            finished = panel_of(page).frame_locator("iframe[src*='/previews/']").frame_locator("iframe")
            await expect(finished.get_by_text("Growing")).to_be_visible()
            await page.get_by_role("tab", name="Artifacts").click()
            await page.goto(f"{page.url.split('?')[0]}?panel=artifacts&file={OUTPUTS}/text.md")
            await expect(panel_of(page).locator("strong")).to_have_text("bold")
            await expect(panel_of(page).get_by_text("Being written")).to_be_visible()
            model.release()
            await expect(page.get_by_text("Done.")).to_be_visible()
            await expect(panel_of(page).get_by_text("Being written")).to_have_count(0)
            await expect(panel_of(page).locator("strong")).to_have_text("bold")


async def test_the_panel_opens_for_the_first_result_and_leaves_the_focus(tmp_path: Path, visitor: Visitor) -> None:
    async with open_thread(tmp_path, visitor, {"a.md": b"# First", "b.md": b"# Second"}) as page:
        await expect(panel_of(page).get_by_role("heading", name="First")).to_be_visible()
        await expect(page.get_by_role("textbox", name="Message")).to_be_focused()
        await panel_of(page).get_by_role("button", name="Hide panel").click()
        await page.reload()
        await expect(page.get_by_text("There you are.")).to_be_visible()
        await expect(panel_of(page)).to_have_count(0)


async def test_the_panel_stays_closed_on_phones_and_if_the_setting_is_off(tmp_path: Path, visitor: Visitor) -> None:
    (tmp_path / "phone").mkdir()
    async with open_thread(tmp_path / "phone", visitor, {"a.md": b"# First"}, **PHONE) as page:
        assert "panel" not in page.url
        await expect(page.get_by_role("dialog")).to_have_count(0)
    present = calling("present_files", filepaths=[f"{OUTPUTS}/notes.txt"])
    async with ScriptedServer([NOTES, present, "Done."]) as model:
        with serve_model(tmp_path, model) as server:
            page = await visitor.open(f"{server.url}/settings", reduced_motion="reduce")
            await page.get_by_role("switch", name="Open results automatically").click()
            await page.goto(server.url)
            await send_message(page, "write")
            await expect(page.get_by_text("Done.")).to_be_visible()
            await expect(page.get_by_role("button", name="Open notes.txt")).to_be_visible()
            assert "panel" not in page.url


async def test_the_badge_of_an_answer_opens_its_diffs(tmp_path: Path, visitor: Visitor) -> None:
    more = calling("write_file", description="more", path=f"{OUTPUTS}/more.txt", content="one\ntwo\n")
    other = calling("write_file", description="other", path=f"{OUTPUTS}/other.txt", content="three\n")
    async with ScriptedServer([NOTES, "First.", more, other, "Second.", "Third."]) as model:
        with serve_model(tmp_path, model) as server:
            page = await visitor.open(server.url, reduced_motion="reduce")
            for number, answer in enumerate(("First.", "Second.", "Third."), 1):
                await send_message(page, f"message {number}")
                await expect(page.get_by_text(answer, exact=True)).to_be_visible()
            await expect(page.get_by_role("button", name="1 file changed")).to_be_visible()
            await expect(page.get_by_role("button", name="changed")).to_have_count(2)
            await page.get_by_role("button", name="2 files changed").click()
            files = panel_of(page).get_by_role("list", name="2 files changed")
            await expect(files.get_by_role("listitem")).to_have_count(2)
            await expect(files.get_by_text("outputs/more.txt")).to_be_visible()
            await expect(files.get_by_text("two", exact=True)).to_be_visible()
            await check_both_themes(page)
            await page.reload()
            await expect(panel_of(page).get_by_text("outputs/other.txt")).to_be_visible()
