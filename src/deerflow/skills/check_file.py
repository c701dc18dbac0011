"""Program that checks the type and content of a file, run in the sandbox.

Its source is passed to the sandbox as text, so nothing imports it. It prints JSON.
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
WORDPROCESSING = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
CHART = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"
MAX_SHOWN_CHARS = 400


class InvalidFile(Exception):
    """The file is not of the expected type."""


def read_pptx(path: str) -> str:
    """Return the text of slides, notes and charts."""
    presentation = import_module("pptx").Presentation(path)
    if not len(presentation.slides):
        raise InvalidFile("it has no slides")
    return "\n".join(line for slide in presentation.slides for line in iter_slide_lines(slide))


def iter_slide_lines(slide: Any) -> Iterator[str]:
    """Yield the paragraphs of a slide, its notes and its charts."""
    yield from iter_paragraphs(slide.part._element, DRAWING)
    if slide.has_notes_slide:
        yield from iter_paragraphs(slide.notes_slide.part._element, DRAWING)
    for relation in slide.part.rels.values():
        if not relation.is_external and hasattr(relation.target_part, "chart"):
            root = relation.target_part._element
            yield from iter_paragraphs(root, DRAWING)
            yield from (value.text or "" for value in root.iter(f"{CHART}v"))


def read_docx(path: str) -> str:
    """Return the text of a document, including tables."""
    return "\n".join(iter_paragraphs(import_module("docx").Document(path).element.body, WORDPROCESSING))


def iter_paragraphs(root: Any, namespace: str) -> Iterator[str]:
    """Yield the paragraphs of an Office XML element."""
    for paragraph in root.iter(f"{namespace}p"):
        yield "".join(run.text or "" for run in paragraph.iter(f"{namespace}t"))


def read_xlsx(path: str) -> str:
    """Return the sheet names, and the values and formulas of their cells."""
    lines = []
    for only_values in (False, True):
        book = import_module("openpyxl").load_workbook(path, data_only=only_values)
        for sheet in book.worksheets:
            rows = sheet.iter_rows(values_only=True)
            lines += [sheet.title, *(" ".join(str(cell) for cell in row if cell is not None) for row in rows)]
    return "\n".join(lines)


def read_pdf(path: str) -> str:
    """Return the text of all pages."""
    if not Path(path).read_bytes()[:1024].lstrip().startswith(b"%PDF-"):
        raise InvalidFile("it is not a PDF")
    return "\n".join(page.extract_text() for page in import_module("pypdf").PdfReader(path).pages)


def read_image(path: str, image_format: str) -> str:
    """Load the whole image and return an empty string."""
    with import_module("PIL.Image").open(path) as image:
        if image.format != image_format:
            raise InvalidFile(f"it is {image.format}")
        image.load()
    return ""


def read_svg(path: str) -> str:
    """Return the source and the text of an SVG."""
    source = read_text(path)
    root = import_module("defusedxml.ElementTree").fromstring(source.encode())
    if root.tag.rpartition("}")[2] != "svg":
        raise InvalidFile(f"its root element is {root.tag!r}")
    return f"{source}\n{' '.join(root.itertext())}"


def read_html(path: str) -> str:
    """Return the source and the visible text of a page."""
    source = read_text(path)
    page = import_module("bs4").BeautifulSoup(source, "html.parser")
    if page.find("html") is None or page.find("body") is None:
        raise InvalidFile("it has no <html> with a <body>")
    return "\n".join([source, page.get_text(" "), page.get_text()])


def read_json(path: str) -> str:
    """Return the source of a valid JSON file."""
    source = read_text(path)
    json.loads(source)
    return source


def read_csv(path: str) -> str:
    """Return the source of a valid CSV file."""
    source = read_text(path)
    rows = [row for row in csv.reader(io.StringIO(source), strict=True) if row]
    if not rows or len({len(row) for row in rows}) > 1:
        raise InvalidFile("it has no rows" if not rows else "its rows have different numbers of columns")
    return source


def read_text(path: str) -> str:
    """Return the content of a non-empty text file."""
    text = Path(path).read_bytes().decode("utf-8-sig")
    if not text.strip() or "\0" in text:
        raise InvalidFile("it is empty" if not text.strip() else "it contains zero bytes")
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


def detect_type(path: str) -> str:
    """Return the type of a file, detected from its content."""
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
        return next(
            (file_type for folder, file_type in folders.items() if any(name.startswith(folder) for name in names)),
            "txt",
        )
    return "txt"


def check_file(path: str, file_type: str, texts: list[str]) -> dict[str, Any]:
    """Return the result of checking a file. Other errors of a reader fail the program, and its output reports them."""
    if not Path(path).is_file():
        return {"exists": Path(path).exists(), "problem": "it is not a file"}
    try:
        content = READERS[file_type or detect_type(path)](path)
    except InvalidFile as error:
        return {"exists": True, "problem": str(error)}
    collapsed = " ".join(content.split())
    missing = [text for text in texts if " ".join(text.split()) not in collapsed]
    return {"exists": True, "missing": missing, "beginning": collapsed[:MAX_SHOWN_CHARS]}


if __name__ == "__main__":
    json.dump(check_file(sys.argv[1], sys.argv[2], json.loads(sys.argv[3])), sys.stdout)
