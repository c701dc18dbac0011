"""Says whether a file is of the kind its name promises, and which texts are not in it.

A program of the sandbox: it is handed over as text, and nothing here imports it. What it prints is JSON.
"""

import csv
import io
import json
import sys
import zipfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

DRAWING = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
WORDS = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
CHART = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"
BEGINNING = 400


class Wrong(Exception):
    """The file is not what it should be."""


def read_pptx(path: str) -> str:
    """The text of slides, notes and charts."""
    presentation = import_module("pptx").Presentation(path)
    if not len(presentation.slides):
        raise Wrong("it has no slides")
    return "\n".join(line for slide in presentation.slides for line in slide_lines(slide))


def slide_lines(slide: Any) -> Iterator[str]:
    """The paragraphs of a slide and of what belongs to it."""
    yield from paragraphs(slide.part._element, DRAWING)
    if slide.has_notes_slide:
        yield from paragraphs(slide.notes_slide.part._element, DRAWING)
    for relation in slide.part.rels.values():
        if not relation.is_external and hasattr(relation.target_part, "chart"):
            root = relation.target_part._element
            yield from paragraphs(root, DRAWING)
            yield from (value.text or "" for value in root.iter(f"{CHART}v"))


def read_docx(path: str) -> str:
    """The text of a document, its tables included."""
    return "\n".join(paragraphs(import_module("docx").Document(path).element.body, WORDS))


def paragraphs(root: Any, words: str) -> Iterator[str]:
    """The paragraphs in a piece of an Office file."""
    for paragraph in root.iter(f"{words}p"):
        yield "".join(piece.text or "" for piece in paragraph.iter(f"{words}t"))


def read_xlsx(path: str) -> str:
    """The names of sheets, and what stands in their cells: values and formulas."""
    lines = []
    for only_values in (False, True):
        book = import_module("openpyxl").load_workbook(path, data_only=only_values)
        for sheet in book.worksheets:
            rows = sheet.iter_rows(values_only=True)
            lines += [sheet.title, *(" ".join(str(cell) for cell in row if cell is not None) for row in rows)]
    return "\n".join(lines)


def read_pdf(path: str) -> str:
    """The text of all pages."""
    if not Path(path).read_bytes()[:1024].lstrip().startswith(b"%PDF-"):
        raise Wrong("it does not begin like a PDF")
    return "\n".join(page.extract_text() for page in import_module("pypdf").PdfReader(path).pages)


def read_image(path: str, form: str) -> str:
    """Nothing, when all of the image can be read."""
    with import_module("PIL.Image").open(path) as image:
        if image.format != form:
            raise Wrong(f"it is {image.format}")
        image.load()
    return ""


def read_svg(path: str) -> str:
    """The source."""
    source = read_text(path)
    root = import_module("defusedxml.ElementTree").fromstring(source.encode())
    if root.tag.rpartition("}")[2] != "svg":
        raise Wrong(f"its outermost element is {root.tag!r}")
    return f"{source}\n{' '.join(root.itertext())}"


def read_html(path: str) -> str:
    """The source, and what a reader sees of it."""
    source = read_text(path)
    page = import_module("bs4").BeautifulSoup(source, "html.parser")
    if page.find("html") is None or page.find("body") is None:
        raise Wrong("it has no <html> with a <body>")
    return "\n".join([source, page.get_text(" "), page.get_text()])


def read_json(path: str) -> str:
    """The source."""
    source = read_text(path)
    json.loads(source)
    return source


def read_csv(path: str) -> str:
    """The source."""
    source = read_text(path)
    rows = [row for row in csv.reader(io.StringIO(source), strict=True) if row]
    if not rows or len({len(row) for row in rows}) > 1:
        raise Wrong("it has no rows" if not rows else "its rows have different numbers of columns")
    return source


def read_text(path: str) -> str:
    """A text that says something."""
    text = Path(path).read_bytes().decode("utf-8-sig")
    if not text.strip() or "\0" in text:
        raise Wrong("it is empty" if not text.strip() else "it contains zero bytes")
    return text


READERS = {
    "pptx": read_pptx,
    "docx": read_docx,
    "xlsx": read_xlsx,
    "pdf": read_pdf,
    "html": read_html,
    "svg": read_svg,
    "png": lambda path: read_image(path, "PNG"),
    "jpg": lambda path: read_image(path, "JPEG"),
    "json": read_json,
    "csv": read_csv,
    "md": read_text,
    "txt": read_text,
}


def kind_of(path: str) -> str:
    """What a file is, as far as that decides how its text is read."""
    head = Path(path).read_bytes()[:8]
    if head.startswith(b"%PDF-"):
        return "pdf"
    if head.startswith(b"\x89PNG"):
        return "png"
    if head.startswith(b"\xff\xd8\xff"):
        return "jpg"
    if zipfile.is_zipfile(path):
        names = zipfile.ZipFile(path).namelist()
        folders = {"ppt/": "pptx", "word/": "docx", "xl/": "xlsx"}
        return next((kind for folder, kind in folders.items() if any(name.startswith(folder) for name in names)), "txt")
    return "txt"


def look(path: str, kind: str, texts: list[str]) -> dict[str, Any]:
    """What is found at a path. Whatever a reader raises says that it cannot read this: the chore's output tells it."""
    if not Path(path).is_file():
        return {"exists": Path(path).exists(), "problem": "it is no file"}
    try:
        content = READERS[kind or kind_of(path)](path)
    except Wrong as wrong:
        return {"exists": True, "problem": str(wrong)}
    shown = " ".join(content.split())
    missing = [text for text in texts if " ".join(text.split()) not in shown]
    return {"exists": True, "missing": missing, "beginning": shown[:BEGINNING]}


if __name__ == "__main__":
    json.dump(look(sys.argv[1], sys.argv[2], json.loads(sys.argv[3])), sys.stdout)
