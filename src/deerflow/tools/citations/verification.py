"""Has a report compared with the pages of its thread, in a child process that can do no harm."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from deerflow.domain.errors import FileProblem
from deerflow.domain.pages import PageSnapshot, ThreadPages, same_page
from deerflow.sandbox.children import run_child
from deerflow.sandbox.places import file_owner
from deerflow.tools.citations.marks import citations_in, links_in

CHILD = Path(__file__).with_name("verification_child.py")
MAX_REPORT_CHARS = 1_000_000
MAX_PAGE_CHARS = 20_000_000
MAX_RESULT_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class VerificationLimits:
    """What a child may use."""

    wall_s: float = 90.0
    cpu_s: int = 60
    memory_bytes: int = 1536 * 1024 * 1024


async def verify_report(
    report: str, pages: ThreadPages, limits: VerificationLimits = VerificationLimits()
) -> Sequence[dict[str, Any]]:
    """A verdict for each citation of a report, in order.

    Raises:
        FileProblem: The report is too long, or too much for the limits.
    """
    if len(report) > MAX_REPORT_CHARS:
        raise FileProblem(f"the report has {len(report)} characters; verify parts of at most {MAX_REPORT_CHARS}")
    wanted = await asyncio.to_thread(cited_among, await pages.all(), report)
    if sum(page.chars for page in wanted) > MAX_PAGE_CHARS:
        raise FileProblem(f"the cited pages have more than {MAX_PAGE_CHARS} characters; verify the report in parts")
    texts = await pages.texts([page.text_hash for page in wanted if page.text_hash])
    sent = await asyncio.to_thread(to_order, report, wanted, texts)
    given = json.dumps({"cpu_s": limits.cpu_s, "memory_bytes": limits.memory_bytes, "uid": file_owner()})
    output = await run_child((str(CHILD), given), sent, limits.wall_s, MAX_RESULT_BYTES)
    if not output:
        raise FileProblem("the report is so built that it could not be compared with its pages; verify it in parts")
    verdicts: list[dict[str, Any]] = await asyncio.to_thread(orjson.loads, output)
    return verdicts


def cited_among(pages: Sequence[PageSnapshot], report: str) -> Sequence[PageSnapshot]:
    """The pages that a report cites or links to."""
    cited = {same_page(mark.url) for found in (citations_in, links_in) for mark in found(report) if mark.url}
    return [page for page in pages if cited & {same_page(page.asked_url), same_page(page.url)}]


def to_order(report: str, pages: Sequence[PageSnapshot], texts: dict[str, str]) -> bytes:
    """What the child is told."""
    told = [
        {
            "urls": [page.asked_url, page.url],
            "title": page.title,
            "text": texts.get(page.text_hash) if page.text_hash else None,
            "problem": page.problem,
        }
        for page in pages
    ]
    return json.dumps({"report": report, "pages": told}).encode()
