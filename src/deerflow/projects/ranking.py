"""Ranking of passages: by their words and vectors as a whole, and by their best sentence.

Neither is best for every document. A passage about one subject is found by all of its words, those of its headings and
of the name of the file, and by its vector. A passage that mixes subjects is found by the sentence that has the words of
the question together, and often something that the question does not have: a date for "when", a person for "who".
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from math import log
from types import MappingProxyType

from deerflow.domain.projects import PassageHit
from deerflow.persistence.queries.tokenizer import (
    CHUNK,
    MAX_TERMS,
    STOP_WORDS,
    extract_terms,
    find_stem,
    split_name,
    split_pairs,
)

Comparison = Callable[[Sequence[str], Sequence[str]], Sequence[Sequence[float]]]
"""(texts, others) → for each text, its similarity with each of the others, from -1 to 1."""
NO_SIMILARITIES: Mapping[int, float] = MappingProxyType({})

RANK_OFFSET = 2
"""Constant of reciprocal rank fusion: small, so that the first few of each ranking are among the first few."""
SENTENCE_SHARE, SENTENCE_SHARE_OF_WORDS = 2.0, 5.0
"""Weight of the ranking by sentences beside that of whole passages, which is weaker without vectors."""
SATURATION, LENGTH_SHARE = 1.2, 0.75
"""Constants of BM25: how much a word counts that occurs again, and how much less it counts in a longer text."""
FIELD_WEIGHT = 1.0
"""Weight of a word in the name of the file or in the headings; BM25 with several fields."""
VECTOR_WEIGHT = 2.0
"""Weight of the similarity of vectors; the words of the question have 1 together."""
ANSWER_WEIGHT = 2.0
"""Weight of the kind of answer; a rare word has about 5."""
SENTENCE_WEIGHT = 4.0
"""Weight of the similarity of whole sentences."""
HEADING_WEIGHT, BEFORE_WEIGHT = 0.6, 0.4
"""Weights of words that are not in a sentence but in the headings above it, or in the sentences before it."""
NEAR_SENTENCES = 3
COMPARED_SENTENCES = 60
"""Number of the best sentences that are compared as a whole."""
MAX_SENTENCE_CHARS = 400
MIN_STEM_CHARS = 4
MAX_ENDING_CHARS = 3
SENTENCE_END = re.compile(r"(?<=[.!?;:])\s+|(?<=[。！？；])|\n+(?![a-z(])|\n{2,}")
MONTH = (
    "jan(uary?)?|feb(ruary?)?|march|märz|apr(il)?|may|mai|june?|juni|july?|juli|aug(ust)?|sept?(ember)?|o[ck]t(ober)?"
    "|nov(ember)?|de[cz](ember)?"
)
ANSWER_KINDS: Sequence[tuple[re.Pattern[str], re.Pattern[str]]] = tuple(
    (re.compile(asked, re.IGNORECASE), re.compile(given, re.IGNORECASE))
    for asked, given in (
        (r"\bhow (many|much)\b|\bwie viele?\b|多少|几", r"\d"),
        (
            r"\bwhen\b|\b(what|which) (date|day|month|year|week)|\bhow long\b|\bwann\b|\bwie lange\b"
            r"|什么时候|多久|哪一?[年月天]",
            rf"\b({MONTH})\b|\b(1[5-9]|20)\d\d\b|\d[./-]\d|\d+[年月天周]"
            r"|\d+ (second|minute|hour|day|week|month|year|tag|woche|monat|jahr)",
        ),
        (
            r"\bprice|\bcosts?\b|\bexpensive|\bpaid\b|\bpay\b|\bpreis|\bkoste|teuer|多少钱|价格",
            r"[$€£¥]|\d\s*(k|m|thousand|million)?\s*(euros?|dollars?|pounds?|yen|francs?|usd|eur|chf)\b|\d元",
        ),
        (r"temperature|\bhow (hot|cold|warm)\b|temperatur|温度|多热", r"\d\s*(degrees?|°|celsius|kelvin|grad|度)"),
        (
            r"\bweigh|\bhow heavy\b|gewicht|schwer|重量|多重",
            r"\d\s*(kg|g|kilograms?|grams?|tons?|tonnes?|pounds?|kilogramm|tonnen|公斤|千克|吨)",
        ),
        (
            r"\bhow (far|tall|high|wide|deep|large|big)\b|height|length|width|distance|\bwie (hoch|weit|breit)"
            r"|多[高远宽长]",
            r"\d\s*(m|cm|mm|km|met(er|re)s?|kilomet(er|re)s?|feet|miles?|inch|inches|hectares?|米|公里)\b",
        ),
        (r"\bhow loud\b|\bnoise|\blaut\b|噪音", r"\d\s*(db|decibels?|dezibel|分贝)"),
        (r"\bhow fast\b|\bspeed|geschwindig|速度", r"\d\s*(km/h|mph|m/s|knots?|(kilometres|miles) per)"),
        (
            r"\bpower\b|\benergy|electricity|\bstrom|耗电|电量",
            r"\d\s*(k|m|g)?(watts?|w|wh|joules?|j|kwh|mwh)\b|\d\s*kilowatt",
        ),
        (r"\bpercent|\bshare of\b|\bprozent|百分", r"\d\s*(%|percent|prozent)|百分之"),
        (
            r"\bcolou?r|\bfarbe|颜色",
            r"\b(red|orange|yellow|green|blue|purple|violet|pink|brown|black|white|gr[ea]y|silver|gold|beige)\b|[红黄绿蓝紫黑白灰]",
        ),
        (
            r"\bwhy\b|\breason|\bwhat caused|\bwarum|\bweshalb|为什么|原因",
            r"\bbecause\b|\bdue to\b|\bcaused?\b|\breason|\bowing to\b|\bweil\b|\bwegen\b|\bdurch\b|因为|由于|原因",
        ),
    )
)
"""Questions and what their answers have, as in the taxonomies of question answering."""
NAME_KINDS: Sequence[tuple[re.Pattern[str], re.Pattern[str]]] = tuple(
    (re.compile(asked, re.IGNORECASE), re.compile(given))
    for asked, given in (
        (
            r"\bwho(m|se)?\b|\b(what|which) (person|man|woman)\b|\bwer\b|\bwem\b|\bwessen\b",
            r"\b[A-Z][a-z]+ (?:[A-Z]\. )?[A-Z][a-z]+",
        ),
        (
            r"\bwhere\b|\b(what|which) (town|city|country|place|region)\b|\blocation\b|\bwo\b"
            r"|\bwelche[rmsn]? (stadt|land|ort)\b",
            rf"\b(?:in|at|near|of|from|to|von|bei)\s+(?!(?i:{MONTH})\b)[A-Z][\w-]+",
        ),
        (
            r"\b(what|which|whose) (company|firm|supplier|maker|product|brand)\b|\bwho (ma[dk]e|suppli|deliver|s[eo]l)|"
            r"\bmanufacturer|\bwelche[rmsn]? firma\b",
            r"(?<!^)(?<![.!?] )\b[A-Z][\w&-]*[a-z]|^[A-Z]\w+ (?!is|was|has)",
        ),
    )
)
"""Questions for names and what names look like; those in the question itself do not count."""
IRREGULAR_TEXT = """
began begun begin|bought buy|brought bring|built build|broke broken break|chose chosen choose|came come
drove driven drive|fell fallen fall|felt feel|found find|flew flown fly|forgot forgotten forget
froze frozen freeze|gave given give
went gone go|grew grown grow|held hold|kept keep|knew known know|laid lay|led lead|left leave|lent lend|lost lose
made make|meant mean|met meet|paid pay|ran run|rose risen rise|said say|saw seen see|sold sell|sent send|shot shoot
showed shown show|spoke spoken speak|spent spend|stood stand|stole stolen steal|struck strike|took taken take
taught teach|told tell|thought think|threw thrown throw|understood understand|won win|wrote written write|wore worn wear
people person|men man|women woman|children child|feet foot
"""
IRREGULAR: Mapping[str, str] = MappingProxyType(
    {
        form: forms[-1]
        for forms in (each.split() for line in IRREGULAR_TEXT.split("\n") for each in line.split("|"))
        for form in forms[:-1]
    }
)
"""Base forms of irregular English words."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """Sentence of a passage, which is given by its place in the list."""

    passage: int
    text: str
    words: Sequence[str]
    headings: Sequence[str]
    """Words of the headings above it and of the name of the file."""
    before: Sequence[str]
    """Words of the sentences before it, which often name what it is about."""


@dataclass(frozen=True, slots=True)
class Question:
    """Words of a question, pairs of them that follow each other, and patterns of its answer."""

    words: Sequence[str]
    pairs: Sequence[tuple[str, str]]
    answers: Sequence[re.Pattern[str]]
    names: Sequence[re.Pattern[str]]


def rank_passages(
    query: str,
    passages: Sequence[PassageHit],
    similarities: Mapping[int, float] = NO_SIMILARITIES,
    compare: Comparison | None = None,
) -> Sequence[PassageHit]:
    """Return the passages, the best first.

    `similarities` are those of the vectors of the passages with that of the query, by the id of the passage.
    """
    question = parse_question(query)
    if not question.words or not passages:
        return sorted(passages, key=lambda hit: -similarities.get(hit.passage_id, 0.0))
    lexical = score_passages(question, passages)
    whole = [
        score + VECTOR_WEIGHT * similarities.get(hit.passage_id, 0.0)
        for hit, score in zip(passages, lexical, strict=True)
    ]
    best = score_best_sentences(query, question, passages, compare)
    share = SENTENCE_SHARE if similarities else SENTENCE_SHARE_OF_WORDS
    order = fuse_rankings([(1.0, rank(whole)), (share, rank(best))])
    rest = [place for place in range(len(passages)) if place not in set(order)]
    return [passages[place] for place in (*order, *rest)]


def rank(scores: Sequence[float]) -> Sequence[int]:
    """Return the places of the scores above 0, that of the highest first."""
    return sorted((place for place, score in enumerate(scores) if score > 0), key=lambda place: (-scores[place], place))


def fuse_rankings(rankings: Iterable[tuple[float, Sequence[int]]]) -> Sequence[int]:
    """Return the items of several rankings, each with its weight, in one order: by reciprocal rank fusion."""
    scores: dict[int, float] = {}
    for weight, ranking in rankings:
        for place, item in enumerate(ranking, 1):
            scores[item] = scores.get(item, 0.0) + weight / (RANK_OFFSET + place)
    return sorted(scores, key=lambda item: (-scores[item], item))


def score_passages(question: Question, passages: Sequence[PassageHit]) -> Sequence[float]:
    """Return BM25 of the passages with the words of their headings and file names, as a share of the best possible."""
    fields = [
        [Counter(map(to_stem, extract_terms(text))) for text in (f"{hit.file_name} {hit.headings}", hit.text)]
        for hit in passages
    ]
    sizes = [text.total() for _, text in fields]
    average = sum(sizes) / len(sizes) or 1.0
    words = [*dict.fromkeys(map(to_stem, question.words))]
    counts = [sum(word in headings or word in text for headings, text in fields) for word in words]
    weights = [log(1 + (len(passages) - count + 0.5) / (count + 0.5)) for count in counts]
    most = (SATURATION + 1) * sum(weights) or 1.0
    scores: list[float] = []
    for (headings, text), size in zip(fields, sizes, strict=True):
        shrink = 1 - LENGTH_SHARE + LENGTH_SHARE * size / average
        found = [text[word] / shrink + FIELD_WEIGHT * headings[word] for word in words]
        parts = (weight * often / (often + SATURATION) for weight, often in zip(weights, found, strict=True))
        scores.append((SATURATION + 1) * sum(parts) / most)
    return scores


def score_best_sentences(
    query: str, question: Question, passages: Sequence[PassageHit], compare: Comparison | None
) -> Sequence[float]:
    """Return the score of the best sentence of each passage."""
    sentences = [each for place, hit in enumerate(passages) for each in split_sentences(place, hit)]
    scores = score_sentences(question, sentences, compare)
    if compare is not None and sentences:
        best = sorted(range(len(scores)), key=lambda at: -scores[at])[:COMPARED_SENTENCES]
        (similar,) = compare([query], [sentences[at].text for at in best])
        for at, value in zip(best, similar, strict=True):
            scores[at] += SENTENCE_WEIGHT * value
    highest = [0.0] * len(passages)
    for sentence, score in zip(sentences, scores, strict=True):
        highest[sentence.passage] = max(score, highest[sentence.passage])
    return highest


def parse_question(query: str) -> Question:
    """Return the words of a query, without stop words, and the kinds of answer it asks for."""
    words: list[str] = []
    for chunk in CHUNK.finditer(query):
        parts = [each.text for each in (split_pairs if chunk["unspaced"] else split_name)(chunk[0], 0)]
        words += parts[:-1] or parts if chunk["unspaced"] else parts
    significant = [word for word in dict.fromkeys(words) if word not in STOP_WORDS][:MAX_TERMS]
    pairs = [pair for pair in dict.fromkeys(pairwise(words)) if not STOP_WORDS & {*pair}][:MAX_TERMS]
    answers, names = ([given for asked, given in kinds if asked.search(query)] for kinds in (ANSWER_KINDS, NAME_KINDS))
    return Question(significant, pairs, answers, names)


def split_sentences(passage: int, hit: PassageHit) -> Iterator[Sentence]:
    """Yield the sentences of a passage. A line that goes on in lower case is not the end of a sentence."""
    headings = extract_terms(f"{hit.file_name} {hit.headings}")
    before: list[Sequence[str]] = []
    for part in SENTENCE_END.split(hit.text):
        if part.startswith("#"):
            headings = [*headings, *extract_terms(part)]
        for start in range(0, len(part), MAX_SENTENCE_CHARS):
            piece = part[start : start + MAX_SENTENCE_CHARS]
            if words := extract_terms(piece):
                yield Sentence(
                    passage, piece, words, headings, [word for each in before[-NEAR_SENTENCES:] for word in each]
                )
                before.append(words)


def score_sentences(question: Question, sentences: Sequence[Sentence], compare: Comparison | None) -> list[float]:
    """Return a score for each sentence: the weights of the words, pairs and kinds of answer that it has.

    A word that is only in its headings or in the sentences before it counts less.
    """
    vocabulary = sorted({word for each in sentences for word in (*each.words, *each.headings)})
    matches = find_matching_words(question.words, vocabulary)
    similarity = compare_words(question.words, vocabulary, matches, compare)
    texts = [frozenset(sentence.words) for sentence in sentences]
    contexts = [(frozenset(sentence.headings), frozenset(sentence.before)) for sentence in sentences]
    pairs = [frozenset(pairwise(sentence.words)) for sentence in sentences]
    total = len(sentences)
    weights = [log(1 + total / max(1, sum(not same.isdisjoint(words) for words in texts))) for same in matches]
    pair_weights = [log(1 + total / max(1, sum(pair in each for each in pairs))) for pair in question.pairs]
    rate = partial(rate_answer, question, STOP_WORDS.union(question.words))
    return [
        sum(weight * rate_word(row, words, context) for weight, row in zip(weights, similarity, strict=True))
        + sum(weight for weight, pair in zip(pair_weights, question.pairs, strict=True) if pair in own_pairs)
        + ANSWER_WEIGHT * rate(sentence.text)
        for sentence, words, context, own_pairs in zip(sentences, texts, contexts, pairs, strict=True)
    ]


def rate_word(
    similarity: Mapping[str, float], words: frozenset[str], context: tuple[frozenset[str], frozenset[str]]
) -> float:
    """Return how well a sentence has a word of the question, from 0 to 1."""
    headings, before = context
    return max(
        max(similarity[word] for word in words),
        HEADING_WEIGHT * max((similarity[word] for word in headings), default=0.0),
        BEFORE_WEIGHT * max((similarity[word] for word in before), default=0.0),
    )


def find_matching_words(words: Sequence[str], vocabulary: Sequence[str]) -> list[frozenset[str]]:
    """Return, for each word, the words of the vocabulary that are forms of it."""
    stems = {word: to_stem(word) for word in vocabulary}
    return [
        frozenset(other for other, stem in stems.items() if other == word or is_same_stem(to_stem(word), stem))
        for word in words
    ]


def compare_words(
    words: Sequence[str],
    vocabulary: Sequence[str],
    matches: Sequence[frozenset[str]],
    compare: Comparison | None,
) -> list[Mapping[str, float]]:
    """Return, for each word, its similarity with each of the vocabulary: 1 for its forms."""
    rows = [[0.0] * len(vocabulary) for _ in words] if compare is None else compare(words, vocabulary)
    return [
        {other: 1.0 if other in same else max(0.0, value) for other, value in zip(vocabulary, row, strict=True)}
        for same, row in zip(matches, rows, strict=True)
    ]


def to_stem(word: str) -> str:
    """Return the stem of a word; of irregular verbs, that of the base form."""
    base = IRREGULAR.get(word, word)
    if not base.isascii() or not base.isalpha():
        return base
    return base[:-1] if len(base) == MIN_STEM_CHARS and base.endswith("s") else find_stem(base)


def is_same_stem(stem: str, other: str) -> bool:
    """Return whether two stems differ by an ending only: consum(e) and consumpt(ion)."""
    shorter, longer = sorted((stem, other), key=len)
    if shorter == longer:
        return True
    is_near = len(shorter) >= MIN_STEM_CHARS and len(longer) - len(shorter) <= MAX_ENDING_CHARS
    return is_near and shorter.isalpha() and shorter.isascii() and longer.startswith(shorter)


def rate_answer(question: Question, known: frozenset[str], sentence: str) -> float:
    """Return the share of the kinds of answer asked for that a sentence has."""
    wanted = len(question.answers) + len(question.names)
    if not wanted:
        return 0.0
    given = sum(bool(kind.search(sentence)) for kind in question.answers)
    named = sum(
        any(not known.issuperset(extract_terms(name[0])) for name in kind.finditer(sentence)) for kind in question.names
    )
    return (given + named) / wanted
