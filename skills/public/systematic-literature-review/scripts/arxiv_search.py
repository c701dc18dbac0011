"""Search arXiv, or read a saved answer of its API, and store the records as JSON."""

import argparse
import json
import re
import sys
import time
import urllib.error
import urllib.request
from datetime import UTC, date, datetime
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from xml.etree import ElementTree

API = "https://export.arxiv.org/api/query"
NAMES = {
    "atom": "http://www.w3.org/2005/Atom",
    "arxiv": "http://arxiv.org/schemas/atom",
    "search": "http://a9.com/-/spec/opensearch/1.1/",
}
PAGE = 100
PAUSE_S = 3.0
"""arXiv asks for it between two requests."""
TIMEOUT_S = 60
MAX_BYTES = 30_000_000


class Unusable(Exception):
    """An answer or file that cannot be used."""


class Unreachable(Exception):
    """arXiv did not answer."""


def main() -> int:
    """Search, or read a file."""
    parser = argparse.ArgumentParser(description=__doc__)
    wanted = parser.add_mutually_exclusive_group(required=True)
    wanted.add_argument("--query", help="in arXiv's syntax, for instance 'abs:\"graph neural\" AND cat:cs.LG'")
    wanted.add_argument("--from-file", type=Path, nargs="+", help="Atom XML saved from the API")
    parser.add_argument("--from", dest="since", help="submitted on or after YYYY-MM-DD")
    parser.add_argument("--to", dest="until", help="submitted on or before YYYY-MM-DD")
    parser.add_argument("--max", type=int, default=100, help="so many records at most")
    parser.add_argument("--out", type=Path, required=True, help="the JSON file to write")
    parser.add_argument("--api", default=API, help="another address of the API, for instance a mirror")
    options = parser.parse_args()
    try:
        found, total, query = from_files(options) if options.from_file else from_api(options)
        search = {"query": query, "searched_at": datetime.now(UTC).isoformat(timespec="seconds"), "total": total}
        result = {"searches": [{**search, "retrieved": len(found)}], "duplicates_removed": 0, "records": found}
        options.out.write_text(json.dumps(result, ensure_ascii=False, indent=1), encoding="utf-8")
    except (Unusable, OSError) as problem:
        print(f"Error: {problem}", file=sys.stderr)
        return 2
    except Unreachable as problem:
        print(f"Error: {problem}", file=sys.stderr)
        return 3
    print(f"{len(found)} of {total} records for {query}, in {options.out}")
    for record in found[:5]:
        print(f"  {record['id']}  {record['published'][:4]}  {record['title']}")
    return 0


def from_files(options: argparse.Namespace) -> tuple[list[dict[str, Any]], int, str]:
    """The records of saved answers, within the period."""
    found: dict[str, dict[str, Any]] = {}
    for path in options.from_file:
        records, _ = parse(path.read_bytes(), str(path))
        found.update((record["id"], record) for record in records)
    since, until = day(options.since) or "", day(options.until) or "9999"
    kept = [record for record in found.values() if since <= record["published"][:10] <= until][: options.max]
    return kept, len(found), f"saved answers {', '.join(path.name for path in options.from_file)}"


def from_api(options: argparse.Namespace) -> tuple[list[dict[str, Any]], int, str]:
    """Records from arXiv, page by page, newest first."""
    query = with_period(options.query, day(options.since), day(options.until))
    found: list[dict[str, Any]] = []
    total = options.max
    while len(found) < min(options.max, total):
        if found:
            time.sleep(PAUSE_S)
        size = min(PAGE, options.max - len(found))
        asked = {"search_query": query, "start": len(found), "max_results": size}
        url = f"{options.api}?{urlencode({**asked, 'sortBy': 'submittedDate', 'sortOrder': 'descending'})}"
        records, total = parse(fetch(url), url)
        if not records:
            break
        found += records
    return found, total, query


def with_period(query: str, since: str | None, until: str | None) -> str:
    """The query, limited to a period."""
    if since is None and until is None:
        return query
    begin, end = (
        (since or "1991-01-01").replace("-", ""),
        (until or datetime.now(UTC).date().isoformat()).replace("-", ""),
    )
    return f"({query}) AND submittedDate:[{begin}0000 TO {end}2359]"


def day(text: str | None) -> str | None:
    """A date, checked."""
    if text is None:
        return None
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        raise Unusable(f"{text!r} is not a date; write it as 2024-01-31") from None


def fetch(url: str) -> bytes:
    """One answer; a busy server is asked again twice."""
    request = urllib.request.Request(url, headers={"User-Agent": "deerflow-literature-review"})
    for attempt in range(3):
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
                return answer.read(MAX_BYTES)
        except urllib.error.HTTPError as error:
            with error:
                if error.code in (429, 503) and attempt < 2:
                    time.sleep(PAUSE_S * 2 ** (attempt + 1))
                    continue
                raise Unreachable(f"arXiv answered {error.code} to {url}") from None
        except (urllib.error.URLError, TimeoutError, HTTPException, OSError) as problem:
            reason = getattr(problem, "reason", problem)
            raise Unreachable(
                f"arXiv cannot be reached from here ({reason}); the operator can allow the host export.arxiv.org "
                f"(sandbox.network), or save the answer of {url} and use --from-file"
            ) from None
    raise Unreachable(f"arXiv is too busy for {url}; try again later")


def parse(content: bytes, where: str) -> tuple[list[dict[str, Any]], int]:
    """The records of an answer, and how many there are in all."""
    if b"<!DOCTYPE" in content or b"<!ENTITY" in content:
        raise Unusable(f"{where} declares a document type, which arXiv's answers do not; it is not read")
    try:
        feed = ElementTree.fromstring(content)
    except ElementTree.ParseError as problem:
        raise Unusable(f"{where} is not Atom XML: {problem}") from None
    entries = feed.findall("atom:entry", NAMES)
    for entry in entries:
        if "/api/errors" in said(entry, "atom:id"):
            raise Unusable(f"arXiv does not understand the query: {said(entry, 'atom:summary')}")
    total = said(feed, "search:totalResults")
    return [record(entry) for entry in entries], int(total) if total.isdigit() else len(entries)


def record(entry: ElementTree.Element) -> dict[str, Any]:
    """One paper."""
    address = said(entry, "atom:id")
    identifier = re.sub(r"^.*/abs/", "", address)
    primary = entry.find("arxiv:primary_category", NAMES)
    return {
        "id": identifier,
        "title": said(entry, "atom:title"),
        "authors": [said(author, "atom:name") for author in entry.findall("atom:author", NAMES)],
        "abstract": said(entry, "atom:summary"),
        "published": said(entry, "atom:published"),
        "updated": said(entry, "atom:updated"),
        "category": primary.get("term") if primary is not None else None,
        "doi": said(entry, "arxiv:doi") or None,
        "journal": said(entry, "arxiv:journal_ref") or None,
        "comment": said(entry, "arxiv:comment") or None,
        "url": f"https://arxiv.org/abs/{identifier}",
    }


def said(element: ElementTree.Element, path: str) -> str:
    """The text below a path, in one line."""
    return " ".join((element.findtext(path, "", NAMES) or "").split())


if __name__ == "__main__":
    sys.exit(main())
