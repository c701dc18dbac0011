"""`verify_citations`: whether a report says of pages what they say."""

from collections import Counter

import orjson
from langchain.tools import ToolRuntime

from deerflow.domain.context import RunContext
from deerflow.domain.errors import FileProblem
from deerflow.domain.ledger import read_only
from deerflow.tools.citations.verification import MAX_REPORT_CHARS, verify_report
from deerflow.tools.run import current_run

VERIFY_CITATIONS = "verify_citations"


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
    run = current_run(runtime)
    if bool(filepath) == bool(text):
        raise FileProblem("give either the path of the report or its text")
    if run.pages is None:
        raise FileProblem("pages are not kept here, so citations cannot be verified")
    report = text or (await run.files.read(filepath, MAX_REPORT_CHARS * 4)).decode("utf-8", "replace")
    verdicts = await verify_report(report, run.pages)
    counted = Counter(verdict["status"] for verdict in verdicts)
    told: dict[str, object] = {"citations": len(verdicts), **counted}
    if not verdicts:
        told["note"] = "There is no citation of the form [citation:Title](URL) in it."
    lines = ",\n".join(orjson.dumps(verdict).decode() for verdict in verdicts)
    return f'{orjson.dumps(told).decode()[:-1]},"results":[\n{lines}\n]}}'
