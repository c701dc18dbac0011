"""What a report says, sentence by sentence, and which citations are to bear it."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from deerflow.tools.citations.marks import Mark, citations_in, links_in
from deerflow.tools.citations.quotes import quote_spans

FENCE = re.compile(r"\s{0,3}(```|~~~)")
HEADING = re.compile(r"\s{0,3}#{1,6}\s+(.*)")
ITEM = re.compile(r"\s*(?:[-*+]|\d{1,9}[.)])\s+")
QUOTED = re.compile(r"\s{0,3}>+\s?")
SOURCES = re.compile(
    r"[\W\d]*(?:sources?|references?|bibliography|works cited|citations|quellen|literatur)(?: used| cited)?[\W\d]*"
    r"|[\W\d]*(?:数据|資料|参考)?(?:来源|资料|文献|出典|參考文獻)[\W\d]*",
    re.IGNORECASE,
)
CITED = "\0"
END = re.compile(r"[.!?…][\"”»’)\]*_]*(?=\s|\0|$)|[。！？][”」』）]*")
SHORT = re.compile(
    r"(?:^|[\s(])(?:approx|ca|no|nos|vs|e\.g|i\.e|etc|fig|dr|mr|mrs|ms|st|inc|mio|mrd|nr|vol|pp?|cf|al|u\.s|u\.k|[a-z])$",
    re.IGNORECASE,
)
SHORT_CHARS = 8
BEHIND = re.compile(r"[\s\0]*")
WORD = re.compile(r"[^\W_]+")
LEAD_IN_WORDS, LEAD_IN_CHARS = 4, 30
LEFT_OUT = re.compile(
    r"!\[[^\]\n\0]{0,300}\]\([^)\n\0]{0,4000}\)|<[^<>\n\0]{1,300}>|\[\^?\d{1,3}\]|https?://[^\s)\]\0]{1,4000}"
)


@dataclass(frozen=True, slots=True)
class Citation:
    """A citation of the report; `is_listed` where it only stands in the list of sources."""

    line: int
    title: str
    url: str
    is_listed: bool = False


@dataclass(frozen=True, slots=True)
class Statement:
    """A part of a sentence; what it quotes and counts has to be on a page of those that bear it."""

    text: str
    borne_by: tuple[int, ...]
    """Citations, by their place in the report."""
    blames: tuple[int, ...]
    """Those that are wrong if it is not."""


@dataclass(slots=True)
class Report:
    """The citations of a report, and what they are to bear."""

    citations: list[Citation] = field(default_factory=list)
    statements: list[Statement] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Block:
    """A paragraph, an item of a list or a row of a table."""

    text: str
    lines: Sequence[tuple[int, int]]
    """Where each of its lines begins in the text, and its number in the report."""
    is_row: bool
    is_listed: bool

    def line_at(self, place: int) -> int:
        return self.lines[bisect_right(self.lines, (place, 1 << 60)) - 1][1]


def read_report(text: str) -> Report:
    """The citations of a report, in order, and what they are to bear."""
    report = Report()
    for block in blocks_of(text):
        marks = list(citations_in(block.text))
        first = len(report.citations)
        named = sorted([*marks, *links_in(block.text)], key=lambda mark: mark.begin) if block.is_listed else marks
        report.citations += [
            Citation(block.line_at(mark.begin), mark.title, mark.url, block.is_listed) for mark in named
        ]
        if marks and not block.is_listed:
            report.statements += statements_in(masked(block.text, marks), first, block.is_row)
    return report


def blocks_of(text: str) -> Iterator[Block]:
    """The paragraphs, items and rows of a report; code is none of them."""
    in_code, is_listed = False, False
    gathered: list[tuple[int, str]] = []
    for number, line in enumerate(text.splitlines(), 1):
        if FENCE.match(line):
            in_code = not in_code
            line = ""
        plain = without(QUOTED, line)
        heading = HEADING.match(plain)
        is_row = plain.lstrip().startswith("|")
        if gathered and (not plain.strip() or heading or in_code or is_row or ITEM.match(plain)):
            yield block_of(gathered, is_listed)
            gathered = []
        if heading:
            is_listed = bool(SOURCES.fullmatch(heading[1].strip()))
        if plain.strip() and not in_code:
            gathered.append((number, plain))
        if gathered and (heading or is_row):
            yield block_of(gathered, is_listed and not heading)
            gathered = []
    if gathered:
        yield block_of(gathered, is_listed)


def block_of(gathered: Sequence[tuple[int, str]], is_listed: bool) -> Block:
    """Lines that belong together, without what marks them as an item."""
    pieces, lines, place = [], [], 0
    for index, (number, line) in enumerate(gathered):
        piece = (without(ITEM, line) if index == 0 else line) + "\n"
        lines.append((place, number))
        pieces.append(piece)
        place += len(piece)
    text, first = "".join(pieces), gathered[0][1].lstrip()
    is_entry = first.startswith(("|", "[")) or ITEM.match(first) is not None
    return Block(text, lines, first.startswith("|"), is_listed and is_entry)


def without(beginning: re.Pattern[str], line: str) -> str:
    """A line without what it may begin with."""
    found = beginning.match(line)
    return line[found.end() :] if found else line


def masked(text: str, marks: Sequence[Mark]) -> str:
    """The text with a sign for each citation, and without what is no text: addresses, images, marks of notes."""
    pieces, place = [], 0
    for mark in marks:
        pieces += [text[place : mark.begin].replace(CITED, " "), CITED]
        place = mark.end
    bare = "".join([*pieces, text[place:].replace(CITED, " ")])
    shown, place = [], 0
    for link in links_in(bare):
        if CITED in bare[link.begin : link.end]:  # no citation may get lost
            continue
        shown += [bare[place : link.begin], link.title]
        place = link.end
    return LEFT_OUT.sub(" ", "".join([*shown, bare[place:]]))


def statements_in(text: str, first: int, is_row: bool) -> Iterator[Statement]:
    """What is to be borne by the citations of a block, of which the first has the number `first`."""
    for sentence in [text] if is_row else sentences_of(text):
        count = sentence.count(CITED)
        if count:
            yield from statements_of(sentence, first)
        first += count


def statements_of(sentence: str, first: int) -> Iterator[Statement]:
    """The parts of a sentence: each belongs to the citations that follow it, or that it follows."""
    beginning, *others = sentence.split(CITED)
    parts, groups = [beginning], list[list[int]]()
    for number, part in enumerate(others, first):
        if len(groups) == len(parts):  # no word since the citation before
            groups[-1].append(number)
        else:
            groups.append([number])
        if WORD.search(part):
            parts.append(part)
    leads_in = is_lead_in(parts[0])
    for place, part in enumerate(parts):
        before = tuple(groups[place - 1]) if place else ()
        after = tuple(groups[place]) if place < len(groups) else ()
        if after and not (leads_in and before):
            yield Statement(part, before + after, after)
        elif before and (after or leads_in):
            yield Statement(part, before + after, before)


def is_lead_in(part: str) -> bool:
    """Whether a sentence only names its source before it says something: "According to …"."""
    return len(WORD.findall(part)) <= LEAD_IN_WORDS and len(part) <= LEAD_IN_CHARS and not re.search(r"\d", part)


def sentences_of(text: str) -> Iterator[str]:
    """Sentences; a citation behind the full stop belongs to the sentence before it, unless the next goes on with it."""
    quotes = list(quote_spans(text))
    starts = [begin for begin, _ in quotes]
    begin = 0
    for end in END.finditer(text):
        place = end.end()
        index = bisect_right(starts, end.start()) - 1
        if index >= 0 and end.start() < quotes[index][1] - 1 and place < quotes[index][1]:
            continue
        if SHORT.search(text[max(begin, end.start() - SHORT_CHARS) : end.start()]):
            continue
        after = follows.end() if (follows := BEHIND.match(text, place)) else place
        if CITED in text[place:after] and not text[after : after + 1].islower():
            place = text.rindex(CITED, place, after) + 1
        elif text[after : after + 1].islower() and CITED not in text[place:after]:
            continue
        if place > begin:
            yield text[begin:place]
            begin = place
    if text[begin:].strip():
        yield text[begin:]
