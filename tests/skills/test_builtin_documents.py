"""Built-in skills that create files: they pass their tests, and other programs can read the files."""

import asyncio
import csv
import json
import posixpath
import shutil
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lxml.html
import openpyxl
import pytest
from lxml import etree
from PIL import Image
from playwright.async_api import Browser, Page
from pypdf import PdfReader

from deerflow.cli.skill_test_runner import SkillTestRunner, SkillUnderTest
from deerflow.config.load import load
from deerflow.skills.authoring.review import read_files
from deerflow.skills.contract import find_tests, read_contract
from deerflow.skills.folders import builtin_root
from deerflow.skills.format import parse_skill
from deerflow.skills.scanner.scanner import SkillScanner
from deerflow.skills.testing import SkillTest, SkillTestOutcome, read_test
from tests.skills.support import KNOWN_FIELDS

NAMES = (
    "chart-visualization",
    "code-documentation",
    "data-analysis",
    "document-writing",
    "frontend-design",
    "image-generation",
    "pdf-tools",
    "report-generation",
    "slide-creation",
    "video-generation",
)
PUBLIC = builtin_root()
CASES = {f"{name}-{case.stem}": case for name in NAMES for case in find_tests(PUBLIC / name)}
SHOWN: Mapping[str, tuple[str, ...]] = {
    "report-generation-html_and_pdf": ("report.html",),
    "frontend-design-page_passes": ("index.html",),
}
"""Cases whose pages a browser has to show: without asking for anything else, and without scrolling sideways."""
A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
PNG_HEAD = b"\x89PNG\r\n\x1a\n"
WIDTHS = (390, 1300)


@dataclass(frozen=True)
class CopyingTestRunner(SkillTestRunner):
    """Test runner that copies the outputs before they are removed."""

    kept: Path = Path()

    async def _execute(self, folder: Path, skill: SkillUnderTest, test: SkillTest) -> SkillTestOutcome:
        outcome = await super()._execute(folder, skill, test)
        await asyncio.to_thread(self.keep, folder)
        return outcome

    def keep(self, folder: Path) -> None:
        """Copy the outputs of the only thread."""
        (outputs,) = folder.rglob("user-data/outputs")
        shutil.copytree(outputs, self.kept)


@pytest.mark.parametrize("name", sorted(CASES.keys() - SHOWN.keys()))
async def test_builtin_skill_passes_its_tests_and_creates_valid_files(
    name: str, tmp_path: Path, toolbox_environment: Mapping[str, str]
) -> None:
    await run_and_read(name, tmp_path, toolbox_environment)


@pytest.mark.parametrize("name", SHOWN)
async def test_builtin_skill_passes_its_test_and_renders_in_a_browser(
    name: str, tmp_path: Path, toolbox_environment: Mapping[str, str], browser: Browser
) -> None:
    await open_pages(browser, await run_and_read(name, tmp_path, toolbox_environment), SHOWN[name])


async def run_and_read(name: str, folder: Path, environment: Mapping[str, str]) -> Path:
    """Run the test of a skill and read with other programs what it made; return the folder it is in."""
    case, made = CASES[name], folder / "made"
    runner = CopyingTestRunner(load(directory=folder, environment=environment), kept=made)

    result = await runner.run(SkillUnderTest.read(case.parent.parent), read_test(case))

    assert list(result.complaints) == [], result.outputs
    for file in sorted(path for path in made.rglob("*") if path.is_file()):
        READERS[file.suffix](file)
    if name in INSPECTIONS:
        INSPECTIONS[name](made)
    return made


@pytest.mark.parametrize("name", NAMES)
async def test_builtin_skill_is_valid(name: str) -> None:
    folder = PUBLIC / name
    header, contract = parse_skill((folder / "SKILL.md").read_text(encoding="utf-8")), read_contract(folder)

    assert header.name == name and header.license == "MIT" and header.fields.keys() <= KNOWN_FIELDS
    assert header.body.count("\n") <= 500
    assert contract is not None and contract.needs.tools == header.allowed_tools
    assert len(find_tests(folder)) >= 2, "one for what works, one for what does not"
    assert sorted(folder.glob("references/*.md"))
    report = await SkillScanner().scan(read_files(folder))
    assert report.blocking == (), "our own scanner would refuse it"


def read_office(path: Path) -> str:
    """Return the text of an Office file. All parts must be well-formed and all relations valid."""
    words = []
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        names = set(archive.namelist())
        types = etree.fromstring(archive.read("[Content_Types].xml"))
        known = {str(entry.get("PartName")).lstrip("/") for entry in types if entry.get("PartName")}
        endings = {str(entry.get("Extension")).lower() for entry in types if entry.get("Extension")}
        assert known <= names
        for name in names:
            assert name == "[Content_Types].xml" or name in known or name.rpartition(".")[2].lower() in endings, name
            if name.endswith((".xml", ".rels")):
                root = etree.fromstring(archive.read(name))
                words += [str(text.text or "") for tag in (f"{A}t", f"{W}t") for text in root.iter(tag)]
                if name.endswith(".rels"):
                    assert find_dangling(root, name, names) == []
    return " ".join(words)


def find_dangling(relations: etree._Element, name: str, names: set[str]) -> list[str]:
    """Return relations without a target."""
    folder = posixpath.dirname(posixpath.dirname(name))
    found = []
    for relation in relations:
        target = str(relation.get("Target"))
        place = target.lstrip("/") if target.startswith("/") else posixpath.normpath(posixpath.join(folder, target))
        if relation.get("TargetMode") != "External" and place not in names:
            found.append(target)
    return found


def read_pdf(path: Path) -> str:
    """Return the text of a PDF, read in strict mode."""
    return " ".join(page.extract_text() for page in PdfReader(path, strict=True).pages)


def read_png(path: Path) -> tuple[int, int]:
    """Return the size of a PNG after checking its checksums and rows."""
    data, place, lines = path.read_bytes(), len(PNG_HEAD), b""
    assert data.startswith(PNG_HEAD)
    while place < len(data):
        length, kind = struct.unpack(">I4s", data[place : place + 8])
        body = data[place + 8 : place + 8 + length]
        assert struct.unpack(">I", data[place + 8 + length : place + 12 + length])[0] == zlib.crc32(kind + body)
        if kind == b"IHDR":
            wide, high, depth, colours, *_ = struct.unpack(">IIBBBBB", body)
        lines += body if kind == b"IDAT" else b""
        place += 12 + length
    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[colours]
    assert len(zlib.decompress(lines)) == high * (1 + (wide * channels * depth + 7) // 8)
    return wide, high


def read_jpg(path: Path) -> None:
    with Image.open(path) as picture:
        picture.load()
        assert picture.format == "JPEG"


def read_csv(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def read_svg(path: Path) -> str:
    """Return the text of a drawing."""
    root = etree.parse(path).getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    return " ".join(str(text) for text in root.itertext())


def read_html(path: Path) -> lxml.html.HtmlElement:
    """Return a parsed page. Ids must be unique, because links refer to them."""
    page = lxml.html.document_fromstring(path.read_bytes())
    ids = page.xpath("//@id")
    assert len(ids) == len(set(ids))
    return page


READERS: Mapping[str, Callable[[Path], Any]] = {
    ".xlsx": read_office,
    ".docx": read_office,
    ".pptx": read_office,
    ".pdf": read_pdf,
    ".png": read_png,
    ".jpg": read_jpg,
    ".svg": read_svg,
    ".html": read_html,
    ".json": lambda path: json.loads(path.read_text(encoding="utf-8")),
    ".csv": read_csv,
    ".md": lambda path: path.read_text(encoding="utf-8"),
    ".mp4": lambda path: path.read_bytes().index(b"ftyp"),
    ".parquet": lambda path: (path.read_bytes()[:4], path.read_bytes()[-4:]),
}


def inspect_table(made: Path) -> None:
    rows = list(openpyxl.load_workbook(made / "revenue.xlsx").active.iter_rows(values_only=True))  # type: ignore[union-attr]

    assert rows[0] == ("region", "revenue")
    assert {name: round(float(value), 2) for name, value in rows[1:]} == {  # type: ignore[arg-type]
        "North": 21187.8,
        "South": 2189.3,
        "West": 1765.5,
        "East": 897,
    }
    assert READERS[".parquet"](made / "revenue.parquet") == (b"PAR1", b"PAR1")


def inspect_charts(made: Path) -> None:
    words = read_svg(made / "visits.svg")

    assert all(word in words for word in ("Social grows in jumps", "Search", "Email", "campaign", "12 values"))
    assert read_png(made / "orders.png") == (1600, 920)
    with Image.open(made / "orders.png") as picture:
        assert "bar chart of orders by channel" in picture.info["Description"]


def inspect_report(made: Path) -> None:
    reader = PdfReader(made / "report.pdf", strict=True)
    titles = [str(item.title) for item in reader.outline if not isinstance(item, list)]
    fonts = [font.get_object() for page in reader.pages for font in page["/Resources"]["/Font"].values()]  # type: ignore[index]
    inside = [font for font in fonts if "/FontFile2" in font.get("/FontDescriptor", {})]

    assert titles == ["1 Summary", "2 Measurements", "3 Conclusion", "References"]
    assert reader.metadata is not None and reader.metadata.title == "Heat pumps in old buildings"
    assert len(inside) >= 3, "the fonts come with the file"
    assert "2.1 Houses" in reader.pages[0].extract_text(), "the contents are on the first page"
    page = read_html(made / "report.html")
    ids = set(page.xpath("//@id"))
    assert [link for link in page.xpath("//a/@href") if link.startswith("#") and link[1:] not in ids] == []
    assert page.xpath("string(//figcaption)") == "Figure 1. Efficiency falls with the flow temperature"


def inspect_deck(made: Path) -> None:
    with zipfile.ZipFile(made / "deck.pptx") as archive:
        names = archive.namelist()
        book = archive.open(next(name for name in names if name.startswith("ppt/embeddings/")))
        figures = list(openpyxl.load_workbook(book).active.iter_rows(values_only=True))  # type: ignore[union-attr]
        theme = archive.read("ppt/theme/theme1.xml").decode()
    words = read_office(made / "deck.pptx")

    assert sum(name.startswith("ppt/slides/slide") for name in names) == 9
    assert sum(name.startswith("ppt/notesSlides/notesSlide") for name in names) == 8
    assert figures[1] == ("35", 4.2), "people can edit the chart"
    assert "0B5CAD" in theme, "the colours are those of the theme"
    assert "Point at 55 degrees." in words and "Every five degrees cost a tenth" in words


def inspect_offer(made: Path) -> None:
    with zipfile.ZipFile(made / "offer.docx") as archive:
        body = etree.fromstring(archive.read("word/document.xml"))
        numbering = etree.fromstring(archive.read("word/numbering.xml"))
        feet = b"".join(archive.read(name) for name in archive.namelist() if name.startswith("word/footer"))
    fields = " ".join(str(code.text) for code in body.iter(f"{W}instrText"))
    styles = [str(style.get(f"{W}val")) for style in body.iter(f"{W}pStyle")]

    assert 'TOC \\o "1-2"' in fields and "SEQ Table" in fields and "SEQ Figure" in fields
    assert b" PAGE " in feet and b" NUMPAGES " in feet
    assert styles.count("Heading1") == 3 and styles.count("Heading2") == 1
    assert len(list(numbering.iter(f"{W}startOverride"))) == 2, "both numbered lists begin at 1"
    assert len(list(body.iter(f"{W}tblHeader"))) == 1
    assert "Efficiency falls" in body.xpath("string(//*[local-name()='docPr']/@descr)")


def inspect_letter(made: Path) -> None:
    assert "Ada Lovelace" in read_office(made / "letter.docx") and "{{" not in read_office(made / "letter.docx")


def inspect_pdfs(made: Path) -> None:
    order = PdfReader(made / "order.pdf", strict=True)

    assert "Ada Lovelace" in order.pages[0].extract_text() and not order.get_fields(), "it is filled and final"
    assert [str(item.title) for item in PdfReader(made / "draft.pdf").outline] == ["report", "table"]  # type: ignore[union-attr]
    assert read_csv(made / "table-table-1.csv")[1] == ["North", "21,187.80"]
    assert read_png(made / "page-2-1.png") == (60, 40)


def inspect_pictures(made: Path) -> None:
    assert read_png(made / "red-1.png") == (96, 64)
    with Image.open(made / "red-2.png") as picture:
        assert picture.convert("RGB").getpixel((5, 5)) == (200, 30, 30)


INSPECTIONS: Mapping[str, Callable[[Path], None]] = {
    "data-analysis-revenue_by_region": inspect_table,
    "chart-visualization-line_and_bars": inspect_charts,
    "report-generation-html_and_pdf": inspect_report,
    "slide-creation-deck_from_outline": inspect_deck,
    "document-writing-offer": inspect_offer,
    "document-writing-template_and_faults": inspect_letter,
    "pdf-tools-pages_tables_and_forms": inspect_pdfs,
    "image-generation-with_a_provider": inspect_pictures,
}


async def open_pages(browser: Browser, made: Path, names: tuple[str, ...]) -> None:
    for name in names:
        page = await browser.new_page()
        asked: list[str] = []
        faults: list[str] = []
        page.on("request", lambda request, asked=asked: asked.append(request.url))
        page.on("console", lambda message, faults=faults: faults.append(message.text))
        page.on("pageerror", lambda error, faults=faults: faults.append(str(error)))
        await page.goto((made / name).as_uri())
        assert [url for url in asked if not url.startswith("data:")] == [(made / name).as_uri()]
        assert faults == []
        await check_page(page, name)


async def check_page(page: Page, name: str) -> None:
    if name.endswith(".html"):
        for wide in WIDTHS:
            await page.set_viewport_size({"width": wide, "height": 900})
            needed = await page.evaluate("document.documentElement.scrollWidth")
            assert needed <= wide, f"{name} scrolls sideways at {wide}"
        assert await page.evaluate("[...document.images].every(image => image.naturalWidth > 0)")
    elif name.endswith(".svg"):
        assert await page.evaluate("document.documentElement.getBBox().width") > 100
    else:
        assert await page.evaluate("document.images[0].naturalWidth") > 100
