"""Documents become Markdown inside the sandbox, or there is a reason that people understand."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace

import pytest
import pytest_asyncio

from deerflow.config.source import open_source
from deerflow.config.uploads import ConversionConfig, UploadsConfig
from deerflow.domain.principal import LOCAL_USER
from deerflow.domain.threads import ThreadRecord
from deerflow.domain.uploads import UploadedFile
from deerflow.harness import Harness, open_harness
from deerflow.sandbox.chores import Chores
from deerflow.sandbox.places import user_data_folder
from deerflow.testing import ScriptedModel
from deerflow.uploads.uploads import Uploads
from tests.uploads import documents
from tests.uploads.giving import give

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

MB = 1024 * 1024
SETTINGS = {
    "max_file_size": 120 * MB,
    "max_total_size": 130 * MB,
    "conversion": {"seconds": 100.0, "memory_mb": 256, "answer_seconds": 110.0},
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def harness(
    tmp_path_factory: pytest.TempPathFactory, toolbox_environment: Mapping[str, str]
) -> AsyncIterator[Harness]:
    home = tmp_path_factory.mktemp("home")
    source = open_source(directory=home, environment=toolbox_environment, overrides={"uploads": SETTINGS})
    async with open_harness(source, ScriptedModel.saying()) as harness:
        await harness.sandboxes.prepare()
        yield harness


@pytest_asyncio.fixture(loop_scope="module")
async def thread(harness: Harness) -> ThreadRecord:
    return await harness.threads.create(LOCAL_USER, None, {}, may_exist=False)


async def text_of(harness: Harness, thread: ThreadRecord, file: UploadedFile) -> list[str]:
    assert file.markdown_path is not None, file
    return (await harness.files_of(thread).read(file.markdown_path)).decode().splitlines()


def damaged(content: bytes) -> bytes:
    return content[: len(content) // 3]


ENCRYPTED_OFFICE = bytes.fromhex("d0cf11e0a1b11ae1") + bytes(3000)


@pytest.mark.parametrize(
    ("name", "make", "reason"),
    [
        ("locked.pdf", documents.locked_pdf, "the PDF is encrypted with a password"),
        ("damaged.pdf", lambda: damaged(b"%PDF-1.7\n" + bytes(900)), "the PDF is damaged"),
        ("scanned.pdf", documents.empty_pdf, "its pages may be pictures"),
        ("locked.docx", lambda: ENCRYPTED_OFFICE, "encrypted with a password"),
        ("damaged.docx", lambda: damaged(documents.word()), "cannot be read as a Word document; it may be damaged"),
        ("damaged.xlsx", lambda: damaged(documents.workbook()), "cannot be read as an Excel workbook"),
        ("picture.pptx", lambda: b"\x89PNG\r\n\x1a\n" + bytes(99), "cannot be read as a PowerPoint presentation"),
        ("old.xls", lambda: b"no workbook", "cannot be read as an Excel workbook"),
        ("old.doc", lambda: ENCRYPTED_OFFICE, "save it as .docx"),
        ("empty.html", lambda: b"", "no text was found"),
        ("bomb.docx", lambda: documents.bomb(documents.word(), "word/document.xml", 270), "unpacks to 270 MB"),
        ("bomb.xlsx", lambda: documents.bomb(documents.workbook(), "xl/worksheets/sheet1.xml", 270), "unpacks to 270"),
        ("fat.docx", lambda: documents.bomb(documents.word(), "word/document.xml", 250), "more than 256 MB of memory"),
        ("liar.docx", lambda: documents.lying_bomb(300), "more than 256 MB of memory"),
        ("laughs.docx", documents.billion_laughs, "cannot be read as a Word document"),
    ],
)
async def test_a_document_that_cannot_be_converted_is_kept_with_a_reason(
    harness: Harness, thread: ThreadRecord, name: str, make: Callable[[], bytes], reason: str
) -> None:
    content = await asyncio.to_thread(make)
    file = await give(harness, thread, name, content)
    assert (file.conversion, file.markdown_file) == ("failed", None), file
    assert reason in (file.note or ""), file.note
    assert left(harness, thread) == [name], "nothing is left besides"
    assert await harness.files_of(thread).read(file.path) == content


async def test_what_takes_too_long_is_ended(harness: Harness, thread: ThreadRecord) -> None:
    limits = UploadsConfig(conversion=ConversionConfig(seconds=0.5, answer_seconds=60))
    uploads = Uploads(harness.source.current.home, lambda: limits, Chores(harness.sandboxes, harness.sandbox_report))
    file = await give(replace(harness, uploads=uploads), thread, "long.xlsx", documents.workbook(20_000))
    assert (file.conversion, file.note) == ("failed", "converting it took longer than 0.5 s")
    assert left(harness, thread) == ["long.xlsx"]


def left(harness: Harness, thread: ThreadRecord) -> list[str]:
    """What is in the uploads folder, also what nobody is shown."""
    folder = user_data_folder(harness.source.current.home, thread.owner, thread.thread_id) / "uploads"
    return sorted(file.name for file in folder.iterdir())


async def test_a_word_document_becomes_headings_text_and_tables(harness: Harness, thread: ThreadRecord) -> None:
    file = await give(harness, thread, "report.docx", documents.word())
    lines = await text_of(harness, thread, file)
    assert file.outline is not None and file.markdown_file == "report.md"
    assert [(each.level, each.title) for each in file.outline.headings][:3] == [
        (1, "Chapter 1"), (2, "Detail 1"), (1, "Chapter 2"),
    ]  # fmt: skip
    assert all(lines[each.line - 1] == f"{'#' * each.level} {each.title}" for each in file.outline.headings)
    assert "What chapter 2 says." in lines and any("cell 3" in line for line in lines)
    assert len(lines) == file.outline.lines


async def test_sheets_and_slides_are_found_by_their_lines(harness: Harness, thread: ThreadRecord) -> None:
    book = await give(harness, thread, "numbers.xlsx", documents.workbook())
    lines = await text_of(harness, thread, book)
    assert book.outline and [(each.title, lines[each.line - 1]) for each in book.outline.headings] == [
        ("Sales", "## Sales"), ("Costs", "## Costs"),
    ]  # fmt: skip
    assert (book.outline.kind, book.outline.parts) == ("sheet", 2) and any("| month 2 | 3" in line for line in lines)
    show = await give(harness, thread, "talk.pptx", documents.slides())
    lines = await text_of(harness, thread, show)
    assert show.outline and (show.outline.kind, show.outline.parts) == ("slide", 2)
    assert "<!-- Slide number: 2 -->" in lines and "Say it slowly." in lines


async def test_a_pdf_is_marked_page_by_page(harness: Harness, thread: ThreadRecord) -> None:
    file = await give(harness, thread, "paper.pdf", documents.pdf(3, bookmarks=True))
    lines = await text_of(harness, thread, file)
    assert file.outline and (file.outline.kind, file.outline.parts) == ("page", 3)
    assert [each.title for each in file.outline.headings] == [f"Part {n} (page {n})" for n in (1, 2, 3)]
    assert [lines[each.line - 1] for each in file.outline.headings] == [f"<!-- Page {n} -->" for n in (1, 2, 3)]
    second = lines[file.outline.headings[1].line - 1 : file.outline.headings[2].line - 1]
    assert "Page 2, line 19: some words about the matter." in second


async def test_500_pages_and_100_megabytes_are_converted_within_the_limits(
    harness: Harness, thread: ThreadRecord
) -> None:
    long = await give(harness, thread, "long.pdf", await asyncio.to_thread(documents.pdf, 500))
    assert long.outline and long.outline.parts == 500 and len(long.outline.headings) == 50
    lines = await text_of(harness, thread, long)
    assert lines[long.outline.headings[-1].line - 1] == "<!-- Page 491 -->"
    heavy = await give(harness, thread, "heavy.pdf", await asyncio.to_thread(documents.heavy_pdf, 100))
    assert heavy.size > 100 * MB and heavy.conversion == "converted", heavy.note


@pytest.mark.parametrize(
    ("name", "content", "line"),
    [
        ("page.html", b"<h1>Title</h1><script>alert(1)</script><p>Text</p>", "# Title"),
        ("page.htm", "<h2>Größe</h2>".encode(), "## Größe"),
        ("lines.html", "<h1>a\u2028b\x0bc\x0cd</h1><h2>e</h2>".encode(), "## e"),
        ("table.csv", b"a,b\n1,2\n", "| a | b |"),
        ("note.ipynb", b'{"cells":[{"cell_type":"markdown","source":["# Note"]}],"nbformat":4}', "# Note"),
        ("book.epub", documents.book(), "# In the forest"),
    ],
)
async def test_other_kinds_become_text(
    harness: Harness, thread: ThreadRecord, name: str, content: bytes, line: str
) -> None:
    file = await give(harness, thread, name, content)
    lines = await text_of(harness, thread, file)
    assert file.outline and file.outline.lines == len(lines)
    assert line in lines and not any("alert" in each for each in lines)


@pytest.mark.parametrize("name", ["photo.png", "notes.txt", "script.py", "data.json", "report"])
async def test_what_can_be_read_as_it_is_stays_alone(harness: Harness, thread: ThreadRecord, name: str) -> None:
    file = await give(harness, thread, name, b"\x89PNG\r\n\x1a\n")
    assert (file.conversion, file.note, file.markdown_file) == ("none", None, None)


async def test_names_of_users_and_of_conversions_do_not_meet(harness: Harness, thread: ThreadRecord) -> None:
    own = await give(harness, thread, "report.md", b"# Mine")
    first = await give(harness, thread, "report.html", b"<h1>One</h1>")
    second = await give(harness, thread, "report.htm", b"<h1>Two</h1>")
    third = await give(harness, thread, "report_1.md", b"# Also mine")
    assert (first.markdown_file, second.markdown_file) == ("report_1.md", "report_2.md")
    assert third.filename == "report_1_1.md"
    listed = [file.filename for file in await harness.uploads.list(thread.owner, thread.thread_id)]
    assert sorted(listed) == ["report.htm", "report.html", "report.md", "report_1_1.md"]
    assert await harness.files_of(thread).read(own.path) == b"# Mine"

    await harness.uploads.delete(thread.owner, thread.thread_id, "report.html")
    left = [entry.path.rpartition("/")[2] for entry in await harness.files_of(thread).list("/mnt/user-data/uploads")]
    assert left == ["report.htm", "report.md", "report_1_1.md", "report_2.md"]


async def test_a_file_of_the_user_under_the_name_of_a_lost_conversion_is_shown(
    harness: Harness, thread: ThreadRecord
) -> None:
    page = await give(harness, thread, "page.html", b"<h1>One</h1>")
    await harness.uploads.delete(thread.owner, thread.thread_id, "page.md")  # as the agent might
    own = await give(harness, thread, "page.md", b"# Mine")
    listed = {file.filename: file for file in await harness.uploads.list(thread.owner, thread.thread_id)}
    assert (page.markdown_file, own.filename) == ("page.md", "page.md")
    assert listed.keys() == {"page.html", "page.md"} and listed["page.html"].conversion == "pending"
    settled = await harness.uploads.settle(thread.owner, thread.thread_id, ["page.html"])
    assert settled["page.html"].markdown_file == "page_1.md"


async def test_a_copy_of_a_thread_knows_its_documents(harness: Harness, thread: ThreadRecord) -> None:
    await give(harness, thread, "page.html", b"<h1>One</h1>")
    copy = await harness.threads.copy(thread.thread_id, LOCAL_USER)
    (file,) = await harness.uploads.list(copy.owner, copy.thread_id)
    assert (file.filename, file.conversion, file.markdown_file) == ("page.html", "converted", "page.md")
