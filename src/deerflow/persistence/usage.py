"""What model calls took, in the database: a few rows for each run, added up when somebody asks."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Label,
    Row,
    cast,
    func,
    insert,
    literal_column,
    select,
    update,
)

from deerflow.domain.usage import TokenCounts, UsageEntry, UsageOrigin
from deerflow.persistence.tables import runs, to_key, to_stored, usage_entries

QUARTER = 15 * 60 * 1_000_000
"""Every time zone is a multiple of it away from UTC."""
# Written out: with a value to fill in, PostgreSQL would not see that it groups by what it shows.
WHEN = literal_column(f"usage_entries.ended_at / {QUARTER}", BigInteger).label("quarter")


@dataclass(frozen=True, slots=True)
class UsageSum:
    """Rows of one kind added up. Those without a price are a sum of their own."""

    caller: str
    model: str
    currency: str | None
    cost: int | None
    counts: TokenCounts
    quarter: int = 0
    """When, in quarters of an hour since 1970; 0 unless asked for."""
    run_id: str | None = None


def record_usage(connection: Connection, origin: UsageOrigin, entries: Sequence[UsageEntry]) -> None:
    """Keep what was taken, and add it to what the run has taken so far."""
    if not entries:
        return
    connection.execute(insert(usage_entries), [to_row(origin, entry) for entry in entries])
    if origin.run_id is None:
        return
    taken = {
        runs.c.input_tokens: runs.c.input_tokens + sum(entry.counts.input_tokens for entry in entries),
        runs.c.output_tokens: runs.c.output_tokens + sum(entry.counts.output_tokens for entry in entries),
    }
    connection.execute(update(runs).where(runs.c.run_id == origin.run_id).values(taken))


def to_row(origin: UsageOrigin, entry: UsageEntry) -> dict[str, Any]:
    """A row of the table."""
    about = {"caller": to_key(entry.caller, 64), "model": to_key(entry.model), "context_tokens": entry.context_tokens}
    return {**asdict(origin), **asdict(entry.counts), **about, "cost": entry.cost, "currency": entry.currency}


def sums_of_thread(connection: Connection, thread_id: str, owner: str) -> Sequence[UsageSum]:
    """What a thread has taken, by model and caller."""
    return add_up(connection, (usage_entries.c.thread_id == thread_id) & (usage_entries.c.owner == owner))


def sums_of_owner(
    connection: Connection, owner: str, since: datetime | None = None, *, by_quarter: bool = False
) -> Sequence[UsageSum]:
    """What an owner has taken, by model and caller, and by the quarter of an hour if that is wanted."""
    mine = usage_entries.c.owner == owner
    if since is not None:
        mine &= usage_entries.c.ended_at >= since
    return add_up(connection, mine, WHEN if by_quarter else None)


def sums_of_runs(connection: Connection, owner: str, run_ids: Sequence[str]) -> Sequence[UsageSum]:
    """What each of these runs has taken."""
    mine = (usage_entries.c.owner == owner) & usage_entries.c.run_id.in_(run_ids)
    return add_up(connection, mine, usage_entries.c.run_id.label("run_id"))


def add_up(connection: Connection, which: ColumnElement[bool], also_by: Label[Any] | None = None) -> Sequence[UsageSum]:
    """The rows `which` holds for, added up."""
    table = usage_entries.c
    kinds: list[ColumnElement[Any]] = [table.caller, table.model, table.currency]
    kinds += [table.cost.is_(None).label("is_unpriced")]
    kinds += [also_by] if also_by is not None else []
    sums = [cast(func.sum(table[name]), BigInteger).label(name) for name in ("cost", *TokenCounts.__slots__)]
    found = connection.execute(select(*kinds, *sums).where(which).group_by(*kinds).order_by(table.model, table.caller))
    return [to_sum(row) for row in found]


def to_sum(row: Row[Any]) -> UsageSum:
    """A sum in the words of the domain."""
    fields = row._mapping
    counts = TokenCounts(*(int(fields[name]) for name in TokenCounts.__slots__))
    cost = None if row.cost is None else int(row.cost)
    return UsageSum(
        row.caller, row.model, row.currency, cost, counts, int(fields.get("quarter", 0)), fields.get("run_id")
    )


def newest_context(connection: Connection, thread_id: str, owner: str, caller: str) -> tuple[str, int] | None:
    """Which model the newest request of a thread went to, and how much of its window was filled."""
    table = usage_entries.c
    mine = (table.thread_id == thread_id) & (table.owner == owner) & (table.caller == caller)
    newest = select(table.model, table.context_tokens).where(mine, table.context_tokens.is_not(None))
    row = connection.execute(newest.order_by(table.ended_at.desc(), table.entry_id.desc()).limit(1)).first()
    return None if row is None else (row.model, row.context_tokens)


def quarter_of(moment: datetime) -> int:
    """The quarter of an hour a moment is in, as `sums_of_owner` counts them."""
    return to_stored(moment) // QUARTER
