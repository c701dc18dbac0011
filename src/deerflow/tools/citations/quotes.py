"""Quotes in a text, and whether a page has their words."""

import re
import unicodedata
from collections.abc import Iterator
from html import unescape

OPENERS = {"“": "”", "„": "“”", "«": "»", "»": "«", "「": "」", "『": "』", "《": "》", '"': '"', "〝": "〞"}
OPENER = re.compile("[" + "".join(OPENERS) + "]")
CLOSERS = {opener: re.compile(f"[{closers}]") for opener, closers in OPENERS.items()}
TITLES = "《"
MAX_QUOTE = 2_000
MIN_WORDS, MIN_CHARS = 4, 8
"""Fewer words, or signs where words are not set apart, are a name or a manner of speaking and no quote."""
GAP = re.compile(r"\[[^\]\n]{0,100}\]|…|\.{3,}|⋯")
"""Where whoever quotes has left something out, or put something in."""
TARGET = re.compile(r"\]\([^()\n]{0,4000}(?:\([^()\n]{0,1000}\)[^()\n]{0,1000})?\)")
PAGE_MARK = re.compile(r"<!--[^<>\n]{0,200}-->")
HYPHEN_AT_END = re.compile(r"(?<=[^\W\d_])[-\u00ad\u2010]\n\s*(?=[^\W\d_])")
NO_WORD = re.compile(r"[\W_]+")
IDEOGRAPH = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


def quote_spans(text: str) -> Iterator[tuple[int, int]]:
    """Where quotes begin and end, their marks included."""
    place = 0
    while found := OPENER.search(text, place):
        opener, begin = found[0], found.start()
        place = begin + 1
        if opener == '"' and (text[begin - 1 : begin].isalnum() or not text[place : place + 1].strip()):
            continue  # inches, or the end of something
        closing = CLOSERS[opener].search(text, place, begin + MAX_QUOTE)
        if closing:
            yield begin, closing.end()
            place = closing.end()


def quotes_in(text: str) -> Iterator[str]:
    """Quotes that are long enough to be looked for."""
    for begin, end in quote_spans(text):
        quote = text[begin + 1 : end - 1]
        if text[begin] not in TITLES and is_long(quote):
            yield " ".join(quote.split())


def is_long(quote: str) -> bool:
    """Whether these are the words of somebody, rather than a name."""
    signs = len(IDEOGRAPH.findall(quote))
    return signs >= MIN_CHARS or (signs == 0 and len(quote.split()) >= MIN_WORDS)


def words_of(text: str) -> str:
    """Letters and digits alone: what remains of a text however it is set, wrapped, marked and hyphenated."""
    bare = PAGE_MARK.sub(" ", TARGET.sub("]", HYPHEN_AT_END.sub("", text)))
    return NO_WORD.sub("", unicodedata.normalize("NFKC", unescape(bare))).casefold()


def occurs(quote: str, words: str) -> bool:
    """Whether a quote is in a text of which these are the words; what it leaves out may be there in between."""
    place = 0
    for part in GAP.split(quote):
        wanted = words_of(part)
        found = words.find(wanted, place)
        if found < 0:
            return False
        place = found + len(wanted)
    return True
