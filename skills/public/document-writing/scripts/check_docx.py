"""Looks through any Word document for what a careful editor would find."""

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any, NoReturn

import docx
from docx.opc.exceptions import PackageNotFoundError
from docx.oxml.ns import qn

UNFINISHED = re.compile(r"\b(TODO|TBD|FIXME|XXX|lorem ipsum)\b|\{\{[^}]*\}\}", re.IGNORECASE)


def main() -> None:
    """Check a document; exit 3 when something was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("document", type=Path)
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    arguments = parser.parse_args()
    if not arguments.document.is_file():
        fail(f"there is no file {str(arguments.document)!r}")
    try:
        document = docx.Document(str(arguments.document))
    except (PackageNotFoundError, KeyError, ValueError):
        fail(f"{arguments.document.name} is no Word document")
    found = [*of_headings(document), *of_paragraphs(document), *of_tables(document), *of_parts(document)]
    words = sum(len(paragraph.text.split()) for paragraph in document.paragraphs)
    outline = [f"{'  ' * (level - 1)}{text}" for level, text in headings(document)]
    if arguments.json:
        print(json.dumps({"words": words, "outline": outline, "problems": found}, indent=2, ensure_ascii=False))
    else:
        print("\n".join([f"{words} words", *outline, "", *(found or ["no problems"])]))
    sys.exit(3 if found else 0)


def headings(document: Any) -> list[tuple[int, str]]:
    """Level and text of every heading."""
    found = []
    for paragraph in document.paragraphs:
        name = paragraph.style.name or ""
        if name.startswith("Heading ") and name[8:].isdigit():
            found.append((int(name[8:]), paragraph.text.strip()))
    return found


def of_headings(document: Any) -> list[str]:
    """Empty headings, skipped levels, and none at all."""
    found, before = [], 0
    listed = headings(document)
    if not listed and len(document.paragraphs) > 15:
        found.append("there are no headings; use the styles Heading 1, 2 … so that contents and navigation work")
    for level, text in listed:
        if not text:
            found.append(f"a heading of level {level} is empty")
        if level > before + 1:
            found.append(f"heading {text!r} skips a level")
        before = level
    return found


def of_paragraphs(document: Any) -> list[str]:
    """Headings made of bold text, blank lines as distance, unfinished text."""
    found, blanks = [], 0
    for paragraph in document.paragraphs:
        text = paragraph.text.strip()
        has_more = paragraph._p.findall(f".//{qn('w:drawing')}") or paragraph._p.findall(f".//{qn('w:br')}")
        blanks = 0 if text or has_more else blanks + 1
        if blanks == 2:
            found.append("blank paragraphs are used as distance; set the space of the style instead")
        runs = [run for run in paragraph.runs if run.text.strip()]
        plain = paragraph.style.name == "Normal"
        if plain and 0 < len(text) < 70 and runs and all(run.bold for run in runs) and not text.endswith((".", ":")):
            found.append(f"{text!r} looks like a heading but is bold text")
        if match := UNFINISHED.search(text):
            found.append(f"unfinished: {match[0]!r} in {text[:60]!r}")
    return list(dict.fromkeys(found))


def of_tables(document: Any) -> list[str]:
    """Tables whose head is not marked."""
    found = []
    for number, table in enumerate(document.tables, 1):
        properties = table.rows[0]._tr.trPr if table.rows else None
        if len(table.rows) > 1 and (properties is None or properties.find(qn("w:tblHeader")) is None):
            found.append(f"table {number} has no head row that repeats on the next page")
    return found


def of_parts(document: Any) -> list[str]:
    """Pictures without words, changes and comments left over, no page numbers."""
    found = []
    body = document.element.body
    silent = [place for place in body.iter(qn("wp:docPr")) if not (place.get("descr") or "").strip()]
    if silent:
        found.append(f"{len(silent)} pictures have no alternative text")
    if any(True for _ in body.iter(qn("w:ins"), qn("w:del"))):
        found.append("tracked changes are left in the document")
    if any(True for _ in body.iter(qn("w:commentReference"))):
        found.append("comments are left in the document")
    feet = "".join(section.footer._element.xml + section.header._element.xml for section in document.sections)
    if "PAGE" not in feet and len(document.paragraphs) > 30:
        found.append("pages have no numbers")
    if not (document.core_properties.title or "").strip():
        found.append("the properties of the file have no title")
    return found


def fail(message: str) -> NoReturn:
    """End with one sentence for whoever called."""
    print(f"error: {message}", file=sys.stderr)
    raise SystemExit(1)


if __name__ == "__main__":
    main()
