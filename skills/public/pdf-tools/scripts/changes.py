"""What changes pages: merge, split, pages, rotate, watermark, number, fill, protect."""

import argparse
import io
import json
from pathlib import Path
from typing import Any

import yaml
from files import chosen, fail, opened, save
from pypdf import PdfReader, PdfWriter, Transformation
from reportlab.lib.colors import Color
from reportlab.pdfgen.canvas import Canvas

ON, OFF = {"yes", "true", "on", "x", "1"}, {"no", "false", "off", "", "0"}


def merge(arguments: argparse.Namespace) -> None:
    """Put files together, each a bookmark; choose pages by file.pdf:1-3."""
    if len(arguments.files) < 2:
        fail("merging needs at least two files")
    writer = PdfWriter()
    for name in arguments.files:
        file, separator, choice = name.rpartition(":")
        path = Path(file if separator and file.lower().endswith(".pdf") else name)
        reader = opened(path, arguments.password)
        pages = chosen(choice if str(path) != name else None, len(reader.pages))
        start = len(writer.pages)
        for page in pages:
            writer.add_page(reader.pages[page])
        writer.add_outline_item(path.stem, start)
    save(writer, arguments.out)


def split(arguments: argparse.Namespace) -> None:
    """One file per page, per so many pages, or per choice of pages."""
    reader = opened(arguments.file, arguments.password)
    count = len(reader.pages)
    if arguments.parts:
        parts = [chosen(part, count) for part in arguments.parts.split(";")]
    else:
        parts = [list(range(start, min(start + arguments.every, count))) for start in range(0, count, arguments.every)]
    digits = len(str(len(parts)))
    for number, pages in enumerate(parts, 1):
        writer = PdfWriter()
        for page in pages:
            writer.add_page(reader.pages[page])
        save(writer, arguments.out / f"{arguments.file.stem}-{number:0{digits}}.pdf")


def pages(arguments: argparse.Namespace) -> None:
    """Keep, reorder or repeat pages; with --remove leave them out."""
    reader = opened(arguments.file, arguments.password)
    wanted = chosen(arguments.pages, len(reader.pages))
    if arguments.remove:
        wanted = [page for page in range(len(reader.pages)) if page not in wanted]
        if not wanted:
            fail("no page would be left")
    writer = PdfWriter()
    for page in wanted:
        writer.add_page(reader.pages[page])
    save(writer, arguments.out)


def rotate(arguments: argparse.Namespace) -> None:
    """Turn pages clockwise by 90, 180 or 270 degrees."""
    writer = whole(opened(arguments.file, arguments.password))
    for page in chosen(arguments.pages, len(writer.pages)):
        writer.pages[page].rotate(arguments.by)
    save(writer, arguments.out)


def watermark(arguments: argparse.Namespace) -> None:
    """Write words across pages, or lay the first page of another PDF over or under them."""
    writer = whole(opened(arguments.file, arguments.password))
    if bool(arguments.text) == bool(arguments.stamp):
        fail("give either --text or --stamp")
    stamp = opened(arguments.stamp).pages[0] if arguments.stamp else None
    for index in chosen(arguments.pages, len(writer.pages)):
        page = writer.pages[index]
        wide, high = float(page.mediabox.width), float(page.mediabox.height)
        over = stamp if stamp is not None else words(arguments.text, wide, high)
        scale = Transformation().scale(wide / float(over.mediabox.width), high / float(over.mediabox.height))
        page.merge_transformed_page(over, scale, over=not arguments.under)
    save(writer, arguments.out)


def number(arguments: argparse.Namespace) -> None:
    """Write page numbers at the foot."""
    writer = whole(opened(arguments.file, arguments.password))
    count = len(writer.pages)
    for index, page in enumerate(writer.pages):
        wide, high = float(page.mediabox.width), float(page.mediabox.height)
        text = arguments.format.replace("{page}", str(index + arguments.first)).replace("{pages}", str(count))
        page.merge_page(foot(text, wide, high))
    save(writer, arguments.out)


def fill(arguments: argparse.Namespace) -> None:
    """Fill the fields of a form from JSON or YAML."""
    reader = opened(arguments.file, arguments.password)
    fields = reader.get_fields() or {}
    if not fields:
        fail(f"{arguments.file.name} has no form fields; write on it with watermark --stamp instead")
    values = read_values(arguments.values)
    unknown = [name for name in values if name not in fields]
    if unknown:
        fail(f"the form has no field {unknown[0]!r}; it has {', '.join(sorted(fields))}")
    writer = PdfWriter(clone_from=reader)
    typed = {name: as_field(name, value, fields[name]) for name, value in values.items()}
    writer.update_page_form_field_values(None, typed, auto_regenerate=False, flatten=arguments.flatten)
    if arguments.flatten:
        writer.remove_annotations(subtypes="/Widget")
    save(writer, arguments.out)


def protect(arguments: argparse.Namespace) -> None:
    """Encrypt with a password (AES-256), or with --open take the protection away."""
    reader = opened(arguments.file, arguments.password)
    writer = whole(reader)
    if not arguments.open:
        if not arguments.new_password:
            fail("give the password to set with --new-password")
        writer.encrypt(arguments.new_password, algorithm="AES-256")
    save(writer, arguments.out)


def whole(reader: PdfReader) -> PdfWriter:
    """A copy with bookmarks, forms and properties."""
    return PdfWriter(clone_from=reader)


def words(text: str, wide: float, high: float) -> Any:
    """A page with pale words from corner to corner."""
    buffer = io.BytesIO()
    canvas = Canvas(buffer, (wide, high))
    size = min(1.25 * (wide**2 + high**2) ** 0.5 / max(len(text), 6), 90)
    canvas.setFont("Helvetica-Bold", size)
    canvas.setFillColor(Color(0.5, 0.5, 0.5, 0.28))
    canvas.translate(wide / 2, high / 2)
    canvas.rotate(45 if high >= wide else 30)
    canvas.drawCentredString(0, -size / 3, text)
    canvas.save()
    return PdfReader(io.BytesIO(buffer.getvalue())).pages[0]


def foot(text: str, wide: float, high: float) -> Any:
    """A page with words at its foot."""
    buffer = io.BytesIO()
    canvas = Canvas(buffer, (wide, high))
    canvas.setFont("Helvetica", 9)
    canvas.drawCentredString(wide / 2, 24, text)
    canvas.save()
    return PdfReader(io.BytesIO(buffer.getvalue())).pages[0]


def read_values(path: Path) -> dict[str, Any]:
    """Values by field."""
    if not path.is_file():
        fail(f"there is no file {str(path)!r}")
    try:
        text = path.read_text(encoding="utf-8")
        content = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
    except (ValueError, yaml.YAMLError) as problem:
        fail(f"{path.name} cannot be read: {' '.join(str(problem).split())}")
    if not isinstance(content, dict):
        fail(f"{path.name} must hold names of fields and values")
    return content


def as_field(name: str, value: Any, field: Any) -> str:
    """A value as the field takes it: boxes are ticked, choices must be offered."""
    text = str(value).strip() if not isinstance(value, bool) else ("yes" if value else "no")
    if field.get("/FT") == "/Btn":
        states = [str(state) for state in field.get("/_States_", []) if state != "/Off"]
        if text.lower() in OFF:
            return "/Off"
        if text.lower() in ON and states:
            return states[0]
        if f"/{text}" not in states:
            fail(f"field {name!r} takes yes, no or one of {', '.join(state.lstrip('/') for state in states)}")
        return f"/{text}"
    if field.get("/FT") == "/Ch":
        offered = [
            str(item[0]) if isinstance(item, list) else str(item)
            for item in field.get("/_States_", field.get("/Opt", []))
        ]
        if offered and text not in offered:
            fail(f"field {name!r} takes one of {', '.join(offered)}, not {text!r}")
    return text
