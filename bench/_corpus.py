"""A database with a million messages of two owners, built once and kept in the cache directory of the user.

Words are distributed as in languages: the most frequent is in nearly every message, most are rare. Every fourth message
is Chinese. One owner has 99 of 100 messages, the other has the rest, spread over all of them.
"""

import os
import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from hashlib import sha256
from itertools import accumulate
from pathlib import Path

from deerflow.persistence.engine.schema import SCHEMA_VERSION, SQLITE_SCHEMA
from deerflow.persistence.queries.search import owner_term
from deerflow.persistence.queries.tokenizer import extract_terms

MESSAGES = 1_000_000
THREADS = 10_000
OWNER, SMALL_OWNER = "me", "other"
OWNER_TERMS = {owner: owner_term(owner) for owner in (OWNER, SMALL_OWNER)}
BATCH = 20_000
WORDS_PER_MESSAGE, CHARACTERS_PER_MESSAGE = 30, 60
VOCABULARY = 30_000
RARE_WORD = "needle"
CONSONANTS = "bcdfghjklmnprstvwz"
SETTINGS = ("journal_mode=OFF", "synchronous=OFF", "cache_size=-400000")


def open_corpus() -> Path:
    """Return the database file; build it if it does not exist for this schema and this program."""
    key = sha256(SQLITE_SCHEMA.read_bytes() + Path(__file__).read_bytes()).hexdigest()[:16]
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "deerflow" / "bench"
    file = folder / f"messages-{MESSAGES}-{key}.db"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("messages-*"):
            old.unlink()
        building = file.with_suffix(".building")
        with closing(sqlite3.connect(building, isolation_level=None)) as connection:
            fill(connection)
        building.rename(file)
    return file


def create_tables(connection: sqlite3.Connection) -> None:
    """Create the tables in an empty file."""
    connection.executescript(SQLITE_SCHEMA.read_text())
    connection.execute("INSERT INTO alembic_version VALUES (?)", (SCHEMA_VERSION,))


def add_threads(
    connection: sqlite3.Connection, count: int, name: str = "thread", owner: str | None = None, runs: int = 1
) -> None:
    """Insert threads with ended runs, all of one owner or of both."""
    threads = [(f"{name}-{number}", owner or find_owner(number), number) for number in range(count)]
    connection.executemany(INSERT_THREAD, threads)
    rows = ((f"run-{thread}-{run}", thread, owner, at + run) for thread, owner, at in threads for run in range(runs))
    connection.executemany(INSERT_RUN, rows)


def fill(connection: sqlite3.Connection) -> None:
    """Create the tables and all rows."""
    for setting in SETTINGS:
        connection.execute(f"PRAGMA {setting}")
    create_tables(connection)
    connection.execute("BEGIN")
    add_threads(connection, THREADS)
    texts = generate_texts()
    for first in range(0, MESSAGES, BATCH):
        rows = [(number, next(texts)) for number in range(first + 1, first + BATCH + 1)]
        connection.executemany(INSERT_MESSAGE, [build_row(number, text) for number, text in rows])
        terms = [(number, " ".join(extract_terms(text)), OWNER_TERMS[find_owner(number)]) for number, text in rows]
        connection.executemany("INSERT INTO search_terms (rowid, terms, owner) VALUES (?, ?, ?)", terms)
    connection.execute("COMMIT")


INSERT_THREAD = """
INSERT INTO threads (thread_id, owner, title, metadata, created_at, updated_at)
VALUES (?1, ?2, 'Thread ' || ?3, '{}', ?3, ?3)
"""
INSERT_RUN = """
INSERT INTO runs (run_id, thread_id, owner, assistant_id, status, on_disconnect, process, request, metadata,
  created_at, updated_at, position) VALUES (?1, ?2, ?3, 'lead_agent', 'success', 'cancel', 'p', '{}', '{}', ?4, ?4, ?4)
"""
INSERT_MESSAGE = """
INSERT INTO search_messages (row_id, owner, thread_id, run_id, message_id, part, role, text, created_at)
VALUES (?, ?, ?, ?, ?, 0, ?, ?, ?)
"""


def find_owner(number: int) -> str:
    """Return the owner of a thread or message."""
    return SMALL_OWNER if number % 100 == 7 else OWNER


def build_row(number: int, text: str) -> tuple[object, ...]:
    """Return the row of a message; neighbours belong to different threads."""
    thread = number % THREADS
    role = "ai" if number % 2 else "human"
    return number, find_owner(number), f"thread-{thread}", f"run-thread-{thread}-0", f"m{number}", role, text, number


def generate_texts() -> Iterator[str]:
    """Yield texts whose words have Zipf's distribution."""
    chance = random.Random(4711)
    words = [name_word(rank) for rank in range(VOCABULARY)]
    weights = list(accumulate(1 / (rank + 1) for rank in range(VOCABULARY)))
    characters = [chr(0x4E00 + number) for number in range(3000)]
    shares = list(accumulate(1 / (rank + 10) for rank in range(len(characters))))
    while True:
        text = " ".join(chance.choices(words, cum_weights=weights, k=WORDS_PER_MESSAGE))
        if chance.random() < 0.25:
            text += " " + "".join(chance.choices(characters, cum_weights=shares, k=CHARACTERS_PER_MESSAGE))
        yield f"{text} {RARE_WORD}" if chance.random() < 0.0002 else text


def name_word(rank: int) -> str:
    """Return the word of that rank, 0 for the most frequent: one to four syllables."""
    chance = random.Random(rank)
    syllables = [chance.choice(CONSONANTS) + chance.choice("aeiou") for _ in range(chance.choice((1, 2, 2, 3, 3, 4)))]
    return "".join(syllables) + chance.choice(("", "", "n", "r", "s"))
