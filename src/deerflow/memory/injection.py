"""Which part of a memory a thread is told, within how many tokens, and in which words."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import TypeVar

from deerflow.domain.memory import SUMMARY_KEYS, Fact, Summary, SummaryKey
from deerflow.persistence.memory_telling import Tellable

Item = TypeVar("Item")
Measure = Callable[[str], int]
"""How many tokens a text takes."""

TITLES: Mapping[SummaryKey, tuple[str, str]] = {
    "user.workContext": ("User Context", "Work"),
    "user.personalContext": ("User Context", "Personal"),
    "user.topOfMind": ("User Context", "Current Focus"),
    "history.recentMonths": ("History", "Recent"),
    "history.earlierContext": ("History", "Earlier"),
    "history.longTermBackground": ("History", "Background"),
}
BLOCK = Template(Path(__file__).with_suffix(".md").read_text(encoding="utf-8").strip())
HEADINGS_TOKENS = 24
"""What the three headings take at most."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """What is told."""

    summaries: Mapping[SummaryKey, Summary]
    facts: Sequence[Fact]


@dataclass(frozen=True, slots=True)
class Room:
    """How much may be told, and how much of it is set aside for corrections."""

    tokens: int = 2000
    correction_tokens: int = 500


def choose(known: Tellable, room: Room, measure: Measure) -> Chosen:
    """As much as there is room for: corrections, then summaries, then what fits and what is surest."""
    left = room.tokens - measure(BLOCK.template) - HEADINGS_TOKENS
    corrections, spent = fill(known.corrections, min(left, room.correction_tokens), fact_line, measure)
    left -= spent
    ordered = [(key, known.summaries[key]) for key in SUMMARY_KEYS if key in known.summaries]
    summaries, spent = fill(ordered, left, lambda each: summary_line(*each), measure)
    left -= spent
    told = {fact.id for fact in corrections}
    others = {fact.id: fact for fact in (*known.fitting, *known.corrections, *known.leading) if fact.id not in told}
    facts, _ = fill(others.values(), left, fact_line, measure)
    return Chosen(dict(summaries), [*corrections, *facts])


def fill(items: Iterable[Item], room: int, line: Callable[[Item], str], measure: Measure) -> tuple[list[Item], int]:
    """The items whose lines there is room for, in their order, and what they take; one too long is passed over."""
    chosen: list[Item] = []
    spent = 0
    for item in items:
        size = measure(f"{line(item)}\n")
        if spent + size <= room:
            chosen.append(item)
            spent += size
    return chosen, spent


def in_words(chosen: Chosen) -> str:
    """What the model reads; empty when there is nothing to tell."""
    parts: dict[str, list[str]] = {}
    for key in SUMMARY_KEYS:
        if key in chosen.summaries:
            parts.setdefault(TITLES[key][0], []).append(summary_line(key, chosen.summaries[key]))
    if chosen.facts:
        parts["Facts"] = [fact_line(fact) for fact in chosen.facts]
    if not parts:
        return ""
    return BLOCK.substitute(known="\n\n".join("\n".join([f"{title}:", *lines]) for title, lines in parts.items()))


def fact_line(fact: Fact) -> str:
    """A fact on one line. What was wrong before is not told: it would be in view again."""
    return f"- [{fact.category} | {fact.confidence:.2f}] {harmless(fact.content)}"


def summary_line(key: SummaryKey, summary: Summary) -> str:
    """A summary on one line."""
    return f"- {TITLES[key][1]}: {harmless(summary.summary)}"


def harmless(text: str) -> str:
    """`text` on one line that cannot pass for the end of the block."""
    return " ".join(text.split()).replace("<", "‹").replace(">", "›")
