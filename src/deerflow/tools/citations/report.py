"""Parser for reports: splits Markdown into statements and assigns their citations."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from deerflow.tools.citations.spans import LinkSpan, find_citations, find_links, find_quote_spans

FENCE = re.compile(r"\s{0,3}(```|~~~)")
HEADING = re.compile(r"\s{0,3}#{1,6}\s+(.*)")
ITEM = re.compile(r"\s*(?:[-*+]|\d{1,9}[.)])\s+")
QUOTED = re.compile(r"\s{0,3}>+\s?")
SOURCES = re.compile(
    r"[\W\d]*(?:sources?|references?|bibliography|works cited|citations|quellen|literatur)(?: used| cited)?[\W\d]*"
    r"|[\W\d]*(?:数据|資料|参考)?(?:来源|资料|文献|出典|參考文獻)[\W\d]*",
    re.IGNORECASE,
)
CITATION_MARKER = "\0"
SENTENCE_END = re.compile(r"[.!?…][\"”»’)\]*_]*(?=\s|\0|$)|[。！？][”」』）]*")
ABBREVIATION = re.compile(
    r"(?:^|[\s(])(?:approx|ca|no|nos|vs|e\.g|i\.e|etc|fig|dr|mr|mrs|ms|st|inc|mio|mrd|nr|vol|pp?|cf|al|u\.s|u\.k|[a-z])$",
    re.IGNORECASE,
)
MAX_ABBREVIATION_CHARS = 8
TRAILING_MARKERS = re.compile(r"[\s\0]*")
WORD = re.compile(r"[^\W_]+")
LEAD_IN_WORDS, LEAD_IN_CHARS = 4, 30
NON_TEXT = re.compile(
    r"!\[[^\]\n\0]{0,300}\]\([^)\n\0]{0,4000}\)|<[^<>\n\0]{1,300}>|\[\^?\d{1,3}\]|https?://[^\s)\]\0]{1,4000}"
)


@dataclass(frozen=True, slots=True)
class Citation:
    """A citation of the report. `is_listed` marks entries of the source list."""

    line: int
    title: str
    url: str
    is_listed: bool = False


@dataclass(frozen=True, slots=True)
class Statement:
    """A part of a sentence. Its quotes and quantities must be on one of the cited pages."""

    text: str
    sources: tuple[int, ...]
    """Citations that support it, by index."""
    blamed: tuple[int, ...]
    """Citations that are reported if it is not supported."""


@dataclass(slots=True)
class ParsedReport:
    """Citations and statements of a report."""

    citations: list[Citation] = field(default_factory=list)
    statements: list[Statement] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ReportBlock:
    """A paragraph, list item or table row."""

    text: str
    lines: Sequence[tuple[int, int]]
    """Start offset and line number in the report of each line."""
    is_row: bool
    is_listed: bool

    def line_at(self, position: int) -> int:
        return self.lines[bisect_right(self.lines, (position, 1 << 60)) - 1][1]


def parse_report(text: str) -> ParsedReport:
    """Return the citations and statements of a report, in order."""
    report = ParsedReport()
    for block in split_blocks(text):
        spans = list(find_citations(block.text))
        first = len(report.citations)
        spans = sorted([*spans, *find_links(block.text)], key=lambda span: span.begin) if block.is_listed else spans
        report.citations += [
            Citation(block.line_at(span.begin), span.title, span.url, block.is_listed) for span in spans
        ]
        if spans and not block.is_listed:
            report.statements += find_statements(mask_citations(block.text, spans), first, block.is_row)
    return report


def split_blocks(text: str) -> Iterator[ReportBlock]:
    """Yield the paragraphs, items and rows of a report, without code blocks."""
    in_code, is_listed = False, False
    lines_read: list[tuple[int, str]] = []
    for number, line in enumerate(text.splitlines(), 1):
        if FENCE.match(line):
            in_code = not in_code
            line = ""
        stripped = strip_prefix(QUOTED, line)
        heading = HEADING.match(stripped)
        is_row = stripped.lstrip().startswith("|")
        if lines_read and (not stripped.strip() or heading or in_code or is_row or ITEM.match(stripped)):
            yield build_block(lines_read, is_listed)
            lines_read = []
        if heading:
            is_listed = bool(SOURCES.fullmatch(heading[1].strip()))
        if stripped.strip() and not in_code:
            lines_read.append((number, stripped))
        if lines_read and (heading or is_row):
            yield build_block(lines_read, is_listed and not heading)
            lines_read = []
    if lines_read:
        yield build_block(lines_read, is_listed)


def build_block(lines_read: Sequence[tuple[int, str]], is_listed: bool) -> ReportBlock:
    """Return a block from consecutive lines, without its list marker."""
    parts_of_text, lines, position = [], [], 0
    for index, (number, line) in enumerate(lines_read):
        line_text = (strip_prefix(ITEM, line) if index == 0 else line) + "\n"
        lines.append((position, number))
        parts_of_text.append(line_text)
        position += len(line_text)
    text, first = "".join(parts_of_text), lines_read[0][1].lstrip()
    is_entry = first.startswith(("|", "[")) or ITEM.match(first) is not None
    return ReportBlock(text, lines, first.startswith("|"), is_listed and is_entry)


def strip_prefix(beginning: re.Pattern[str], line: str) -> str:
    """Return a line without a prefix that matches the pattern."""
    found = beginning.match(line)
    return line[found.end() :] if found else line


def mask_citations(text: str, spans: Sequence[LinkSpan]) -> str:
    """Return the text with a marker for each citation, without URLs, images and footnote marks."""
    parts_of_text, position = [], 0
    for span in spans:
        parts_of_text += [text[position : span.begin].replace(CITATION_MARKER, " "), CITATION_MARKER]
        position = span.end
    marked = "".join([*parts_of_text, text[position:].replace(CITATION_MARKER, " ")])
    result, position = [], 0
    for link in find_links(marked):
        if CITATION_MARKER in marked[link.begin : link.end]:  # keep the markers
            continue
        result += [marked[position : link.begin], link.title]
        position = link.end
    return NON_TEXT.sub(" ", "".join([*result, marked[position:]]))


def find_statements(text: str, first: int, is_row: bool) -> Iterator[Statement]:
    """Yield the statements of a block, whose first citation has the index `first`."""
    for sentence in [text] if is_row else split_sentences(text):
        count = sentence.count(CITATION_MARKER)
        if count:
            yield from split_statements(sentence, first)
        first += count


def split_statements(sentence: str, first: int) -> Iterator[Statement]:
    """Yield the parts of a sentence, each with the citations that follow or precede it."""
    beginning, *others = sentence.split(CITATION_MARKER)
    parts, groups = [beginning], list[list[int]]()
    for number, part in enumerate(others, first):
        if len(groups) == len(parts):  # no word since the previous citation
            groups[-1].append(number)
        else:
            groups.append([number])
        if WORD.search(part):
            parts.append(part)
    leads_in = is_lead_in(parts[0])
    for position, part in enumerate(parts):
        before = tuple(groups[position - 1]) if position else ()
        after = tuple(groups[position]) if position < len(groups) else ()
        if after and not (leads_in and before):
            yield Statement(part, before + after, after)
        elif before and (after or leads_in):
            yield Statement(part, before + after, before)


def is_lead_in(part: str) -> bool:
    """Return True if a sentence only names its source first: "According to …"."""
    return len(WORD.findall(part)) <= LEAD_IN_WORDS and len(part) <= LEAD_IN_CHARS and not re.search(r"\d", part)


def split_sentences(text: str) -> Iterator[str]:
    """Yield sentences. A citation after a full stop belongs to the previous sentence, unless the next continues it."""
    quotes = list(find_quote_spans(text))
    starts = [begin for begin, _ in quotes]
    begin = 0
    for end in SENTENCE_END.finditer(text):
        position = end.end()
        index = bisect_right(starts, end.start()) - 1
        if index >= 0 and end.start() < quotes[index][1] - 1 and position < quotes[index][1]:
            continue
        if ABBREVIATION.search(text[max(begin, end.start() - MAX_ABBREVIATION_CHARS) : end.start()]):
            continue
        after = follows.end() if (follows := TRAILING_MARKERS.match(text, position)) else position
        if CITATION_MARKER in text[position:after] and not text[after : after + 1].islower():
            position = text.rindex(CITATION_MARKER, position, after) + 1
        elif text[after : after + 1].islower() and CITATION_MARKER not in text[position:after]:
            continue
        if position > begin:
            yield text[begin:position]
            begin = position
    if text[begin:].strip():
        yield text[begin:]
