"""Work out the health of a repository from the JSON files that collect.py stored."""

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

BOT = re.compile(r"\[bot\]$|^(dependabot|renovate|github-actions|greenkeeper|pre-commit-ci)", re.IGNORECASE)
INSIDERS = {"OWNER", "MEMBER", "COLLABORATOR"}


class Unusable(Exception):
    """A folder or file that cannot be used."""


def main() -> int:
    """Print the figures as JSON, and write them as Markdown if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="what collect.py was told with --into")
    parser.add_argument("--markdown", type=Path, help="also write a table for the report")
    parser.add_argument("--now", help="count from this day (YYYY-MM-DD) instead of the day of collection")
    options = parser.parse_args()
    try:
        figures = work_out(options.folder, options.now)
        if options.markdown:
            options.markdown.write_text(as_table(figures), encoding="utf-8")
    except (Unusable, OSError) as problem:
        print(f"Error: {problem}", file=sys.stderr)
        return 2
    except (KeyError, TypeError, AttributeError, ValueError) as problem:
        print(f"Error: a file in {options.folder} is not what the API answers ({problem!r})", file=sys.stderr)
        return 2
    print(json.dumps(figures, ensure_ascii=False, indent=2))
    return 0


def work_out(folder: Path, today: str | None) -> dict[str, Any]:
    """All figures; what cannot be known is null."""
    repo = load(folder, "repo", None)
    if repo is None:
        raise Unusable(f"{folder} has no repo.json; run collect.py first")
    now = moment(f"{today}T00:00:00Z" if today else load(folder, "collected", {}).get("collected_at"))
    if now is None:
        now = datetime.now(UTC)
    return {
        "repository": repo.get("full_name"),
        "as_of": now.date().isoformat(),
        "stars": repo.get("stargazers_count"),
        "forks": repo.get("forks_count"),
        "archived": bool(repo.get("archived")),
        "fork_of": (repo.get("parent") or {}).get("full_name"),
        "licence": (repo.get("license") or {}).get("spdx_id"),
        "age_days": days_between(repo.get("created_at"), now),
        "days_since_push": days_between(repo.get("pushed_at"), now),
        "languages": shares(load(folder, "languages", {})),
        "commits": commits(load(folder, "commits", []), now),
        "releases": releases(load(folder, "releases", []), now),
        "issues": issues(load(folder, "issues", []), load(folder, "comments", {}), now),
        "pull_requests": pull_requests(load(folder, "pulls", [])),
        "advisories": len(load(folder, "advisories", [])),
    }


def commits(entries: list[Any], now: datetime) -> dict[str, Any]:
    """Who wrote the commits of the window; bots are counted apart."""
    authors: Counter[str] = Counter()
    recent = bots = 0
    for entry in entries:
        author = (entry.get("author") or {}).get("login") or entry["commit"]["author"].get("name") or "?"
        if BOT.search(author):
            bots += 1
            continue
        authors[author] += 1
        age = days_between(entry["commit"]["author"].get("date"), now)
        recent += age is not None and age <= 90
    total = sum(authors.values())
    return {
        "by_people": total,
        "by_bots": bots,
        "by_people_90d": recent,
        "authors": len(authors),
        "top_authors": [{"name": n, "share": round(c / total, 3)} for n, c in authors.most_common(5)],
        "bus_factor": bus_factor(authors),
    }


def bus_factor(authors: Counter[str]) -> int | None:
    """How many people wrote half of the commits."""
    total, reached = sum(authors.values()), 0
    for count, (_, share) in enumerate(authors.most_common(), 1):
        reached += share
        if reached * 2 >= total:
            return count
    return None


def releases(entries: list[Any], now: datetime) -> dict[str, Any]:
    """The rhythm of releases; drafts and pre-releases do not count."""
    dates = sorted(
        when
        for entry in entries
        if not (entry.get("draft") or entry.get("prerelease")) and (when := moment(entry.get("published_at")))
    )
    gaps = [(later - earlier).total_seconds() / 86400 for earlier, later in pairwise(dates)]
    latest = max(
        (e for e in entries if not (e.get("draft") or e.get("prerelease"))),
        key=lambda e: e.get("published_at") or "",
        default={},
    )
    return {
        "count": len(dates),
        "latest": latest.get("tag_name"),
        "days_since_latest": (now - dates[-1]).days if dates else None,
        "median_gap_days": rounded(gaps),
    }


def issues(entries: list[Any], comments: dict[str, Any], now: datetime) -> dict[str, Any]:
    """Issues alone: the API lists pull requests among them."""
    real = [entry for entry in entries if "pull_request" not in entry]
    closed = [days for e in real if (days := span(e.get("created_at"), e.get("closed_at"))) is not None]
    old = [e for e in real if e.get("state") == "open" and (days_between(e.get("created_at"), now) or 0) > 30]
    strangers = [e for e in real if e.get("author_association") not in INSIDERS]
    answered = [a for e in strangers if (a := first_answer(e, comments.get(str(e["number"]), []))) is not None]
    return {
        "looked_at": len(real),
        "open": sum(e.get("state") == "open" for e in real),
        "median_days_to_close": rounded(closed),
        "open_over_30_days_without_comment": sum(not e.get("comments") for e in old),
        "median_days_to_first_answer": rounded(answered),
        "most_commented": [
            {"number": e["number"], "title": e["title"], "comments": e["comments"], "url": e.get("html_url")}
            for e in sorted(real, key=lambda e: -e.get("comments", 0))[:10]
            if e.get("comments")
        ],
    }


def first_answer(issue: Any, thread: list[Any]) -> float | None:
    """Days until an insider answered."""
    for comment in thread:
        if comment.get("author_association") in INSIDERS and not BOT.search(
            (comment.get("user") or {}).get("login", "")
        ):
            return span(issue.get("created_at"), comment.get("created_at"))
    return None


def pull_requests(entries: list[Any]) -> dict[str, Any]:
    """What becomes of contributions of people."""
    people = [e for e in entries if not BOT.search((e.get("user") or {}).get("login", ""))]
    merged = [days for e in people if (days := span(e.get("created_at"), e.get("merged_at"))) is not None]
    outside = [e for e in people if e.get("author_association") not in INSIDERS]
    return {
        "closed_looked_at": len(people),
        "merged": len(merged),
        "median_days_to_merge": rounded(merged),
        "from_outside": len(outside),
        "from_outside_merged": sum(bool(e.get("merged_at")) for e in outside),
    }


def as_table(figures: dict[str, Any]) -> str:
    """The figures for a report."""
    c, r, i, p = (figures[name] for name in ("commits", "releases", "issues", "pull_requests"))
    top = ", ".join(f"{a['name']} {a['share']:.0%}" for a in c["top_authors"][:3]) or "nobody"
    rows = [
        ("Stars, forks", f"{known(figures['stars'])}, {known(figures['forks'])}"),
        ("Licence", figures["licence"] or "none recognised"),
        ("Archived", "yes" if figures["archived"] else "no"),
        ("Commits by people (window / 90 days), by bots", f"{c['by_people']} / {c['by_people_90d']}, {c['by_bots']}"),
        ("Bus factor; top authors", f"{known(c['bus_factor'])}; {top}"),
        (
            "Releases; usual gap; since the last",
            f"{r['count']}; {days(r['median_gap_days'])}; {days(r['days_since_latest'])}",
        ),
        ("Issues looked at; median time to close", f"{i['looked_at']}; {days(i['median_days_to_close'])}"),
        ("Open over 30 days without a comment", str(i["open_over_30_days_without_comment"])),
        ("Median time to the first answer to strangers", days(i["median_days_to_first_answer"])),
        ("Pull requests from outside merged", f"{p['from_outside_merged']} of {p['from_outside']}"),
        ("Published security advisories", str(figures["advisories"])),
    ]
    lines = [f"| {figures['repository']} | as of {figures['as_of']} |", "|---|---|"]
    return "\n".join([*lines, *(f"| {name} | {value} |" for name, value in rows)]) + "\n"


def load(folder: Path, name: str, default: Any) -> Any:
    """One stored answer, or the default."""
    path = folder / f"{name}.json"
    if not path.is_file():
        return default
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as problem:
        raise Unusable(f"{path} is not JSON: {problem}") from None


def moment(text: str | None) -> datetime | None:
    """A time as the API writes it."""
    return datetime.fromisoformat(text.replace("Z", "+00:00")) if text else None


def days_between(text: str | None, now: datetime) -> int | None:
    """Whole days since a time."""
    when = moment(text)
    return None if when is None else (now - when).days


def span(begin: str | None, end: str | None) -> float | None:
    """Days from one time to another."""
    first, last = moment(begin), moment(end)
    return None if first is None or last is None else (last - first).total_seconds() / 86400


def rounded(values: Iterable[float]) -> float | None:
    """The median, to a tenth."""
    found = list(values)
    return round(median(found), 1) if found else None


def shares(sizes: dict[str, int]) -> dict[str, float]:
    """Parts of a whole."""
    total = sum(sizes.values())
    return {name: round(size / total, 3) for name, size in list(sizes.items())[:6]} if total else {}


def known(value: Any) -> str:
    """A figure, or that it is not known."""
    return "unknown" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def days(value: float | None) -> str:
    """A time, or that it is not known."""
    return "unknown" if value is None else f"{value:g} days"


if __name__ == "__main__":
    sys.exit(main())
