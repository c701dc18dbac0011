"""Fills the placeholders {{name}} of a Word template with values from JSON or YAML, keeping its formatting."""

import argparse
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import docx
import yaml
from docx.opc.exceptions import PackageNotFoundError
from docx.text.paragraph import Paragraph

PLACE = re.compile(r"\{\{\s*([\w.-]+)\s*\}\}")


def main() -> None:
    """Fill, or list what could be filled."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("template", type=Path)
    parser.add_argument("--values", type=Path, help="values in JSON or YAML; without them the placeholders are listed")
    parser.add_argument("--out", type=Path, help="the filled document")
    arguments = parser.parse_args()
    if not arguments.template.is_file():
        fail(f"there is no file {str(arguments.template)!r}")
    try:
        document = docx.Document(str(arguments.template))
    except (PackageNotFoundError, KeyError, ValueError):
        fail(f"{arguments.template.name} is no Word document")
    wanted = sorted({name for paragraph in paragraphs(document) for name in PLACE.findall(paragraph.text)})
    if arguments.values is None:
        print("\n".join(wanted) or "there are no placeholders")
        return
    if arguments.out is None:
        fail("say where to write with --out FILE")
    values = read(arguments.values)
    missing = [name for name in wanted if name not in values]
    if missing:
        fail(f"there is no value for {', '.join(missing)}")
    count = sum(replace(paragraph, values) for paragraph in paragraphs(document))
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    document.save(str(arguments.out))
    unused = sorted(set(values) - set(wanted))
    print(f"{count} places filled in {arguments.out}" + (f"; not used: {', '.join(unused)}" if unused else ""))


def paragraphs(document: Any) -> Iterator[Paragraph]:
    """Every paragraph: of the text, of tables in any depth, of heads and feet."""
    parts = [document]
    for section in document.sections:
        parts += [section.header, section.footer]
    while parts:
        part = parts.pop()
        yield from part.paragraphs
        parts += [cell for table in part.tables for row in table.rows for cell in row.cells]


def replace(paragraph: Paragraph, values: dict[str, Any]) -> int:
    """Fill a paragraph. Word cuts text into runs anywhere: the run in which a placeholder begins keeps its look."""
    count = 0
    while match := PLACE.search("".join(run.text for run in paragraph.runs)):
        start, end, place = match.start(), match.end(), 0
        for run in paragraph.runs:
            text, begin = run.text, place
            place += len(text)
            if place <= start or begin >= end:
                continue
            value = str(values[match[1]]) if begin <= start < place else ""
            run.text = text[: max(start - begin, 0)] + value + text[max(min(end - begin, len(text)), 0) :]
        count += 1
    return count


def read(path: Path) -> dict[str, Any]:
    """Values by name."""
    if not path.is_file():
        fail(f"there is no file {str(path)!r}")
    try:
        text = path.read_text(encoding="utf-8")
        content = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
    except (ValueError, yaml.YAMLError) as problem:
        fail(f"{path.name} cannot be read: {' '.join(str(problem).split())}")
    if not isinstance(content, dict):
        fail(f"{path.name} must hold names and values")
    nested = [name for name, value in content.items() if "{{" in str(value)]
    if nested:
        fail(f"the value of {nested[0]} contains a placeholder itself")
    return {str(name): "" if value is None else value for name, value in content.items()}


def fail(message: str) -> NoReturn:
    """End with one sentence for whoever called."""
    print(f"error: {message}", file=sys.stderr)
    raise SystemExit(1)


if __name__ == "__main__":
    main()
