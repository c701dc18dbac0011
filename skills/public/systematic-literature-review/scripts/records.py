"""Records of papers in a JSON file: what a search found, or what somebody exported from another database."""

import json
from pathlib import Path
from typing import Any


class Unusable(Exception):
    """Something that must be put right first; the sentence says what."""


def read_search(path: Path) -> dict[str, Any]:
    """The content of a file: `records`, and where known `searches` and `duplicates_removed`."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as problem:
        raise Unusable(f"{path} cannot be read: {problem}") from None
    except json.JSONDecodeError as problem:
        raise Unusable(f"{path} is not JSON: {problem}") from None
    if not isinstance(content, dict) or not isinstance(content.get("records"), list):
        raise Unusable(f"{path} must be an object with a list of `records`, as arxiv_search.py writes it")
    if not isinstance(content.setdefault("searches", []), list):
        raise Unusable(f"{path}: `searches` must be a list")
    if not isinstance(content.setdefault("duplicates_removed", 0), int):
        raise Unusable(f"{path}: `duplicates_removed` must be a number")
    for number, record in enumerate(content["records"], 1):
        if problem := objection(record):
            raise Unusable(f"{path}: record {number} {problem}")
        record.setdefault("url", f"https://doi.org/{record['doi']}" if record.get("doi") else "")
    return content


def objection(record: Any) -> str | None:
    """Why a record cannot be used."""
    if not isinstance(record, dict):
        return "is no object"
    for name in ("id", "title", "published"):
        if not isinstance(record.get(name), str) or not record[name].strip():
            return f"has no `{name}`"
    if not record["published"][:4].isdigit() or not record["published"][5:7].isdigit():
        return f"has {record['published']!r} as `published`; write it as 2024-01-31"
    authors = record.get("authors")
    if not isinstance(authors, list) or not all(isinstance(name, str) and name.strip() for name in authors):
        return "needs `authors` as a list of names"
    for name in ("doi", "journal", "category", "updated", "url"):
        if not isinstance(record.get(name) or "", str):
            return f"has a `{name}` that is no text"
    return None
