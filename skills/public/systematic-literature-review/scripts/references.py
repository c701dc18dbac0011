"""Write references in APA (7th edition), IEEE or BibTeX from the records of a search."""

import argparse
import csv
import re
import sys
import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from records import Unusable, read_search

MONTHS = ("Jan.", "Feb.", "Mar.", "Apr.", "May", "Jun.", "Jul.", "Aug.", "Sep.", "Oct.", "Nov.", "Dec.")
PARTICLES = {
    "van",
    "von",
    "der",
    "den",
    "de",
    "del",
    "della",
    "di",
    "da",
    "dos",
    "du",
    "la",
    "le",
    "ten",
    "ter",
    "zu",
    "bin",
    "al",
}
SUFFIX = re.compile(r"^(jr|sr|ii|iii|iv)\.?$", re.IGNORECASE)
ESCAPES = str.maketrans({"&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "~": r"\textasciitilde{}"})
SMALL = {"a", "an", "the", "on", "of", "in", "for", "and", "to", "with", "is", "are", "towards", "toward"}


def main() -> int:
    """Write the references."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("records", type=Path, help="JSON of arxiv_search.py or screening.py merge")
    parser.add_argument("--style", choices=sorted(STYLES), required=True)
    parser.add_argument("--ids", nargs="+", help="only these records, in this order for IEEE")
    parser.add_argument("--ids-from", type=Path, help="a screening table: only what it includes")
    parser.add_argument("--out", type=Path, help="the file to write; otherwise printed")
    options = parser.parse_args()
    try:
        chosen = choose(options)
        text = STYLES[options.style](chosen)
        if options.out:
            options.out.write_text(text, encoding="utf-8")
    except (Unusable, OSError, UnicodeDecodeError, csv.Error) as problem:
        print(f"Error: {problem}", file=sys.stderr)
        return 2
    print(f"{len(chosen)} references, in {options.out}" if options.out else text, end="\n" if options.out else "")
    return 0


def choose(options: argparse.Namespace) -> list[dict[str, Any]]:
    """The wanted records."""
    records = {r["id"]: r for r in read_search(options.records)["records"]}
    wanted: Sequence[str] = options.ids or list(records)
    if options.ids_from:
        with options.ids_from.open(encoding="utf-8-sig", newline="") as file:
            wanted = [
                row["id"] for row in csv.DictReader(file) if row.get("text_decision") == "include" and "id" in row
            ]
    if missing := [name for name in wanted if name not in records]:
        raise Unusable(f"{', '.join(missing)} is not among the records")
    if not wanted:
        raise Unusable("no record is included, so there is nothing to cite")
    return [records[name] for name in wanted]


def apa(records: list[dict[str, Any]]) -> str:
    """APA: by author and year; two of the same author and year are told apart by a letter."""
    ordered = sorted(records, key=lambda r: ([plain(split(a)[1]) for a in r["authors"]], year(r), plain(r["title"])))
    heads = [(apa_authors(r["authors"]), year(r)) for r in ordered]
    seen: dict[tuple[str, str], int] = {}
    lines = []
    for record, head in zip(ordered, heads, strict=True):
        letter = ""
        if heads.count(head) > 1:
            seen[head] = seen.get(head, 0) + 1
            letter = "abcdefghijklmnopqrstuvwxyz"[seen[head] - 1]
        who = head[0] if head[0].endswith(".") else f"{head[0]}."
        lines.append(f"{who} ({head[1]}{letter}). {apa_rest(record)}")
    return "\n\n".join(lines) + "\n"


def apa_authors(names: Sequence[str]) -> str:
    """Up to twenty; of more, nineteen and the last."""
    written = [f"{family}, {initials(given)}" if given else family for given, family in map(split, names)]
    if len(written) > 20:
        return ", ".join(written[:19]) + f", … {written[-1]}"
    if len(written) < 2:
        return written[0] if written else "Anonymous"
    return ", ".join(written[:-1]) + f", & {written[-1]}"


def apa_rest(record: dict[str, Any]) -> str:
    """Title and where it is found; what is published is cited as such."""
    title = record["title"].rstrip(".")
    if record.get("journal"):
        where = f"https://doi.org/{record['doi']}" if record.get("doi") else record["url"]
        return f"{title}. *{record['journal']}*. {where}"
    number = number_of(record)
    return f"*{title}* (arXiv:{number}). arXiv. https://doi.org/10.48550/arXiv.{number}"


def ieee(records: list[dict[str, Any]]) -> str:
    """IEEE: numbered in the given order; of more than six authors the first."""
    lines = []
    for number, record in enumerate(records, 1):
        written = [f"{initials(given)} {family}".strip() for given, family in map(split, record["authors"])]
        if len(written) > 6:
            who = f"{written[0]} *et al.*"
        elif len(written) > 2:
            who = ", ".join(written[:-1]) + f", and {written[-1]}"
        else:
            who = " and ".join(written) or "Anonymous"
        title = record["title"].rstrip(".")
        month = MONTHS[int(record["published"][5:7]) - 1]
        where = f"*{record['journal']}*" if record.get("journal") else f"arXiv:{number_of(record)}"
        doi = f", doi: {record['doi']}" if record.get("doi") else ""
        lines.append(f"[{number}] {who}, “{title},” {where}, {month} {year(record)}{doi}.")
    return "\n\n".join(lines) + "\n"


def bibtex(records: list[dict[str, Any]]) -> str:
    """BibTeX with keys that differ, and titles whose capitals stay."""
    used: dict[str, int] = {}
    entries = []
    for record in records:
        family = split(record["authors"][0])[1] if record["authors"] else "anonymous"
        words = [w for w in re.findall(r"[a-z0-9]+", plain(record["title"])) if w not in SMALL]
        key = re.sub(r"[^a-z0-9]", "", plain(family)) + year(record) + (words[0] if words else "")
        used[key] = used.get(key, 0) + 1
        unique = key if used[key] == 1 else f"{key}{'abcdefghijklmnopqrstuvwxyz'[used[key] - 1]}"
        names = " and ".join(", ".join(filter(None, reversed(split(a)))) for a in record["authors"])
        fields = {
            "author": names.translate(ESCAPES),
            "title": "{" + record["title"].translate(ESCAPES) + "}",
            "year": year(record),
            "journal": (record.get("journal") or "").translate(ESCAPES),
            "doi": record.get("doi") or "",
            "eprint": number_of(record),
            "archiveprefix": "arXiv",
            "primaryclass": record.get("category") or "",
            "url": record["url"],
        }
        body = ",\n".join(f"  {name} = {{{value}}}" for name, value in fields.items() if value)
        entries.append(f"@{'article' if record.get('journal') else 'misc'}{{{unique},\n{body}\n}}")
    return "\n\n".join(entries) + "\n"


def split(name: str) -> tuple[str, str]:
    """Given and family name, as well as one can tell: particles and suffixes stay with the family."""
    parts = name.split()
    cut = max(len(parts) - 1, 0)
    if cut > 1 and SUFFIX.match(parts[cut]):
        cut -= 1
    while cut > 1 and parts[cut - 1].lower() in PARTICLES:
        cut -= 1
    return " ".join(parts[:cut]), " ".join(parts[cut:])


def initials(given: str) -> str:
    """`Jean-Luc M.` as `J.-L. M.`"""
    return " ".join("-".join(f"{part[0]}." for part in word.split("-") if part) for word in given.split())


def number_of(record: dict[str, Any]) -> str:
    """The number of a paper without its version."""
    return re.sub(r"v\d+$", "", record["id"])


def year(record: dict[str, Any]) -> str:
    """The year of the first version."""
    return str(record["published"][:4])


def plain(text: str) -> str:
    """Text for sorting and keys: no accents, no capitals."""
    return unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().casefold()


STYLES: MappingProxyType[str, Callable[[list[dict[str, Any]]], str]] = MappingProxyType(
    {"apa": apa, "ieee": ieee, "bibtex": bibtex}
)


if __name__ == "__main__":
    sys.exit(main())
