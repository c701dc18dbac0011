"""What it costs to search 10,000 messages, against what SQLite itself takes to hand out as many rows by their numbers.

Words that are rare, common, unfinished and Chinese, with one character and with many. Queries go through the function
that serves the page, so ranking, snippets and marks are in it. Also: what indexing adds to keeping messages.
"""

import asyncio
import random
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from _measure import Ratio, report
from sqlalchemy import Connection, text

from deerflow.domain.threads import SearchableMessage
from deerflow.persistence.engine import open_database
from deerflow.persistence.engine.database import Database
from deerflow.persistence.queries.search import index_messages, search_text
from deerflow.persistence.queries.threads import insert_thread

THREADS, MESSAGES = 100, 10_000
ROUNDS = 15
WORDS = ["river", "stone", "market", "engine", "parser", "token", "window", "garden", "letter", "silver", "answer"]
CHINESE = "数据库连接失败索引查询结果用户文件系统模型运行时间语言处理"
QUERIES = {"rare": "needle", "common": "engine", "several": "engine parser token", "unfinished": "gard"}
CHINESE_QUERIES = {"one character": "库", "two characters": "索引", "many characters": "数据库连接失败"}
BARS = {"one character": 150.0}
BAR = 80.0


def main() -> int:
    """Measure once."""
    with tempfile.TemporaryDirectory() as scratch:
        return report(asyncio.run(measure(Path(scratch) / "search.db")))


async def measure(file: Path) -> list[Ratio]:
    """One ratio for each kind of query, and one for writing."""
    async with open_database(file) as database:
        written = await fill(database)
        ratios = []
        for name, query in {**QUERIES, **CHINESE_QUERIES}.items():
            ours: list[float] = []
            floor: list[float] = []
            for _ in range(ROUNDS):
                floor.append(await timed(database, hand_out))
                ours.append(await timed(database, partial(search_text, owner="me", query=query, limit=20)))
            ratios.append(Ratio(f"20 hits of 10,000 messages, {name}", ours, floor, BARS.get(name, BAR), "ms"))
        return [*ratios, written]


async def fill(database: Database) -> Ratio:
    """Write the messages, and compare with writing them without an index."""
    chance = random.Random(4711)
    ours: list[float] = []
    floor: list[float] = []
    for number in range(THREADS):
        thread_id = f"t{number}"
        await database.write(partial(insert_thread, thread_id=thread_id, owner="me", metadata={}))
        said = [message(chance, f"{number}-{each}") for each in range(MESSAGES // THREADS)]
        floor.append(await timed_write(database, partial(only_keep, said=said)))
        index = partial(index_messages, thread_id=thread_id, owner="me", messages=said)
        ours.append(await timed_write(database, index))
    return Ratio("keeping 100 messages, with words", ours[5:], floor[5:], 25.0, "ms")


def message(chance: random.Random, name: str) -> SearchableMessage:
    """Some English and some Chinese, about 800 characters."""
    english = " ".join(chance.choices(WORDS, k=80))
    chinese = "".join(chance.choices(CHINESE, k=120))
    needle = " needle" if chance.random() < 0.002 else ""
    return SearchableMessage(name, "ai", f"{english} {chinese}{needle}", datetime.now(UTC))


def only_keep(connection: Connection, said: list[SearchableMessage]) -> None:
    """The least there is to do: the texts as they are."""
    connection.exec_driver_sql("CREATE TABLE IF NOT EXISTS floor_texts (row_id INTEGER PRIMARY KEY, text TEXT)")
    rows = [(each.text,) for each in said]
    connection.exec_driver_sql("INSERT INTO floor_texts (text) VALUES (?)", rows)


def hand_out(connection: Connection) -> int:
    """Twenty rows whose numbers are known."""
    wanted = ",".join(str(number * 97 + 1) for number in range(20))
    return len(connection.execute(text(f"SELECT * FROM search_messages WHERE row_id IN ({wanted})")).all())


async def timed(database: Database, query: Callable[[Connection], object]) -> float:
    """Milliseconds."""
    began = time.perf_counter()
    await database.read(query)
    return (time.perf_counter() - began) * 1000


async def timed_write(database: Database, change: Callable[[Connection], object]) -> float:
    """Milliseconds."""
    began = time.perf_counter()
    await database.write(change)
    return (time.perf_counter() - began) * 1000


if __name__ == "__main__":
    sys.exit(main())
