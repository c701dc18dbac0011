"""Full text of what was said: FTS5 on SQLite, a `tsvector` on PostgreSQL, the same words in both.

Neither database cuts text into words or reads a query of a person's: both get what `words` makes of them.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, text

from deerflow.domain.runs import RunRecord
from deerflow.domain.search import LeftBehind, SaidBy, SaidMessage, SearchHit
from deerflow.persistence.tables import search_messages, to_key
from deerflow.persistence.words import Phrase, phrases_of, places, terms_of

PART_CHARS = 4000
"""Long messages are kept in parts of about this length, so that showing a place in one costs little."""
SNIPPET_CHARS = 240
LAST_PLACE = 16383
"""PostgreSQL remembers no place of a word beyond this."""
TITLE: SaidBy = "title"
WORD_TABLES = ("search_terms", "memory_terms")
"""Where the words of messages and those of what is remembered are kept."""

CANDIDATES = 2000
"""Of words that are in more messages than this, only the newest are compared with each other."""

FIND_SQLITE = text("""
WITH newest AS (
  SELECT search_terms.rowid AS row_id FROM search_terms
  JOIN search_messages ON search_messages.row_id = search_terms.rowid
  WHERE search_terms MATCH :query AND search_messages.owner = :owner
  ORDER BY search_terms.rowid DESC LIMIT :candidates
), best AS (
  SELECT search_terms.rowid AS row_id, bm25(search_terms) AS score FROM search_terms
  JOIN search_messages ON search_messages.row_id = search_terms.rowid
  WHERE search_terms MATCH :query AND search_messages.owner = :owner
    AND search_terms.rowid >= (SELECT min(row_id) FROM newest)
  ORDER BY score, search_terms.rowid DESC LIMIT :limit OFFSET :offset
)
SELECT said.*, threads.title FROM best
JOIN search_messages AS said ON said.row_id = best.row_id
JOIN threads ON threads.thread_id = said.thread_id
ORDER BY best.score, best.row_id DESC
""").columns(*search_messages.c)
FIND_POSTGRES = text("""
WITH newest AS (
  SELECT search_terms.row_id, search_terms.terms FROM search_terms
  JOIN search_messages ON search_messages.row_id = search_terms.row_id
  WHERE search_terms.terms @@ CAST(:query AS tsquery) AND search_messages.owner = :owner
  ORDER BY search_terms.row_id DESC LIMIT :candidates
), best AS (
  SELECT row_id, ts_rank(terms, CAST(:query AS tsquery), 1) AS score FROM newest
  ORDER BY score DESC, row_id DESC LIMIT :limit OFFSET :offset
)
SELECT said.*, threads.title FROM best
JOIN search_messages AS said ON said.row_id = best.row_id
JOIN threads ON threads.thread_id = said.thread_id
ORDER BY best.score DESC, best.row_id DESC
""").columns(*search_messages.c)
ADD_SQLITE = text("INSERT INTO search_terms (rowid, terms) VALUES (:row_id, :terms)")
ADD_POSTGRES = text("INSERT INTO search_terms (row_id, terms) VALUES (:row_id, CAST(:terms AS tsvector))")


def search_said(connection: Connection, owner: str, query: str, limit: int, offset: int = 0) -> Sequence[SearchHit]:
    """What the owner's threads say of `query`: all its words, the best first. No words, no hits."""
    phrases = phrases_of(query)
    if not phrases:
        return []
    is_sqlite = connection.dialect.name == "sqlite"
    wanted = fts5_query(phrases) if is_sqlite else ts_query(phrases)
    values = {"query": wanted, "owner": owner, "limit": limit, "offset": offset, "candidates": CANDIDATES}
    found = connection.execute(FIND_SQLITE if is_sqlite else FIND_POSTGRES, values)
    return [to_hit(row, phrases) for row in found]


def index_said(
    connection: Connection,
    thread_id: str,
    owner: str,
    said: Sequence[SaidMessage],
    run_id: str | None = None,
    *,
    is_new: bool = False,
) -> None:
    """Have messages be found; one that was there before is found as it is now. `is_new`: there is none before."""
    if not said:
        return
    if not is_new:
        unindex(connection, thread_id, owner, [message.message_id for message in said])
    add_terms = ADD_SQLITE if connection.dialect.name == "sqlite" else ADD_POSTGRES
    for message in said:
        about = {"owner": owner, "thread_id": thread_id, "run_id": run_id, "message_id": to_key(message.message_id)}
        for number, part in enumerate(parts(message.text)):
            row = {**about, "part": number, "role": message.role, "text": part, "created_at": message.said_at}
            made = connection.execute(insert(search_messages).returning(search_messages.c.row_id), row).scalar_one()
            words = terms_of(part)
            terms = " ".join(words) if connection.dialect.name == "sqlite" else ts_vector(words)
            connection.execute(add_terms, {"row_id": made, "terms": terms})


def index_run(connection: Connection, run: RunRecord, said: Sequence[SaidMessage], left: LeftBehind | None) -> None:
    """Have what a run said be found, and what it left behind no longer."""
    if left is not None:
        rows = search_messages.c
        later = (rows.thread_id == run.thread_id) & (rows.owner == run.owner) & (rows.created_at > left.after)
        gone = later & (rows.role != TITLE) & rows.message_id.not_in([to_key(id_) for id_ in left.kept])
        connection.execute(delete(search_messages).where(gone))
    index_said(connection, run.thread_id, run.owner, said, run.run_id)


def index_title(
    connection: Connection, thread_id: str, owner: str, title: str, now: datetime, *, is_new: bool = False
) -> None:
    """Have a thread be found by its title; `is_new`: it has had none."""
    index_said(connection, thread_id, owner, [SaidMessage("", TITLE, title, now)], is_new=is_new)


def unindex(connection: Connection, thread_id: str, owner: str, message_ids: Sequence[str]) -> None:
    """Have messages no longer be found."""
    rows = search_messages.c
    ids = [to_key(id_) for id_ in message_ids]
    gone = (rows.thread_id == thread_id) & (rows.owner == owner) & rows.message_id.in_(ids)
    connection.execute(delete(search_messages).where(gone))


def parts(message: str) -> Iterator[str]:
    """A text in pieces that end between words where that can be had."""
    rest = message.encode("utf-8", "replace").decode().strip()
    while len(rest) > PART_CHARS:
        cut = max(rest.rfind(blank, PART_CHARS // 2, PART_CHARS) for blank in (" ", "\n", "。", "，"))
        cut = cut + 1 if cut > 0 else PART_CHARS
        yield rest[:cut]
        rest = rest[cut:]
    if rest:
        yield rest


def fts5_query(phrases: Sequence[Phrase]) -> str:
    """The query for FTS5. Words are letters and digits alone, so quoting them is enough."""
    return " AND ".join(f'"{" ".join(phrase.words)}"{"*" if phrase.is_open else ""}' for phrase in phrases)


def ts_query(phrases: Sequence[Phrase]) -> str:
    """The query for PostgreSQL."""
    return " & ".join(f"({' <-> '.join(map(quoted, phrase.words))}{':*' * phrase.is_open})" for phrase in phrases)


def ts_vector(words: Sequence[str]) -> str:
    """Words with their places, as PostgreSQL reads them."""
    found: dict[str, list[str]] = {}
    for place, word in enumerate(words, 1):
        found.setdefault(word, []).append(str(min(place, LAST_PLACE)))
    return " ".join(f"{quoted(word)}:{','.join(at)}" for word, at in found.items())


def quoted(word: str) -> str:
    """A word that means nothing but itself."""
    return "'" + word.replace("\\", "\\\\").replace("'", "''") + "'"


def to_hit(row: Row[Any], phrases: Sequence[Phrase]) -> SearchHit:
    """What is shown of a row."""
    snippet, highlights = snippet_of(row.text, places(row.text, phrases))
    return SearchHit(
        row.thread_id, row.title, row.run_id, row.message_id or None, row.role, snippet, highlights, row.created_at
    )


def snippet_of(message: str, found: Sequence[tuple[int, int]]) -> tuple[str, list[tuple[int, int]]]:
    """The part of a text around the first place found, and the places in it."""
    first = found[0][0] if found else 0
    start = max(0, min(first - SNIPPET_CHARS // 4, len(message) - SNIPPET_CHARS))
    end = min(len(message), start + SNIPPET_CHARS)
    head, tail = "…" if start else "", "…" if end < len(message) else ""
    shift = len(head) - start
    inside = [(max(left, start) + shift, min(right, end) + shift) for left, right in found if left < end]
    return f"{head}{message[start:end]}{tail}", inside


def merge_step(connection: Connection, pages: int = 500) -> bool:
    """Remove a little more of what FTS5 keeps of deleted words; whether anything is left to do.

    SQLite from 3.42 on removes it at once, and other databases in their own time.
    """
    if connection.dialect.name != "sqlite":
        return False
    return any(merge_table(connection, table, pages) for table in WORD_TABLES)


def merge_table(connection: Connection, which: str, pages: int) -> bool:
    """The same for one table of words."""
    option = f"SELECT v FROM {which}_config WHERE k = 'secure-delete'"
    if connection.exec_driver_sql(option).scalar():
        return False
    count = "SELECT total_changes()"
    before = connection.exec_driver_sql(count).scalar() or 0
    connection.exec_driver_sql(f"INSERT INTO {which} ({which}, rank) VALUES ('merge', ?)", (-pages,))
    return (connection.exec_driver_sql(count).scalar() or 0) - before >= 2
