"""Conversion of documents to Markdown in the sandbox."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace

import pytest
import pytest_asyncio

from deerflow.config.sections.base import Settings
from deerflow.config.sections.storage import ConversionConfig, UploadsConfig
from deerflow.config.source import open_source
from deerflow.domain.files import UploadedFile
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.threads import ThreadRecord
from deerflow.harness import Harness, open_harness
from deerflow.sandbox.files.mounts import user_data_folder
from deerflow.sandbox.jobs.jobs import SandboxJobs
from deerflow.testing import ScriptedModel
from deerflow.uploads.uploads import UploadService
from tests.uploads import documents
from tests.uploads.support import upload_file

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
        await harness.core.sandboxes.prepare()
        yield harness


@pytest_asyncio.fixture(loop_scope="module")
async def thread(harness: Harness) -> ThreadRecord:
    return await harness.threads.create(LOCAL_USER, None, {}, may_exist=False)


async def read_markdown(harness: Harness, thread: ThreadRecord, file: UploadedFile) -> list[str]:
    assert file.markdown_path is not None, file
    return (await harness.files_of(thread).read(file.markdown_path)).decode().splitlines()


def truncate(content: bytes) -> bytes:
    return content[: len(content) // 3]


ENCRYPTED_OFFICE = bytes.fromhex("d0cf11e0a1b11ae1") + bytes(3000)


@pytest.mark.parametrize(
    ("name", "make", "reason"),
    [
        ("locked.pdf", documents.locked_pdf, "the PDF is encrypted with a password"),
        ("damaged.pdf", lambda: truncate(b"%PDF-1.7\n" + bytes(900)), "the PDF is damaged"),
        ("scanned.pdf", documents.empty_pdf, "its pages may be pictures"),
        ("locked.docx", lambda: ENCRYPTED_OFFICE, "encrypted with a password"),
        ("damaged.docx", lambda: truncate(documents.word()), "cannot be read as a Word document; it may be damaged"),
        ("damaged.xlsx", lambda: truncate(documents.workbook()), "cannot be read as an Excel workbook"),
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
async def test_unconvertible_documents_are_kept_with_a_reason(
    harness: Harness, thread: ThreadRecord, name: str, make: Callable[[], bytes], reason: str
) -> None:
    content = await asyncio.to_thread(make)
    file = await upload_file(harness, thread, name, content)
    assert (file.conversion, file.markdown_file) == ("failed", None), file
    assert reason in (file.note or ""), file.note
    assert list_stored_files(harness, thread) == [name], "nothing is left besides"
    assert await harness.files_of(thread).read(file.path) == content


async def test_conversion_times_out(harness: Harness, thread: ThreadRecord) -> None:
    limits = UploadsConfig(conversion=ConversionConfig(seconds=0.5, answer_seconds=60))
    uploads = UploadService(
        harness.core.source.current.home,
        Settings(lambda: limits),
        SandboxJobs(harness.core.sandboxes, harness.core.sandbox_report),
        harness.core.disk_quota,
    )
    file = await upload_file(
        replace(harness, core=replace(harness.core, uploads=uploads)), thread, "long.xlsx", documents.workbook(20_000)
    )
    assert (file.conversion, file.note) == ("failed", "converting it took longer than 0.5 s")
    assert list_stored_files(harness, thread) == ["long.xlsx"]


def list_stored_files(harness: Harness, thread: ThreadRecord) -> list[str]:
    """Return all files in the uploads folder, including hidden ones."""
    folder = user_data_folder(harness.core.source.current.home, thread.owner, thread.thread_id) / "uploads"
    return sorted(file.name for file in folder.iterdir())


async def test_converts_word_documents_with_headings_and_tables(harness: Harness, thread: ThreadRecord) -> None:
    file = await upload_file(harness, thread, "report.docx", documents.word())
    lines = await read_markdown(harness, thread, file)
    assert file.outline is not None and file.markdown_file == "report.md"
    assert [(each.level, each.title) for each in file.outline.headings][:3] == [
        (1, "Chapter 1"), (2, "Detail 1"), (1, "Chapter 2"),
    ]  # fmt: skip
    assert all(lines[each.line - 1] == f"{'#' * each.level} {each.title}" for each in file.outline.headings)
    assert "What chapter 2 says." in lines and any("cell 3" in line for line in lines)
    assert len(lines) == file.outline.lines


async def test_outlines_of_workbooks_and_presentations_refer_to_lines(harness: Harness, thread: ThreadRecord) -> None:
    book = await upload_file(harness, thread, "numbers.xlsx", documents.workbook())
    lines = await read_markdown(harness, thread, book)
    assert book.outline and [(each.title, lines[each.line - 1]) for each in book.outline.headings] == [
        ("Sales", "## Sales"), ("Costs", "## Costs"),
    ]  # fmt: skip
    assert (book.outline.kind, book.outline.parts) == ("sheet", 2) and any("| month 2 | 3" in line for line in lines)
    show = await upload_file(harness, thread, "talk.pptx", documents.slides())
    lines = await read_markdown(harness, thread, show)
    assert show.outline and (show.outline.kind, show.outline.parts) == ("slide", 2)
    assert "<!-- Slide number: 2 -->" in lines and "Say it slowly." in lines


async def test_pdf_has_page_markers(harness: Harness, thread: ThreadRecord) -> None:
    file = await upload_file(harness, thread, "paper.pdf", documents.pdf(3, bookmarks=True))
    lines = await read_markdown(harness, thread, file)
    assert file.outline and (file.outline.kind, file.outline.parts) == ("page", 3)
    assert [each.title for each in file.outline.headings] == [f"Part {n} (page {n})" for n in (1, 2, 3)]
    assert [lines[each.line - 1] for each in file.outline.headings] == [f"<!-- Page {n} -->" for n in (1, 2, 3)]
    second = lines[file.outline.headings[1].line - 1 : file.outline.headings[2].line - 1]
    assert "Page 2, line 19: some words about the matter." in second


async def test_converts_large_pdfs_within_the_limits(harness: Harness, thread: ThreadRecord) -> None:
    long = await upload_file(harness, thread, "long.pdf", await asyncio.to_thread(documents.pdf, 500))
    assert long.outline and long.outline.parts == 500 and len(long.outline.headings) == 50
    lines = await read_markdown(harness, thread, long)
    assert lines[long.outline.headings[-1].line - 1] == "<!-- Page 491 -->"
    heavy = await upload_file(harness, thread, "heavy.pdf", await asyncio.to_thread(documents.heavy_pdf, 100))
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
async def test_converts_other_formats(
    harness: Harness, thread: ThreadRecord, name: str, content: bytes, line: str
) -> None:
    file = await upload_file(harness, thread, name, content)
    lines = await read_markdown(harness, thread, file)
    assert file.outline and file.outline.lines == len(lines)
    assert line in lines and not any("alert" in each for each in lines)


@pytest.mark.parametrize("name", ["photo.png", "notes.txt", "script.py", "data.json", "report"])
async def test_does_not_convert_readable_files(harness: Harness, thread: ThreadRecord, name: str) -> None:
    file = await upload_file(harness, thread, name, b"\x89PNG\r\n\x1a\n")
    assert (file.conversion, file.note, file.markdown_file) == ("none", None, None)


async def test_converted_files_do_not_overwrite_uploads(harness: Harness, thread: ThreadRecord) -> None:
    own = await upload_file(harness, thread, "report.md", b"# Mine")
    first = await upload_file(harness, thread, "report.html", b"<h1>One</h1>")
    second = await upload_file(harness, thread, "report.htm", b"<h1>Two</h1>")
    third = await upload_file(harness, thread, "report_1.md", b"# Also mine")
    assert (first.markdown_file, second.markdown_file) == ("report_1.md", "report_2.md")
    assert third.filename == "report_1_1.md"
    listed = [file.filename for file in await harness.core.uploads.list(thread.owner, thread.thread_id)]
    assert sorted(listed) == ["report.htm", "report.html", "report.md", "report_1_1.md"]
    assert await harness.files_of(thread).read(own.path) == b"# Mine"

    await harness.core.uploads.delete(thread.owner, thread.thread_id, "report.html")
    left = [entry.path.rpartition("/")[2] for entry in await harness.files_of(thread).list("/mnt/user-data/uploads")]
    assert left == ["report.htm", "report.md", "report_1_1.md", "report_2.md"]


async def test_upload_with_the_name_of_a_deleted_conversion_is_listed(harness: Harness, thread: ThreadRecord) -> None:
    page = await upload_file(harness, thread, "page.html", b"<h1>One</h1>")
    await harness.core.uploads.delete(thread.owner, thread.thread_id, "page.md")  # as an agent might do
    own = await upload_file(harness, thread, "page.md", b"# Mine")
    listed = {file.filename: file for file in await harness.core.uploads.list(thread.owner, thread.thread_id)}
    assert (page.markdown_file, own.filename) == ("page.md", "page.md")
    assert listed.keys() == {"page.html", "page.md"} and listed["page.html"].conversion == "pending"
    settled = await harness.core.uploads.wait_for_conversions(thread.owner, thread.thread_id, ["page.html"])
    assert settled["page.html"].markdown_file == "page_1.md"


async def test_thread_copy_keeps_conversion_records(harness: Harness, thread: ThreadRecord) -> None:
    await upload_file(harness, thread, "page.html", b"<h1>One</h1>")
    copy = await harness.threads.copy(thread.thread_id, LOCAL_USER)
    (file,) = await harness.core.uploads.list(copy.owner, copy.thread_id)
    assert (file.filename, file.conversion, file.markdown_file) == ("page.html", "converted", "page.md")
