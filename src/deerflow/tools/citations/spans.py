"""Citations `[citation:Title](URL)`, links and quotes in Markdown, found in linear time."""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from html import unescape

CITATION_START = re.compile(r"\[citation:[ \t]*", re.IGNORECASE)
LINK_START = re.compile(r"(?<!!)\[(?!citation:)", re.IGNORECASE)
MAX_TITLE, MAX_URL = 500, 4_000
URL_END = re.compile(r"[\s<>]")


@dataclass(frozen=True, slots=True)
class LinkSpan:
    """A citation or link with its position in the text."""

    begin: int
    end: int
    title: str
    url: str
    """Empty if missing."""


def find_citations(text: str) -> Iterator[LinkSpan]:
    """Yield all citations, in order."""
    yield from _find_spans(text, CITATION_START)


def find_links(text: str) -> Iterator[LinkSpan]:
    """Yield all other links, in order, without images."""
    yield from (span for span in _find_spans(text, LINK_START) if span.url)


def _find_spans(text: str, begin: re.Pattern[str]) -> Iterator[LinkSpan]:
    position = 0
    while match := begin.search(text, position):
        span = _parse_span(text, match)
        yield span
        position = span.end


def _parse_span(text: str, match: re.Match[str]) -> LinkSpan:
    """Parse a span. The search for its parts is limited, to keep the total time linear."""
    start = match.end()
    limit = min(len(text), start + MAX_TITLE)
    middle = text.find("](", start, limit)
    if middle < 0 or CITATION_START.search(text, start, middle):  # the target belongs to another citation
        closing = text.find("]", start, limit)
        return LinkSpan(match.start(), closing + 1 if closing >= 0 else start, text[start : max(closing, start)], "")
    end = _url_end(text, middle + 2)
    target = text[middle + 2 : end].strip()
    url = target[1:].partition(">")[0] if target.startswith("<") else URL_END.split(target, maxsplit=1)[0]
    return LinkSpan(match.start(), min(end + 1, len(text)), " ".join(text[start:middle].split()), url)


def _url_end(text: str, start: int) -> int:
    """Return the position of the closing parenthesis, or the end of the line."""
    depth = 0
    for position in range(start, min(len(text), start + MAX_URL)):
        character = text[position]
        if character == "\n":
            return position
        if character == "(":
            depth += 1
        elif character == ")":
            if not depth:
                return position
            depth -= 1
    return min(len(text), start + MAX_URL)


OPENERS = {"“": "”", "„": "“”", "«": "»", "»": "«", "「": "」", "『": "』", "《": "》", '"': '"', "〝": "〞"}
OPENER = re.compile("[" + "".join(OPENERS) + "]")
CLOSERS = {opener: re.compile(f"[{closers}]") for opener, closers in OPENERS.items()}
TITLE_OPENER = "《"
MAX_QUOTE = 2_000
MIN_WORDS, MIN_CHARS = 4, 8
"""Minimum number of words, or of characters in scripts without spaces. Shorter texts are names or idioms."""
ELLIPSIS = re.compile(r"\[[^\]\n]{0,100}\]|…|\.{3,}|⋯")
"""Omissions and insertions in a quote."""
LINK_TARGET = re.compile(r"\]\([^()\n]{0,4000}(?:\([^()\n]{0,1000}\)[^()\n]{0,1000})?\)")
PAGE_MARKER = re.compile(r"<!--[^<>\n]{0,200}-->")
LINE_END_HYPHEN = re.compile(r"(?<=[^\W\d_])[-\u00ad\u2010]\n\s*(?=[^\W\d_])")
NON_WORD = re.compile(r"[\W_]+")
IDEOGRAPH = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


def find_quote_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of quotes, including their quotation marks."""
    position = 0
    while match := OPENER.search(text, position):
        opener, begin = match[0], match.start()
        position = begin + 1
        if opener == '"' and (text[begin - 1 : begin].isalnum() or not text[position : position + 1].strip()):
            continue  # inches, or a closing mark
        closing = CLOSERS[opener].search(text, position, begin + MAX_QUOTE)
        if closing:
            yield begin, closing.end()
            position = closing.end()


def find_quotes(text: str) -> Iterator[str]:
    """Yield the quotes that are long enough to verify."""
    for begin, end in find_quote_spans(text):
        quote = text[begin + 1 : end - 1]
        if text[begin] not in TITLE_OPENER and is_quotation(quote):
            yield " ".join(quote.split())


def is_quotation(quote: str) -> bool:
    """Return True if a text is long enough to be a quotation."""
    ideographs = len(IDEOGRAPH.findall(quote))
    return ideographs >= MIN_CHARS or (ideographs == 0 and len(quote.split()) >= MIN_WORDS)


def normalize_words(text: str) -> str:
    """Return only the letters and digits of a text, independent of layout, markup and hyphenation."""
    stripped = PAGE_MARKER.sub(" ", LINK_TARGET.sub("]", LINE_END_HYPHEN.sub("", text)))
    return NON_WORD.sub("", unicodedata.normalize("NFKC", unescape(stripped))).casefold()


def contains_quote(quote: str, words: str) -> bool:
    """Return True if a quote occurs in normalized words. Omissions may be filled with any text."""
    position = 0
    for part in ELLIPSIS.split(quote):
        words_wanted = normalize_words(part)
        match = words.find(words_wanted, position)
        if match < 0:
            return False
        position = match + len(words_wanted)
    return True
