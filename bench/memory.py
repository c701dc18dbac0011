"""What it costs to choose from 10,000 facts what a thread is told, and whether facts are found in other words.

The floor is what SQLite itself takes to hand out as many facts by their numbers. Also printed: the milliseconds, which
may be 10 at most, and in how many of 200 questions the fact that answers them is among the first five.
"""

import asyncio
import random
import statistics
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from _measure import Ratio, report
from _memory_questions import questions
from _table import Row
from sqlalchemy import Connection, text

from deerflow.agent_support.tokens import count_text_tokens
from deerflow.config.sections.base import Settings
from deerflow.config.sections.memory import MemoryConfig
from deerflow.domain.memory import CATEGORIES, Fact, MemoryScope, new_fact_id, set_summary, upsert_fact
from deerflow.memory.injection import LedgerRunMemory
from deerflow.memory.ledger import Ledger
from deerflow.memory.service import MemoryService
from deerflow.persistence.engine import open_database
from deerflow.persistence.engine.maintenance import Purger

FACTS, ROUNDS = 10_000, 30
FIRST, FOUND_BAR, MS_BAR, RATIO_BAR = 5, 0.9, 10.0, 25.0
MINE = MemoryScope("me")
WORDS = """
prefers uses likes plans avoids wrote visited project report garden server window market letter engine weekly
customer meeting school river bridge music recipe language editor colour invoice team office train city summer
"""


def main() -> int:
    """Measure once."""
    with tempfile.TemporaryDirectory() as scratch:
        return asyncio.run(measure(Path(scratch) / "memory.db"))


async def measure(file: Path) -> int:
    """The ratios, the milliseconds and the share of facts that are found."""
    async with open_database(file) as database:
        ledger = Ledger(database, Purger(file).purge)
        memories = MemoryService(ledger, Settings(MemoryConfig))
        await fill(ledger)
        first, again, floor = await time_recall(memories)
        found = await count_found(ledger)
    slowest = max(statistics.median(first), statistics.median(again))
    missed = report(
        [
            Ratio("telling a new thread, 10,000 facts", first, floor, RATIO_BAR, "ms"),
            Ratio("telling a thread that goes on", again, floor, RATIO_BAR, "ms"),
        ],
        [
            Row("telling a thread, the slower median", "figure", slowest, "ms", bar=MS_BAR),
            Row(f"facts among the first {FIRST}, of {len(questions())}", "count", found, better="higher"),
        ],
    )
    print(f"median {slowest:.1f} ms (bar ≤ {MS_BAR:g} ms){verdict(slowest <= MS_BAR)}")
    share = found / len(questions())
    result = f"{share:.1%} of {len(questions())} questions (bar ≥ {FOUND_BAR:.0%})"
    print(f"found among the first {FIRST}: {result}{verdict(share >= FOUND_BAR)}")
    return int(bool(missed) or slowest > MS_BAR or share < FOUND_BAR)


async def fill(ledger: Ledger) -> None:
    """The facts that are asked for among others that have many of the same words."""
    chance = random.Random(4711)
    asked = [fact for fact, _ in questions()]
    words = WORDS.split()
    others = [" ".join(["The user", *chance.choices(words, k=9), str(number)]) for number in range(FACTS - len(asked))]
    everything = [*asked, *others]
    chance.shuffle(everything)
    began = datetime.now(UTC)
    for start in range(0, FACTS, 1000):
        edits = [
            upsert_fact(
                Fact(
                    new_fact_id(),
                    content,
                    chance.choice(CATEGORIES),
                    round(chance.uniform(0.7, 1), 2),
                    began + timedelta(seconds=start),
                )
            )
            for content in everything[start : start + 1000]
        ]
        await ledger.apply(MINE, edits, "import")
    await ledger.apply(MINE, [set_summary("user.workContext", "Builds bridges.", began)], "import")


async def time_recall(memories: MemoryService) -> tuple[list[float], list[float], list[float]]:
    """Milliseconds: for a new thread, for one that goes on, and for the floor."""
    first: list[float] = []
    again: list[float] = []
    floor: list[float] = []
    for _, question in questions()[:ROUNDS]:
        began = time.perf_counter()
        await memories.ledger.database.read(hand_out)
        floor.append((time.perf_counter() - began) * 1000)
        began = time.perf_counter()
        told = await LedgerRunMemory(memories, MINE, "t", count_text_tokens).build_injection(question)
        first.append((time.perf_counter() - began) * 1000)
        began = time.perf_counter()
        same = await LedgerRunMemory(memories, MINE, "t", count_text_tokens).restore_injection(told.note)
        again.append((time.perf_counter() - began) * 1000)
        assert told.text == same.text and told.receipt is not None and told.receipt.tokens <= 2000
    return first, again, floor


async def count_found(ledger: Ledger) -> int:
    """In how many questions the fact is among the first."""
    hits = 0
    for fact, question in questions():
        found = await ledger.search(MINE, question, FIRST)
        hits += any(hit.fact.content == fact for hit in found)
    return hits


def hand_out(connection: Connection) -> int:
    """A hundred facts whose numbers are known."""
    wanted = ",".join(str(number * 97 + 1) for number in range(100))
    return len(connection.execute(text(f"SELECT data FROM memory_facts WHERE row_id IN ({wanted})")).all())


def verdict(is_met: bool) -> str:
    """What is printed behind a figure."""
    return "" if is_met else "  MISSED"


if __name__ == "__main__":
    sys.exit(main())
