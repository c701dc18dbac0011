"""The literature of a report: read from BibTeX, JSON or YAML, cited by number in order of appearance."""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

ENTRY = re.compile(r"@(\w+)\s*\{\s*([^,\s]+)\s*,")
FIELD = re.compile(r"(\w+)\s*=\s*")
CITATION = re.compile(r"\[(@[\w:.-]+(?:,[^;\]]*)?(?:;\s*@[\w:.-]+(?:,[^;\]]*)?)*)\]")


class Unreadable(Exception):
    """Literature that cannot be read; the text says why."""


@dataclass
class Sources:
    """What may be cited, and what has been."""

    entries: dict[str, dict[str, Any]]
    cited: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    def cite(self, text: str) -> list[tuple[str, int, str]]:
        """Key, number and locator of each source in the inside of a citation."""
        found = []
        for part in text.split(";"):
            key, _, place = part.strip().lstrip("@").partition(",")
            if key not in self.entries:
                self.unknown.append(key)
                continue
            if key not in self.cited:
                self.cited.append(key)
            found.append((key, self.cited.index(key) + 1, place.strip()))
        return found

    def listed(self) -> list[tuple[str, str, str]]:
        """Key, description and address of every cited source, in the order of their numbers."""
        return [(key, described(self.entries[key]), address(self.entries[key])) for key in self.cited]


def read_sources(path: Path) -> dict[str, dict[str, Any]]:
    """Entries by key."""
    if not path.is_file():
        raise Unreadable(f"there is no bibliography {str(path)!r}")
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".bib":
        return read_bibtex(text)
    try:
        content = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
    except (ValueError, yaml.YAMLError) as problem:
        raise Unreadable(f"{path.name} cannot be read: {' '.join(str(problem).split())}") from None
    if isinstance(content, list):
        content = {str(entry.get("id", "")): entry for entry in content if isinstance(entry, dict)}
    if not isinstance(content, dict):
        raise Unreadable(f"{path.name} must hold entries, each with an id")
    return {str(key): entry for key, entry in content.items()}


def read_bibtex(text: str) -> dict[str, dict[str, Any]]:
    """Entries of a BibTeX file; macros and comments are left out."""
    entries: dict[str, dict[str, Any]] = {}
    for match in ENTRY.finditer(text):
        place, values = match.end(), {"type": match[1].lower()}
        while (name := FIELD.search(text, place)) and "@" not in text[place : name.start()]:
            value, place = bibtex_value(text, name.end())
            values[name[1].lower()] = " ".join(value.replace("{", "").replace("}", "").split())
            if text[place : place + 20].lstrip(" \n\t,").startswith("}"):
                break
        entries[match[2]] = values
    return entries


def bibtex_value(text: str, start: int) -> tuple[str, int]:
    """The value that begins at `start`, and where it ends."""
    if text[start] == "{":
        depth = 0
        for place in range(start, len(text)):
            depth += {"{": 1, "}": -1}.get(text[place], 0)
            if depth == 0:
                return text[start + 1 : place], place + 1
        return text[start + 1 :], len(text)
    if text[start] == '"':
        end = text.find('"', start + 1)
        return text[start + 1 : end], end + 1
    end = re.compile(r"[,}\s]").search(text, start)
    return (text[start : end.start()], end.start()) if end else (text[start:], len(text))


def described(entry: dict[str, Any]) -> str:
    """An entry as a line of the list of references."""
    authors = entry.get("author") or entry.get("authors") or entry.get("organization") or ""
    if isinstance(authors, str):
        authors = [part.strip() for part in authors.split(" and ")] if authors else []
    names = [turned(str(name)) for name in authors]
    who = ", ".join(names) if len(names) <= 3 else f"{names[0]} et al."
    year = str(entry.get("year") or entry.get("date") or "n.d.")[:4]
    where = entry.get("journal") or entry.get("booktitle") or entry.get("container") or entry.get("publisher") or ""
    issue = (
        f" {entry['volume']}" + (f"({entry['number']})" if entry.get("number") else "") if entry.get("volume") else ""
    )
    pages = f", {entry['pages']}".replace("--", "–") if entry.get("pages") else ""
    parts = [f"{who} ({year})" if who else f"({year})", str(entry.get("title") or "untitled"), f"{where}{issue}{pages}"]
    seen = f"Accessed {entry['accessed']}" if entry.get("accessed") else ""
    return ". ".join(part.strip().rstrip(".") for part in [*parts, seen] if part.strip()) + "."


def turned(name: str) -> str:
    """Family name first becomes last: "Curie, Marie" is Marie Curie."""
    family, comma, given = name.partition(",")
    return f"{given.strip()} {family.strip()}" if comma else name


def address(entry: dict[str, Any]) -> str:
    """Where a source can be found."""
    if entry.get("doi"):
        return "https://doi.org/" + str(entry["doi"]).removeprefix("https://doi.org/")
    return str(entry.get("url") or "")
