"""Finding facts by any of some words: the more and the rarer the words that fit, the better.

The words of facts are cut as those of messages are (`words`); a word is looked for by how it begins, so that its other
forms are found with it.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, delete, insert, text

from deerflow.domain.memory import Fact, FactHit, MemoryScope
from deerflow.persistence.memory_values import key_of, to_fact, to_fields
from deerflow.persistence.search import quoted, ts_vector
from deerflow.persistence.tables import memory_facts, to_key
from deerflow.persistence.words import CHUNK, pairs_of, parts_of, terms_of

MOST_WORDS = 32
COMMON = 1000
"""A word in more facts than this is left out while there are others; it tells little."""
CANDIDATES = 4000
"""Of facts that fit, only so many, the newest, are compared with each other."""
SHORTEST_STEM = 4
ENDINGS = (
    *("ations", "ation", "ences", "ence", "ances", "ance", "ments", "ment", "ions", "ion"),
    *("ings", "ing", "ers", "ies", "ied", "ed", "er", "es", "ly", "s", "y", "e"),
)
"""Of English words, the longest first."""
SMALL = """
a about an and any are as at be been by can could did do does for from had has have he her his how i if in into is it
its like me my of on or our should so that the their them then there these they this to us user was we were what when
where which who whom whose why will with would you your 什么 怎么 我的
"""
SMALL_WORDS = frozenset(SMALL.split())
"""They are in too many facts to tell anything."""

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
mine AS (SELECT row_id FROM memory_facts WHERE owner = :owner AND agent = :agent
  AND (:category = '' OR category = :category)),
hits AS (
  SELECT memory_terms.row_id, wanted.word, length(memory_terms.terms) AS size FROM wanted
  JOIN memory_terms ON memory_terms.terms @@ CAST(wanted.word AS tsquery)
  JOIN mine ON mine.row_id = memory_terms.row_id
),
weights AS (SELECT word, ln(1 + (SELECT count(*) FROM mine) / count(*)::float) AS weight FROM hits GROUP BY word),
best AS (
  SELECT row_id, sum(weight) / (1 + 0.01 * min(size)) AS score FROM hits JOIN weights USING (word)
  GROUP BY row_id ORDER BY score DESC, row_id DESC LIMIT :limit
)
SELECT memory_facts.data, best.score FROM best JOIN memory_facts ON memory_facts.row_id = best.row_id
ORDER BY best.score DESC, best.row_id DESC
""").columns(data=memory_facts.c.data.type)
ADD_SQLITE = text("INSERT INTO memory_terms (rowid, terms) VALUES (:row_id, :terms)")
ADD_POSTGRES = text("INSERT INTO memory_terms (row_id, terms) VALUES (:row_id, CAST(:terms AS tsvector))")


@dataclass(frozen=True, slots=True)
class Wanted:
    """A word that is looked for, or the beginning of several."""

    word: str
    is_open: bool = False


def search_facts(
    connection: Connection, scope: MemoryScope, words: str, limit: int, category: str | None = None
) -> Sequence[FactHit]:
    """Facts with any of the words, the best first. No words, no facts."""
    wanted = words_wanted(words)
    if not wanted:
        return []
    values: dict[str, Any] = {**key_of(scope), "limit": limit, "category": category or ""}
    if connection.dialect.name == "sqlite":
        telling = telling_words(connection, wanted, values["owner"])
        found = connection.execute(FIND_SQLITE, {**values, "query": fts5_any(telling), "candidates": CANDIDATES})
    else:
        terms = [f"{quoted(each.word)}{':*' * each.is_open}" for each in wanted]
        found = connection.execute(FIND_POSTGRES, {**values, "words": terms})
    return [FactHit(to_fact(row.data), row.score) for row in found]


def index_fact(connection: Connection, scope: MemoryScope, fact: Fact) -> None:
    """Have a fact be known and found."""
    row = {
        **key_of(scope),
        "fact_id": fact.id,
        "category": fact.category,
        "confidence": fact.confidence,
        "created_at": fact.created_at,
        "data": to_fields(fact),
    }
    made = connection.execute(insert(memory_facts).returning(memory_facts.c.row_id), row).scalar_one()
    terms = terms_of(fact.content)
    if connection.dialect.name == "sqlite":
        connection.execute(ADD_SQLITE, {"row_id": made, "terms": " ".join(terms)})
    else:
        connection.execute(ADD_POSTGRES, {"row_id": made, "terms": ts_vector(terms)})


def unindex_facts(connection: Connection, scope: MemoryScope, fact_ids: Collection[str]) -> None:
    """Have facts be known no longer."""
    columns, key = memory_facts.c, key_of(scope)
    of_scope = (columns.owner == key["owner"]) & (columns.agent == key["agent"])
    ids = [to_key(fact_id, 64) for fact_id in fact_ids]
    connection.execute(delete(memory_facts).where(of_scope, columns.fact_id.in_(ids)))


def telling_words(connection: Connection, wanted: Sequence[Wanted], owner: str) -> Sequence[Wanted]:
    """The words that are in few facts, of whomever: comparing all facts with one that is in most of them takes long."""
    counts = ", ".join(
        f"(SELECT count(*) FROM memory_terms WHERE memory_terms MATCH :w{at})" for at in range(len(wanted))
    )
    queries = {f"w{at}": fts5_any([each]) for at, each in enumerate(wanted)}
    found = list(zip(connection.execute(text(f"SELECT {counts}"), queries).one(), wanted, strict=True))
    there = [(count, each) for count, each in found if count] or found
    few = [each for count, each in there if count <= COMMON]
    return few or [min(there, key=lambda pair: pair[0])[1]]


def words_wanted(query: str) -> list[Wanted]:
    """What is looked for; small words only when there are no others."""
    found: dict[str, Wanted] = {}
    for chunk in CHUNK.finditer(query):
        for each in pairs_wanted(chunk[0]) if chunk["unspaced"] else parts_wanted(chunk[0]):
            found.setdefault(each.word, each)
    telling = [each for each in found.values() if each.word not in SMALL_WORDS]
    return (telling or list(found.values()))[:MOST_WORDS]


def pairs_wanted(chunk: str) -> list[Wanted]:
    """Pairs of characters; one alone is the beginning of pairs."""
    pairs = [word.text for word in pairs_of(chunk, 0)]
    if len(pairs) == 1:
        return [Wanted(pairs[0], is_open=True)]
    return [Wanted(pair) for pair in pairs[:-1]]


def parts_wanted(chunk: str) -> list[Wanted]:
    """The parts of a word or name, without their endings."""
    words = [word.text for word in parts_of(chunk, 0)]
    return [Wanted(stem_of(word), is_open=True) if is_long(word) else Wanted(word) for word in words]


def is_long(word: str) -> bool:
    """Whether a word may have other forms that begin as it does."""
    return len(word) >= SHORTEST_STEM and word.isascii() and word.isalpha() and word not in SMALL_WORDS


def stem_of(word: str) -> str:
    """How a word and its other forms begin."""
    for ending in ENDINGS:
        stem = word.removesuffix(ending)
        if stem != word and len(stem) >= SHORTEST_STEM:
            is_doubled = ending in ("ing", "ed", "er", "ers") and stem[-1] == stem[-2] and stem[-1] not in "ls"
            return stem[:-1] if is_doubled else stem
    return word


def fts5_any(wanted: Sequence[Wanted]) -> str:
    """The query for FTS5. Words are letters and digits alone, so quoting them is enough."""
    return " OR ".join(f'"{each.word}"{"*" * each.is_open}' for each in wanted)
