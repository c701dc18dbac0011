"""Collect what the GitHub REST API says about a repository into a folder of JSON files."""

import argparse
import json
import os
import re
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

API = "https://api.github.com"
REPOSITORY = re.compile(r"(?:https?://github\.com/)?([\w.-]+)/([\w.-]+?)(?:\.git)?/?")
PER_PAGE = 100
TIMEOUT_S = 30


class Refused(Exception):
    """GitHub said no, or nobody answered; the sentence is for whoever called."""


class Absent(Refused):
    """There is no such thing, or the token may not see it."""


class StayOnServer(urllib.request.HTTPRedirectHandler):
    """Follows a renamed repository, but takes no token to another server."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        if urlsplit(newurl).netloc != urlsplit(req.full_url).netloc:
            raise Refused(f"the API pointed to another server ({newurl}); not followed, because a token might leak")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


class GitHub:
    """The part of the API that is needed, page by page."""

    def __init__(self, base: str, token: str | None) -> None:
        self.base = base.rstrip("/")
        self.opener = urllib.request.build_opener(StayOnServer)
        self.token = token
        self.requests = 0

    def get(self, path: str) -> Any:
        """One answer."""
        return self._ask(f"{self.base}{path}")[0]

    def pages(self, path: str, limit: int) -> Iterator[Any]:
        """The entries of a list, at most `limit`."""
        url: str | None = f"{self.base}{path}{'&' if '?' in path else '?'}per_page={min(PER_PAGE, limit)}"
        given = 0
        while url is not None and given < limit:
            entries, url = self._ask(url)
            for entry in entries[: limit - given]:
                given += 1
                yield entry

    def _ask(self, url: str) -> tuple[Any, str | None]:
        if not url.startswith(f"{self.base}/"):
            raise Refused(f"the API pointed to another server ({url}); not followed, because a token might leak")
        headers = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}
        headers["User-Agent"] = "deerflow-github-deep-research"
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        self.requests += 1
        try:
            with self.opener.open(urllib.request.Request(url, headers=headers), timeout=TIMEOUT_S) as answer:
                return json.load(answer), next_page(answer.headers.get("Link", ""))
        except urllib.error.HTTPError as error:
            with error:
                raise refusal(error, url, bool(self.token)) from None
        except json.JSONDecodeError:
            raise Refused(f"{url} did not answer with JSON; is it the GitHub API?") from None
        except (urllib.error.URLError, TimeoutError, HTTPException, OSError) as problem:
            raise Refused(
                f"{self.base} cannot be reached from here ({getattr(problem, 'reason', problem)}); the operator can "
                "allow the host api.github.com (sandbox.network), or read the same addresses with web_fetch"
            ) from None


def main() -> int:
    """Collect one repository."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("repository", help="OWNER/REPO, or its address on github.com")
    parser.add_argument("--into", type=Path, required=True, help="folder for the JSON files; made if absent")
    parser.add_argument("--issues", type=int, default=200, help="so many issues and pull requests, newest first")
    parser.add_argument("--days", type=int, default=365, help="commits of so many days")
    parser.add_argument("--deep", action="store_true", help="also the first comments of up to 30 issues")
    parser.add_argument("--base-url", default=API, help="for GitHub Enterprise: https://HOST/api/v3")
    options = parser.parse_args()
    named = REPOSITORY.fullmatch(options.repository)
    if named is None:
        print(f"Error: {options.repository!r} is not OWNER/REPO", file=sys.stderr)
        return 2
    github = GitHub(options.base_url, os.environ.get("GITHUB_TOKEN") or None)
    try:
        options.into.mkdir(parents=True, exist_ok=True)
        counts = collect(github, f"/repos/{named[1]}/{named[2]}", options)
    except Refused as problem:
        print(f"Error: {problem}", file=sys.stderr)
        return 3
    except OSError as problem:
        print(f"Error: {options.into} cannot be written: {problem}", file=sys.stderr)
        return 2
    print(f"{named[1]}/{named[2]}: {github.requests} requests, into {options.into}")
    for name, count in counts.items():
        print(f"  {name}: {count}")
    return 0


def collect(github: GitHub, repo: str, options: argparse.Namespace) -> dict[str, str]:
    """Ask for everything; what a repository does not have is said, not fatal."""
    about = github.get(repo)
    if about.get("full_name") and f"/repos/{about['full_name']}" != repo:
        repo = f"/repos/{about['full_name']}"  # renamed: the API redirects, and the rest is asked under the new name
    since = (datetime.now(UTC) - timedelta(days=options.days)).strftime("%Y-%m-%dT%H:%M:%SZ")
    wanted = {
        "languages": lambda: github.get(f"{repo}/languages"),
        "community": lambda: github.get(f"{repo}/community/profile"),
        "releases": lambda: list(github.pages(f"{repo}/releases", 100)),
        "contributors": lambda: list(github.pages(f"{repo}/contributors", 100)),
        "commits": lambda: list(github.pages(f"{repo}/commits?since={since}", 1000)),
        "issues": lambda: list(github.pages(f"{repo}/issues?state=all&sort=created&direction=desc", options.issues)),
        "pulls": lambda: list(github.pages(f"{repo}/pulls?state=closed&sort=updated&direction=desc", 100)),
        "advisories": lambda: list(github.pages(f"{repo}/security-advisories", 100)),
        "tree": lambda: github.get(f"{repo}/git/trees/{about.get('default_branch', 'HEAD')}?recursive=1"),
        "readme": lambda: github.get(f"{repo}/readme"),
    }
    store(options.into, "repo", about)
    counts = {"repo": about.get("full_name", "?")}
    for name, ask in wanted.items():
        try:
            found = ask()
        except Absent:
            counts[name] = "none"
            continue
        store(options.into, name, found)
        counts[name] = f"{len(found)} entries" if isinstance(found, list) else "yes"
    if options.deep:
        counts["comments"] = f"{first_comments(github, repo, options.into)} threads"
    collected = {"collected_at": datetime.now(UTC).isoformat(timespec="seconds"), "days": options.days}
    store(options.into, "collected", collected)
    return counts


def first_comments(github: GitHub, repo: str, folder: Path, limit: int = 30) -> int:
    """Store the comments of recent issues, by the number of the issue."""
    issues = json.loads((folder / "issues.json").read_text(encoding="utf-8"))
    asked = [issue for issue in issues if "pull_request" not in issue and issue.get("comments")][:limit]
    threads = {str(i["number"]): list(github.pages(f"{repo}/issues/{i['number']}/comments", 20)) for i in asked}
    store(folder, "comments", threads)
    return len(threads)


def store(folder: Path, name: str, content: Any) -> None:
    """Write one file."""
    (folder / f"{name}.json").write_text(json.dumps(content, ensure_ascii=False, indent=1), encoding="utf-8")


def next_page(links: str) -> str | None:
    """Where a list goes on, from the header `Link`."""
    for part in links.split(","):
        if match := re.match(r'\s*<([^>]+)>\s*;.*rel="next"', part):
            return match[1]
    return None


def refusal(error: urllib.error.HTTPError, url: str, has_token: bool) -> Refused:
    """What a status of GitHub means, in a sentence."""
    limited = error.headers.get("X-RateLimit-Remaining") == "0"
    wait = error.headers.get("Retry-After")
    if error.code in (403, 429) and (limited or wait):
        reset = float(wait) + time.time() if wait else float(error.headers.get("X-RateLimit-Reset", "0"))
        until = datetime.fromtimestamp(reset, UTC).strftime("%H:%M UTC")
        remedy = (
            "wait until then" if has_token else "wait, or let the operator set GITHUB_TOKEN (5,000 requests an hour)"
        )
        return Refused(f"GitHub's rate limit is used up until {until}; {remedy}")
    if error.code == 401:
        return Refused("GitHub does not accept GITHUB_TOKEN; it may have expired")
    if error.code in (404, 409, 410, 451):
        hint = "" if has_token else " (a private one needs GITHUB_TOKEN)"
        return Absent(f"{url} is not there{hint}")
    return Refused(f"GitHub answered {error.code} to {url}")


if __name__ == "__main__":
    sys.exit(main())
