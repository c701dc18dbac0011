"""Token usage: a few rows per run, summed on demand; quotas of people, and what they have spent in a day."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Label,
    Row,
    bindparam,
    cast,
    delete,
    func,
    insert,
    literal_column,
    select,
    update,
)

from deerflow.domain.runs import RunRecord, RunStatus
from deerflow.domain.usage import TokenCounts, UsageEntry, UsageOrigin
from deerflow.persistence.queries.runs import RUN_COLUMNS, to_run_record
from deerflow.persistence.tables import (
    ACTIVE,
    daily_spending,
    insert_or_ignore,
    runs,
    threads,
    to_key,
    usage_entries,
    user_quotas,
)

QUARTER = 15 * 60 * 1_000_000
"""15 minutes in microseconds. The UTC offset of every time zone is a multiple of it."""
# A literal: with a bound parameter PostgreSQL would not see that it groups by the selected expression.
QUARTER_COLUMN = literal_column(f"usage_entries.ended_at / {QUARTER}", BigInteger).label("quarter")

ADD_TOKENS = (
    update(runs)
    .where(runs.c.run_id == bindparam("run"))
    .values(
        input_tokens=runs.c.input_tokens + bindparam("taken"), output_tokens=runs.c.output_tokens + bindparam("given")
    )
)
"""Built once: building it takes longer than executing it."""


@dataclass(frozen=True, slots=True)
class UsageTotal:
    """Sum of rows of one caller, model and currency. Rows without a price are summed separately."""

    caller: str
    model: str
    currency: str | None
    cost: int | None
    counts: TokenCounts
    quarter: int = 0
    """Quarters of an hour since 1970; 0 unless grouped by them."""
    run_id: str | None = None
    thread_id: str | None = None


def record_usage(connection: Connection, origin: UsageOrigin, entries: Sequence[UsageEntry]) -> None:
    """Insert usage entries, and add their tokens to the counters of the run."""
    if not entries:
        return
    connection.execute(insert(usage_entries), [to_usage_row(origin, entry) for entry in entries])
    if origin.run_id is None:
        return
    taken = sum(entry.counts.input_tokens for entry in entries)
    given = sum(entry.counts.output_tokens for entry in entries)
    connection.execute(ADD_TOKENS, {"run": origin.run_id, "taken": taken, "given": given})


def to_usage_row(origin: UsageOrigin, entry: UsageEntry) -> dict[str, Any]:
    """Convert an entry to a row."""
    about = {"caller": to_key(entry.caller, 64), "model": to_key(entry.model), "context_tokens": entry.context_tokens}
    return {**asdict(origin), **asdict(entry.counts), **about, "cost": entry.cost, "currency": entry.currency}


def sum_thread_usage(connection: Connection, thread_id: str, owner: str) -> Sequence[UsageTotal]:
    """Return the usage of a thread, by model and caller."""
    return sum_usage(connection, (usage_entries.c.thread_id == thread_id) & (usage_entries.c.owner == owner))


def sum_owner_usage(
    connection: Connection, owner: str, since: datetime | None = None, *, by_quarter: bool = False
) -> Sequence[UsageTotal]:
    """Return the usage of an owner, by model and caller, and optionally by quarter of an hour."""
    owned = usage_entries.c.owner == owner
    if since is not None:
        owned &= usage_entries.c.ended_at >= since
    return sum_usage(connection, owned, QUARTER_COLUMN if by_quarter else None)


def sum_usage_by_thread(connection: Connection, owner: str, since: datetime) -> Sequence[UsageTotal]:
    """Return the usage of an owner since a time, by thread; entries of deleted threads have no thread."""
    table = usage_entries.c
    owned = (table.owner == owner) & (table.ended_at >= since)
    existing = select(threads.c.thread_id).where(threads.c.thread_id == table.thread_id, threads.c.owner == owner)
    return sum_usage(connection, owned, existing.scalar_subquery().label("thread_id"))


def read_titles(connection: Connection, owner: str, thread_ids: Sequence[str]) -> dict[str, str | None]:
    """Return the titles of these threads of an owner."""
    query = select(threads.c.thread_id, threads.c.title).where(threads.c.owner == owner)
    return {row.thread_id: row.title for row in connection.execute(query.where(threads.c.thread_id.in_(thread_ids)))}


def sum_run_usage(connection: Connection, owner: str, run_ids: Sequence[str]) -> Sequence[UsageTotal]:
    """Return the usage of each of these runs."""
    owned = (usage_entries.c.owner == owner) & usage_entries.c.run_id.in_(run_ids)
    return sum_usage(connection, owned, usage_entries.c.run_id.label("run_id"))


def sum_usage(
    connection: Connection, which: ColumnElement[bool], group_by: Label[Any] | None = None
) -> Sequence[UsageTotal]:
    """Return the sums of the rows that match `which`."""
    table = usage_entries.c
    kinds: list[ColumnElement[Any]] = [table.caller, table.model, table.currency]
    kinds += [table.cost.is_(None).label("is_unpriced")]
    kinds += [group_by] if group_by is not None else []
    sums = [cast(func.sum(table[name]), BigInteger).label(name) for name in ("cost", *TokenCounts.__slots__)]
    found = connection.execute(select(*kinds, *sums).where(which).group_by(*kinds).order_by(table.model, table.caller))
    return [to_usage_total(row) for row in found]


def to_usage_total(row: Row[Any]) -> UsageTotal:
    """Convert a row to a total."""
    fields = row._mapping
    counts = TokenCounts(*(int(fields[name]) for name in TokenCounts.__slots__))
    cost = None if row.cost is None else int(row.cost)
    return UsageTotal(
        caller=row.caller,
        model=row.model,
        currency=row.currency,
        cost=cost,
        counts=counts,
        quarter=int(fields.get("quarter", 0)),
        run_id=fields.get("run_id"),
        thread_id=fields.get("thread_id"),
    )


def find_latest_context(connection: Connection, thread_id: str, owner: str, caller: str) -> tuple[str, int] | None:
    """Return model and context tokens of the latest request of a thread, None when there is none."""
    table = usage_entries.c
    owned = (table.thread_id == thread_id) & (table.owner == owner) & (table.caller == caller)
    newest = select(table.model, table.context_tokens).where(owned, table.context_tokens.is_not(None))
    row = connection.execute(newest.order_by(table.entry_id.desc()).limit(1)).first()
    return None if row is None else (row.model, row.context_tokens)


@dataclass(frozen=True, slots=True)
class RunWithTitle:
    """Run, and the title of its thread."""

    run: RunRecord
    title: str | None


def count_threads(connection: Connection, owner: str) -> int:
    """Return the number of the owner's threads."""
    return connection.execute(select(func.count()).select_from(threads).where(threads.c.owner == owner)).scalar() or 0


def count_runs(connection: Connection, owner: str) -> dict[RunStatus, int]:
    """Return the number of the owner's runs by status."""
    query = select(runs.c.status, func.count()).where(runs.c.owner == owner).group_by(runs.c.status)
    found = {RunStatus(status): count for status, count in connection.execute(query)}
    return {status: found.get(status, 0) for status in RunStatus}


def list_runs_by_owner(
    connection: Connection, owner: str, limit: int, offset: int, status: RunStatus | None
) -> Sequence[RunWithTitle]:
    """Return the owner's runs in all threads, newest first."""
    query = select(*RUN_COLUMNS, threads.c.title).join(threads, threads.c.thread_id == runs.c.thread_id)
    query = query.where(runs.c.owner == owner, threads.c.owner == owner)
    if status is not None:
        query = query.where(runs.c.status == status)
    page = query.order_by(runs.c.position.desc(), runs.c.run_id.desc()).limit(limit).offset(offset)
    found = [dict(row._mapping) for row in connection.execute(page)]
    return [RunWithTitle(title=row.pop("title"), run=to_run_record(row)) for row in found]


def read_quota(connection: Connection, owner: str) -> Mapping[str, Any]:
    """Return the limits that an administrator has set for a person."""
    found: Mapping[str, Any] | None = connection.execute(
        select(user_quotas.c.limits).where(user_quotas.c.owner == owner)
    ).scalar()
    return found or {}


def write_quota(connection: Connection, owner: str, limits: Mapping[str, Any]) -> None:
    """Replace the limits of a person, who has an account."""
    connection.execute(delete(user_quotas).where(user_quotas.c.owner == owner))
    if limits:
        connection.execute(insert(user_quotas), {"owner": owner, "limits": dict(limits)})


def lock_owner(connection: Connection, owner: str) -> None:
    """Lock the runs of a person against others that begin, until the end of the transaction."""
    if connection.dialect.name != "sqlite":  # SQLite has one writer at a time anyway
        connection.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(owner, 23))))


def count_busy_threads(connection: Connection, owner: str) -> int:
    """Return the number of threads in which a person has an active run."""
    started = func.coalesce(runs.c.started_by, runs.c.owner) == owner
    query = select(func.count(func.distinct(runs.c.thread_id))).where(started, ACTIVE)
    return connection.execute(query).scalar() or 0


DAY = (daily_spending.c.owner == bindparam("person")) & (daily_spending.c.day == bindparam("date"))
READ_DAY = select(daily_spending.c.tokens, daily_spending.c.cost).where(DAY)
ADD_SPENDING = (
    update(daily_spending)
    .where(DAY)
    .values(
        tokens=daily_spending.c.tokens + bindparam("more_tokens"), cost=daily_spending.c.cost + bindparam("more_cost")
    )
)
"""Built once, as other statements of model calls."""


def read_daily_spending(connection: Connection, owner: str, day: str) -> tuple[int, int]:
    """Return tokens and cost of a person on a day, with what is reserved."""
    row = connection.execute(READ_DAY, {"person": owner, "date": day}).first()
    return (row.tokens, row.cost) if row is not None else (0, 0)


def add_daily_spending(
    connection: Connection,
    owner: str,
    day: str,
    released: tuple[int, int],
    wanted: tuple[int, int] = (0, 0),
    limits: tuple[int | None, int | None] = (None, None),
) -> tuple[bool, tuple[int, int]]:
    """Subtract `released`, then add `wanted` if that stays within the limits of tokens and cost.

    Return whether it was added, and the amounts of the day. The row is locked, so that other processes wait.
    """
    key = {"person": owner, "date": day}
    if not connection.execute(ADD_SPENDING, {**key, "more_tokens": -released[0], "more_cost": -released[1]}).rowcount:
        connection.execute(delete(daily_spending).where(daily_spending.c.owner == owner, daily_spending.c.day < day))
        insert_or_ignore(connection, daily_spending, {"owner": owner, "day": day, "tokens": 0, "cost": 0})
        connection.execute(ADD_SPENDING, {**key, "more_tokens": -released[0], "more_cost": -released[1]})
    spent = read_daily_spending(connection, owner, day)
    total = (spent[0] + wanted[0], spent[1] + wanted[1])
    if any(limit is not None and each > limit for each, limit in zip(total, limits, strict=True)):
        return False, spent
    if wanted != (0, 0):
        connection.execute(ADD_SPENDING, {**key, "more_tokens": wanted[0], "more_cost": wanted[1]})
    return True, total
