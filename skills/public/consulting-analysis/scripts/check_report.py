"""Check that a report is ready for a decision: sections, exhibits, figures, owners, and the leaves of its tree."""

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

try:
    import yaml
except ImportError:
    yaml = None

SECTIONS = (
    "Executive summary", "The question", "What we found", "Alternatives", "Risks and what would stop us",
    "Recommendation and next steps", "Assumptions and open points", "Sources",
)  # fmt: skip
EXHIBIT = re.compile(r"^\*\*Exhibit (\d+)\.\s*(.+?)\*\*\s*$", re.MULTILINE)
NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
MAX_SUMMARY_WORDS = 300
MIN_TITLE_WORDS = 5


class Unusable(Exception):
    """A file that cannot be used."""


def main() -> int:
    """Check one report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("report", type=Path, help="the report, in Markdown")
    parser.add_argument("--tree", type=Path, help="the issue tree: its leaves must be decided")
    options = parser.parse_args()
    try:
        text = read(options.report)
        problems = [*examine(text), *(undecided(options.tree) if options.tree else ())]
    except Unusable as problem:
        print(f"Error: {problem}", file=sys.stderr)
        return 2
    for problem in problems:
        print(f"PROBLEM {problem}")
    print(f"{len(EXHIBIT.findall(text))} exhibits, {len(problems)} problems")
    return 1 if problems else 0


def read(path: Path) -> str:
    """The text of a file."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise Unusable(f"{path} cannot be read as text: {problem}") from None


def examine(text: str) -> Iterator[str]:
    """What is to be corrected."""
    parts = re.split(r"^##\s+([^#].*)$", text, flags=re.MULTILINE)
    sections = {name.strip().casefold(): body for name, body in zip(parts[1::2], parts[2::2], strict=True)}
    for name in SECTIONS:
        body = sections.get(name.casefold())
        if body is None:
            yield f"[missing-section] there is no section `## {name}`"
        elif not body.strip() or re.search(r"<[A-Z][^<>\n]{8,}>", body):
            yield f"[unfilled-section] {name} is empty or still has the template's words"
    yield from examine_summary(sections.get("executive summary", ""), text)
    yield from examine_exhibits(text)
    yield from examine_steps(sections.get("recommendation and next steps", ""))


def examine_summary(summary: str, text: str) -> Iterator[str]:
    """A summary that is short, and whose figures the body derives."""
    count = len(summary.split())
    if count > MAX_SUMMARY_WORDS:
        yield f"[long-summary] the executive summary has {count} words; at most {MAX_SUMMARY_WORDS} are read"
    body = set(NUMBER.findall(text.replace(summary, "", 1)))
    for number in dict.fromkeys(NUMBER.findall(summary)):
        if number not in body:
            yield f"[underived-figure] {number} stands in the executive summary, but nowhere in the body"


def examine_exhibits(text: str) -> Iterator[str]:
    """Exhibits that are numbered, say something, name their source and are referred to."""
    found = list(EXHIBIT.finditer(text))
    numbers = [int(match[1]) for match in found]
    if numbers != list(range(1, len(numbers) + 1)):
        yield f"[exhibit-numbers] exhibits are numbered {numbers}, not 1 to {len(numbers)}"
    for place, match in enumerate(found):
        end = found[place + 1].start() if place + 1 < len(found) else len(text)
        below = text[match.end() : end]
        if len(match[2].split()) < MIN_TITLE_WORDS:
            yield f"[topic-title] exhibit {match[1]} is called {match[2]!r}; a title is a sentence with the message"
        if not re.search(r"^(\||!\[|```)", below, re.MULTILINE):
            yield f"[empty-exhibit] exhibit {match[1]} has no table, picture or diagram"
        if not re.search(r"^Source:\s*\S", below, re.MULTILINE):
            yield f"[no-source] exhibit {match[1]} has no line `Source: …`"
        others = text[: match.start()] + text[match.end() :]
        if not re.search(rf"Exhibits? [\d, and]*\b{match[1]}\b", others):
            yield f"[unused-exhibit] the text never refers to Exhibit {match[1]}"


def examine_steps(section: str) -> Iterator[str]:
    """Next steps that somebody does by some day."""
    rows = [
        [cell.strip() for cell in line.strip().strip("|").split("|")] for line in section.splitlines() if "|" in line
    ]
    if len(rows) < 3:
        yield "[no-steps] the recommendation has no table of next steps"
        return
    head = [cell.casefold() for cell in rows[0]]
    for column in ("owner", "by"):
        if column not in head:
            yield f"[no-steps] the table of next steps has no column `{column}`"
            continue
        for row in rows[2:]:
            if len(row) <= head.index(column) or not row[head.index(column)]:
                yield f"[open-step] the step {row[0]!r} has no {column}"


def undecided(path: Path) -> Iterator[str]:
    """Leaves of weight that are still open."""
    if yaml is None:
        raise Unusable("reading a tree needs the package pyyaml, which is not installed in this sandbox")
    try:
        tree = yaml.safe_load(read(path))
    except yaml.YAMLError as problem:
        raise Unusable(f"{path} is not YAML: {' '.join(str(problem).split())}") from None
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if not isinstance(node, dict):
            raise Unusable(f"{path} is not an issue tree; run issue_tree.py check first")
        waiting += node.get("branches") or []
        if not node.get("branches") and node.get("effect") == "high" and node.get("status", "open") == "open":
            yield f"[open-leaf] {node.get('question')!r} is decisive and still open"


if __name__ == "__main__":
    sys.exit(main())
