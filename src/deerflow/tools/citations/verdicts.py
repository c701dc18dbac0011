"""What is to be said of each citation of a report, given the pages that were read."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from deerflow.domain.pages import same_page
from deerflow.tools.citations.figures import Figure, KnownFigures, figures_in
from deerflow.tools.citations.quotes import occurs, quotes_in, words_of
from deerflow.tools.citations.report import Citation, Statement, read_report

Status = Literal["verified", "quote_missing", "number_mismatch", "never_fetched", "dead", "not_kept"]
OWN_SUM = (
    "our calculation",
    "our own calculation",
    "own calculation",
    "eigene berechnung",
    "我们的计算",
    "我们计算",
    "作者计算",
)
MAX_CLAIM, MAX_FOUND = 200, 5


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A page that was read, or could not be, as far as it matters here."""

    urls: Sequence[str]
    title: str
    text: str | None
    """None where it is not kept."""
    problem: str | None = None


class Source:
    """A page as it was at one time."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    @cached_property
    def words(self) -> str:
        return words_of(f"{self._snapshot.title}\n{self._snapshot.text}")

    @cached_property
    def figures(self) -> KnownFigures:
        known = KnownFigures()
        for text in (self._snapshot.text or "", self._snapshot.title, *self._snapshot.urls):
            known.learn(text)
        return known


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is to be said of a citation."""

    line: int
    status: Status
    title: str
    url: str
    detail: str = ""
    claim: str = ""


@dataclass(slots=True)
class Findings:
    """What is wrong with a citation, as far as it was found."""

    quotes: list[str] = field(default_factory=list)
    numbers: list[str] = field(default_factory=list)
    claim: str = ""


def verify(text: str, snapshots: Sequence[Snapshot]) -> Sequence[Verdict]:
    """A verdict for each citation of a report, in order."""
    report = read_report(text)
    by_page: dict[str, list[Snapshot]] = {}
    for snapshot in snapshots:
        for page in {same_page(url) for url in snapshot.urls}:
            by_page.setdefault(page, []).append(snapshot)
    known = [by_page.get(same_page(citation.url), []) for citation in report.citations]
    sources = Sources(known)
    findings = [Findings() for _ in report.citations]
    for statement in report.statements:
        examine(statement, sources, findings)
    return [
        verdict_on(citation, pages, found)
        for citation, pages, found in zip(report.citations, known, findings, strict=True)
    ]


class Sources:
    """The readable pages behind each citation; a page that is cited often is looked through once."""

    def __init__(self, known: Sequence[Sequence[Snapshot]]) -> None:
        self._known = known
        self._made: dict[int, Source] = {}

    def of(self, citations: Sequence[int]) -> Sequence[Source]:
        """What can be read behind these citations, the newest first."""
        pages = [page for number in citations for page in reversed(self._known[number]) if page.text is not None]
        return [self._made.setdefault(id(page), Source(page)) for page in pages]


def examine(statement: Statement, sources: Sources, findings: Sequence[Findings]) -> None:
    """Look for the quotes and figures of a statement on the pages that are to bear it."""
    pages = sources.of(statement.borne_by)
    if not pages:
        return  # the page itself is what is wrong
    quotes = [quote for quote in quotes_in(statement.text) if not any(occurs(quote, page.words) for page in pages)]
    numbers = list(missing_figures(statement.text, pages))
    for number in statement.blames if quotes or numbers else ():
        found = findings[number]
        found.quotes += quotes
        found.numbers += numbers
        found.claim = found.claim or " ".join(statement.text.split())


def missing_figures(text: str, pages: Sequence[Source]) -> Iterator[str]:
    """The figures that are on none of the pages, each with what comes nearest."""
    if any(words in text.casefold() for words in OWN_SUM):
        return
    for figure in figures_in(text):
        if not any(page.figures.have(figure) for page in pages):
            yield f"{figure.written} is not on the page{nearest(figure, pages)}"


def nearest(figure: Figure, pages: Sequence[Source]) -> str:
    """What comes nearest to a figure."""
    found = [known for page in pages if (known := page.figures.nearest(figure)) is not None]
    if not found or not figure.values:
        return ""
    return f"; the nearest figure there is {min(found, key=lambda known: abs(known - figure.values[0])):,f}"


def verdict_on(citation: Citation, pages: Sequence[Snapshot], found: Findings) -> Verdict:
    """What is to be said of one citation."""
    status, detail = judge(citation, pages, found)
    claim = found.claim if len(found.claim) <= MAX_CLAIM else f"{found.claim[:MAX_CLAIM]}…"
    return Verdict(citation.line, status, citation.title, citation.url, detail, claim)


def judge(citation: Citation, pages: Sequence[Snapshot], found: Findings) -> tuple[Status, str]:
    """The status of a citation, and why."""
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
    if found.quotes:
        missing = [f"“{quote}” is not on the page" for quote in found.quotes[:MAX_FOUND]]
        return "quote_missing", "; ".join([*missing, *found.numbers[:MAX_FOUND]])
    if found.numbers:
        return "number_mismatch", "; ".join(found.numbers[:MAX_FOUND])
    return "verified", ""


def to_json(verdict: Verdict) -> Mapping[str, object]:
    """A verdict as the model sees it: what there is nothing to say about is left out."""
    told = {"line": verdict.line, "status": verdict.status, "title": verdict.title, "url": verdict.url}
    more = {"detail": verdict.detail, "claim": verdict.claim}
    return {**told, **{key: value for key, value in more.items() if value}}
