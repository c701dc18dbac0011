"""Program that reads documents and prints their passages with page numbers, run in the sandbox.

Its source is passed to the sandbox as text, so nothing imports it. It prints one JSON object per line: the index of a
file before it is read, then its passages or the problem.
"""

import json
import os
import re
import sys
import zipfile
from collections.abc import Iterable, Iterator
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

MB = 1024 * 1024
MAX_CHARS = 20_000_000
"""Maximum characters of a document."""
PASSAGE_CHARS = 800
"""Maximum length of a passage."""
WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
DRAWING = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
SLIDES = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
LINK = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
OLD_FORMATS = (".doc", ".ppt", ".xls")
OLE_MAGIC = bytes.fromhex("d0cf11e0a1b11ae1")
PIECE_END = re.compile(
    r"(?<=[^\d\s][.!?])\s+|(?<=[.!?])\n|(?<=[。！？；])|\n\s*\n|(?<![^\n]{60})\n|\n(?=\s*[-*#])|\n(?=[^\n]*\|)"
)
"""Ends of sentences, paragraphs, short lines and rows. A long line goes on in the next one."""
HEADING = re.compile(r"(#{1,6})\s+(\S.*)")
NUMBERED = re.compile(r"(\d{1,2}(?:\.\d{1,2}){0,3}\.?)\s+([A-Z\u00c0-\uffff][^.!?;|]{2,70})")
"""Heading with a number, in formats that mark none."""
CELL_BORDER = " | "
MAX_TITLE_CHARS = 120
HEADING_STYLE = re.compile(r"(?:Title|(?:Heading|berschrift|Titre|Ttulo)([1-6]))")
"""Style of a heading in a Word document, by the ids that Word gives it in some languages."""
FORMATS_WITH_HEADINGS = (".md", ".markdown", ".docx", ".xlsx", ".html", ".htm", ".epub", ".ipynb")
MAX_HEADINGS_CHARS = 400
CONTROL = dict.fromkeys((*range(9), *range(11, 32), 127, *range(128, 160), 0x2028, 0x2029), " ")

Pages = Iterable[tuple[int, str]]
"""Texts with the page, slide, sheet or line at which each begins."""


class UnreadableDocument(Exception):
    """A document cannot be read; the text is shown to the user."""


def main(memory_mb: str, *paths: str) -> None:
    """Read the files and print their passages."""
    os.nice(19)
    for index, path in enumerate(paths):
        say({"index": index})
        try:
            unit, pages = read(Path(path), int(memory_mb))
            found: list[tuple[int, str, str]] = []
            headings = Headings(Path(path).suffix.lower())
            last = 1
            for at, text in limit(pages):
                found += split(at, text, unit == "line", headings)
                last = at
            if not found:
                raise UnreadableDocument("no_text")
            count = 1 if unit == "line" else last
            say({"index": index, "unit": unit, "pages": count, "passages": found})
        except UnreadableDocument as problem:
            say({"index": index, "problem": str(problem)})
        except (OSError, ValueError, KeyError, ElementTree.ParseError, zipfile.BadZipFile):
            say({"index": index, "problem": "damaged"})


def say(fields: dict[str, object]) -> None:
    """Print one line."""
    sys.stdout.write(json.dumps(fields, ensure_ascii=True, separators=(",", ":")) + "\n")
    sys.stdout.flush()


def read(path: Path, memory_mb: int) -> tuple[str, Pages]:
    """Return the unit and the pages of a file."""
    suffix = path.suffix.lower()
    if suffix in OLD_FORMATS:
        raise UnreadableDocument("old_format")
    if suffix == ".pdf":
        return "page", read_pdf(path)
    if suffix in (".docx", ".pptx", ".xlsx", ".epub"):
        check_archive(path, memory_mb)
    if suffix == ".docx":
        return "page", read_docx(path)
    if suffix == ".pptx":
        return "slide", read_pptx(path)
    if suffix == ".xlsx":
        return "sheet", read_xlsx(path)
    if suffix == ".epub":
        return "line", [(1, read_epub(path))]
    text = decode(path.read_bytes())
    if suffix in (".html", ".htm"):
        return "line", [(1, html_to_text(text))]
    if suffix == ".ipynb":
        return "line", [(1, notebook_to_text(text))]
    return "line", [(1, text)]


def limit(pages: Pages) -> Iterator[tuple[int, str]]:
    """Yield the pages with plain characters.

    Raises:
        UnreadableDocument: They have too many.
    """
    total = 0
    for at, text in pages:
        total += len(text)
        if total > MAX_CHARS:
            raise UnreadableDocument("too_long")
        yield at, text.replace("\r\n", "\n").replace("\r", "\n").translate(CONTROL)


class Headings:
    """Headings above the current place of a document, the title first."""

    def __init__(self, suffix: str) -> None:
        self._pattern = HEADING if suffix in FORMATS_WITH_HEADINGS else NUMBERED if suffix == ".pdf" else None
        self._is_slides = suffix == ".pptx"
        self._levels: list[tuple[int, str]] = []
        self._table = ""

    def begin_page(self, text: str) -> None:
        """Note the first line of a document that marks no title, or of a slide, as heading above the rest."""
        first = text.strip().split("\n")[0].strip(" \t\"'#/*;-")
        if (not self._levels or self._is_slides) and self._pattern is not HEADING and 0 < len(first) <= MAX_TITLE_CHARS:
            self._levels = [(0, first)]

    def is_heading(self, line: str) -> bool:
        """Return whether a line is a heading."""
        return self._find_level(line) is not None

    def above(self, line: str) -> str:
        """Return the headings above a line; for a row of a table, also the heads of the columns."""
        level = self._find_level(line)
        heads = [self._table] if self._table and CELL_BORDER in line else []
        above = [text for each, text in self._levels if level is None or each < level]
        return " › ".join([*above, *heads])[:MAX_HEADINGS_CHARS]

    def pass_line(self, line: str) -> None:
        """Note a heading, or the first row of a table as the heads of its columns."""
        if (level := self._find_level(line)) is not None:
            self._levels = [*(each for each in self._levels if each[0] < level), (level, line.lstrip("# ").strip())]
        self._table = (self._table or line.strip(" |")) if CELL_BORDER in line else ""

    def _find_level(self, line: str) -> int | None:
        """Return the level of a heading, None for other lines."""
        if self._levels == [(0, line)]:  # the title itself
            return 0
        if self._pattern is None or not (heading := self._pattern.fullmatch(line)):
            return None
        return heading[1].count("#") or 1 + heading[1].strip(".").count(".")


def split(at: int, text: str, counts_lines: bool, headings: Headings) -> Iterator[tuple[int, str, str]]:
    """Yield the passages of a page with the headings above them.

    They end before headings, between paragraphs, or between sentences and rows.
    """
    headings.begin_page(text)
    start = end = line = counted = 0
    above, has_text = "", False
    for begin, stop in find_pieces(text):
        piece = text[begin:stop]
        is_heading = headings.is_heading(piece)
        is_paragraph = "\n\n" in text[end:begin] and end - start > PASSAGE_CHARS // 2
        if has_text and (is_heading or is_paragraph or stop - start > PASSAGE_CHARS):
            yield at + line if counts_lines else at, text[start:end], above
            has_text, start = False, end
        if start == end:
            line, counted = line + text.count("\n", counted, begin), begin
            start, above = begin, headings.above(piece)
        headings.pass_line(piece)
        end, has_text = stop, has_text or not is_heading
    if start < end:
        yield at + line if counts_lines else at, text[start:end], above


def find_pieces(text: str) -> Iterator[tuple[int, int]]:
    """Yield where the sentences and rows of a text begin and end; long ones are cut."""
    begin = 0
    for gap in PIECE_END.finditer(text):
        yield from cut(text, begin, gap.start())
        begin = gap.end()
    yield from cut(text, begin, len(text))


def cut(text: str, begin: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield a piece without blanks around it, in parts that are not longer than a passage."""
    while begin < end and text[begin].isspace():
        begin += 1
    while begin < end and text[end - 1].isspace():
        end -= 1
    while end - begin > PASSAGE_CHARS:
        limit = begin + PASSAGE_CHARS
        blank = max(text.rfind(" ", begin + PASSAGE_CHARS // 2, limit), text.rfind("\n", begin + 1, limit))
        stop = blank if blank > 0 else limit
        yield begin, stop
        begin = stop + (blank > 0)
    if begin < end:
        yield begin, end


def decode(content: bytes) -> str:
    """Return the text of a file.

    Raises:
        UnreadableDocument: It is not text.
    """
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return content.decode("utf-16", "replace")
    if b"\0" in content[: 64 * 1024]:
        raise UnreadableDocument("not_text")
    for encoding in ("utf-8-sig", "gb18030"):
        try:
            return content.decode(encoding)
        except UnicodeDecodeError:
            continue
    return content.decode("latin-1")


def check_archive(path: Path, memory_mb: int) -> None:
    """Refuse encrypted files, and archives that exceed the memory limit when unpacked."""
    with path.open("rb") as file:
        if file.read(len(OLE_MAGIC)) == OLE_MAGIC:
            raise UnreadableDocument("encrypted")
    with zipfile.ZipFile(path) as archive:
        if any(member.flag_bits & 1 for member in archive.infolist()):
            raise UnreadableDocument("encrypted")
        unpacked = sum(member.file_size for member in archive.infolist())
    if unpacked > memory_mb * MB:
        raise UnreadableDocument("too_large")


def read_pdf(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the text of each page."""
    pdfium = import_module("pypdfium2")
    try:
        document = pdfium.PdfDocument(str(path))
    except pdfium.PdfiumError as problem:
        if "password" in str(problem).lower():
            raise UnreadableDocument("encrypted") from None
        raise UnreadableDocument("damaged") from None
    try:
        for number in range(len(document)):
            yield number + 1, read_pdf_page(document, number)
    finally:
        document.close()


def read_pdf_page(document: Any, number: int) -> str:
    """Return the text of a page."""
    page = document[number]
    text_page = page.get_textpage()
    text: str = text_page.get_text_bounded()
    text_page.close()
    page.close()
    return text


def read_docx(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the text of each page, as page breaks and the last rendering of the document tell."""
    with zipfile.ZipFile(path) as archive:
        body = ElementTree.fromstring(archive.read("word/document.xml"))
    in_cells = {paragraph for cell in body.iter(f"{WORD}tc") for paragraph in cell.iter(f"{WORD}p")}
    page, lines, line = 1, [], ""
    has_text = False  # since the last break: a break by the author and its rendering are one
    for element in body.iter():
        if element.tag == f"{WORD}tr" or (element.tag == f"{WORD}p" and element not in in_cells):
            lines.append(line)
            line = ""
        else:
            line += to_text(element, line)
            has_text = has_text or bool(element.text and element.tag == f"{WORD}t")
        if is_page_break(element, has_text):
            yield page, "\n".join([*lines, line])
            page, lines, line, has_text = page + 1, [], "", False
    yield page, "\n".join([*lines, line])


def to_text(element: ElementTree.Element, line: str) -> str:
    """Return what an element of a Word document adds to a line."""
    tag = element.tag.removeprefix(WORD)
    if tag == "pStyle" and (style := HEADING_STYLE.fullmatch(element.get(f"{WORD}val", ""))):
        return "#" * int(style[1] or 1) + " "
    if tag == "br" and element.get(f"{WORD}type") is None:
        return "\n"
    if tag == "tc" and line:
        return CELL_BORDER
    if tag == "p":  # another paragraph of a cell
        return " " if line and not line.endswith(CELL_BORDER) else ""
    return (element.text or "") if tag == "t" else "\t" * (tag == "tab")


def is_page_break(element: ElementTree.Element, has_text: bool) -> bool:
    """Return whether a new page begins at an element of a Word document."""
    if element.tag == f"{WORD}br":
        return element.get(f"{WORD}type") == "page"
    if element.tag == f"{WORD}pageBreakBefore":
        return has_text and element.get(f"{WORD}val", "1") not in ("0", "false", "off")
    return element.tag == f"{WORD}lastRenderedPageBreak" and has_text


def read_pptx(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the text of each slide in the order of the presentation."""
    with zipfile.ZipFile(path) as archive:
        links = ElementTree.fromstring(archive.read("ppt/_rels/presentation.xml.rels"))
        targets = {link.get("Id"): link.get("Target", "") for link in links}
        order = ElementTree.fromstring(archive.read("ppt/presentation.xml")).iter(f"{SLIDES}sldId")
        for number, slide in enumerate(order, 1):
            target = targets[slide.get(LINK)].lstrip("/").removeprefix("ppt/")
            root = ElementTree.fromstring(archive.read(f"ppt/{target}"))
            paragraphs = (
                "".join(part.text or "" for part in each.iter(f"{DRAWING}t")) for each in root.iter(f"{DRAWING}p")
            )
            yield number, "\n".join(paragraphs)


def read_xlsx(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the rows of each sheet, with its name."""
    book = import_module("openpyxl").load_workbook(path, read_only=True, data_only=True)
    for number, sheet in enumerate(book.worksheets, 1):
        rows = (
            " | ".join("" if cell is None else str(cell) for cell in row) for row in sheet.iter_rows(values_only=True)
        )
        yield number, "\n".join([f"# {sheet.title}", *(row for row in rows if row.strip(" |"))])


def read_epub(path: Path) -> str:
    """Return the text of a book, chapters in the order of its files."""
    with zipfile.ZipFile(path) as archive:
        names = sorted(name for name in archive.namelist() if name.lower().endswith((".xhtml", ".html", ".htm")))
        return "\n\n".join(html_to_text(archive.read(name).decode("utf-8", "replace")) for name in names)


HEADING_TAG = re.compile("h[1-6]")


class TextParser(HTMLParser):
    """Collects the text of an HTML page, a line for each block; headings as in Markdown."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self.hidden = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.hidden += tag in ("script", "style", "template")
        if tag in ("p", "div", "br", "li", "tr", "h1", "h2", "h3", "h4", "h5", "h6", "section", "pre", "table"):
            self.parts.append("\n")
        if HEADING_TAG.fullmatch(tag):
            self.parts.append("#" * int(tag[1]) + " ")

    def handle_endtag(self, tag: str) -> None:
        if tag in ("script", "style", "template"):
            self.hidden = max(0, self.hidden - 1)

    def handle_data(self, data: str) -> None:
        if not self.hidden:
            self.parts.append(data)


def html_to_text(markup: str) -> str:
    """Return the visible text of an HTML page."""
    parser = TextParser()
    parser.feed(markup)
    return re.sub(r"\n\s*\n+", "\n\n", "".join(parser.parts))


def notebook_to_text(text: str) -> str:
    """Return the cells of a notebook."""
    cells = json.loads(text).get("cells", [])
    return "\n\n".join("".join(cell.get("source", [])) for cell in cells)


if __name__ == "__main__":
    main(*sys.argv[1:])
