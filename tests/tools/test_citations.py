"""Verification of citations: true statements pass, false ones are reported."""

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deerflow.domain.errors import FileProblem
from deerflow.domain.web_pages import FetchedPage, PageSnapshot
from deerflow.services.artifacts import to_page_snapshot
from deerflow.tools.citations.report import parse_report
from deerflow.tools.citations.spans import find_citations
from deerflow.tools.citations.tool import MAX_REPORT_CHARS, VerificationLimits, verify_report
from deerflow.tools.citations.verification import CitedPage, check_citations

URL = "https://deer.example/herds"
CITE = f"[citation:Herds]({URL})"
PAGE = """# Herds of 2024

In 2024 the reserve counted **1,482,000** red deer, 12.4 % more than in 2023. A stag weighs 240 kg; the herd cost
$3.2 billion.
The warden said: "We have never seen so many of them in a single winter", and *added* that feed
was short. It took twenty-five years and seven wardens; version 1.2.3 of the plan is of 14 May 2024. See [the census](https://deer.example/census?id=777).

| Year | Hinds (thousand) |
|---|---|
| 2023 | 310 |

The survey says that winter feed-
ing doubled the number of calves.

该保护区在二〇二四年统计到三百二十万只鹿，增长了百分之十二。护林员说：今年冬天的鹿比往年都要多得多。
"""


def get_status(sentence: str, page: str = PAGE, url: str = URL) -> str:
    return check_citations(sentence, [CitedPage([url], "Herds", page)])[-1].status


@pytest.mark.parametrize(
    "sentence",
    [
        f"There were 1,482,000 deer {CITE}.",
        f"There were 1 482 000 deer. {CITE}",
        f"Es waren 1.482.000 Hirsche {CITE}.",
        f"There were 1.482 million deer {CITE}.",
        f"There were about 1.5 million deer {CITE}.",
        f"They were 12.4% more, i.e. 12,4 percent {CITE}.",
        f"A stag weighs 240 kilograms {CITE}.",
        f"It cost US$3.2bn {CITE}, or 3,200 million dollars {CITE}."[: -len(f", or 3,200 million dollars {CITE}.")]
        + ".",
        f"There were 310 thousand hinds {CITE}.",
        f"The warden had “never seen so many of them in a single winter” {CITE}.",
        f'"We have never seen […] in a single winter," he said. {CITE}',
        f"«never seen so many of them … and added that feed was short» {CITE}",
        f"“winter feeding doubled the number of calves” {CITE}",
        f"该保护区有三百二十万只鹿，增长了12%{CITE}。",
        f"该保护区有320万只鹿{CITE}。",
        f"护林员说「今年冬天的鹿比往年都要多得多」{CITE}。",
        f"Our calculation: 4,060 a day {CITE}.",
        f"In 1999 nobody counted. Now there are 1,482,000 {CITE}.",
        f"According to {CITE}, there were 1,482,000 deer.",
        f"{CITE} counts 1,482,000 deer.",
        f"1. There were 1,482,000 deer {CITE}.",
        f"The “big herd” is well {CITE}.",
        f"| deer | 1,482,000 | {CITE} |",
        f"> There were 1,482,000\n> deer {CITE}.",
        f"There were 1,482,000 deer [citation:The herds [2024]]({URL}#top).",
        "There were 1,482,000 deer [citation:Herds](HTTPS://DEER.example:443/herds/).",
        f"The census of 2024 {CITE}, unlike ours of 1999.",
        f"It took 25 years and 7 wardens {CITE}.",
        f"It runs version 1.2.3 since 14.05.2024 {CITE}.",
    ],
)
def test_verifies_true_statements(sentence: str) -> None:
    assert {verdict.status for verdict in check_citations(sentence, [CitedPage([URL], "Herds", PAGE)])} == {"verified"}


@pytest.mark.parametrize(
    ("sentence", "status"),
    [
        (f"There were 1,482,001 deer {CITE}.", "number_mismatch"),
        (f"There were 1.482 billion deer {CITE}.", "number_mismatch"),
        (f"They were 14.2 % more {CITE}.", "number_mismatch"),
        (f"They were 777 {CITE}.", "number_mismatch"),
        (f"A stag weighs 240 miles {CITE}.", "number_mismatch"),
        (f"They were 12.4 percentage points more {CITE}.", "number_mismatch"),
        (f"About 2 million deer {CITE}.", "number_mismatch"),
        (f"There were 1,482,000 deer in 1999. {CITE}", "number_mismatch"),
        (f"According to {CITE}, there were 99 deer.", "number_mismatch"),
        (f"{CITE} counts 99 deer.", "number_mismatch"),
        (f"| deer | 99 | {CITE} |", "number_mismatch"),
        (f"增长了百分之十三{CITE}。", "number_mismatch"),
        (f"It took 26 years {CITE}.", "number_mismatch"),
        (f"It runs version 3.2.1 {CITE}.", "number_mismatch"),
        (f"There were 1 000 000 deer {CITE}.", "number_mismatch"),
        (f"## Sources of error\n\n- There were 99 deer {CITE}.", "number_mismatch"),
        (f"## Sources\n\nThere were 99 deer {CITE}.", "number_mismatch"),
        (f"We have now seen that <a {CITE}> or [x](y z) or 99 deer {CITE}.", "number_mismatch"),
        (f"“We have often seen so many of them” {CITE}.", "quote_missing"),
        (f'"in a single winter we have never seen" {CITE}', "quote_missing"),
        (f"„Das haben wir noch nie gesehen“ {CITE}", "quote_missing"),
        (f"护林员说“今年夏天的鹿比往年都要多得多”{CITE}。", "quote_missing"),
        (f"“single winter … We have never seen” {CITE}", "quote_missing"),
        ("Deer [citation:Herds](https://deer.example/others).", "never_fetched"),
        ("Deer [citation:Herds].", "never_fetched"),
        ("Deer [citation:Herds](http://deer.example/herds).", "never_fetched"),
    ],
)
def test_reports_false_statements(sentence: str, status: str) -> None:
    assert get_status(sentence) == status


def test_reports_line_and_problem_of_each_citation() -> None:
    other, gone, full = "https://b.example/", "https://c.example/", "https://d.example/"
    report = f"""# Deer

There were
1,482,001 deer {CITE}. They cost 5 dollars [citation:B]({other}),
while calves cost 7 dollars [citation:C]({gone}).

```
99 [citation:Code](https://code.example/)
```

- Full [citation:D]({full})

## Sources
- [Herds]({URL}): 1999
- [Never](https://never.example/)
"""
    pages = [
        CitedPage([URL], "Herds", PAGE),
        CitedPage([other], "B", "They cost $5."),
        CitedPage([gone], "", None, "Rejected: there is no page"),
        CitedPage([full], "D", None),
    ]
    found = check_citations(report, pages)
    assert [(verdict.line, verdict.status) for verdict in found] == [
        (4, "number_mismatch"),
        (4, "verified"),
        (5, "dead"),
        (11, "not_kept"),
        (14, "verified"),
        (15, "never_fetched"),
    ]
    assert found[0].detail == "1,482,001 is not on the page; the nearest figure there is 1,482,000"
    assert found[0].claim == "There were 1,482,001 deer" and "Rejected: there is no page" in found[2].detail


def test_one_of_several_cited_pages_must_support_the_statement() -> None:
    a, b = "https://a.example/", "https://b.example/"
    pages = [CitedPage([a], "A", "Stags: 5."), CitedPage([b], "B", "Hinds: 7.")]

    def statuses(sentence: str) -> list[str]:
        return [verdict.status for verdict in check_citations(sentence, pages)]

    assert statuses(f"5 stags and 7 hinds [citation:A]({a}) [citation:B]({b}).") == ["verified"] * 2
    assert statuses(f"5 stags [citation:A]({a}), but 7 hinds [citation:B]({b}).") == ["verified"] * 2
    assert statuses(f"7 stags [citation:A]({a}), but 9 hinds [citation:B]({b}).") == ["number_mismatch"] * 2
    assert statuses(f"[citation:A]({a}) has 5, [citation:B]({b}) has 7.") == ["verified"] * 2
    assert statuses(f"[citation:A]({a}) has 6, [citation:B]({b}) has 7.") == ["number_mismatch", "verified"]


def test_accepts_all_snapshots_and_urls_of_a_page() -> None:
    moved = "https://new.example/herds"
    pages = [
        CitedPage([URL, moved], "", "Now 5."),
        CitedPage([URL], "", "Now 7."),
        CitedPage([URL], "", None, "TooSlow: x"),
    ]
    for sentence in (f"5 deer {CITE}", f"7 deer {CITE}", f"5 deer [citation:H]({moved})"):
        assert [verdict.status for verdict in check_citations(sentence, pages)] == ["verified"]
    assert [verdict.status for verdict in check_citations(f"7 deer [citation:H]({moved})", pages)] == [
        "number_mismatch"
    ]


def test_parses_urls_with_parentheses_and_titles_with_brackets() -> None:
    text = (
        'a [citation:A (b) [c]](https://e.org/x_(y)) b [Citation: D](<https://e.org/z> "Z") [citation:E](https://e.org/'
    )
    found = [(mark.title, mark.url) for mark in find_citations(text)]
    assert found == [("A (b) [c]", "https://e.org/x_(y)"), ("D", "https://e.org/z"), ("E", "https://e.org/")]


NUMBERS = st.integers(10, 10**12) | st.decimals(1, 10**6, places=2)
WORDS = st.lists(
    st.sampled_from(["deer", "stag", "hind", "calf", "forest", "winter", "reserve", "herd", "antler", "rut"]),
    min_size=4,
    max_size=9,
)
MARKS = st.sampled_from([("“", "”"), ('"', '"'), ("«", "»"), ("„", "“"), ("「", "」")])


@st.composite
def facts(draw: st.DrawFn) -> tuple[str, str, str]:
    """Draw a sentence of a page, a true and a false sentence of a report."""
    words, number = " ".join(draw(WORDS)), draw(NUMBERS)
    unit = draw(st.sampled_from(["", " %", " kg", " million", " years"]))
    shown = f"{number:,}" if draw(st.booleans()) else f"{number}"
    page = f"It is known that {words} count {shown}{unit} in all."
    if draw(st.booleans()):
        begin, end = draw(MARKS)
        false_text = " ".join([*words.split()[:-1], "unicorn"])
        return page, f"He said {begin}{words}{end}", f"He said {begin}{false_text}{end}"
    other = f"{number:,}" if draw(st.booleans()) else f"{number}"
    return page, f"There are {other}{unit}", f"There are {number + 3}{unit}"


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(facts(), st.booleans(), st.sampled_from([" ", ". ", ", ", "\n"])), min_size=1, max_size=8))
def test_random_reports_are_classified_correctly(
    statements: list[tuple[tuple[str, str, str], bool, str]],
) -> None:
    pages, lines, expected = [], ["# Report", ""], []
    for number, ((page, true_text, false_text), is_true, before) in enumerate(statements):
        url = f"https://e{number}.example/"
        pages.append(CitedPage([url], "", page))
        lines += [
            f"Something uncited 55555. {true_text if is_true else false_text}{before}[citation:P{number}]({url})",
            "",
        ]
        expected.append(is_true)
    found = check_citations("\n".join(lines), pages)
    assert [verdict.status == "verified" for verdict in found] == expected
    assert all(verdict.url in "\n".join(lines).splitlines()[verdict.line - 1] for verdict in found)


@settings(max_examples=80, deadline=None)
@given(st.text(st.sampled_from('[]()!"“”「」.,$%1 5万百\n|>-#`citaon:hp/\0'), max_size=200), st.text(max_size=100))
def test_any_text_can_be_parsed(text: str, page: str) -> None:
    found = check_citations(text, [CitedPage([URL], "", page)])
    assert len(found) == len(parse_report(text).citations)
    assert all(1 <= verdict.line <= text.count("\n") + text.count("\r") + 9 for verdict in found)


HOSTILE = (
    "[citation:",
    "[citation:a](",
    "“",
    '"a',
    "[",
    "1,",
    "1 111 ",
    "$",
    "百",
    ". ",
    "](",
    "<",
    "[citation:a](b) 5 ",
)


async def test_verification_time_is_linear() -> None:
    report = f"{CITE}\n\n" + "\n\n".join(piece * (20_000 // len(piece)) for piece in HOSTILE)
    report += "\n\n" + " ".join(f"about {number}.5 {CITE}" for number in range(3_000))
    stored = StoredPages(FetchedPage(URL, URL, "", "text/html", report))
    async with asyncio.timeout(60):  # quadratic time would take hours
        assert await verify_report(report, stored)


class StoredPages:
    """In-memory pages."""

    def __init__(self, *pages: FetchedPage) -> None:
        self._pages = [(to_page_snapshot(page, page.text), page.text) for page in pages]

    async def save(self, page: FetchedPage) -> PageSnapshot | None:
        raise NotImplementedError

    async def list(self) -> Sequence[PageSnapshot]:
        return [snapshot for snapshot, _ in self._pages]

    async def read_texts(self, hashes: Sequence[str]) -> dict[str, str]:
        return {snapshot.text_hash: text for snapshot, text in self._pages if snapshot.text_hash in hashes}


async def test_verification_runs_in_a_limited_child_process() -> None:
    stored = StoredPages(FetchedPage(URL, URL, "Herds", "text/html", PAGE))
    (verdict,) = await verify_report(f"99 deer {CITE}", stored)
    assert verdict["status"] == "number_mismatch" and verdict["line"] == 1
    large = f"99 deer {CITE}\n" + "x" * 100_000  # more than fits into memory that the child already has
    for limits in (VerificationLimits(wall_s=0.001), VerificationLimits(memory_bytes=1)):
        with pytest.raises(FileProblem, match="could not be compared"):
            async with asyncio.timeout(30):
                await verify_report(large, stored, limits)
    with pytest.raises(FileProblem, match="verify parts"):
        await verify_report("x" * (MAX_REPORT_CHARS + 1), stored)
