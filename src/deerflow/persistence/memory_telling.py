"""What an agent can be told of a memory, and what it was told once."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection

from deerflow.domain.memory import Fact, Known, MemoryScope, Summary, SummaryKey
from deerflow.persistence.memory import count_facts, find_head, latest, read_leading, read_summaries
from deerflow.persistence.memory_search import search_facts
from deerflow.persistence.tables import memory_changes


@dataclass(frozen=True, slots=True)
class Tellable:
    """What could be told: in each list, the best first."""

    seq: int
    count: int = 0
    """How many facts there are, also those in no list."""
    summaries: Mapping[SummaryKey, Summary] = field(default_factory=dict)
    corrections: Sequence[Fact] = ()
    fitting: Sequence[Fact] = ()
    """Those that have words in common with what is asked."""
    leading: Sequence[Fact] = ()
    """Those that are surest."""


def read_tellable(connection: Connection, scope: MemoryScope, words: str, most: int) -> Tellable | None:
    """At most `most` of each kind; None when it is not to be used."""
    head = find_head(connection, scope)
    if head is None:
        return Tellable(seq=0)
    if head.is_off:
        return None
    count = count_facts(connection, scope)
    fitting = [hit.fact for hit in search_facts(connection, scope, words, most)] if count > most else []
    return Tellable(
        seq=head.seq,
        count=count,
        summaries=read_summaries(connection, scope),
        corrections=read_leading(connection, scope, most // 2, ["correction"]),
        fitting=fitting,
        leading=read_leading(connection, scope, most - len(fitting)) if len(fitting) < most else (),
    )


def read_told(connection: Connection, scope: MemoryScope, targets: Collection[str], seq: int) -> Mapping[str, Known]:
    """Facts and summaries as they were at `seq`, without what was erased since; none when it is not to be used."""
    head = find_head(connection, scope)
    if head is None or head.is_off:
        return {}
    rows = memory_changes.c
    found = latest(connection, scope, rows.target.in_(targets) & (rows.seq <= seq))
    return {target: known for target, known in found.items() if known is not None}
