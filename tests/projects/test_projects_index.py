"""Index of project files: formats, pages, search and recovery."""

import asyncio
import io
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path

import docx
import openpyxl
import pptx
import pytest
from docx.enum.text import WD_BREAK
from reportlab.pdfgen.canvas import Canvas

from deerflow.config.source import open_source
from deerflow.domain.errors import Conflict, NotFound
from deerflow.domain.identity import LOCAL_USER, Principal
from deerflow.domain.projects import INDEX_PROBLEMS
from deerflow.harness import Harness, open_harness
from deerflow.projects.queries.projects import claim_files
from deerflow.testing import ScriptedModel, ScriptedServer
from tests.projects.support import create_project, wait_until_indexed

pytestmark = pytest.mark.slow  # they read files in a sandbox

TOPICS = ("herons", "glaciers", "violins", "saffron", "lighthouses")


def write_pdf() -> bytes:
    file = io.BytesIO()
    canvas = Canvas(file)
    for topic in TOPICS:
        canvas.drawString(40, 800, f"This page is about {topic}.")
        canvas.showPage()
    canvas.save()
    return file.getvalue()


def write_docx() -> bytes:
    document = docx.Document()
    for number, topic in enumerate(TOPICS):
        paragraph = document.add_paragraph(f"This page is about {topic}.")
        if number < len(TOPICS) - 1:
            paragraph.add_run().add_break(WD_BREAK.PAGE)
    return save(document)


def write_pptx() -> bytes:
    show = pptx.Presentation()
    for topic in TOPICS:
        slide = show.slides.add_slide(show.slide_layouts[1])
        slide.shapes.title.text = topic
        slide.placeholders[1].text = f"This slide is about {topic}."
    return save(show)


def write_xlsx() -> bytes:
    book = openpyxl.Workbook(write_only=True)
    for topic in TOPICS:
        book.create_sheet(topic.title()).append([f"This sheet is about {topic}.", 1])
    return save(book)


def save(document: object) -> bytes:
    file = io.BytesIO()
    document.save(file)  # type: ignore[attr-defined]
    return file.getvalue()


def write_markdown() -> bytes:
    return "\n".join(
        f"# Part {number}\n\nThis part is about {topic}.\n" for number, topic in enumerate(TOPICS)
    ).encode()


@asynccontextmanager
async def open_test_harness(
    home: Path, environment: Mapping[str, str] | None = None, **knowledge: object
) -> AsyncIterator[Harness]:
    source = open_source(directory=home, environment=environment or {}, overrides={"knowledge": knowledge})
    async with open_harness(source, ScriptedModel.saying()) as harness:
        yield harness


async def test_every_passage_has_the_page_it_is_on(tmp_path: Path, toolbox_environment: Mapping[str, str]) -> None:
    files = {
        "a.pdf": write_pdf(),
        "b.docx": write_docx(),
        "c.pptx": write_pptx(),
        "d.xlsx": write_xlsx(),
        "e.md": write_markdown(),
    }
    async with open_test_harness(tmp_path, toolbox_environment) as harness:
        project_id = await create_project(harness, files)
        indexed = await wait_until_indexed(harness, project_id)
        assert {name: (file.state, file.unit, file.pages) for name, file in indexed.items()} == {
            "a.pdf": ("ready", "page", 5),
            "b.docx": ("ready", "page", 5),
            "c.pptx": ("ready", "slide", 5),
            "d.xlsx": ("ready", "sheet", 5),
            "e.md": ("ready", "line", 1),
        }
        for number, topic in enumerate(TOPICS):
            hits = await harness.resources.projects.search(project_id, LOCAL_USER, f"what about {topic}?", 10)
            found = {hit.file_name: hit.position for hit in hits if topic in hit.text.lower()}
            assert found == dict.fromkeys(("a.pdf", "b.docx", "c.pptx", "d.xlsx"), number + 1) | {
                "e.md": 4 * number + 1
            }


def write_report() -> bytes:
    document = docx.Document()
    for name in ("Pump", "Ferry"):
        document.add_heading(name, 1)
        document.add_heading("Service", 2)
        for _ in range(30):
            document.add_paragraph("It is cleaned with water and dried with a cloth.")
        document.add_paragraph("It is painted every third spring.")
    return save(document)


async def test_passages_are_found_by_the_headings_above_them(tmp_path: Path) -> None:
    long = "It is cleaned with water and dried with a cloth.\n\n" * 30
    notes = "".join(
        f"# {name}\n\n## Service\n\n{long}It is painted every third spring.\n\n" for name in ("Pump", "Ferry")
    )
    page = "".join(
        f"<h1>{name}</h1><h2>Service</h2><p>{long}It is painted in spring.</p>" for name in ("Pump", "Ferry")
    )
    script = f"# Tools\n{'value = 1  # water' * 60}\n\n# Pump\n\npainted = 'spring'\n"
    files = {"a.md": notes.encode(), "b.docx": write_report(), "c.html": page.encode(), "d.py": script.encode()}
    async with open_test_harness(tmp_path) as harness:
        project_id = await create_project(harness, files)
        await wait_until_indexed(harness, project_id)
        hits = await harness.resources.projects.search(project_id, LOCAL_USER, "When is the ferry painted?", 20)
        found = {hit.file_name: hit.headings for hit in hits if "painted" in hit.text and "Ferry" in hit.headings}
        assert found == dict.fromkeys(("a.md", "b.docx", "c.html"), "Ferry › Service")
        assert {hit.headings for hit in hits if hit.file_name == "d.py"} == {"Tools"}  # comments are no headings
        best = [hit for hit in hits if hit.file_name == "a.md" and "painted" in hit.text]
        assert [hit.headings for hit in best] == ["Ferry › Service", "Pump › Service"]


async def test_finds_passages_in_chinese_and_in_inflected_forms(tmp_path: Path) -> None:
    files = {"zh.md": "翠鸟桥的油漆费用是四千欧元。".encode(), "en.md": b"The engineers inspected three bridges."}
    async with open_test_harness(tmp_path) as harness:
        project_id = await create_project(harness, files)
        await wait_until_indexed(harness, project_id)
        search = harness.resources.projects.search
        assert [hit.file_name for hit in await search(project_id, LOCAL_USER, "油漆费用多少")] == ["zh.md"]
        assert [hit.file_name for hit in await search(project_id, LOCAL_USER, "which bridge inspection")] == ["en.md"]
        assert await search(project_id, LOCAL_USER, '" OR * NEAR(') == []


async def test_search_is_limited_to_the_project_and_its_owner(tmp_path: Path) -> None:
    async with open_test_harness(tmp_path) as harness:
        mine = await create_project(harness, {"a.md": b"A secret about herons."})
        other = await create_project(harness, {"b.md": b"Nothing of interest."})
        await wait_until_indexed(harness, mine)
        await wait_until_indexed(harness, other)
        search = harness.resources.projects.search
        assert await search(other, LOCAL_USER, "secret herons") == []
        with pytest.raises(NotFound):
            await search(mine, Principal("mallory"), "secret herons")


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("old.doc", b"x", "old_format"),
        ("fake.docx", b"not a zip", "damaged"),
        ("data.bin", b"\0\1", "not_text"),
        ("empty.md", b"   \n", "no_text"),
    ],
)
async def test_a_file_that_cannot_be_read_fails_with_the_reason(
    tmp_path: Path, name: str, content: bytes, reason: str
) -> None:
    async with open_test_harness(tmp_path) as harness:
        project_id = await create_project(harness, {name: content, "good.md": b"fine"})
        files = await wait_until_indexed(harness, project_id)
        assert files["good.md"].state == "ready"
        assert (files[name].state, files[name].problem) == ("failed", reason)
        assert files[name].problem_text == INDEX_PROBLEMS[reason]
        again = await harness.resources.projects.retry_file(project_id, LOCAL_USER, files[name].file_id)
        assert (again.state, again.problem) == ("waiting", None)
        with pytest.raises(Conflict):
            await harness.resources.projects.retry_file(project_id, LOCAL_USER, files[name].file_id)


async def test_a_document_waits_for_the_toolbox_while_text_is_indexed(tmp_path: Path) -> None:
    async with open_test_harness(tmp_path, {"XDG_CACHE_HOME": str(tmp_path / "cache")}) as harness:
        project_id = await create_project(harness, {"a.pdf": write_pdf(), "b.md": b"plain"})
        async with asyncio.timeout(30):
            while True:
                files = {f.name: f for f in await harness.resources.projects.list_files(project_id, LOCAL_USER)}
                if files["b.md"].state == "ready" and files["a.pdf"].state == "waiting":
                    break


async def test_files_claimed_by_a_dead_process_are_indexed_by_the_next(tmp_path: Path) -> None:
    async with open_test_harness(tmp_path, enabled=False) as harness:
        project_id = await create_project(harness, {f"{number}.md": b"words" for number in range(3)})
        take = partial(claim_files, claim="dead", lease=timedelta(seconds=-1), limit=2)
        assert len(await harness.core.database.write(take)) == 2
    async with open_test_harness(tmp_path) as harness:
        files = await wait_until_indexed(harness, project_id)
        assert {file.state for file in files.values()} == {"ready"}
        hits = await harness.resources.projects.search(project_id, LOCAL_USER, "words", 40)
        assert sorted(hit.file_name for hit in hits) == ["0.md", "1.md", "2.md"]


async def test_a_deleted_file_is_not_found_any_more(tmp_path: Path) -> None:
    async with open_test_harness(tmp_path) as harness:
        project_id = await create_project(harness, {"a.md": b"herons", "b.md": b"herons too"})
        files = await wait_until_indexed(harness, project_id)
        await harness.resources.projects.delete_file(project_id, LOCAL_USER, files["a.md"].file_id)
        hits = await harness.resources.projects.search(project_id, LOCAL_USER, "herons", 10)
        assert [hit.file_name for hit in hits] == ["b.md"]


async def test_embeddings_find_the_same_meaning_in_other_words(tmp_path: Path) -> None:
    files = {"a.md": b"Ines heads the ferry.", "b.md": b"The ferry was photographed.", "c.md": b"Violins are loud."}
    async with ScriptedServer() as model:
        embedding = {"base_url": model.base_url, "model": "test"}
        async with open_test_harness(tmp_path, embedding=embedding) as harness:
            project_id = await create_project(harness, files)
            await wait_until_indexed(harness, project_id)
            async with asyncio.timeout(30):
                while True:
                    hits = await harness.resources.projects.search(project_id, LOCAL_USER, "supervisor", 1)
                    if hits and hits[0].file_name == "a.md":
                        break


async def test_search_goes_on_by_words_when_the_embedding_model_is_away(tmp_path: Path) -> None:
    embedding = {"base_url": "http://127.0.0.1:9/v1", "model": "test"}
    async with open_test_harness(tmp_path, embedding=embedding) as harness:
        project_id = await create_project(harness, {"a.md": b"herons"})
        await wait_until_indexed(harness, project_id)
        hits = await harness.resources.projects.search(project_id, LOCAL_USER, "herons", 1)
        assert [hit.file_name for hit in hits] == ["a.md"]


def write_contract() -> bytes:
    file = io.BytesIO()
    canvas = Canvas(file)
    lines = ["Contract about Lifts", "1. Service"]
    lines += [f"Sentence {number} says that the lift is cleaned with water and" for number in range(8)]
    lines += ["2.1 Price increase", "The fee is raised by at most", "3.5 percent a year."]
    for row, line in enumerate(lines):
        canvas.drawString(40, 800 - 14 * row, line)
    canvas.showPage()
    canvas.save()
    return file.getvalue()


def write_table() -> bytes:
    document = docx.Document()
    document.add_heading("Rates", 1)
    rows = [("Code", "Service", "Sunday"), *((f"L-{number}", "Engineer " + "x" * 80, "176") for number in range(20))]
    table = document.add_table(len(rows), 3)
    for cells, row in zip(table.rows, rows, strict=True):
        for cell, text in zip(cells.cells, row, strict=True):
            cell.text = text
    return save(document)


async def test_rows_of_a_table_have_the_heads_of_their_columns(tmp_path: Path) -> None:
    async with open_test_harness(tmp_path) as harness:
        project_id = await create_project(harness, {"rates.docx": write_table()})
        await wait_until_indexed(harness, project_id)
        hits = await harness.resources.projects.search(project_id, LOCAL_USER, "L-19 Sunday", 20)
        (row,) = [hit for hit in hits if "L-19 |" in hit.text]
        assert row.text.endswith("| 176") and row.headings == "Rates › Code | Service | Sunday"


async def test_numbered_lines_of_a_pdf_are_headings_and_a_passage_ends_with_a_sentence(
    tmp_path: Path, toolbox_environment: Mapping[str, str]
) -> None:
    async with open_test_harness(tmp_path, toolbox_environment) as harness:
        project_id = await create_project(harness, {"a.pdf": write_contract()})
        await wait_until_indexed(harness, project_id)
        hit, *_ = await harness.resources.projects.search(project_id, LOCAL_USER, "how much is the fee raised", 20)
        assert hit.text == "2.1 Price increase\nThe fee is raised by at most\n3.5 percent a year."
        assert hit.headings == "Contract about Lifts › 1. Service"


async def test_headings_without_text_are_in_the_passage_that_follows_them(tmp_path: Path) -> None:
    text = b"# Weir\n\n## Accounts\n\n### Can I share one?\n\nNo.\n\n## Devices\n\nThey are grey.\n"
    async with open_test_harness(tmp_path) as harness:
        project_id = await create_project(harness, {"faq.md": text})
        await wait_until_indexed(harness, project_id)
        hits = await harness.resources.projects.search(project_id, LOCAL_USER, "weir accounts share devices grey", 20)
        assert {(hit.position, hit.headings, hit.text.split("\n")[-1]) for hit in hits} == {
            (1, "", "No."),
            (9, "Weir", "They are grey."),
        }
