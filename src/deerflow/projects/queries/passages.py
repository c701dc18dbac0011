"""Passages of project files: their full-text index, as that of messages, and their vectors."""

import sys
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from heapq import nsmallest
from itertools import pairwise
from operator import mul

from sqlalchemy import Connection, delete, insert, select, text, update

from deerflow.domain.projects import ExtractedPassage, ExtractedText, Passage, PassageHit
from deerflow.persistence.queries.search import build_ts_vector, quote_term
from deerflow.persistence.queries.tokenizer import MAX_TERMS, STOP_WORDS, QueryTerm, extract_terms, parse_terms
from deerflow.persistence.tables import passage_vectors, passages, project_files, projects
from deerflow.projects.queries.projects import QueuedFile, find_file, is_claimed

INSERT_BATCH = 50
"""Number of passages that are added in one transaction: other writers wait for some milliseconds."""
CANDIDATES = 400
"""Number of vectors with the most similar signs that are compared exactly."""

FIND_SQLITE = text("""
SELECT rowid AS row_id, bm25(passage_terms, 1.0, 0.0) AS score FROM passage_terms
WHERE passage_terms MATCH :query ORDER BY score, rowid LIMIT :limit
""")
FIND_POSTGRES = text("""
WITH wanted AS (SELECT unnest(CAST(:words AS text[])) AS word),
owned AS (SELECT row_id FROM passages WHERE project_id = :project_id),
hits AS (
  SELECT passage_terms.row_id, wanted.word, length(passage_terms.terms) AS size FROM wanted
  JOIN passage_terms ON passage_terms.terms @@ CAST(wanted.word AS tsquery)
  JOIN owned ON owned.row_id = passage_terms.row_id
),
weights AS (SELECT word, ln(1 + (SELECT count(*) FROM owned) / count(*)::float) AS weight FROM hits GROUP BY word)
SELECT row_id, sum(weight) / (1 + 0.002 * min(size)) AS score FROM hits JOIN weights USING (word)
GROUP BY row_id ORDER BY score DESC, row_id LIMIT :limit
""")
ADD_SQLITE = text("INSERT INTO passage_terms (rowid, terms, project) VALUES (:row_id, :terms, :project)")
ADD_POSTGRES = text("INSERT INTO passage_terms (row_id, terms) VALUES (:row_id, CAST(:terms AS tsvector))")


@dataclass(frozen=True, slots=True)
class PassageText:
    """Passage that has no vector yet."""

    passage_id: int
    text: str


def clear_passages(connection: Connection, file: QueuedFile) -> bool:
    """Delete a batch of the passages that an earlier attempt has added; return whether there may be more."""
    some = select(passages.c.row_id).where(passages.c.file_id == file.file_id).limit(INSERT_BATCH)
    found = connection.execute(some).scalars().all()
    connection.execute(delete(passages).where(passages.c.row_id.in_(found)))
    return len(found) == INSERT_BATCH


def add_passages(
    connection: Connection, file: QueuedFile, first_number: int, extracted: Sequence[ExtractedPassage]
) -> bool:
    """Add passages of a file; return False if it was deleted or claimed by another process meanwhile."""
    if connection.execute(select(project_files.c.file_id).where(is_claimed(file)).with_for_update()).first() is None:
        return False
    is_sqlite = connection.dialect.name == "sqlite"
    for number, each in enumerate(extracted, first_number):
        row = {"project_id": file.project_id, "file_id": file.file_id, "number": number}
        values = {**row, "position": each.position, "text": each.text, "headings": each.headings}
        row_id = connection.execute(insert(passages).returning(passages.c.row_id), values).scalar_one()
        terms = extract_terms(f"{file.name} {each.headings} {each.text}")
        if is_sqlite:
            indexed = {"row_id": row_id, "terms": " ".join(terms), "project": project_term(file.project_id)}
            connection.execute(ADD_SQLITE, indexed)
        else:
            connection.execute(ADD_POSTGRES, {"row_id": row_id, "terms": build_ts_vector(terms)})
    return True


def store_file(connection: Connection, file: QueuedFile, extracted: ExtractedText) -> None:
    """Store all passages of a short file in one transaction."""
    while clear_passages(connection, file):
        continue
    if add_passages(connection, file, 1, extracted.passages):
        finish_file(connection, file, extracted)


def finish_file(connection: Connection, file: QueuedFile, extracted: ExtractedText) -> None:
    """Record that all passages of a file are searchable."""
    counts = {"unit": extracted.unit, "pages": extracted.pages, "passages": len(extracted.passages)}
    ended = {"state": "ready", "problem": None, "claim": None, "claimed_until": None, **counts}
    connection.execute(update(project_files).where(is_claimed(file)), ended)


def search_terms(connection: Connection, project_id: str, query: str, limit: int) -> Sequence[int]:
    """Return the passages that contain words of `query`, best first: many and rare words count."""
    wanted = parse_terms(query)
    if not wanted:
        return []
    pairs = find_pairs(query)
    if connection.dialect.name == "sqlite":
        match = f"project : {project_term(project_id)} AND terms : ({build_fts5_query(wanted, pairs)})"
        found = connection.execute(FIND_SQLITE, {"query": match, "limit": limit})
    else:
        words = [f"{quote_term(each.text)}{':*' * each.is_prefix}" for each in wanted]
        words += [f"({' <-> '.join(map(quote_term, pair))})" for pair in pairs]
        found = connection.execute(FIND_POSTGRES, {"words": words, "project_id": project_id, "limit": limit})
    return [row.row_id for row in found]


def search_vectors(
    connection: Connection, project_id: str, model: str, wanted: Sequence[float], limit: int
) -> Sequence[int]:
    """Return the passages with the most similar vectors, best first.

    All are compared by their signs, which takes a microsecond each, and the best of these by all digits.
    """
    columns = passage_vectors.c
    matching = (columns.project_id == project_id) & (columns.model == model)
    signs = int.from_bytes(to_signs(wanted), "big")
    rows = connection.execute(select(columns.row_id, columns.signs).where(matching))
    scored = (((int.from_bytes(row[1], "big") ^ signs).bit_count(), row[0]) for row in rows)
    near = [row_id for _, row_id in nsmallest(CANDIDATES, scored)]
    exact = compare_vectors(connection, project_id, model, wanted, near)
    return sorted(exact, key=lambda row_id: (-exact[row_id], row_id))[:limit]


def compare_vectors(
    connection: Connection, project_id: str, model: str, wanted: Sequence[float], row_ids: Sequence[int]
) -> Mapping[int, float]:
    """Return the similarities of passages of a project that have a vector of this model, by their ids."""
    columns = passage_vectors.c
    matching = (columns.project_id == project_id) & (columns.model == model)
    query = select(columns.row_id, columns.vector).where(columns.row_id.in_(row_ids), matching)
    return {row.row_id: sum(map(mul, wanted, from_blob(row.vector))) for row in connection.execute(query)}


def load_hits(connection: Connection, project_id: str, owner: str, row_ids: Sequence[int]) -> Sequence[PassageHit]:
    """Return passages in the given order; only those of files of this project and owner."""
    query = (
        select(
            passages.c.row_id,
            passages.c.file_id,
            project_files.c.name,
            project_files.c.unit,
            passages.c.number,
            passages.c.position,
            passages.c.text,
            passages.c.headings,
        )
        .join(project_files, project_files.c.file_id == passages.c.file_id)
        .join(projects, projects.c.project_id == project_files.c.project_id)
        .where(passages.c.row_id.in_(row_ids), projects.c.project_id == project_id, projects.c.owner == owner)
        .where(project_files.c.state == "ready")
    )
    found = {row.row_id: PassageHit(*row) for row in connection.execute(query)}
    return [found[row_id] for row_id in row_ids if row_id in found]


def list_passages(
    connection: Connection, project_id: str, owner: str, file_id: str, first: int, limit: int
) -> Sequence[Passage]:
    """Return passages of a file from number `first` on, or raise `NotFound`."""
    find_file(connection, project_id, owner, file_id)
    columns = passages.c
    query = select(columns.number, columns.position, columns.text).where(columns.file_id == file_id)
    return [
        Passage(*row)
        for row in connection.execute(query.where(columns.number >= first).order_by(columns.number).limit(limit))
    ]


def list_unembedded(connection: Connection, model: str, limit: int) -> Sequence[PassageText]:
    """Return passages of ready files that have no vector of this model."""
    vectors, ready = passage_vectors.c, project_files.c.state == "ready"
    known = select(vectors.row_id).where(vectors.row_id == passages.c.row_id, vectors.model == model).exists()
    query = (
        select(passages.c.row_id, project_files.c.name, passages.c.headings, passages.c.text)
        .join(project_files, project_files.c.file_id == passages.c.file_id)
        .join(projects, projects.c.project_id == project_files.c.project_id)
        .where(ready, projects.c.former_owner.is_(None), ~known)
        .order_by(passages.c.row_id)
        .limit(limit)
    )
    return [PassageText(row.row_id, f"{row.name}\n{row.headings}\n{row.text}") for row in connection.execute(query)]


def save_vectors(connection: Connection, model: str, vectors: Iterable[tuple[int, Sequence[float]]]) -> None:
    """Store vectors of passages; those of passages deleted meanwhile are dropped."""
    given = dict(vectors)
    query = select(passages.c.row_id, passages.c.project_id).where(passages.c.row_id.in_(list(given)))
    rows = [
        {"row_id": row_id, "project_id": project_id, "model": model, **to_columns(given[row_id])}
        for row_id, project_id in connection.execute(query)
    ]
    connection.execute(delete(passage_vectors).where(passage_vectors.c.row_id.in_(list(given))))
    if rows:
        connection.execute(insert(passage_vectors), rows)


def to_columns(vector: Sequence[float]) -> dict[str, bytes]:
    """Return the columns of a vector."""
    digits = array("f", vector)
    if sys.byteorder == "big":
        digits.byteswap()
    return {"signs": to_signs(vector), "vector": digits.tobytes()}


def from_blob(blob: bytes) -> "array[float]":
    """Return the vector of a blob."""
    digits = array("f")
    digits.frombytes(blob)
    if sys.byteorder == "big":
        digits.byteswap()
    return digits


def to_signs(vector: Sequence[float]) -> bytes:
    """Return one bit per dimension: whether it is positive."""
    bits = "".join("1" if value > 0 else "0" for value in vector)
    return int(bits or "0", 2).to_bytes((len(bits) + 7) // 8, "big")


def find_pairs(query: str) -> Sequence[tuple[str, str]]:
    """Return the terms of a query that follow each other; a passage in which they do so too ranks higher."""
    terms = extract_terms(query)
    pairs = ((left, right) for left, right in pairwise(terms) if not {left, right} & STOP_WORDS)
    return list(dict.fromkeys(pairs))[:MAX_TERMS]


def build_fts5_query(wanted: Sequence[QueryTerm], pairs: Sequence[tuple[str, str]]) -> str:
    """Return the query for FTS5. Terms are letters and digits only, so quoting them is enough."""
    single = (f'"{each.text}"{"*" * each.is_prefix}' for each in wanted)
    return " OR ".join([*single, *(f'"{left} {right}"' for left, right in pairs)])


def project_term(project_id: str) -> str:
    """Return the term of the index of SQLite that stands for a project: ids may contain what FTS5 takes for a blank."""
    return f"p{sha256(project_id.encode()).hexdigest()[:32]}"


def split_batches(items: Sequence[ExtractedPassage]) -> Iterator[tuple[int, Sequence[ExtractedPassage]]]:
    """Yield the passages of a file in batches, each with the number of its first passage."""
    for start in range(0, len(items), INSERT_BATCH):
        yield start + 1, items[start : start + INSERT_BATCH]
