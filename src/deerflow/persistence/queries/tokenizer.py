"""Tokenizer for full-text search: any script, linear time, the same terms on every database.

Scripts without spaces are split into overlapping pairs of characters, and each sequence ends with its last character
alone: every character begins a term, so queries of one or two characters work too. Identifiers are split into their
parts and also kept whole.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff"  # Thai, Lao, Burmese, Korean letters, Khmer
    "\u2e80-\u2fdf\u3005-\u3007\u3041-\u30ff\u3105-\u318e\u31a0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uffdc\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
CHUNK = re.compile(rf"(?P<unspaced>[{UNSPACED}]+)|[^\W{UNSPACED}]+")
PART = re.compile(r"[A-Z0-9]+(?![a-z])|[A-Z]?[a-z0-9]+|[A-Z0-9]+")
PIECE = re.compile("[^_]+")
MAX_TERM_CHARS = 64
"""Maximum length of a term; longer words are data rather than language."""
MAX_PHRASES = 16


@dataclass(frozen=True, slots=True)
class Token:
    """Term and its position in the text."""

    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Phrase:
    """Consecutive terms; the last may be a prefix."""

    terms: tuple[str, ...]
    is_prefix: bool = False


def tokenize(text: str) -> Iterator[Token]:
    """Yield the tokens of `text`, in order."""
    for chunk in CHUNK.finditer(text):
        yield from (split_pairs if chunk["unspaced"] else split_name)(chunk[0], chunk.start())


def extract_terms(text: str) -> list[str]:
    """Return the terms of `text` without positions; the fast path for indexing."""
    terms: list[str] = []
    for chunk in CHUNK.finditer(text):
        word = chunk[0]
        if is_simple(word):
            terms.append(word.lower()[:MAX_TERM_CHARS])
        else:
            terms += [part.text for part in (split_pairs if chunk["unspaced"] else split_name)(word, 0)]
    return terms


def is_simple(chunk: str) -> bool:
    """Return whether a chunk is one plain ASCII word, of which only the case has to be folded."""
    if not chunk.isascii():
        return False
    if chunk.isalpha():
        return chunk.islower() or chunk.isupper() or chunk[1:].islower()
    return chunk.isdigit() or chunk.isalnum() and chunk.islower() and chunk[0].isalpha()


def parse_query(query: str) -> list[Phrase]:
    """Return the phrases of a user's query. Only letters and digits count."""
    chunks = list(CHUNK.finditer(query))[:MAX_PHRASES]
    found = [build_phrase(chunk[0], bool(chunk["unspaced"]), is_last=chunk.end() == len(query)) for chunk in chunks]
    return list(dict.fromkeys(each for each in found if each.terms))


def build_phrase(chunk: str, is_unspaced: bool, *, is_last: bool) -> Phrase:
    """Return the phrase of one chunk; the last chunk may be incomplete and is matched as a prefix."""
    if is_unspaced:
        pairs = [word.text for word in split_pairs(chunk, 0)]
        return Phrase(tuple(pairs[:-1] or pairs), is_prefix=len(pairs) == 1)
    return Phrase(tuple(word.text for word in split_parts(chunk, 0)), is_prefix=is_last)


def split_pairs(chunk: str, start: int) -> Iterator[Token]:
    """Yield overlapping pairs of characters, then the last character."""
    folded = unicodedata.normalize("NFKC", chunk).casefold()
    is_aligned = len(folded) == len(chunk)
    for index in range(len(folded)):
        position = (index, min(index + 2, len(chunk))) if is_aligned else (0, len(chunk))
        yield Token(folded[index : index + 2], start + position[0], start + position[1])


def split_name(chunk: str, start: int) -> Iterator[Token]:
    """Yield the parts of an identifier, then the whole of it if there are several."""
    parts = list(split_parts(chunk, start))
    yield from parts
    if len(parts) > 1:
        yield Token("".join(part.text for part in parts)[:MAX_TERM_CHARS], start, start + len(chunk))


def split_parts(chunk: str, start: int) -> Iterator[Token]:
    """Yield the parts of an identifier: `parse_configFile` is parse, config, file."""
    for piece in PIECE.finditer(chunk):  # one at a time, so that the split does not depend on the neighbours
        for part in (PART if piece[0].isascii() else PIECE).finditer(piece[0]):
            if folded := normalize(part[0]):
                position = start + piece.start()
                yield Token(folded[:MAX_TERM_CHARS], position + part.start(), position + part.end())


def normalize(word: str) -> str:
    """Return a word in lower case and without accents."""
    if word.isascii():
        return word.lower()
    plain = unicodedata.normalize("NFKD", word).casefold()
    bare = "".join(character for character in plain if not unicodedata.combining(character))
    return "".join(filter(str.isalnum, unicodedata.normalize("NFC", bare)))


def find_matches(text: str, phrases: Sequence[Phrase]) -> list[tuple[int, int]]:
    """Return the positions of the phrases in `text`, sorted and without overlaps."""
    tokens = list(tokenize(text))
    starts: dict[str, list[int]] = {}
    for index, word in enumerate(tokens):
        starts.setdefault(word.text, []).append(index)
    found = sorted(position for phrase in phrases for position in find_phrase(tokens, starts, phrase))
    return merge_ranges(found)


def find_phrase(tokens: Sequence[Token], starts: dict[str, list[int]], phrase: Phrase) -> Iterator[tuple[int, int]]:
    """Yield the positions of one phrase."""
    first, last = phrase.terms[0], phrase.terms[-1]
    if len(phrase.terms) == 1 and phrase.is_prefix:
        begun = [index for text, indexes in starts.items() if text.startswith(first) for index in indexes]
    else:
        begun = starts.get(first, [])
    for index in begun:
        several = tokens[index : index + len(phrase.terms)]
        texts = tuple(word.text for word in several)
        if texts[:-1] == phrase.terms[:-1] and (texts[-1].startswith(last) if phrase.is_prefix else texts[-1] == last):
            yield several[0].start, match_end(several[-1], last)


def match_end(word: Token, wanted: str) -> int:
    """Return where the match of `wanted` ends in `word`, which may be longer."""
    is_aligned = word.end - word.start == len(word.text)
    return word.start + len(wanted) if is_aligned else word.end


def merge_ranges(found: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Merge ranges that touch or overlap."""
    joined: list[tuple[int, int]] = []
    for start, end in found:
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((start, end))
    return joined


MAX_TERMS = 32
MIN_STEM_CHARS = 4
SUFFIXES = (
    *("ations", "ation", "ences", "ence", "ances", "ance", "ments", "ment", "ions", "ion"),
    *("ings", "ing", "ers", "ies", "ied", "ed", "er", "es", "ly", "s", "y", "e"),
)
"""English suffixes, longest first."""
STOP_WORD_TEXT = """
a about an and any are as at be been by can could did do does for from had has have he her his how i if in into is it
its like me my of on or our should so that the their them then there these they this to us user was we were what when
where which who whom whose why will with would you your 什么 怎么 我的
"""
STOP_WORDS = frozenset(STOP_WORD_TEXT.split())
"""Words that occur in too many texts to be significant."""


@dataclass(frozen=True, slots=True)
class QueryTerm:
    """Term, or prefix of several terms."""

    text: str
    is_prefix: bool = False


def parse_terms(query: str) -> list[QueryTerm]:
    """Return the terms of a query; stop words only when there are no others."""
    found: dict[str, QueryTerm] = {}
    for chunk in CHUNK.finditer(query):
        for each in to_pair_terms(chunk[0]) if chunk["unspaced"] else to_stem_terms(chunk[0]):
            found.setdefault(each.text, each)
    significant = [each for each in found.values() if each.text not in STOP_WORDS]
    return (significant or list(found.values()))[:MAX_TERMS]


def to_pair_terms(chunk: str) -> list[QueryTerm]:
    """Return pairs of characters; a single character is a prefix of pairs."""
    pairs = [word.text for word in split_pairs(chunk, 0)]
    if len(pairs) == 1:
        return [QueryTerm(pairs[0], is_prefix=True)]
    return [QueryTerm(pair) for pair in pairs[:-1]]


def to_stem_terms(chunk: str) -> list[QueryTerm]:
    """Return the stems of a word or of the parts of an identifier."""
    words = [word.text for word in split_name(chunk, 0)]
    return [QueryTerm(find_stem(word), is_prefix=True) if is_inflected(word) else QueryTerm(word) for word in words]


def is_inflected(word: str) -> bool:
    """Return whether a word may have inflected forms with the same stem."""
    return len(word) >= MIN_STEM_CHARS and word.isascii() and word.isalpha() and word not in STOP_WORDS


def find_stem(word: str) -> str:
    """Return the common prefix of a word and its inflected forms."""
    for ending in SUFFIXES:
        stem = word.removesuffix(ending)
        if stem != word and len(stem) >= MIN_STEM_CHARS:
            is_doubled = ending in ("ing", "ed", "er", "ers") and stem[-1] == stem[-2] and stem[-1] not in "ls"
            return stem[:-1] if is_doubled else stem
    return word
