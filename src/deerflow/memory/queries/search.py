"""Full-text search for facts by any of several terms, ranked by number and rarity of the matches; rows as JSON.

Facts are tokenized like messages (`persistence/queries/tokenizer.py`). Terms are matched by their stem as prefix, so
that inflected forms are found too.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, text

from deerflow.domain.memory import Fact, FactHit, FactSource, MemoryChange, MemoryItem, MemoryScope, Summary
from deerflow.persistence.queries.search import build_ts_vector, quote_term
from deerflow.persistence.queries.tokenizer import QueryTerm, extract_terms, parse_terms
from deerflow.persistence.tables import memory_facts, to_key

JsonFields = dict[str, Any]
TIME_FIELDS = ("created_at", "valid_from", "valid_to")


def to_scope_key(scope: MemoryScope) -> dict[str, str]:
    """Return the key columns of a memory."""
    return {"owner": scope.owner, "agent": scope.agent or ""}


def to_fields(known: MemoryItem | None) -> JsonFields | None:
    """Convert a fact or summary to JSON."""
    if known is None:
        return None
    fields = asdict(known)
    return {key: value.isoformat() if isinstance(value, datetime) else value for key, value in fields.items()}


def to_item(fields: Mapping[str, Any] | None) -> MemoryItem | None:
    """Convert JSON to a fact or summary."""
    if fields is None:
        return None
    return to_fact(fields) if "content" in fields else to_summary(fields)


def to_fact(fields: Mapping[str, Any]) -> Fact:
    """Convert JSON to a fact."""
    moments = {name: datetime.fromisoformat(fields[name]) if fields[name] else None for name in TIME_FIELDS}
    return Fact(**{**fields, **moments, "source": to_source(fields["source"])})


def to_summary(fields: Mapping[str, Any]) -> Summary:
    """Convert JSON to a summary."""
    return Summary(fields["summary"], datetime.fromisoformat(fields["updated_at"]))


def to_source(fields: Mapping[str, Any] | None) -> FactSource | None:
    """Convert JSON to a source."""
    return None if fields is None else FactSource(**fields)


def to_change_row(scope: MemoryScope, change: MemoryChange) -> JsonFields:
    """Convert a change to a row."""
    learned = change.source or getattr(change.after, "source", None)
    return {
        **to_scope_key(scope),
        "seq": change.seq,
        "change_id": change.change_id,
        "group_id": change.group,
        "at": change.at,
        "actor": change.actor,
        "kind": change.kind,
        "target": change.target,
        "before": to_fields(change.before),
        "after": to_fields(change.after),
        "source": asdict(change.source) if change.source else None,
        "source_thread": learned.thread_id if learned else None,
        "undoes": change.undoes,
    }


def to_change(row: Row[Any]) -> MemoryChange:
    """Convert a row to a change."""
    return MemoryChange(
        change_id=row.change_id,
        seq=row.seq,
        at=row.at,
        actor=row.actor,
        kind=row.kind,
        target=row.target,
        before=to_item(row.before),
        after=to_item(row.after),
        source=to_source(row.source),
        group=row.group_id,
        undoes=row.undoes,
    )


COMMON_TERM_FACTS = 1000
"""Number of facts above which a term is ignored if there are rarer ones."""
MAX_CANDIDATES = 4000
"""Number of newest matches that are ranked."""

FIND_SQLITE = text("""
WITH newest AS (
  SELECT memory_terms.rowid AS row_id FROM memory_terms JOIN memory_facts ON memory_facts.row_id = memory_terms.rowid
  WHERE memory_terms MATCH :query AND memory_facts.owner = :owner AND memory_facts.agent = :agent
    AND (:category = '' OR memory_facts.category = :category)
  ORDER BY memory_terms.rowid DESC LIMIT :candidates
), best AS (
  SELECT memory_terms.rowid AS row_id, -bm25(memory_terms) AS score FROM memory_terms
  JOIN memory_facts ON memory_facts.row_id = memory_terms.rowid
  WHERE memory_terms MATCH :query AND memory_facts.owner = :owner AND memory_facts.agent = :agent
    AND (:category = '' OR memory_facts.category = :category)
    AND memory_terms.rowid >= (SELECT min(row_id) FROM newest)
  ORDER BY score DESC, memory_terms.rowid DESC LIMIT :limit
)
SELECT memory_facts.data, best.score FROM best JOIN memory_facts ON memory_facts.row_id = best.row_id
ORDER BY best.score DESC, best.row_id DESC
""").columns(data=memory_facts.c.data.type)
FIND_POSTGRES = text("""
WITH wanted AS (SELECT unnest(CAST(:words AS text[])) AS word),
owned AS (SELECT row_id FROM memory_facts WHERE owner = :owner AND agent = :agent
  AND (:category = '' OR category = :category)),
hits AS (
  SELECT memory_terms.row_id, wanted.word, length(memory_terms.terms) AS size FROM wanted
  JOIN memory_terms ON memory_terms.terms @@ CAST(wanted.word AS tsquery)
  JOIN owned ON owned.row_id = memory_terms.row_id
),
weights AS (SELECT word, ln(1 + (SELECT count(*) FROM owned) / count(*)::float) AS weight FROM hits GROUP BY word),
best AS (
  SELECT row_id, sum(weight) / (1 + 0.01 * min(size)) AS score FROM hits JOIN weights USING (word)
  GROUP BY row_id ORDER BY score DESC, row_id DESC LIMIT :limit
)
SELECT memory_facts.data, best.score FROM best JOIN memory_facts ON memory_facts.row_id = best.row_id
ORDER BY best.score DESC, best.row_id DESC
""").columns(data=memory_facts.c.data.type)
ADD_SQLITE = text("INSERT INTO memory_terms (rowid, terms) VALUES (:row_id, :terms)")
ADD_POSTGRES = text("INSERT INTO memory_terms (row_id, terms) VALUES (:row_id, CAST(:terms AS tsvector))")


def search_facts(
    connection: Connection, scope: MemoryScope, words: str, limit: int, category: str | None = None
) -> Sequence[FactHit]:
    """Return facts that contain any of the words, best first; none without words."""
    wanted = parse_terms(words)
    if not wanted:
        return []
    values: dict[str, Any] = {**to_scope_key(scope), "limit": limit, "category": category or ""}
    if connection.dialect.name == "sqlite":
        rare = select_rare_terms(connection, wanted, values["owner"])
        found = connection.execute(
            FIND_SQLITE, {**values, "query": build_fts5_query(rare), "candidates": MAX_CANDIDATES}
        )
    else:
        terms = [f"{quote_term(each.text)}{':*' * each.is_prefix}" for each in wanted]
        found = connection.execute(FIND_POSTGRES, {**values, "words": terms})
    return [FactHit(to_fact(row.data), row.score) for row in found]


def add_to_index(connection: Connection, scope: MemoryScope, fact: Fact) -> None:
    """Insert a current fact and its index terms."""
    row = {
        **to_scope_key(scope),
        "fact_id": fact.id,
        "category": fact.category,
        "confidence": fact.confidence,
        "created_at": fact.created_at,
        "data": to_fields(fact),
    }
    row_id = connection.execute(insert(memory_facts).returning(memory_facts.c.row_id), row).scalar_one()
    terms = extract_terms(fact.content)
    if connection.dialect.name == "sqlite":
        connection.execute(ADD_SQLITE, {"row_id": row_id, "terms": " ".join(terms)})
    else:
        connection.execute(ADD_POSTGRES, {"row_id": row_id, "terms": build_ts_vector(terms)})


def remove_from_index(connection: Connection, scope: MemoryScope, fact_ids: Collection[str]) -> None:
    """Delete current facts and their index terms."""
    columns, key = memory_facts.c, to_scope_key(scope)
    of_scope = (columns.owner == key["owner"]) & (columns.agent == key["agent"])
    ids = [to_key(fact_id, 64) for fact_id in fact_ids]
    connection.execute(delete(memory_facts).where(of_scope, columns.fact_id.in_(ids)))


def select_rare_terms(connection: Connection, wanted: Sequence[QueryTerm], owner: str) -> Sequence[QueryTerm]:
    """Return the terms that occur in few facts of any owner: ranking all matches of a frequent term takes long."""
    counts = ", ".join(
        f"(SELECT count(*) FROM memory_terms WHERE memory_terms MATCH :w{at})" for at in range(len(wanted))
    )
    queries = {f"w{at}": build_fts5_query([each]) for at, each in enumerate(wanted)}
    found = list(zip(connection.execute(text(f"SELECT {counts}"), queries).one(), wanted, strict=True))
    present = [(count, each) for count, each in found if count] or found
    few = [each for count, each in present if count <= COMMON_TERM_FACTS]
    return few or [min(present, key=lambda pair: pair[0])[1]]


def build_fts5_query(wanted: Sequence[QueryTerm]) -> str:
    """Return the query for FTS5. Terms are letters and digits only, so quoting them is enough."""
    return " OR ".join(f'"{each.text}"{"*" * each.is_prefix}' for each in wanted)
