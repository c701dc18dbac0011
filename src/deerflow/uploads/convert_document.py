"""Turns a document into Markdown and tells how it is built.

A program of the sandbox: it is handed over as text, and nothing here imports it. What it prints is JSON.
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
ZIPPED = (".docx", ".pptx", ".xlsx", ".epub")
OLE = bytes.fromhex("d0cf11e0a1b11ae1")
"""How binary Office files begin, and encrypted ones, whatever they hold."""
CAREFUL_PAGES = 60
"""Only in shorter documents pages are looked at for tables, and only for a part of the time: it takes very long."""
CAREFUL_PART = 0.5
MAX_HEADINGS, MAX_TITLE, MAX_BEGINNING, LEVELS = 50, 120, 5, 6

HEADING = re.compile(r"(#{1,6}) +(\S.*)")
SLIDE = re.compile(r"<!-- Slide number: (\d+) -->")
PAGE = "<!-- Page {} -->"
UNSEEN = dict.fromkeys((*range(9), *range(11, 32), 127, *range(128, 160), 0x2028, 0x2029), " ")
"""Control characters, some of which some programs take for the end of a line; then numbers of lines would differ."""


def refuse(problem: str) -> NoReturn:
    """Say why there is no Markdown, and end."""
    json.dump({"problem": problem}, sys.stdout)
    sys.exit(0)


def main(source: str, target: str, suffix: str, memory_mb: str, seconds: str) -> None:
    """Convert `source`, write `target`, and tell the outline."""
    if suffix in ZIPPED:
        check_archive(source, int(memory_mb))
    if suffix == ".pdf":
        text, headings = convert_pdf(source, time.monotonic() + CAREFUL_PART * float(seconds))
    else:
        text, headings = convert(source, suffix), []
    lines = split_lines(text)
    if not any(lines):
        refuse("no text was found in it")
    with Path(target).open("x", encoding="utf-8", errors="replace") as file:
        file.write("\n".join(lines) + "\n")
    headings = headings or list(find_headings(lines))
    outline = {
        "lines": len(lines),
        "headings": [heading(*each) for each in spread(headings)],
        "kind": PARTS.get(suffix),
        "parts": count_parts(lines, suffix),
        "beginning": [] if headings else [line[:MAX_TITLE] for line in lines if line][:MAX_BEGINNING],
    }
    json.dump({"outline": outline}, sys.stdout)


def split_lines(text: str) -> list[str]:
    """The lines of a text, which begin and end in the same places for everybody."""
    whole = text.replace("\r\n", "\n").replace("\r", "\n").translate(UNSEEN).strip()
    return [line.rstrip() for line in whole.split("\n")]


def check_archive(source: str, memory_mb: int) -> None:
    """Refuse what could never be unpacked, before anybody tries."""
    with Path(source).open("rb") as file:
        if file.read(len(OLE)) == OLE:
            refuse("it is encrypted with a password, or an old Office file under a new name; save it without either")
    with zipfile.ZipFile(source) as archive:
        unpacked = sum(member.file_size for member in archive.infolist())
        if any(member.flag_bits & 1 for member in archive.infolist()):
            refuse("it is encrypted with a password; save it without one")
    if unpacked > memory_mb * MB:
        refuse(f"it unpacks to {unpacked // MB} MB, and {memory_mb} MB of memory are allowed for it")


def convert(source: str, suffix: str) -> str:
    """The Markdown of a document of any kind but PDF."""
    markitdown = import_module("markitdown")
    converter = getattr(import_module("markitdown.converters"), CONVERTERS[suffix])()
    with Path(source).open("rb") as file:
        text: str = converter.convert(file, markitdown.StreamInfo(extension=suffix, filename=source)).markdown
    return text


def convert_pdf(source: str, careful_until: float) -> tuple[str, list[tuple[int, int, str]]]:
    """The Markdown of a PDF with a mark before each page, and where its bookmarks lead, or how its pages begin."""
    pdfium = import_module("pypdfium2")
    try:
        document = pdfium.PdfDocument(source)
    except pdfium.PdfiumError as problem:
        if "password" in str(problem).lower():
            refuse("the PDF is encrypted with a password; save it without one")
        refuse("the PDF is damaged and cannot be opened")
    pages = read_pages(pdfium, document, careful_until if len(document) <= CAREFUL_PAGES else 0)
    lines: list[str] = []
    starts, beginnings = [], []
    for number, page in enumerate(pages, 1):
        starts.append(len(lines) + 1)
        inner = split_lines(page)
        beginnings.append(next((line for line in inner if line), ""))
        lines += [PAGE.format(number), "", *inner, ""]
    if not any(beginnings):
        refuse("no text was found in it; its pages may be pictures")
    marked = list(bookmarks(document, starts))
    by_page = [(starts[at], 1, f"Page {at + 1}: {text}") for at, text in enumerate(beginnings) if text]
    return "\n".join(lines), marked or by_page


def read_pages(pdfium: Any, document: Any, careful_until: float) -> Iterator[str]:
    """The text of each page, as long as there is time with its tables."""
    for number in range(len(document)):
        if time.monotonic() < careful_until:
            yield page_in_detail(pdfium, document, number)
        else:
            yield page_as_text(document, number)


def page_in_detail(pdfium: Any, document: Any, number: int) -> str:
    """The text of a page with its tables."""
    converter, content = import_module("markitdown.converters").PdfConverter(), io.BytesIO()
    single = pdfium.PdfDocument.new()
    single.import_pages(document, [number])
    single.save(content)
    single.close()
    content.seek(0)
    text: str = converter.convert(content, import_module("markitdown").StreamInfo(extension=".pdf")).markdown
    return text


def page_as_text(document: Any, number: int) -> str:
    """The text of a page."""
    page = document[number]
    inside = page.get_textpage()
    text: str = inside.get_text_bounded()
    inside.close()
    page.close()
    return text


def bookmarks(document: Any, starts: list[int]) -> Iterator[tuple[int, int, str]]:
    """Where the bookmarks of a PDF lead: line, level, title."""
    for mark in document.get_toc(max_depth=LEVELS):
        target = mark.get_dest()
        page = target.get_index() if target is not None else None
        if page is not None and page < len(starts):
            yield starts[page], mark.level + 1, f"{mark.get_title()} (page {page + 1})"


def find_headings(lines: Iterable[str]) -> Iterator[tuple[int, int, str]]:
    """The headings of a Markdown text: line, level, title."""
    is_code = False
    for number, line in enumerate(lines, 1):
        if line.startswith("```"):
            is_code = not is_code
        elif not is_code and (found := HEADING.fullmatch(line)):
            yield number, len(found[1]), found[2]


def spread(headings: list[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """At most so many headings, of the whole document rather than of its beginning: the deepest go first."""
    for deepest in range(LEVELS, 0, -1):
        if len(headings) <= MAX_HEADINGS:
            return headings
        higher = [each for each in headings if each[1] < deepest]
        headings = higher or headings
    step = len(headings) / MAX_HEADINGS
    return headings if step <= 1 else [headings[int(number * step)] for number in range(MAX_HEADINGS)]


def heading(line: int, level: int, title: str) -> dict[str, object]:
    """A heading as it is told."""
    return {"line": line, "level": min(level, LEVELS), "title": " ".join(title.split())[:MAX_TITLE]}


def count_parts(lines: list[str], suffix: str) -> int:
    """Of how many pages, slides or sheets a document consists."""
    if suffix == ".pdf":
        return sum(1 for line in lines if line.startswith("<!-- Page "))
    if suffix == ".pptx":
        return sum(1 for line in lines if SLIDE.fullmatch(line))
    return sum(1 for line in lines if line.startswith("## ")) if suffix in PARTS else 0


if __name__ == "__main__":
    main(*sys.argv[1:6])
