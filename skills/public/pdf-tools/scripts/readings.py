"""What reads pages: info, text, tables, images, form, render."""

import argparse
import csv
import json
from pathlib import Path
from typing import Any

import pdfplumber
import pypdfium2
from files import chosen, fail, opened
from pypdf.errors import PyPdfError

POINTS_PER_MM = 72 / 25.4


def info(arguments: argparse.Namespace) -> None:
    """Pages, sizes, properties, form, bookmarks, and whether there is text at all."""
    reader = opened(arguments.file, arguments.password)
    sizes: dict[str, int] = {}
    for page in reader.pages:
        wide, high = (round(float(value) / POINTS_PER_MM) for value in (page.mediabox.width, page.mediabox.height))
        size = f"{wide}×{high} mm" + (f" turned {page.rotation}°" if page.rotation else "")
        sizes[size] = sizes.get(size, 0) + 1
    empty = [number for number, page in enumerate(reader.pages, 1) if not (page.extract_text() or "").strip()]
    facts = {
        "file": str(arguments.file),
        "pages": len(reader.pages),
        "sizes": sizes,
        "encrypted": reader.is_encrypted,
        "properties": {str(key).lstrip("/"): str(value) for key, value in (reader.metadata or {}).items()},
        "form_fields": len(reader.get_fields() or {}),
        "bookmarks": titles(reader.outline),
        "pages_without_text": empty,
    }
    print(json.dumps(facts, indent=2, ensure_ascii=False))


def text(arguments: argparse.Namespace) -> None:
    """The text, page by page; --layout keeps columns in place."""
    opened(arguments.file, arguments.password)
    parts, silent = [], []
    with pdfplumber.open(arguments.file, password=arguments.password) as document:
        for index in chosen(arguments.pages, len(document.pages)):
            found = document.pages[index].extract_text(layout=arguments.layout) or ""
            parts.append(f"--- page {index + 1} ---\n{found.rstrip()}")
            if not found.strip():
                silent.append(index + 1)
    if len(silent) == len(parts):
        fail(f"{arguments.file.name} has no text: its pages are pictures; render them and look at them, or use OCR")
    tell("\n\n".join(parts) + "\n", arguments.out)
    if silent:
        print(f"note: no text on page {', '.join(map(str, silent))}")


def tables(arguments: argparse.Namespace) -> None:
    """Tables as CSV files, one each, with where they were found."""
    opened(arguments.file, arguments.password)
    settings = {} if arguments.lines else {"vertical_strategy": "text", "horizontal_strategy": "text"}
    found: list[dict[str, Any]] = []
    arguments.out.mkdir(parents=True, exist_ok=True)
    with pdfplumber.open(arguments.file, password=arguments.password) as document:
        for index in chosen(arguments.pages, len(document.pages)):
            for table in document.pages[index].extract_tables(settings):
                rows = [[" ".join((cell or "").split()) for cell in row] for row in table]
                rows = [row for row in rows if any(row)]
                if len(rows) < 2:
                    continue
                target = arguments.out / f"{arguments.file.stem}-table-{len(found) + 1}.csv"
                with target.open("w", encoding="utf-8", newline="") as file:
                    csv.writer(file).writerows(rows)
                found.append({"page": index + 1, "rows": len(rows), "columns": len(rows[0]), "file": str(target)})
    if not found:
        hint = "" if not arguments.lines else "; try --no-lines for tables without rules"
        fail(f"no table was found in {arguments.file.name}{hint}")
    print(json.dumps(found, indent=2, ensure_ascii=False))


def images(arguments: argparse.Namespace) -> None:
    """The pictures inside, as they are stored."""
    reader = opened(arguments.file, arguments.password)
    arguments.out.mkdir(parents=True, exist_ok=True)
    found = []
    for index in chosen(arguments.pages, len(reader.pages)):
        try:
            for number, image in enumerate(reader.pages[index].images, 1):
                suffix = Path(image.name).suffix or ".png"
                target = arguments.out / f"page-{index + 1}-{number}{suffix}"
                target.write_bytes(image.data)
                found.append({"page": index + 1, "file": str(target), "bytes": len(image.data)})
        except (PyPdfError, ValueError, KeyError, NotImplementedError) as problem:
            print(f"note: a picture on page {index + 1} cannot be taken out: {problem}")
    print(json.dumps(found, indent=2))


def form(arguments: argparse.Namespace) -> None:
    """The fields of a form with kind, value and choices."""
    fields = opened(arguments.file, arguments.password).get_fields() or {}
    kinds = {"/Tx": "text", "/Btn": "box", "/Ch": "choice", "/Sig": "signature"}
    listed = {}
    for name, field in fields.items():
        entry = {"kind": kinds.get(str(field.get("/FT")), "?"), "value": plain(field.get("/V"))}
        states = [str(state).lstrip("/") for state in field.get("/_States_", []) if state != "/Off"]
        listed[name] = {**entry, **({"choices": states} if states else {})}
    print(json.dumps(listed, indent=2, ensure_ascii=False))


def render(arguments: argparse.Namespace) -> None:
    """Pages as PNG pictures, to look at."""
    opened(arguments.file, arguments.password)
    document = pypdfium2.PdfDocument(str(arguments.file), password=arguments.password or None)
    arguments.out.mkdir(parents=True, exist_ok=True)
    for index in chosen(arguments.pages, len(document)):
        target = arguments.out / f"{arguments.file.stem}-{index + 1}.png"
        document[index].render(scale=arguments.dpi / 72).to_pil().save(target)
        print(target)


def titles(outline: list[Any]) -> list[str]:
    """The titles of bookmarks, in any depth."""
    found: list[str] = []
    for item in outline:
        found += titles(item) if isinstance(item, list) else [str(item.title)]
    return found


def plain(value: Any) -> str | None:
    """A value of a field without the marks of PDF."""
    return None if value is None else str(value).lstrip("/")


def tell(content: str, target: Path | None) -> None:
    """Print, or write and say where."""
    if target is None:
        print(content, end="")
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(content, encoding="utf-8")
    print(f"{target}: {len(content.split())} words")
