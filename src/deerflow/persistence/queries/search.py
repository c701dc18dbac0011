"""Full-text index of messages: FTS5 on SQLite, `tsvector` on PostgreSQL, with the same terms in both.

Neither database tokenizes text or parses a user's query: both are done by `tokenizer`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from sqlalchemy import Connection, Row, bindparam, delete, insert, select, text

from deerflow.domain.runs import EventName, RunRecord
from deerflow.domain.threads import TEMPORARY, DiscardedHistory, SearchableMessage, SearchHit, SearchRole
from deerflow.persistence.queries.tokenizer import Phrase, extract_terms, find_matches, parse_query
from deerflow.persistence.tables import ACTIVE, run_events, runs, search_backlog, search_messages, threads, to_key

PART_CHARS = 4000
"""Approximate length of the parts in which long messages are stored, so that a snippet is cheap to cut."""
SNIPPET_CHARS = 240
MAX_POSITION = 16383
"""Largest position of a term that PostgreSQL stores."""
TITLE_ROLE: SearchRole = "title"
TERM_TABLES = ("search_terms", "memory_terms", "passage_terms")
"""Tables with the terms of messages, of memory facts and of passages."""

MAX_INDEXED_PREFIX = 3
"""Length of the longest prefixes in the index of SQLite."""
MAX_CANDIDATES = 2000
"""Number of newest matches that are ranked; older matches of frequent terms are ignored."""

# Statements of every run are built once: building one takes longer than SQLite takes to execute it.
FIND_METADATA = select(threads.c.metadata).where(
    threads.c.thread_id == bindparam("thread"), threads.c.owner == bindparam("of_owner")
)
INSERT_MESSAGE = insert(search_messages).returning(search_messages.c.row_id)
DELETE_MESSAGES = delete(search_messages).where(
    search_messages.c.thread_id == bindparam("thread"),
    search_messages.c.owner == bindparam("of_owner"),
    search_messages.c.message_id.in_(bindparam("ids", expanding=True)),
)

FIND_SQLITE = text("""
WITH newest AS (
  SELECT rowid AS row_id FROM search_terms WHERE search_terms MATCH :owned_query
  ORDER BY rowid DESC LIMIT :candidates
), best AS (
  SELECT rowid AS row_id, bm25(search_terms) AS score FROM search_terms
  WHERE search_terms MATCH :query AND rowid >= (SELECT min(row_id) FROM newest)
    AND +rowid IN (SELECT row_id FROM newest)
  ORDER BY score, rowid DESC LIMIT :limit OFFSET :offset
)
SELECT found.*, threads.title FROM best
JOIN search_messages AS found ON found.row_id = best.row_id AND found.owner = :owner
JOIN threads ON threads.thread_id = found.thread_id
ORDER BY best.score, best.row_id DESC
""").columns(*search_messages.c)
"""The owner is not in the second query: `bm25` counts the messages of each term, which are all that the owner has."""
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
SELECT found.*, threads.title FROM best
JOIN search_messages AS found ON found.row_id = best.row_id
JOIN threads ON threads.thread_id = found.thread_id
ORDER BY best.score DESC, best.row_id DESC
""").columns(*search_messages.c)
COUNT_SQLITE = text(
    "SELECT count(*) FROM (SELECT 1 FROM search_terms WHERE search_terms MATCH :query LIMIT :candidates)"
)
ADD_SQLITE = text("INSERT INTO search_terms (rowid, terms, owner) VALUES (:row_id, :terms, :owner)")
ADD_POSTGRES = text("INSERT INTO search_terms (row_id, terms) VALUES (:row_id, CAST(:terms AS tsvector))")


def search_text(connection: Connection, owner: str, query: str, limit: int, offset: int = 0) -> Sequence[SearchHit]:
    """Return the messages of the owner's threads that contain all words of `query`, best first; none without words."""
    phrases: Sequence[Phrase] = parse_query(query)
    if not phrases:
        return []
    values: dict[str, object] = {"owner": owner, "limit": limit, "offset": offset, "candidates": MAX_CANDIDATES}
    if connection.dialect.name == "sqlite":
        phrases = finish_frequent_word(connection, owner, phrases)
        query = build_fts5_query(phrases)
        found = connection.execute(FIND_SQLITE, {**values, "query": query, "owned_query": restrict(query, owner)})
    else:
        found = connection.execute(FIND_POSTGRES, {**values, "query": build_ts_query(phrases)})
    return [to_search_hit(row, phrases) for row in found]


def finish_frequent_word(connection: Connection, owner: str, phrases: Sequence[Phrase]) -> Sequence[Phrase]:
    """Return the phrases with the last word taken as finished, if as many messages contain it as are ranked.

    FTS5 merges the rows of all words with a prefix that is not in its index before it returns the first.
    """
    *others, last = phrases
    if not last.is_prefix or len(last.terms[-1]) <= MAX_INDEXED_PREFIX:
        return phrases
    finished = replace(last, is_prefix=False)
    values = {"query": restrict(build_fts5_query([finished]), owner), "candidates": MAX_CANDIDATES}
    count: int = connection.execute(COUNT_SQLITE, values).scalar_one()
    return [*others, finished] if count == MAX_CANDIDATES else phrases


def index_messages(
    connection: Connection,
    thread_id: str,
    owner: str,
    messages: Sequence[SearchableMessage],
    run_id: str | None = None,
    *,
    is_new: bool = False,
) -> None:
    """Add messages to the index; replace earlier versions of them.

    `is_new`: there are no earlier versions, and the thread is not temporary.
    """
    if not messages or (not is_new and is_temporary(connection, thread_id, owner)):
        return
    if not is_new:
        remove_from_index(connection, thread_id, owner, [message.message_id for message in messages])
    add_terms = ADD_SQLITE if connection.dialect.name == "sqlite" else ADD_POSTGRES
    for message in messages:
        about = {"owner": owner, "thread_id": thread_id, "run_id": run_id, "message_id": to_key(message.message_id)}
        for number, part in enumerate(split_message(message.text)):
            row = {**about, "part": number, "role": message.role, "text": part, "created_at": message.sent_at}
            row_id = connection.execute(INSERT_MESSAGE, row).scalar_one()
            terms = extract_terms(part)
            if connection.dialect.name == "sqlite":
                indexed = {"row_id": row_id, "terms": " ".join(terms), "owner": owner_term(owner)}
            else:
                indexed = {"row_id": row_id, "terms": build_ts_vector(terms)}
            connection.execute(add_terms, indexed)


def is_temporary(connection: Connection, thread_id: str, owner: str) -> bool:
    """Return whether a thread is temporary: its messages are neither indexed nor remembered."""
    row = connection.execute(FIND_METADATA, {"thread": thread_id, "of_owner": owner}).first()
    return row is not None and has_temporary_mark(row[0])


def is_permanent(connection: Connection, thread_id: str, owner: str) -> bool:
    """Return whether a thread exists and is not temporary."""
    row = connection.execute(FIND_METADATA, {"thread": thread_id, "of_owner": owner}).first()
    return row is not None and not has_temporary_mark(row[0])


def has_temporary_mark(metadata: object) -> bool:
    """Return whether the metadata of a thread says that it is temporary."""
    return isinstance(metadata, Mapping) and metadata.get(TEMPORARY) is True


def index_run(
    connection: Connection, run: RunRecord, messages: Sequence[SearchableMessage], discarded: DiscardedHistory | None
) -> None:
    """Add a run's messages to the index and remove those that it dropped from the thread."""
    if discarded is not None:
        rows = search_messages.c
        kept = [to_key(id_) for id_ in discarded.kept]
        own = (rows.thread_id == run.thread_id) & (rows.owner == run.owner) & (rows.role != TITLE_ROLE)
        origin = select(runs.c.position).where(runs.c.run_id == discarded.run_id).scalar_subquery()
        of_thread = runs.c.thread_id == run.thread_id
        if connection.execute(select(origin)).scalar() is None:  # a deleted run: only the time tells which are later
            later = rows.created_at > discarded.after
        else:
            later = rows.run_id.in_(select(runs.c.run_id).where(of_thread, runs.c.position >= origin))
        connection.execute(delete(search_messages).where(own, later, rows.message_id.not_in(kept)))
    index_messages(connection, run.thread_id, run.owner, messages, run.run_id)


def index_title(
    connection: Connection, thread_id: str, owner: str, title: str, now: datetime, *, is_new: bool = False
) -> None:
    """Add a thread's title to the index; `is_new`: the thread is new, and not temporary."""
    index_messages(connection, thread_id, owner, [SearchableMessage("", TITLE_ROLE, title, now)], is_new=is_new)


def remove_from_index(connection: Connection, thread_id: str, owner: str, message_ids: Sequence[str]) -> None:
    """Remove messages from the index."""
    ids = [to_key(id_) for id_ in message_ids]
    connection.execute(DELETE_MESSAGES, {"thread": thread_id, "of_owner": owner, "ids": ids})


def split_message(message: str) -> Iterator[str]:
    """Yield a text in parts that end between words where possible."""
    rest = message.encode("utf-8", "replace").decode().strip()
    while len(rest) > PART_CHARS:
        cut = max(rest.rfind(blank, PART_CHARS // 2, PART_CHARS) for blank in (" ", "\n", "。", "，"))
        cut = cut + 1 if cut > 0 else PART_CHARS
        yield rest[:cut]
        rest = rest[cut:]
    if rest:
        yield rest


def restrict(query: str, owner: str) -> str:
    """Return the query for FTS5 that finds messages of one owner only."""
    return f"owner : {owner_term(owner)} AND {query}"


def owner_term(owner: str) -> str:
    """Return the term of the index of SQLite that stands for an owner: ids may contain what FTS5 takes for a blank."""
    return f"o{sha256(owner.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


def build_fts5_query(phrases: Sequence[Phrase]) -> str:
    """Return the query for FTS5. Terms are letters and digits only, so quoting them is enough."""
    quoted = (f'"{" ".join(phrase.terms)}"{"*" if phrase.is_prefix else ""}' for phrase in phrases)
    return f"terms : ({' AND '.join(quoted)})"


def build_ts_query(phrases: Sequence[Phrase]) -> str:
    """Return the query for PostgreSQL."""
    return " & ".join(f"({' <-> '.join(map(quote_term, phrase.terms))}{':*' * phrase.is_prefix})" for phrase in phrases)


def build_ts_vector(terms: Sequence[str]) -> str:
    """Return terms with their positions, in the input format of PostgreSQL."""
    found: dict[str, list[str]] = {}
    for position, term in enumerate(terms, 1):
        found.setdefault(term, []).append(str(min(position, MAX_POSITION)))
    return " ".join(f"{quote_term(term)}:{','.join(at)}" for term, at in found.items())


def quote_term(term: str) -> str:
    """Return a term as a quoted literal."""
    return "'" + term.replace("\\", "\\\\").replace("'", "''") + "'"


def to_search_hit(row: Row[Any], phrases: Sequence[Phrase]) -> SearchHit:
    """Convert a row to a search hit."""
    snippet, highlights = cut_snippet(row.text, find_matches(row.text, phrases))
    return SearchHit(
        row.thread_id, row.title, row.run_id, row.message_id or None, row.role, snippet, highlights, row.created_at
    )


def cut_snippet(message: str, found: Sequence[tuple[int, int]]) -> tuple[str, list[tuple[int, int]]]:
    """Return the part of a text around the first match, and the matches within it."""
    first = found[0][0] if found else 0
    start = max(0, min(first - SNIPPET_CHARS // 4, len(message) - SNIPPET_CHARS))
    end = min(len(message), start + SNIPPET_CHARS)
    head, tail = "…" if start else "", "…" if end < len(message) else ""
    shift = len(head) - start
    inside = [(max(left, start) + shift, min(right, end) + shift) for left, right in found if left < end]
    return f"{head}{message[start:end]}{tail}", inside


def merge_index(connection: Connection, pages: int = 100) -> bool:
    """Purge some of the deleted terms that FTS5 still stores; return whether there may be more.

    SQLite 3.42 and later purge deleted terms at once, and PostgreSQL by itself.
    """
    if connection.dialect.name != "sqlite":
        return False
    return any(merge_table_index(connection, table, pages) for table in TERM_TABLES)


def merge_table_index(connection: Connection, which: str, pages: int) -> bool:
    """Purge some of the deleted terms of one FTS5 table."""
    option = f"SELECT v FROM {which}_config WHERE k = 'secure-delete'"
    if connection.exec_driver_sql(option).scalar():
        return False
    count = "SELECT total_changes()"
    before = connection.exec_driver_sql(count).scalar() or 0
    connection.exec_driver_sql(f"INSERT INTO {which} ({which}, rank) VALUES ('merge', ?)", (-pages,))
    return (connection.exec_driver_sql(count).scalar() or 0) - before >= 2


RUN_INFO = (runs.c.run_id, runs.c.request, runs.c.status, runs.c.attempt, runs.c.process)


@dataclass(frozen=True, slots=True)
class BacklogChange:
    """Data of a `changes` event of a run."""

    run_id: str
    data: bytes
    created_at: datetime
    is_reverting: bool
    """True if the removed messages were dropped or undone, and not only compacted."""


def find_next_in_backlog(connection: Connection) -> str | None:
    """Return a thread that is not indexed yet, None when there is none."""
    return connection.execute(select(search_backlog.c.thread_id).limit(1)).scalar()


def read_backlog_changes(
    connection: Connection, thread_id: str, *, include_active: bool = False
) -> Sequence[BacklogChange]:
    """Return the changes of a thread's ended runs, oldest first; with `include_active` also of its active runs."""
    changes: EventName = "changes"
    query = (
        select(run_events.c.data, run_events.c.created_at, *RUN_INFO)
        .join(runs, runs.c.run_id == run_events.c.run_id)
        .where(runs.c.thread_id == thread_id, run_events.c.event == changes)
        .order_by(runs.c.position, run_events.c.seq)
    )
    ended = query if include_active else query.where(~ACTIVE)
    return [
        BacklogChange(row.run_id, row.data, row.created_at, is_reverting(row._mapping))
        for row in connection.execute(ended)
    ]


def is_reverting(run: Mapping[Any, Any]) -> bool:
    """Return whether the messages that a run removed were dropped, lost, undone or deleted, and not only compacted."""
    is_branch = bool(run["request"].get("checkpoint_id"))
    return is_branch or run["status"] == "error" or run["attempt"] > 1 or not run["process"]


def index_backlog_thread(
    connection: Connection, thread_id: str, messages: Mapping[str, Sequence[SearchableMessage]]
) -> None:
    """Index a thread by the messages of each of its runs, unless another process has; indexed messages are kept."""
    if connection.execute(delete(search_backlog).where(search_backlog.c.thread_id == thread_id)).rowcount != 1:
        return
    thread = connection.execute(select(threads.c.owner, threads.c.title).where(threads.c.thread_id == thread_id)).one()
    known = set(
        connection.execute(select(search_messages.c.message_id).where(search_messages.c.thread_id == thread_id))
        .scalars()
        .all()
    )
    for run_id, by_run in messages.items():
        new = [message for message in by_run if to_key(message.message_id) not in known]
        index_messages(connection, thread_id, thread.owner, new, run_id)
    if thread.title and "" not in known:
        index_title(connection, thread_id, thread.owner, thread.title, datetime.now(UTC))
