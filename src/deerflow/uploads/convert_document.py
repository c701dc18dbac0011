"""Program that converts a document to Markdown and reports its outline, run in the sandbox.

Its source is passed to the sandbox as text, so nothing imports it. It prints JSON.
"""

import io
import json
import re
import sys
import time
import zipfile
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

MB = 1024 * 1024
CONVERTERS = {
    ".docx": "DocxConverter",
    ".pptx": "PptxConverter",
    ".xlsx": "XlsxConverter",
    ".xls": "XlsConverter",
    ".html": "HtmlConverter",
    ".htm": "HtmlConverter",
    ".csv": "CsvConverter",
    ".epub": "EpubConverter",
    ".ipynb": "IpynbConverter",
}
PARTS = {".pdf": "page", ".pptx": "slide", ".xlsx": "sheet", ".xls": "sheet"}
ZIP_FORMATS = (".docx", ".pptx", ".xlsx", ".epub")
OLE_MAGIC = bytes.fromhex("d0cf11e0a1b11ae1")
"""Magic number of binary and of encrypted Office files."""
MAX_TABLE_PAGES = 60
"""Maximum number of pages for table detection, which is slow and also limited to a share of the time."""
TABLE_TIME_SHARE = 0.5
MAX_HEADINGS, MAX_TITLE, MAX_BEGINNING, LEVELS = 50, 120, 5, 6

HEADING = re.compile(r"(#{1,6}) +(\S.*)")
SLIDE = re.compile(r"<!-- Slide number: (\d+) -->")
PAGE = "<!-- Page {} -->"
CONTROL_CHARACTERS = dict.fromkeys((*range(9), *range(11, 32), 127, *range(128, 160), 0x2028, 0x2029), " ")
"""Control characters. Some programs treat some of them as line ends, which would shift line numbers."""


def fail(problem: str) -> NoReturn:
    """Report a problem and exit."""
    json.dump({"problem": problem}, sys.stdout)
    sys.exit(0)


def main(source: str, target: str, suffix: str, memory_mb: str, seconds: str) -> None:
    """Convert `source`, write `target` and print the outline."""
    if suffix in ZIP_FORMATS:
        check_archive(source, int(memory_mb))
    if suffix == ".pdf":
        text, headings = convert_pdf(source, time.monotonic() + TABLE_TIME_SHARE * float(seconds))
    else:
        text, headings = convert(source, suffix), []
    lines = split_lines(text)
    if not any(lines):
        fail("no text was found in it")
    with Path(target).open("x", encoding="utf-8", errors="replace") as file:
        file.write("\n".join(lines) + "\n")
    headings = headings or list(find_headings(lines))
    outline = {
        "lines": len(lines),
        "headings": [to_heading(*each) for each in limit_headings(headings)],
        "kind": PARTS.get(suffix),
        "parts": count_parts(lines, suffix),
        "beginning": [] if headings else [line[:MAX_TITLE] for line in lines if line][:MAX_BEGINNING],
    }
    json.dump({"outline": outline}, sys.stdout)


def split_lines(text: str) -> list[str]:
    """Return the lines of a text, with normalized line ends."""
    normalized = text.replace("\r\n", "\n").replace("\r", "\n").translate(CONTROL_CHARACTERS).strip()
    return [line.rstrip() for line in normalized.split("\n")]


def check_archive(source: str, memory_mb: int) -> None:
    """Refuse encrypted files, and archives that exceed the memory limit when unpacked."""
    with Path(source).open("rb") as file:
        if file.read(len(OLE_MAGIC)) == OLE_MAGIC:
            fail("it is encrypted with a password, or an old Office file under a new name; save it without either")
    with zipfile.ZipFile(source) as archive:
        unpacked = sum(member.file_size for member in archive.infolist())
        if any(member.flag_bits & 1 for member in archive.infolist()):
            fail("it is encrypted with a password; save it without one")
    if unpacked > memory_mb * MB:
        fail(f"it unpacks to {unpacked // MB} MB, and {memory_mb} MB of memory are allowed for it")


def convert(source: str, suffix: str) -> str:
    """Return the Markdown of a document in any format except PDF."""
    markitdown = import_module("markitdown")
    converter = getattr(import_module("markitdown.converters"), CONVERTERS[suffix])()
    with Path(source).open("rb") as file:
        text: str = converter.convert(file, markitdown.StreamInfo(extension=suffix, filename=source)).markdown
    return text


def convert_pdf(source: str, table_deadline: float) -> tuple[str, list[tuple[int, int, str]]]:
    """Return the Markdown of a PDF with page markers, and its bookmarks or the first lines of its pages."""
    pdfium = import_module("pypdfium2")
    try:
        document = pdfium.PdfDocument(source)
    except pdfium.PdfiumError as problem:
        if "password" in str(problem).lower():
            fail("the PDF is encrypted with a password; save it without one")
        fail("the PDF is damaged and cannot be opened")
    pages = read_pages(pdfium, document, table_deadline if len(document) <= MAX_TABLE_PAGES else 0)
    lines: list[str] = []
    starts, first_lines = [], []
    for number, page in enumerate(pages, 1):
        starts.append(len(lines) + 1)
        page_lines = split_lines(page)
        first_lines.append(next((line for line in page_lines if line), ""))
        lines += [PAGE.format(number), "", *page_lines, ""]
    if not any(first_lines):
        fail("no text was found in it; its pages may be pictures")
    bookmarked = list(find_bookmarks(document, starts))
    by_page = [(starts[at], 1, f"Page {at + 1}: {text}") for at, text in enumerate(first_lines) if text]
    return "\n".join(lines), bookmarked or by_page


def read_pages(pdfium: Any, document: Any, table_deadline: float) -> Iterator[str]:
    """Yield the text of each page, with tables until the deadline."""
    for number in range(len(document)):
        if time.monotonic() < table_deadline:
            yield convert_page(pdfium, document, number)
        else:
            yield extract_page_text(document, number)


def convert_page(pdfium: Any, document: Any, number: int) -> str:
    """Return the text of a page with its tables."""
    converter, content = import_module("markitdown.converters").PdfConverter(), io.BytesIO()
    page_document = pdfium.PdfDocument.new()
    page_document.import_pages(document, [number])
    page_document.save(content)
    page_document.close()
    content.seek(0)
    text: str = converter.convert(content, import_module("markitdown").StreamInfo(extension=".pdf")).markdown
    return text


def extract_page_text(document: Any, number: int) -> str:
    """Return the plain text of a page."""
    page = document[number]
    text_page = page.get_textpage()
    text: str = text_page.get_text_bounded()
    text_page.close()
    page.close()
    return text


def find_bookmarks(document: Any, starts: list[int]) -> Iterator[tuple[int, int, str]]:
    """Yield the bookmarks of a PDF: line, level, title."""
    for mark in document.get_toc(max_depth=LEVELS):
        target = mark.get_dest()
        page = target.get_index() if target is not None else None
        if page is not None and page < len(starts):
            yield starts[page], mark.level + 1, f"{mark.get_title()} (page {page + 1})"


def find_headings(lines: Iterable[str]) -> Iterator[tuple[int, int, str]]:
    """Yield the headings of a Markdown text: line, level, title."""
    is_code = False
    for number, line in enumerate(lines, 1):
        if line.startswith("```"):
            is_code = not is_code
        elif not is_code and (found := HEADING.fullmatch(line)):
            yield number, len(found[1]), found[2]


def limit_headings(headings: list[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """Return at most `MAX_HEADINGS` headings, spread over the whole document. The deepest levels are dropped first."""
    for max_level in range(LEVELS, 0, -1):
        if len(headings) <= MAX_HEADINGS:
            return headings
        shallower = [each for each in headings if each[1] < max_level]
        headings = shallower or headings
    step = len(headings) / MAX_HEADINGS
    return headings if step <= 1 else [headings[int(number * step)] for number in range(MAX_HEADINGS)]


def to_heading(line: int, level: int, title: str) -> dict[str, object]:
    """Return a heading as JSON data."""
    return {"line": line, "level": min(level, LEVELS), "title": " ".join(title.split())[:MAX_TITLE]}


def count_parts(lines: list[str], suffix: str) -> int:
    """Return the number of pages, slides or sheets."""
    if suffix == ".pdf":
        return sum(1 for line in lines if line.startswith("<!-- Page "))
    if suffix == ".pptx":
        return sum(1 for line in lines if SLIDE.fullmatch(line))
    return sum(1 for line in lines if line.startswith("## ")) if suffix in PARTS else 0


if __name__ == "__main__":
    main(*sys.argv[1:6])
