"""Documents of a file of questions, rendered into their formats, and the places of the facts in them.

A line of the file is a document: `name`, `format`, `pages` with the text of each in Markdown (Python in Python files),
and `questions`, each with its `question`, the `fact` that answers it, a sentence or row of the text, and its `page`.
"""

import html
import io
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from typing import Any

from docx import Document as WordDocument
from docx.enum.text import WD_BREAK
from openpyxl import Workbook
from pptx import Presentation
from pptx.util import Inches
from reportlab.pdfgen.canvas import Canvas

PAGED_FORMATS = ("pdf", "docx", "xlsx", "pptx")
"""Formats in which a passage is cited by its page; others are cited by lines."""
TABLE_ROW = re.compile(r"\s*\|(.*)\|\s*")
TABLE_RULE = re.compile(r"[\s|:-]+")
HEADING = re.compile(r"(#{1,6}) (.+)")
WORD = re.compile(r"\w+")
PDF_LINE_CHARS = 92


@dataclass(frozen=True, slots=True)
class FileQuestion:
    """Question with the fact that answers it, and the file and page where that is."""

    text: str
    fact: str
    file_name: str
    page: int


@dataclass(frozen=True, slots=True)
class QuestionFile:
    """Document with its content and the questions about it."""

    name: str
    content: bytes
    pages: int
    questions: Sequence[FileQuestion]


@dataclass(frozen=True, slots=True)
class Block:
    """Heading, table, or paragraph of several lines."""

    level: int
    """Level of a heading, 0 if it is none."""
    lines: Sequence[str]
    rows: Sequence[Sequence[str]] = ()


def read_questions(path: Path) -> list[QuestionFile]:
    """Return the documents of a file."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    return [read_document(row) for row in rows]


def read_document(row: dict[str, Any]) -> QuestionFile:
    """Return a document with its content.

    Raises:
        ValueError: A fact is not on its page.
    """
    pages = [str(page) for page in row["pages"]]
    questions = [FileQuestion(each["question"], each["fact"], row["name"], each["page"]) for each in row["questions"]]
    for each in questions:
        if not has_words(pages[each.page - 1], each.fact):
            raise ValueError(f"{row['name']}: page {each.page} does not have {each.fact!r}")
    return QuestionFile(row["name"], render(row["format"], pages), len(pages), questions)


def has_words(text: str, fact: str) -> bool:
    """Return whether a text has the words of a fact in their order: tables and lines look different in each format."""
    return f" {' '.join(WORD.findall(fact))} " in f" {' '.join(WORD.findall(text))} "


def begins_at(content: bytes, passage: str, line: int) -> bool:
    """Return whether a passage of a text file begins at a line."""
    lines = content.decode().split("\n")
    return 1 <= line <= len(lines) and passage.split("\n")[0].strip() in lines[line - 1]


def render(suffix: str, pages: Sequence[str]) -> bytes:
    """Return the content of a file."""
    if suffix == "html":
        return write_html(pages).encode()
    if suffix not in PAGED_FORMATS:
        return "\n\n".join(pages).encode()
    file = io.BytesIO()
    writers = {"pdf": write_pdf, "docx": write_docx, "xlsx": write_xlsx, "pptx": write_pptx}
    writers[suffix](pages, file)
    return file.getvalue()


def parse(page: str) -> Iterator[Block]:
    """Yield the headings, tables and paragraphs of a page."""
    lines: list[str] = []
    rows: list[list[str]] = []
    for line in [*page.split("\n"), ""]:
        row, heading = TABLE_ROW.fullmatch(line), HEADING.fullmatch(line)
        if lines and (row or heading or not line.strip()):
            yield Block(0, lines)
            lines = []
        if rows and not row:
            yield Block(0, [], rows)
            rows = []
        if heading:
            yield Block(len(heading[1]), [heading[2]])
        elif row and not TABLE_RULE.fullmatch(line):
            rows.append([cell.strip() for cell in row[1].split("|")])
        elif line.strip() and not row:
            lines.append(line)


def write_html(pages: Sequence[str]) -> str:
    """Return a page of HTML."""
    parts: list[str] = []
    for block in (each for page in pages for each in parse(page)):
        if block.rows:
            rows = ("".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in block.rows)
            parts.append(f"<table>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>")
        else:
            tag = f"h{block.level}" if block.level else "p"
            parts.append(f"<{tag}>{html.escape(chr(10).join(block.lines))}</{tag}>")
    return f"<!DOCTYPE html>\n<html><body>\n{chr(10).join(parts)}\n</body></html>\n"


def write_pdf(pages: Sequence[str], file: io.BytesIO) -> None:
    """Write a PDF file, headings in large letters, lines as wide as a page."""
    canvas = Canvas(file)
    for page in pages:
        height = 800
        for block in parse(page):
            canvas.setFont("Helvetica-Bold" if block.level else "Helvetica", max(10, 18 - 2 * (block.level or 9)))
            texts = [" ".join(block.lines)] if block.lines else ["   ".join(row) for row in block.rows]
            for line in (each for text in texts for each in wrap(text, PDF_LINE_CHARS)):
                canvas.drawString(40, height, line)
                height -= 13
            height -= 8
        canvas.showPage()
    canvas.save()


def write_docx(pages: Sequence[str], file: io.BytesIO) -> None:
    """Write a Word file with headings, tables and page breaks."""
    document = WordDocument()
    for number, page in enumerate(pages):
        if number:
            document.add_paragraph().add_run().add_break(WD_BREAK.PAGE)
        for block in parse(page):
            if block.level:
                document.add_heading(block.lines[0], block.level)
            elif block.rows:
                table = document.add_table(len(block.rows), max(map(len, block.rows)))
                for cells, row in zip(table.rows, block.rows, strict=True):
                    for cell, text in zip(cells.cells, row, strict=False):
                        cell.text = text
            else:
                document.add_paragraph("\n".join(block.lines))
    document.save(file)


def write_xlsx(pages: Sequence[str], file: io.BytesIO) -> None:
    """Write an Excel file with a sheet for each page, named after its first heading; a paragraph is one cell."""
    book = Workbook(write_only=True)
    for number, page in enumerate(pages, 1):
        blocks = list(parse(page))
        title = next((each.lines[0] for each in blocks if each.level), "")
        sheet = book.create_sheet(re.sub(r"[\\/*?:\[\]]", " ", f"{number} {title}")[:31])
        for block in blocks:
            for row in block.rows or [[" ".join(block.lines)]]:
                sheet.append(row)
            sheet.append([])
    book.save(file)


def write_pptx(pages: Sequence[str], file: io.BytesIO) -> None:
    """Write a PowerPoint file with a slide for each page."""
    deck = Presentation()
    for page in pages:
        blocks = list(parse(page))
        slide = deck.slides.add_slide(deck.slide_layouts[5])
        slide.shapes.title.text = next((each.lines[0] for each in blocks if each.level), "")
        texts = [
            "\n".join(each.lines) if each.lines else "\n".join("   ".join(row) for row in each.rows) for each in blocks
        ]
        slide.shapes.add_textbox(Inches(1), Inches(1), Inches(8), Inches(5)).text_frame.text = "\n".join(texts)
    deck.save(file)
