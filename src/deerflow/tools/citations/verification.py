"""Verdicts on the citations of a report. Run as a program with limits: `python -I verification.py LIMITS`.

Reports and pages are untrusted, so the program drops its privileges before it reads them.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from deerflow.domain.web_pages import canonicalize_url
from deerflow.sandbox.jobs import drop_privileges
from deerflow.tools.citations.quantities import Quantity, QuantityIndex, find_quantities
from deerflow.tools.citations.report import Citation, Statement, parse_report
from deerflow.tools.citations.spans import contains_quote, find_quotes, normalize_words

CitationStatus = Literal["verified", "quote_missing", "number_mismatch", "never_fetched", "dead", "not_kept"]
OWN_CALCULATION = (
    "our calculation",
    "our own calculation",
    "own calculation",
    "eigene berechnung",
    "我们的计算",
    "我们计算",
    "作者计算",
)
MAX_CLAIM, MAX_LISTED = 200, 5


@dataclass(frozen=True, slots=True)
class CitedPage:
    """A fetched page, or a page that could not be fetched."""

    urls: Sequence[str]
    title: str
    text: str | None
    """Content of the page; None if it was not stored."""
    problem: str | None = None


class IndexedPage:
    """A page with its normalized words and quantities."""

    def __init__(self, page: CitedPage) -> None:
        self._page = page

    @cached_property
    def words(self) -> str:
        return normalize_words(f"{self._page.title}\n{self._page.text}")

    @cached_property
    def quantities(self) -> QuantityIndex:
        index = QuantityIndex()
        for text in (self._page.text or "", self._page.title, *self._page.urls):
            index.add_text(text)
        return index


@dataclass(frozen=True, slots=True)
class CitationVerdict:
    """Verdict on a citation."""

    line: int
    status: CitationStatus
    title: str
    url: str
    detail: str = ""
    claim: str = ""


@dataclass(slots=True)
class CitationFindings:
    """Problems found for a citation."""

    quotes: list[str] = field(default_factory=list)
    quantities: list[str] = field(default_factory=list)
    claim: str = ""


def check_citations(text: str, pages: Sequence[CitedPage]) -> Sequence[CitationVerdict]:
    """Return a verdict for each citation of a report, in order."""
    report = parse_report(text)
    by_url: dict[str, list[CitedPage]] = {}
    for page in pages:
        for url in {canonicalize_url(url) for url in page.urls}:
            by_url.setdefault(url, []).append(page)
    pages_by_citation = [by_url.get(canonicalize_url(citation.url), []) for citation in report.citations]
    sources = PageIndex(pages_by_citation)
    findings = [CitationFindings() for _ in report.citations]
    for statement in report.statements:
        check_statement(statement, sources, findings)
    return [
        build_verdict(citation, cited, found)
        for citation, cited, found in zip(report.citations, pages_by_citation, findings, strict=True)
    ]


class PageIndex:
    """Readable pages of each citation. Each page is indexed once."""

    def __init__(self, pages_by_citation: Sequence[Sequence[CitedPage]]) -> None:
        self._pages = pages_by_citation
        self._indexed: dict[int, IndexedPage] = {}

    def get_pages(self, citations: Sequence[int]) -> Sequence[IndexedPage]:
        """Return the readable pages of these citations, newest first."""
        pages = [page for number in citations for page in reversed(self._pages[number]) if page.text is not None]
        return [self._indexed.setdefault(id(page), IndexedPage(page)) for page in pages]


def check_statement(statement: Statement, sources: PageIndex, findings: Sequence[CitationFindings]) -> None:
    """Record the quotes and quantities of a statement that are on none of its cited pages."""
    pages = sources.get_pages(statement.sources)
    if not pages:
        return  # the page itself is reported instead
    quotes = [
        quote for quote in find_quotes(statement.text) if not any(contains_quote(quote, page.words) for page in pages)
    ]
    quantities = list(find_missing_quantities(statement.text, pages))
    for number in statement.blamed if quotes or quantities else ():
        found = findings[number]
        found.quotes += quotes
        found.quantities += quantities
        found.claim = found.claim or " ".join(statement.text.split())


def find_missing_quantities(text: str, pages: Sequence[IndexedPage]) -> Iterator[str]:
    """Yield the quantities that are on none of the pages, with the nearest match."""
    if any(words in text.casefold() for words in OWN_CALCULATION):
        return
    for quantity in find_quantities(text):
        if not any(page.quantities.contains(quantity) for page in pages):
            yield f"{quantity.text} is not on the page{describe_nearest(quantity, pages)}"


def describe_nearest(quantity: Quantity, pages: Sequence[IndexedPage]) -> str:
    """Return the nearest quantity as text."""
    candidates = [value for page in pages if (value := page.quantities.nearest(quantity)) is not None]
    if not candidates or not quantity.values:
        return ""
    return f"; the nearest figure there is {min(candidates, key=lambda value: abs(value - quantity.values[0])):,f}"


def build_verdict(citation: Citation, pages: Sequence[CitedPage], findings: CitationFindings) -> CitationVerdict:
    """Return the verdict on one citation."""
    status, detail = determine_status(citation, pages, findings)
    claim = findings.claim if len(findings.claim) <= MAX_CLAIM else f"{findings.claim[:MAX_CLAIM]}…"
    return CitationVerdict(citation.line, status, citation.title, citation.url, detail, claim)


def determine_status(
    citation: Citation, pages: Sequence[CitedPage], findings: CitationFindings
) -> tuple[CitationStatus, str]:
    """Return the status of a citation and the reason."""
    if not citation.url:
        return "never_fetched", "it has no address; write [citation:Title](https://…)"
    if not pages:
        return (
            "never_fetched",
            "no page with this address was opened in this thread; open it with web_fetch, or drop it",
        )
    if all(page.problem is not None for page in pages):
        return "dead", f"the page could not be read: {pages[-1].problem}"
    if all(page.text is None for page in pages):
        return "not_kept", "the page was read, but the thread held too much to keep it; check it in a new thread"
    if findings.quotes:
        missing = [f"“{quote}” is not on the page" for quote in findings.quotes[:MAX_LISTED]]
        return "quote_missing", "; ".join([*missing, *findings.quantities[:MAX_LISTED]])
    if findings.quantities:
        return "number_mismatch", "; ".join(findings.quantities[:MAX_LISTED])
    return "verified", ""


def to_json(verdict: CitationVerdict) -> Mapping[str, object]:
    """Return a verdict as JSON data for the model, without empty fields."""
    fields = {"line": verdict.line, "status": verdict.status, "title": verdict.title, "url": verdict.url}
    more = {"detail": verdict.detail, "claim": verdict.claim}
    return {**fields, **{key: value for key, value in more.items() if value}}


def main() -> None:
    """Verify one report: read JSON from standard input, write the verdicts to standard output."""
    limits = json.loads(sys.argv[1])
    "ü".encode("idna")  # load the codec now: after dropping privileges its module may be unreadable
    drop_privileges(limits["cpu_s"], limits["memory_bytes"], limits["uid"])
    data = json.load(sys.stdin)
    pages = [CitedPage(**page) for page in data["pages"]]
    json.dump([to_json(verdict) for verdict in check_citations(data["report"], pages)], sys.stdout)


if __name__ == "__main__":
    main()
