"""Documents with planted facts, questions about them in other words, and distractors, generated from a seed.

Facts and questions are combined at random, so that some questions share words with their fact and others only its name.
Nothing here was chosen with regard to an embedding model or a tokenizer.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from _knowledge_texts import CHINESE, ENGLISH, GERMAN, LanguageTexts

DISTRACTORS = 32
"""Sentences about the subject of each question, in other places, that do not answer it."""
OTHER_FACTS = 10
"""Number of these that are facts about the same subject, of another kind."""
LINES = 18
"""Lines of a page before sentences are inserted."""

Format = Literal["pdf", "md", "docx", "xlsx", "pptx", "py"]
FORMATS: Sequence[Format] = ("pdf", "md", "docx", "pdf", "xlsx", "py", "pdf", "pptx", "md", "py")
"""Formats of documents, in turn."""


@dataclass(frozen=True, slots=True)
class PlantedQuestion:
    """Question, the sentence that answers it, and where that is: page, and line of it on the page."""

    text: str
    fact: str
    document: int
    page: int
    language: str


@dataclass(frozen=True, slots=True)
class Document:
    """Pages of a document, each with its lines."""

    format: Format
    pages: list[list[str]]


@dataclass(frozen=True, slots=True)
class Corpus:
    """Documents and the questions about them."""

    documents: list[Document]
    questions: list[PlantedQuestion]


def generate(documents: int, pages: int, questions: int, seed: int = 7) -> Corpus:
    """Return documents of `pages` pages with facts: `questions` in English, a tenth of that in other languages."""
    dice = random.Random(seed)
    shares = ((ENGLISH, questions), (GERMAN, questions // 10), (CHINESE, questions // 10))
    made: list[Document] = []
    planted: list[PlantedQuestion] = []
    for texts, count in shares:
        share = max(1, documents * count // sum(each for _, each in shares))
        own = [
            Document(FORMATS[at % len(FORMATS)], [list(write_page(dice, texts)) for _ in range(pages)])
            for at in range(share if texts is not ENGLISH else documents - 2 * (documents // 12))
        ]
        planted += [plant(dice, texts, own, len(made), name) for name in choose_names(dice, texts, count)]
        made += own
    return Corpus(made, [locate(made, each) for each in planted])


def choose_names(dice: random.Random, texts: LanguageTexts, count: int) -> Sequence[tuple[str, str]]:
    """Return names of different subjects; many share one of their two words."""
    names = [(subject, kind) for subject in texts.subjects for kind in texts.kinds]
    return dice.sample(names, count)


def plant(
    dice: random.Random, texts: LanguageTexts, documents: Sequence[Document], first: int, name: tuple[str, str]
) -> PlantedQuestion:
    """Insert a fact about a subject and its distractors, and return the question. Its page is found afterwards."""
    asked, *others = dice.sample(texts.facts, min(OTHER_FACTS, len(texts.facts) - 1) + 1)
    sentence = fill(dice, texts, dice.choice(asked.statements), name)
    at = dice.randrange(len(documents))
    insert(dice, documents[at], sentence)
    wrong = [dice.choice(other.statements) for other in others]
    wrong += [dice.choice(texts.distractors) for _ in range(DISTRACTORS - len(wrong))]
    for template in wrong:
        insert(dice, dice.choice(documents), fill(dice, texts, template, name))
    question = fill(dice, texts, dice.choice(asked.questions), name)
    return PlantedQuestion(question, sentence, first + at, 0, texts.language)


def fill(dice: random.Random, texts: LanguageTexts, template: str, name: tuple[str, str]) -> str:
    """Return a sentence with names and numbers."""
    values = {key: dice.choice(choices) for key, choices in texts.values.items()}
    return template.format(s=name[0], k=name[1], n=dice.randint(100, 9999), d=dice.randint(20, 99), **values)


def insert(dice: random.Random, document: Document, sentence: str) -> None:
    """Insert a sentence somewhere in a document."""
    lines = dice.choice(document.pages)
    lines.insert(dice.randrange(len(lines) + 1), sentence)


def write_page(dice: random.Random, texts: LanguageTexts) -> Iterator[str]:
    """Yield the lines of a page: about other things, of which half also have names, numbers and persons."""
    for _ in range(LINES):
        name = (dice.choice(texts.subjects), dice.choice(texts.kinds))
        yield fill(dice, texts, dice.choice(texts.filler), name)


def locate(documents: Sequence[Document], question: PlantedQuestion) -> PlantedQuestion:
    """Return a question with the page of its fact."""
    pages = documents[question.document].pages
    (page,) = (number for number, lines in enumerate(pages, 1) if question.fact in lines)
    return PlantedQuestion(question.text, question.fact, question.document, page, question.language)
