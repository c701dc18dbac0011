"""Checks a report written in Markdown and sets it as HTML and PDF."""

import argparse
import json
import re
import sys
from pathlib import Path
from typing import NoReturn

from as_html import as_html
from as_pdf import Unsettable, write_pdf
from document import Block, Report, Span, plain, read_report, split_front_matter
from sources import Sources, Unreadable, read_sources

UNFINISHED = re.compile(r"\b(TODO|TBD|FIXME|XXX|lorem ipsum)\b|\[citation needed\]", re.IGNORECASE)
LONGEST_PARAGRAPH = 220


def main() -> None:
    """Read the command line and do what it asks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=["check", "build"], help="look for faults only, or set the report")
    parser.add_argument("source", type=Path, help="the report in Markdown")
    parser.add_argument("--html", type=Path, help="write HTML here")
    parser.add_argument("--pdf", type=Path, help="write PDF here")
    parser.add_argument(
        "--bibliography", type=Path, help="sources in .bib, .json or .yaml (or named in the front matter)"
    )
    arguments = parser.parse_args()
    report = load(arguments.source, arguments.bibliography)
    errors, warnings = faults(report)
    written: list[str] = []
    if arguments.command == "build" and not errors:
        if not (arguments.html or arguments.pdf):
            fail("say what to write with --html FILE, --pdf FILE or both")
        written = build(report, arguments.html, arguments.pdf)
    facts = {"words": count_words(report), "sections": len(report.headings), "sources": len(report.sources.cited)}
    print(
        json.dumps({**facts, "errors": errors, "warnings": warnings, "written": written}, indent=2, ensure_ascii=False)
    )
    sys.exit(3 if errors else 0)


def load(source: Path, bibliography: Path | None) -> Report:
    """The report and its sources."""
    if not source.is_file():
        fail(f"there is no file {str(source)!r}")
    try:
        facts, text = split_front_matter(source.read_text(encoding="utf-8"))
        if bibliography is None and facts.get("bibliography"):
            bibliography = source.parent / str(facts["bibliography"])
        entries = read_sources(bibliography) if bibliography else {}
    except UnicodeDecodeError:
        fail(f"{source.name} is not UTF-8 text")
    except (ValueError, Unreadable) as problem:
        fail(f"{source.name}: {problem}")
    return read_report(text, source.parent, Sources(entries), facts)


def build(report: Report, html: Path | None, pdf: Path | None) -> list[str]:
    """Write what was asked for."""
    for target in (html, pdf):
        if target:
            target.parent.mkdir(parents=True, exist_ok=True)
    try:
        if html:
            html.write_text(as_html(report), encoding="utf-8")
        if pdf:
            write_pdf(report, pdf)
    except (Unsettable, OSError) as problem:
        fail(str(problem))
    return [str(target) for target in (html, pdf) if target]


def faults(report: Report) -> tuple[list[str], list[str]]:
    """What must be repaired, and what should be looked at."""
    errors = [f"picture not found: {name}" for name in report.missing]
    errors += [f"source cited but not in the bibliography: {key}" for key in dict.fromkeys(report.sources.unknown)]
    wanted = [span.target for block in report.blocks for span in every_span(block) if span.kind == "ref"]
    errors += [f"reference to nothing: @{label}" for label in dict.fromkeys(wanted) if label not in report.labels]
    if not report.blocks:
        errors.append("the report is empty")
    warnings = [] if report.facts.get("title") else ["no title in the front matter"]
    unused = [key for key in report.sources.entries if key not in report.sources.cited]
    warnings += [f"sources never cited: {', '.join(unused)}"] if unused else []
    warnings += structure(report)
    for block in report.blocks:
        warnings += doubts(block)
    return errors, warnings


def structure(report: Report) -> list[str]:
    """Headings that skip a level or have nothing below them."""
    found, level = [], 1
    for number, block in enumerate(report.blocks):
        if block.kind != "heading":
            continue
        if block.level > level + 1:
            found.append(f"heading {block.text!r} skips a level")
        following = report.blocks[number + 1] if number + 1 < len(report.blocks) else None
        if following is None or (following.kind == "heading" and following.level <= block.level):
            found.append(f"section {block.text!r} is empty")
        level = block.level
    return found


def doubts(block: Block) -> list[str]:
    """What looks unfinished in one block."""
    found = []
    text = plain(block.spans) + block.text * (block.kind == "heading")
    if block.kind != "code" and (match := UNFINISHED.search(text)):
        found.append(f"unfinished: {match[0]!r} in {text[:60]!r}")
    if block.kind == "figure" and not block.text.strip():
        found.append(f"{block.number} has no caption and no alternative text")
    if block.kind == "table" and not block.spans:
        found.append(f"{block.number} has no caption; write a line 'Table: …' before it")
    if block.kind == "paragraph" and len(text.split()) > LONGEST_PARAGRAPH:
        found.append(f"a paragraph of {len(text.split())} words: {text[:50]!r} …")
    return found


def every_span(block: Block) -> list[Span]:
    """All runs of text in a block, those inside included."""
    spans = [*block.spans, *(span for row in block.rows for cell in row for span in cell)]
    found = [inner for span in spans for inner in [span, *span.inside]]
    for item in block.items:
        for part in item:
            found += every_span(part)
    return found


def count_words(report: Report) -> int:
    """How long the report is."""
    return sum(len("".join(span.text for span in every_span(block)).split()) for block in report.blocks)


def fail(message: str) -> NoReturn:
    """End with one sentence for whoever called."""
    print(f"error: {message}", file=sys.stderr)
    raise SystemExit(1)


if __name__ == "__main__":
    main()
