"""Keep the screening table of a review: merge searches, record decisions, count for PRISMA, measure agreement."""

import argparse
import csv
import json
import re
import sys
import unicodedata
from collections import Counter
from html import escape
from pathlib import Path
from textwrap import wrap
from typing import Any

from records import Unusable, read_search

COLUMNS = [
    "id",
    "year",
    "title",
    "authors",
    "url",
    "title_decision",
    "title_reason",
    "text_decision",
    "text_reason",
    "note",
]
DECISIONS = ("include", "exclude")
STAGES = ("title", "text")


def main() -> int:
    """Do one of the five things."""
    options = arguments().parse_args()
    try:
        print(options.act(options))
    except (Unusable, OSError, UnicodeDecodeError) as problem:
        print(f"Error: {problem}", file=sys.stderr)
        return 2
    return 0


def arguments() -> argparse.ArgumentParser:
    """What may be asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    acts = parser.add_subparsers(required=True)
    merging = acts.add_parser("merge", help="join searches, without duplicates")
    merging.add_argument("searches", type=Path, nargs="+")
    merging.add_argument("--out", type=Path, required=True)
    merging.set_defaults(act=merge)
    beginning = acts.add_parser("init", help="make the table from records")
    beginning.add_argument("records", type=Path)
    beginning.add_argument("--out", type=Path, required=True)
    beginning.set_defaults(act=begin)
    deciding = acts.add_parser("decide", help="record a decision about one or several records")
    deciding.add_argument("table", type=Path)
    deciding.add_argument("--id", required=True, nargs="+")
    deciding.add_argument("--stage", required=True, choices=STAGES)
    deciding.add_argument("--decision", required=True, choices=DECISIONS)
    deciding.add_argument("--reason", default="", help="number of the criterion; needed to exclude")
    deciding.add_argument("--note", default="")
    deciding.set_defaults(act=decide)
    counting = acts.add_parser("prisma", help="check the table and count")
    counting.add_argument("table", type=Path)
    counting.add_argument("--records", type=Path, required=True)
    counting.add_argument("--markdown", type=Path)
    counting.add_argument("--svg", type=Path)
    counting.set_defaults(act=prisma)
    comparing = acts.add_parser("agreement", help="compare two screenings of the same records")
    comparing.add_argument("first", type=Path)
    comparing.add_argument("second", type=Path)
    comparing.add_argument("--stage", choices=STAGES, default="title")
    comparing.set_defaults(act=agreement)
    return parser


def merge(options: argparse.Namespace) -> str:
    """Join searches; of two versions of a paper the newer stays."""
    kept: dict[str, dict[str, Any]] = {}
    owner: dict[str, str] = {}
    searches: list[Any] = []
    removed = 0
    for path in options.searches:
        content = read_search(path)
        searches += content["searches"]
        removed += content["duplicates_removed"]
        for record in content["records"]:
            marks = marks_of(record)
            known = next((owner[mark] for mark in marks if mark in owner), None)
            if known is None:
                known = record["id"]
                kept[known] = record
            else:
                removed += 1
                if (record.get("updated") or "") > (kept[known].get("updated") or ""):
                    kept[known] = record
            owner.update(dict.fromkeys(marks, known))
    result = {"searches": searches, "duplicates_removed": removed, "records": list(kept.values())}
    options.out.write_text(json.dumps(result, ensure_ascii=False, indent=1), encoding="utf-8")
    return f"{len(kept)} records, {removed} duplicates removed, in {options.out}"


def marks_of(record: dict[str, Any]) -> list[str]:
    """By what a paper is known again: its number without version, its DOI, its title."""
    marks = [re.sub(r"v\d+$", "", record["id"])]
    if record.get("doi"):
        marks.append(f"doi:{record['doi'].lower()}")
    title = unicodedata.normalize("NFKD", record["title"]).casefold()
    return [*marks, "title:" + re.sub(r"[^\w]+", "", title)]


def begin(options: argparse.Namespace) -> str:
    """The table, with no decision yet; one that exists is not overwritten."""
    if options.out.exists():
        raise Unusable(f"{options.out} exists and may hold decisions; choose another name")
    records = read_search(options.records)["records"]
    rows = [
        {
            "id": r["id"], "year": r["published"][:4], "title": r["title"], "url": r["url"],
            "authors": "; ".join(r["authors"]),
        }
        for r in records
    ]  # fmt: skip
    write_table(options.out, rows)
    return f"{len(rows)} records to screen, in {options.out}"


def decide(options: argparse.Namespace) -> str:
    """Write decisions into the table."""
    rows = read_table(options.table)
    by_id = {row["id"]: row for row in rows}
    if unknown := [name for name in options.id if name not in by_id]:
        raise Unusable(f"{', '.join(unknown)} is not in {options.table}")
    if options.decision == "exclude" and not options.reason:
        raise Unusable("an exclusion needs --reason with the number of the criterion, for instance E2")
    for name in options.id:
        row = by_id[name]
        if options.stage == "text" and row["title_decision"] != "include":
            raise Unusable(f"{name} did not pass the title stage, so its text is not screened")
        row[f"{options.stage}_decision"], row[f"{options.stage}_reason"] = options.decision, options.reason
        row["note"] = options.note or row["note"]
    write_table(options.table, rows)
    undecided = sum(not row[f"{options.stage}_decision"] for row in rows if is_at(row, options.stage))
    return f"{len(options.id)} decided, {undecided} left at the {options.stage} stage"


def prisma(options: argparse.Namespace) -> str:
    """Check and count; the counts as JSON."""
    rows = read_table(options.table)
    found = read_search(options.records)
    if problems := problems_of(rows, found):
        raise Unusable("; ".join(problems[:5]) + (f"; and {len(problems) - 5} more" if len(problems) > 5 else ""))
    passed = [row for row in rows if row["title_decision"] == "include"]
    counts = {
        "identified": len(rows) + found["duplicates_removed"],
        "duplicates_removed": found["duplicates_removed"],
        "screened": len(rows),
        "excluded_by_title": len(rows) - len(passed),
        "full_text_assessed": len(passed),
        "excluded_by_text": sum(row["text_decision"] == "exclude" for row in passed),
        "reasons": dict(sorted(Counter(row["text_reason"] for row in passed if row["text_reason"]).items())),
        "included": sum(row["text_decision"] == "include" for row in passed),
    }
    if options.markdown:
        options.markdown.write_text(as_markdown(counts), encoding="utf-8")
    if options.svg:
        options.svg.write_text(as_svg(counts), encoding="utf-8")
    return json.dumps(counts, indent=2)


def problems_of(rows: list[dict[str, str]], found: dict[str, Any]) -> list[str]:
    """Why the table cannot be counted yet."""
    known = {record["id"] for record in found["records"]}
    listed = [row["id"] for row in rows]
    problems = [f"{name} is in the records but not in the table" for name in sorted(known - set(listed))]
    problems += [f"{name} is in the table but not in the records" for name in sorted(set(listed) - known)]
    problems += [f"{name} stands in the table twice" for name, count in Counter(listed).items() if count > 1]
    for row in rows:
        for stage in STAGES:
            decision = row[f"{stage}_decision"]
            if decision not in ("", *DECISIONS):
                problems.append(f"{row['id']}: {decision!r} is neither include nor exclude")
            elif is_at(row, stage) and not decision:
                problems.append(f"{row['id']} is undecided at the {stage} stage")
            elif decision == "exclude" and not row[f"{stage}_reason"]:
                problems.append(f"{row['id']} is excluded at the {stage} stage without a reason")
    return problems


def is_at(row: dict[str, str], stage: str) -> bool:
    """Whether a record has come as far as a stage."""
    return stage == "title" or row["title_decision"] == "include"


def agreement(options: argparse.Namespace) -> str:
    """How far two screenings agree, and on what they do not."""
    column = f"{options.stage}_decision"
    first = {row["id"]: row[column] for row in read_table(options.first) if row[column]}
    second = {row["id"]: row[column] for row in read_table(options.second) if row[column]}
    both = sorted(first.keys() & second.keys())
    if not both:
        raise Unusable("the two tables have no record that both decided")
    same = sum(first[name] == second[name] for name in both) / len(both)
    chance = sum(
        (sum(first[n] == d for n in both) / len(both)) * (sum(second[n] == d for n in both) / len(both))
        for d in DECISIONS
    )
    kappa = 1.0 if chance == 1 else (same - chance) / (1 - chance)
    differ = [name for name in both if first[name] != second[name]]
    return json.dumps({"compared": len(both), "agreement": round(same, 3), "kappa": round(kappa, 3), "differ": differ})


def as_markdown(counts: dict[str, Any]) -> str:
    """The counts as a table."""
    reasons = ", ".join(f"{name}: {count}" for name, count in counts["reasons"].items())
    rows = [(name.replace("_", " "), value) for name, value in counts.items() if name != "reasons"]
    lines = [
        f"| {name} | {value}{f' ({reasons})' if name == 'excluded by text' and reasons else ''} |"
        for name, value in rows
    ]
    return "\n".join(["| PRISMA | records |", "|---|---|", *lines]) + "\n"


def as_svg(counts: dict[str, Any]) -> str:
    """The flow from what was found to what was included."""
    reasons = [f"{name}: {count}" for name, count in counts["reasons"].items()]
    steps = [
        ("Identified", counts["identified"], [f"Duplicates removed: {counts['duplicates_removed']}"]),
        ("Screened", counts["screened"], [f"Excluded by title and abstract: {counts['excluded_by_title']}"]),
        ("Full text assessed", counts["full_text_assessed"],
         [f"Excluded by full text: {counts['excluded_by_text']}", *wrap("; ".join(reasons), 48)]),
        ("Included", counts["included"], []),
    ]  # fmt: skip
    parts, y = [], 20
    for name, count, aside in steps:
        height = max(50, 30 + 20 * len(aside))
        parts.append(f'<rect x="20" y="{y}" width="220" height="50" rx="4"/>')
        parts.append(f'<text x="130" y="{y + 30}">{name}: {count}</text>')
        if aside:
            parts.append(f'<path marker-end="url(#a)" d="M130 {y + 50}V{y + height + 34}"/>')
            parts.append(f'<path marker-end="url(#a)" d="M240 {y + 25}H274"/>')
            parts.append(f'<rect x="280" y="{y}" width="360" height="{height}" rx="4"/>')
            lines = enumerate(aside)
            parts += [f'<text x="460" y="{y + 30 + 20 * at}">{escape(line)}</text>' for at, line in lines]
        y += height + 40
    style = (
        "rect{fill:#fff;stroke:#334}path{stroke:#334;fill:none}text{font:14px sans-serif;text-anchor:middle;fill:#223}"
    )
    size = 'markerWidth="8" markerHeight="8" refX="1" refY="4"'
    arrow = f'<marker id="a" {size} orient="auto"><path d="M0 0L6 4L0 8"/></marker>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 660 {y - 20}" role="img">'
        f"<title>PRISMA flow</title><style>{style}</style><defs>{arrow}</defs>{''.join(parts)}</svg>\n"
    )


def read_table(path: Path) -> list[dict[str, str]]:
    """The rows of a table."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file)
        if missing := set(COLUMNS) - set(reader.fieldnames or ()):
            raise Unusable(f"{path} lacks the columns {', '.join(sorted(missing))}")
        return [{name: (row.get(name) or "").strip() for name in COLUMNS} for row in reader]


def write_table(path: Path, rows: list[dict[str, str]]) -> None:
    """Write the rows; the old table is replaced only when the new one is complete."""
    draft = path.with_name(path.name + ".new")
    with draft.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, restval="")
        writer.writeheader()
        writer.writerows(rows)
    draft.replace(path)


if __name__ == "__main__":
    sys.exit(main())
