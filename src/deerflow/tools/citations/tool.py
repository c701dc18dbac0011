"""The `verify_citations` tool: comparison of a report with the pages that it cites."""

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from langchain.tools import ToolRuntime

from deerflow.agent_support.tools import require_run_context
from deerflow.domain.context import RunContext
from deerflow.domain.errors import FileProblem
from deerflow.domain.tools import read_only
from deerflow.domain.web_pages import PageSnapshot, ThreadPages, canonicalize_url
from deerflow.sandbox.files.mounts import file_owner
from deerflow.sandbox.jobs import run_child
from deerflow.tools.citations.spans import find_citations, find_links

VERIFIER = Path(__file__).with_name("verification.py")
MAX_REPORT_CHARS = 1_000_000
MAX_PAGE_CHARS = 20_000_000
MAX_RESULT_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class VerificationLimits:
    """Resource limits of the child process."""

    wall_s: float = 90.0
    cpu_s: int = 60
    memory_bytes: int = 1536 * 1024 * 1024


async def verify_report(
    report: str, pages: ThreadPages, limits: VerificationLimits = VerificationLimits()
) -> Sequence[dict[str, Any]]:
    """Return a verdict for each citation of a report, in order.

    Raises:
        FileProblem: The report is too long, or exceeds the limits.
    """
    if len(report) > MAX_REPORT_CHARS:
        raise FileProblem(f"the report has {len(report)} characters; verify parts of at most {MAX_REPORT_CHARS}")
    cited_pages = await asyncio.to_thread(select_cited_pages, await pages.list(), report)
    if sum(page.chars for page in cited_pages) > MAX_PAGE_CHARS:
        raise FileProblem(f"the cited pages have more than {MAX_PAGE_CHARS} characters; verify the report in parts")
    texts = await pages.read_texts([page.text_hash for page in cited_pages if page.text_hash])
    data = await asyncio.to_thread(build_input, report, cited_pages, texts)
    options = json.dumps({"cpu_s": limits.cpu_s, "memory_bytes": limits.memory_bytes, "uid": file_owner()})
    output = await run_child((str(VERIFIER), options), data, limits.wall_s, MAX_RESULT_BYTES)
    if not output:
        raise FileProblem("the report could not be compared with its pages within the limits; verify it in parts")
    verdicts: list[dict[str, Any]] = await asyncio.to_thread(orjson.loads, output)
    return verdicts


def select_cited_pages(pages: Sequence[PageSnapshot], report: str) -> Sequence[PageSnapshot]:
    """Return the pages that a report cites or links to."""
    cited = {canonicalize_url(span.url) for find in (find_citations, find_links) for span in find(report) if span.url}
    return [page for page in pages if cited & {canonicalize_url(page.asked_url), canonicalize_url(page.url)}]


def build_input(report: str, pages: Sequence[PageSnapshot], texts: dict[str, str]) -> bytes:
    """Return the input of the child process."""
    entries = [
        {
            "urls": [page.asked_url, page.url],
            "title": page.title,
            "text": texts.get(page.text_hash) if page.text_hash else None,
            "problem": page.problem,
        }
        for page in pages
    ]
    return json.dumps({"report": report, "pages": entries}).encode()


@read_only
async def verify_citations(runtime: ToolRuntime[RunContext], filepath: str = "", text: str = "") -> str:
    """Compare each [citation:Title](URL) of a report with the page as it was when web_fetch read it in this thread.

    Returns JSON with a status for each: verified; quote_missing or number_mismatch (a quote of four words or more, or a
    figure, of the sentence before it is not on the page); never_fetched; dead (the page could not be read). Mend the
    report by the pages until all are verified. What you computed yourself says "our calculation".

    Args:
        filepath: Absolute path of the report, a Markdown file, e.g. /mnt/user-data/outputs/report.md.
        text: The report itself, if it is no file.
    """
    run = require_run_context(runtime)
    if bool(filepath) == bool(text):
        raise FileProblem("give either the path of the report or its text")
    if run.pages is None:
        raise FileProblem("pages are not kept here, so citations cannot be verified")
    report = text or (await run.files.read(filepath, MAX_REPORT_CHARS * 4)).decode("utf-8", "replace")
    verdicts = await verify_report(report, run.pages)
    counts = Counter(verdict["status"] for verdict in verdicts)
    summary: dict[str, object] = {"citations": len(verdicts), **counts}
    if not verdicts:
        summary["note"] = "There is no citation of the form [citation:Title](URL) in it."
    lines = ",\n".join(orjson.dumps(verdict).decode() for verdict in verdicts)
    return f'{orjson.dumps(summary).decode()[:-1]},"results":[\n{lines}\n]}}'
