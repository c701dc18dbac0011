"""Check that a review is complete, that its quotes are in the paper, and that it agrees with itself."""

import argparse
import json
import re
import sys
import unicodedata
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

SECTIONS = (
    "Summary", "Claims and evidence", "Strengths", "Major weaknesses", "Minor points", "Questions to the authors",
    "Ethics and reproducibility", "Recommendation", "Confidence",
)  # fmt: skip
VERDICTS = ("accept", "minor revision", "major revision", "reject")
QUOTE = re.compile(r"(?:“([^“”]+)”|\"([^\"]+)\")\s*(?:\((?:p|page|pp)\.?\s*(\d+)(?:\s*[-–]\s*(\d+))?\))?")
PAGE = re.compile(r"^\[page (\d+)\]$", re.MULTILINE)
EMPTY_WORDS = re.compile(r"\b(is|are|seems?) (unclear|limited|weak|not novel|incremental)\.?$", re.IGNORECASE)
MIN_WORDS = 3
SUMMARY_WORDS = (40, 250)


class Unusable(Exception):
    """A file that cannot be used."""


@dataclass(frozen=True)
class Finding:
    """Something to correct."""

    line: int
    kind: str
    message: str


def main() -> int:
    """Check one review."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("review", type=Path, help="the review, in Markdown")
    parser.add_argument("--paper", type=Path, required=True, help="the paper's text, as paper_text.py writes it")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    options = parser.parse_args()
    try:
        review, pages = read(options.review), pages_of(read(options.paper))
    except Unusable as problem:
        print(f"Error: {problem}", file=sys.stderr)
        return 2
    findings = sorted(examine(review, pages), key=lambda finding: finding.line)
    quotes = sum(1 for _ in quotes_of(review))
    if options.json:
        print(json.dumps({"ok": not findings, "quotes": quotes, "problems": [asdict(f) for f in findings]}, indent=2))
    else:
        for finding in findings:
            print(f"PROBLEM line {finding.line} [{finding.kind}] {finding.message}")
        print(f"{quotes} quotes of {len(pages)} pages checked, {len(findings)} problems")
    return 1 if findings else 0


def read(path: Path) -> str:
    """The text of a file."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise Unusable(f"there is no file {path}") from None
    except (OSError, UnicodeDecodeError) as problem:
        raise Unusable(f"{path} cannot be read as text: {problem}") from None


def pages_of(paper: str) -> dict[int, str]:
    """The flat text of each page; without marks the whole is page 1."""
    parts = PAGE.split(paper)
    if len(parts) < 3:
        return {1: flat(paper)}
    return {int(number): flat(text) for number, text in zip(parts[1::2], parts[2::2], strict=True)}


def examine(review: str, pages: dict[int, str]) -> Iterator[Finding]:
    """Everything that is to be corrected."""
    sections = sections_of(review)
    for name in SECTIONS:
        line, text = sections.get(name.casefold(), (1, None))
        if text is None:
            yield Finding(1, "missing-section", f"there is no section `## {name}`")
        elif not text.strip() or re.search(r"<[A-Za-z][^<>\n]{8,}>", text):
            yield Finding(line, "unfilled-section", f"the section {name} is empty or still has the template's words")
    yield from examine_quotes(review, pages)
    yield from examine_summary(*sections.get("summary", (1, "")))
    majors = list(majors_of(*sections.get("major weaknesses", (1, ""))))
    for line, title, text in majors:
        yield from examine_major(line, title, text)
    yield from examine_verdict(*sections.get("recommendation", (1, "")), majors=len(majors))


def sections_of(review: str) -> dict[str, tuple[int, str]]:
    """Sections by name, with the line they begin at."""
    sections: dict[str, tuple[int, str]] = {}
    name = ""
    for number, line in enumerate(review.splitlines(), 1):
        if heading := re.match(r"##\s+([^#].*)", line):
            name = heading[1].strip().casefold()
            sections[name] = (number, "")
        elif name:
            began, text = sections[name]
            sections[name] = (began, f"{text}{line}\n")
    return sections


def quotes_of(review: str) -> Iterator[tuple[int, str, int | None, int | None]]:
    """Quotes long enough to be one, with line and pages."""
    for number, line in enumerate(review.splitlines(), 1):
        for first, second, begin, end in QUOTE.findall(line):
            quote = first or second
            if len(quote.split()) >= MIN_WORDS:
                yield number, quote, int(begin) if begin else None, int(end) if end else None


def examine_quotes(review: str, pages: dict[int, str]) -> Iterator[Finding]:
    """Quotes that the paper does not have, or not there."""
    whole = " ".join(pages.values())
    for line, quote, begin, end in quotes_of(review):
        if not occurs(quote, whole):
            yield Finding(line, "quote-not-in-paper", f"{quote[:70]!r} is not in the paper")
            continue
        if begin is None:
            yield Finding(line, "quote-without-page", f'{quote[:70]!r} has no page; write it as "…" (p. 3)')
            continue
        claimed = " ".join(pages.get(number, "") for number in range(begin, (end or begin) + 1))
        if not occurs(quote, claimed):
            real = [str(number) for number, text in pages.items() if occurs(quote, text)]
            hint = f"it is on page {', '.join(real)}" if real else "it runs over a page's end; give both pages"
            yield Finding(line, "wrong-page", f"{quote[:70]!r} is not on page {begin}; {hint}")


def examine_summary(line: int, text: str) -> Iterator[Finding]:
    """A summary of a sensible length."""
    words = len(text.split())
    least, most = SUMMARY_WORDS
    if text.strip() and not least <= words <= most:
        yield Finding(line, "summary-length", f"the summary has {words} words; {least} to {most} serve both readers")


def majors_of(line: int, text: str) -> Iterator[tuple[int, str, str]]:
    """The major weaknesses: line, title, text."""
    parts = re.split(r"^###\s+(.+)$", text, flags=re.MULTILINE)
    at = line + parts[0].count("\n") + 1
    for title, body in zip(parts[1::2], parts[2::2], strict=True):
        yield at, title.strip(), body
        at += body.count("\n")


def examine_major(line: int, title: str, text: str) -> Iterator[Finding]:
    """A weakness one can check and act on."""
    absent = re.search(r"\b(nowhere|does not (say|report|mention|state)|no (table|section|figure))\b", text)
    if not any(True for _ in quotes_of(text)) and not absent:
        yield Finding(line, "weakness-without-quote", f"{title!r} quotes nothing; tie it to the paper's words and page")
    if not re.search(r"\*\*Action", text):
        yield Finding(line, "weakness-without-action", f"{title!r} has no **Action.**; say what would settle it")
    if EMPTY_WORDS.search(title):
        yield Finding(line, "empty-word", f"{title!r} says neither where nor compared with what")


def examine_verdict(line: int, text: str, majors: int) -> Iterator[Finding]:
    """A recommendation that the weaknesses support."""
    said = text.strip().casefold().lstrip("*")
    verdict = next((name for name in VERDICTS if said.startswith(name)), None)
    if text.strip() and verdict is None:
        yield Finding(line, "no-verdict", f"the recommendation begins with none of {', '.join(VERDICTS)}")
    if verdict in ("accept", "minor revision") and majors:
        yield Finding(line, "verdict-disagrees", f"{verdict} is recommended, with {majors} major weaknesses")
    if verdict in ("reject", "major revision") and not majors:
        yield Finding(line, "verdict-disagrees", f"{verdict} is recommended without a major weakness")


def occurs(quote: str, text: str) -> bool:
    """Whether a quote is in flat text; its parts around `…` in their order."""
    place = 0
    for part in re.split(r"\[?(?:…|\.\.\.)\]?", quote):
        wanted = flat(part).strip(" .,;:")
        found = text.find(wanted, place)
        if found < 0:
            return False
        place = found + len(wanted)
    return True


def flat(text: str) -> str:
    """Text without what a PDF changes: ligatures, kinds of quotes and dashes, blanks, case."""
    plain = unicodedata.normalize("NFKC", text).replace("\u00ad", "")
    plain = plain.translate(str.maketrans("“”„‘’‚–—‑−", "\"\"\"'''----"))
    return re.sub(r"\s+", " ", re.sub(r"[*_`]", "", plain)).strip().casefold()


if __name__ == "__main__":
    sys.exit(main())
