"""Text as words that can be searched: in any script, linear in its length, the same on every database.

Scripts without blanks are cut into overlapping pairs of characters, each run of them followed by its last character
alone: so every character begins a word, and one or two of them can be looked for as well as many. Names in programs are
cut into their parts and kept whole beside them.
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
LONGEST = 64
"""Of a word, so many characters count; what is longer is data rather than language."""
MOST_PHRASES = 16


@dataclass(frozen=True, slots=True)
class Word:
    """A word as it is looked for, and where it stands in the text."""

    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Phrase:
    """Words that follow each other; the last may only be the beginning of one."""

    words: tuple[str, ...]
    is_open: bool = False


def words_of(text: str) -> Iterator[Word]:
    """The words of `text`, in order."""
    for chunk in CHUNK.finditer(text):
        yield from (pairs_of if chunk["unspaced"] else parts_of)(chunk[0], chunk.start())


def terms_of(text: str) -> list[str]:
    """The words of `text` without their places: the same, for whoever writes many."""
    terms: list[str] = []
    for chunk in CHUNK.finditer(text):
        word = chunk[0]
        if is_simple(word):
            terms.append(word.lower()[:LONGEST])
        else:
            terms += [part.text for part in (pairs_of if chunk["unspaced"] else parts_of)(word, 0)]
    return terms


def is_simple(chunk: str) -> bool:
    """Whether a chunk is a word as most are: one part, and nothing to fold but capitals."""
    if not (chunk.isascii() and chunk.isalpha()):
        return chunk.isascii() and chunk.isdigit()
    return chunk.islower() or chunk.isupper() or chunk[1:].islower()


def phrases_of(query: str) -> list[Phrase]:
    """What somebody looks for. Whatever they write, only letters and digits count."""
    chunks = list(CHUNK.finditer(query))[:MOST_PHRASES]
    found = [phrase(chunk[0], bool(chunk["unspaced"]), is_last=chunk.end() == len(query)) for chunk in chunks]
    return list(dict.fromkeys(each for each in found if each.words))


def phrase(chunk: str, is_unspaced: bool, *, is_last: bool) -> Phrase:
    """One chunk of a query; somebody who has not gone on after the last may still be writing it."""
    if is_unspaced:
        pairs = [word.text for word in pairs_of(chunk, 0)]
        return Phrase(tuple(pairs[:-1] or pairs), is_open=len(pairs) == 1)
    return Phrase(tuple(word.text for word in single_parts(chunk, 0)), is_open=is_last)


def pairs_of(chunk: str, start: int) -> Iterator[Word]:
    """Overlapping pairs of characters, then the last character."""
    folded = unicodedata.normalize("NFKC", chunk).casefold()
    is_aligned = len(folded) == len(chunk)
    for index in range(len(folded)):
        place = (index, min(index + 2, len(chunk))) if is_aligned else (0, len(chunk))
        yield Word(folded[index : index + 2], start + place[0], start + place[1])


def parts_of(chunk: str, start: int) -> Iterator[Word]:
    """The parts of a name, then the whole of it if there were several."""
    parts = list(single_parts(chunk, start))
    yield from parts
    if len(parts) > 1:
        yield Word("".join(part.text for part in parts)[:LONGEST], start, start + len(chunk))


def single_parts(chunk: str, start: int) -> Iterator[Word]:
    """What a name is made of: `parse_configFile` is parse, config, file."""
    for piece in PIECE.finditer(chunk):  # each by itself, so that it is cut alike whatever stands beside it
        for part in (PART if piece[0].isascii() else PIECE).finditer(piece[0]):
            if folded := fold(part[0]):
                place = start + piece.start()
                yield Word(folded[:LONGEST], place + part.start(), place + part.end())


def fold(word: str) -> str:
    """A word without what people leave out when they look for it: capitals and accents."""
    if word.isascii():
        return word.lower()
    plain = unicodedata.normalize("NFKD", word).casefold()
    bare = "".join(character for character in plain if not unicodedata.combining(character))
    return "".join(filter(str.isalnum, unicodedata.normalize("NFC", bare)))


def places(text: str, phrases: Sequence[Phrase]) -> list[tuple[int, int]]:
    """Where in `text` the phrases are, in order and without overlaps."""
    words = list(words_of(text))
    starts: dict[str, list[int]] = {}
    for index, word in enumerate(words):
        starts.setdefault(word.text, []).append(index)
    found = sorted(place for phrase in phrases for place in phrase_places(words, starts, phrase))
    return merged(found)


def phrase_places(words: Sequence[Word], starts: dict[str, list[int]], phrase: Phrase) -> Iterator[tuple[int, int]]:
    """Where one phrase is."""
    first, last = phrase.words[0], phrase.words[-1]
    if len(phrase.words) == 1 and phrase.is_open:
        begun = [index for text, indexes in starts.items() if text.startswith(first) for index in indexes]
    else:
        begun = starts.get(first, [])
    for index in begun:
        several = words[index : index + len(phrase.words)]
        texts = tuple(word.text for word in several)
        if texts[:-1] == phrase.words[:-1] and (texts[-1].startswith(last) if phrase.is_open else texts[-1] == last):
            yield several[0].start, ending(several[-1], last)


def ending(word: Word, wanted: str) -> int:
    """Where what was looked for ends in `word`, which may go on."""
    is_aligned = word.end - word.start == len(word.text)
    return word.start + len(wanted) if is_aligned else word.end


def merged(found: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Places that touch as one."""
    joined: list[tuple[int, int]] = []
    for start, end in found:
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((start, end))
    return joined
