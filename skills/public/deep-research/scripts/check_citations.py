"""Compare the citations, quotes and figures of a report with the notes and the saved texts of its sources."""

import argparse
import json
import re
import sys
import unicodedata
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit

CITATION = re.compile(r"\[citation:([^\]]+)\]\(([^()\s]*(?:\([^()\s]*\)[^()\s]*)*)\)")
LINK = re.compile(r"\[([^\]]*)\]\(([^()\s]*(?:\([^()\s]*\)[^()\s]*)*)\)")
QUOTE = re.compile(r"“([^“”]+)”|\"([^\"]+)\"|«([^«»]+)»|「([^「」]+)」")
NUMBER = re.compile(
    r"(?<![\w.])(\d{1,3}(?:[,\u202f\u00a0 ]\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)\s*"
    r"(thousand|million|billion|trillion|bn|k)?(?![\w])",
    re.IGNORECASE,
)
SCALES = {"thousand": 1e3, "k": 1e3, "million": 1e6, "billion": 1e9, "bn": 1e9, "trillion": 1e12}
SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])")
ROUNDED = re.compile(
    r"\b(about|around|roughly|nearly|almost|some|approximately|ca\.|over|more than|under|less than)\b|[~≈约近]"
)
OWN_SUM = re.compile(r"our (own )?calculation|我们(的)?计算", re.IGNORECASE)
NO_CLAIMS = re.compile(r"^(sources|references|limitations|what remains open|参考|来源)", re.IGNORECASE)
TRACKING = re.compile(r"^(utm_\w+|fbclid|gclid)$")
MIN_QUOTED_WORDS = 4


class Unusable(Exception):
    """A file that cannot be used; the sentence is for whoever called."""


@dataclass(frozen=True)
class Finding:
    """Something to correct or to judge."""

    line: int
    kind: str
    message: str


@dataclass
class Source:
    """One entry of the notes."""

    id: str
    title: str
    line: int
    fields: dict[str, str] = field(default_factory=dict)
    quotes: list[tuple[int, str]] = field(default_factory=list)
    text: str | None = None

    @property
    def url(self) -> str:
        return self.fields.get("url", "")


@dataclass(frozen=True)
class Statement:
    """A sentence of the report, with what it cites."""

    line: int
    section: str
    text: str
    cites: tuple[tuple[str, str], ...]


def main() -> int:
    """Check one report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("report", type=Path, help="the report, in Markdown")
    parser.add_argument("--notes", type=Path, required=True, help="the notes, in Markdown (see SKILL.md, step 5)")
    parser.add_argument("--strict", action="store_true", help="count warnings as problems")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    options = parser.parse_args()
    try:
        sources = read_notes(options.notes)
        statements = list(read_statements(read(options.report)))
        problems, warnings = examine(statements, sources, read(options.report))
    except Unusable as problem:
        print(f"Error: {problem}", file=sys.stderr)
        return 2
    cited = {url_key(url) for statement in statements for _, url in statement.cites}
    failed = bool(problems or (options.strict and warnings))
    if options.json:
        result = {
            "ok": not failed, "cited_sources": len(cited), "noted_sources": len(sources),
            "problems": [asdict(p) for p in problems], "warnings": [asdict(w) for w in warnings],
        }  # fmt: skip
        print(json.dumps(result, ensure_ascii=False, indent=2))
    else:
        for word, findings in (("PROBLEM", problems), ("warning", warnings)):
            for finding in findings:
                print(f"{word} line {finding.line} [{finding.kind}] {finding.message}")
        count = sum(len(statement.cites) for statement in statements)
        print(f"{count} citations of {len(cited)} sources, {len(problems)} problems, {len(warnings)} warnings")
    return 1 if failed else 0


def read(path: Path) -> str:
    """The text of a file."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise Unusable(f"there is no file {path}") from None
    except (OSError, UnicodeDecodeError) as problem:
        raise Unusable(f"{path} cannot be read as text: {problem}") from None


def read_notes(path: Path) -> list[Source]:
    """The noted sources with their saved texts."""
    sources: list[Source] = []
    quoting = False
    for number, line in enumerate(read(path).splitlines(), 1):
        if heading := re.match(r"##\s+(\S+?)\s*[:：]\s*(.+)", line):
            sources.append(Source(heading[1], heading[2].strip(), number))
            quoting = False
        elif sources and (given := re.match(r"[-*]\s+(\w+)\s*:\s*(.+)", line)):
            sources[-1].fields.setdefault(given[1].lower(), given[2].strip())
        elif sources and line.startswith(">"):
            said = line[1:].strip()
            if quoting:
                before = sources[-1].quotes.pop()
                sources[-1].quotes.append((before[0], f"{before[1]} {said}"))
            else:
                sources[-1].quotes.append((number, said))
            quoting = True
            continue
        quoting = False
    if not sources:
        raise Unusable(f"{path} has no source; an entry begins with a line such as `## S1: Title of the page`")
    for source in sources:
        source.text = saved_text(path.parent, source)
    return sources


def saved_text(folder: Path, source: Source) -> str | None:
    """What was saved of a source, if anything."""
    name = source.fields.get("text")
    if name is None or not (folder / name).is_file():
        return None
    return read(folder / name)


def read_statements(report: str) -> Iterator[Statement]:
    """The sentences of a report; a citation after the full stop belongs to the sentence before it."""
    section, in_code = "", False
    for number, line in enumerate(report.splitlines(), 1):
        if line.lstrip().startswith("```"):
            in_code = not in_code
            continue
        if in_code or not line.strip():
            continue
        if heading := re.match(r"#+\s+(.*)", line):
            section = heading[1] if re.match(r"##?\s", line) else section
            continue
        cites = [(title.strip(), url) for title, url in CITATION.findall(line)]
        marked = CITATION.sub("\x00", re.sub(r"^\s*(\d+[.)]|[-*+>|])\s+", "", line))
        pieces: list[str] = []
        for piece in SENTENCE_END.split(marked):
            leading = re.match(r"[\s\x00]*\x00", piece)
            if leading and pieces:
                pieces[-1] += leading[0]
                piece = piece[leading.end() :]
            if piece.strip():
                pieces.append(piece)
        for piece in pieces:
            mine = tuple(cites.pop(0) for _ in range(piece.count("\x00")))
            yield Statement(number, section, LINK.sub(r"\1", piece.replace("\x00", " ")), mine)


def examine(statements: list[Statement], sources: list[Source], report: str) -> tuple[list[Finding], list[Finding]]:
    """Everything that is wrong, and everything somebody should look at."""
    by_url = {url_key(source.url): source for source in sources if source.url}
    problems, warnings = list(examine_notes(sources)), []
    for statement in statements:
        cited = []
        for title, url in statement.cites:
            source = by_url.get(url_key(url))
            if source is None:
                problems.append(Finding(statement.line, "no-note", f"{url} is cited, but no note has it as its url"))
                continue
            cited.append(source)
            if flat(title) != flat(source.title):
                message = f"cited as {title!r}, noted as {source.title!r} ({source.id})"
                warnings.append(Finding(statement.line, "title-differs", message))
        for finding in examine_statement(statement, cited):
            (warnings if finding.kind == "uncited-number" else problems).append(finding)
    problems += missing_in_list(report, statements)
    warnings += unused(statements, by_url)
    return sorted(problems, key=lambda f: f.line), sorted(warnings, key=lambda f: f.line)


def examine_notes(sources: list[Source]) -> Iterator[Finding]:
    """What is wrong in the notes alone; lines are those of the notes."""
    for source in sources:
        if not source.url.startswith(("https://", "http://")):
            yield Finding(source.line, "note-without-url", f"note {source.id} has no line `- url: https://…`")
        if source.text is None:
            wanted = source.fields.get("text", "nothing")
            yield Finding(source.line, "no-saved-text", f"note {source.id}: its saved text ({wanted}) is not there")
            continue
        for line, quote in source.quotes:
            if not occurs(quote, source.text):
                yield Finding(line, "quote-not-in-source", f"note {source.id}: {shorten(quote)!r} is not in its text")


def examine_statement(statement: Statement, cited: list[Source]) -> Iterator[Finding]:
    """Quotes and figures of one sentence against the sources it cites."""
    numbers = list(numbers_in(statement.text))
    if not statement.cites:
        telling = [raw for raw, _ in numbers if len(re.sub(r"\D", "", raw)) > 1 and not is_year(raw)]
        if telling and not (NO_CLAIMS.match(statement.section) or OWN_SUM.search(statement.text)):
            yield Finding(statement.line, "uncited-number", f"{telling[0]} stands in a sentence without a citation")
        return
    texts = [source.text for source in cited if source.text is not None]
    names = ", ".join(source.id for source in cited)
    if not texts:
        return
    for groups in QUOTE.findall(statement.text):
        quote = next(filter(None, groups))
        words = len(quote.split()) if re.search(r"\s", quote) else len(re.findall(r"[\u3040-\u9fff]", quote)) // 2
        if words >= MIN_QUOTED_WORDS and not any(occurs(quote, text) for text in texts):
            yield Finding(statement.line, "quote-not-in-source", f"{shorten(quote)!r} is not in the text of {names}")
    if OWN_SUM.search(statement.text):
        return
    known = {value for text in texts for _, values in numbers_in(text) for value in values}
    roughly = bool(ROUNDED.search(statement.text))
    for raw, values in numbers:
        if not any(is_said(value, known, roughly) for value in values):
            near = min(known, key=lambda k: abs(k - values[-1]), default=None)
            hint = f"; the nearest figure there is {near:,g}" if near is not None else ""
            yield Finding(statement.line, "number-not-in-source", f"{raw} is not in the text of {names}{hint}")


def numbers_in(text: str) -> Iterator[tuple[str, tuple[float, ...]]]:
    """Figures as written, with the values they may stand for."""
    for match in NUMBER.finditer(unicodedata.normalize("NFKC", text)):
        plain = float(re.sub(r"[,\s]", "", match[1]))
        scale = SCALES.get((match[2] or "").lower())
        yield match[0].strip(), (plain,) if scale is None else (plain * scale,)


def is_said(value: float, known: set[float], roughly: bool) -> bool:
    """Whether a source has this figure, or one that it is a rounding of where the report says so."""
    if any(abs(value - other) <= 1e-9 * max(1.0, abs(other)) for other in known):
        return True
    return roughly and any(abs(value - other) <= 0.05 * abs(other) for other in known)


def is_year(raw: str) -> bool:
    """Whether a figure may be a year."""
    return bool(re.fullmatch(r"(19|20)\d\d", raw))


def missing_in_list(report: str, statements: list[Statement]) -> Iterator[Finding]:
    """Cited pages that the section of sources does not list."""
    parts = re.split(r"^##\s+(?:Sources|References|来源|参考资料)\s*$", report, flags=re.IGNORECASE | re.MULTILINE)
    if len(parts) < 2:
        yield Finding(len(report.splitlines()), "no-sources-section", "the report has no section `## Sources`")
        return
    listed = {url_key(url) for _, url in LINK.findall(parts[-1])}
    seen = set(listed)
    for statement in statements:
        for _, url in statement.cites:
            if url_key(url) not in seen:
                seen.add(url_key(url))
                yield Finding(statement.line, "not-listed", f"{url} is cited, but not listed under Sources")


def unused(statements: list[Statement], by_url: dict[str, Source]) -> Iterator[Finding]:
    """Sources nobody cites, and a report that leans on one site."""
    cited = {url_key(url) for statement in statements for _, url in statement.cites}
    for key, source in by_url.items():
        if key not in cited:
            yield Finding(source.line, "unused-note", f"note {source.id} is not cited; drop it or use it")
    sites = {urlsplit(f"//{key}").netloc for key in cited}
    if len(cited) > 1 and len(sites) == 1:
        yield Finding(1, "one-site", f"all cited pages are of {sites.pop()}; look for an independent source")


def url_key(url: str) -> str:
    """An address without what does not change the page."""
    parts = urlsplit(url.strip())
    query = urlencode([(k, v) for k, v in parse_qsl(parts.query, keep_blank_values=True) if not TRACKING.match(k)])
    host = parts.netloc.lower().removeprefix("www.")
    return host + parts.path.rstrip("/") + (f"?{query}" if query else "")


def occurs(quote: str, text: str) -> bool:
    """Whether a quote is in a text, word for word; its parts around `…` in their order."""
    haystack, place = flat(text), 0
    for part in re.split(r"\[?(?:…|\.\.\.)\]?", quote):
        wanted = flat(part).strip(" .,;:")
        found = haystack.find(wanted, place)
        if found < 0:
            return False
        place = found + len(wanted)
    return True


def flat(text: str) -> str:
    """Text without what differs between a page and a copy of it: case, blanks, marks of Markdown, kinds of quotes."""
    plain = unicodedata.normalize("NFKC", LINK.sub(r"\1", text)).replace("\u00ad", "")
    plain = plain.translate(str.maketrans("“”„«»‘’‚–—‑−", '"""""\'\'\'----'))
    return re.sub(r"\s+", " ", re.sub(r"[*_`]", "", plain)).strip().casefold()


def shorten(text: str, limit: int = 70) -> str:
    """The beginning of a text."""
    return text if len(text) <= limit else f"{text[:limit]}…"


if __name__ == "__main__":
    sys.exit(main())
