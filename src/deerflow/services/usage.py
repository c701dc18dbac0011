"""Token usage and cost: recorded at the end of a run, summed by thread, model, caller and day."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from decimal import Decimal
from functools import partial
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from deerflow.config.sections.models import PricingConfig
from deerflow.domain.errors import InvalidRequest
from deerflow.domain.identity import Principal
from deerflow.domain.runs import RunRecord, RunStatus
from deerflow.domain.threads import DiscardedHistory
from deerflow.domain.usage import LEAD_AGENT, PrefixCacheUsage, TokenCounts, UsageEntry, UsageOrigin, sum_counts
from deerflow.models.usage import compute_cost, to_amount
from deerflow.persistence.engine.database import Database
from deerflow.persistence.queries import usage as rows
from deerflow.persistence.queries.events import WriteFunction
from deerflow.persistence.queries.threads import find_thread
from deerflow.persistence.queries.transactions import record_run_result
from deerflow.persistence.queries.usage import RunWithTitle, UsageTotal, count_runs, count_threads, list_runs_by_owner
from deerflow.runtime.runs.job import Job, Timeline

MAX_STORED_COST = 2**53
MAX_THREADS = 50
"""Number of threads in a list of those that used most."""


@dataclass(frozen=True, slots=True)
class Money:
    """Exact amount of a currency."""

    amount: Decimal
    currency: str


@dataclass(frozen=True, slots=True)
class Spending:
    """Usage of some calls and its known cost."""

    counts: TokenCounts
    costs: Sequence[Money] = ()
    """One per currency, as far as prices are known."""
    unpriced_tokens: int = 0

    @property
    def cost(self) -> Money | None:
        """Return the total cost; None when a price is unknown or several currencies are involved."""
        return self.costs[0] if len(self.costs) == 1 and not self.unpriced_tokens else None


@dataclass(frozen=True, slots=True)
class UsageShare:
    """Spending under one name: a model, a caller or a day."""

    name: str
    spending: Spending


@dataclass(frozen=True, slots=True)
class ContextWindowUsage:
    """Context tokens of a thread's latest request."""

    model: str
    used_tokens: int
    window_tokens: int | None


@dataclass(frozen=True, slots=True)
class ThreadUsage:
    """Usage of a thread."""

    totals: Spending
    by_model: Sequence[UsageShare]
    by_caller: Sequence[UsageShare]
    context: ContextWindowUsage | None


@dataclass(frozen=True, slots=True)
class ThreadShare:
    """Spending of one thread; that of all deleted threads has no id."""

    thread_id: str | None
    title: str | None
    spending: Spending


@dataclass(frozen=True, slots=True)
class DailyUsage:
    """Usage of an owner in the latest days, oldest first; days without usage are included."""

    totals: Spending
    by_day: Sequence[UsageShare]
    by_model: Sequence[UsageShare]
    by_caller: Sequence[UsageShare]
    by_thread: Sequence[ThreadShare]
    """The threads that used most, most first."""


@dataclass(frozen=True, slots=True)
class OwnerStats:
    """Totals of an owner."""

    threads: int
    runs: dict[RunStatus, int]
    totals: Spending


@dataclass(frozen=True, slots=True)
class RunSpending:
    """Run, the title of its thread, and its spending."""

    run: RunWithTitle
    spending: Spending


class UsageService:
    """Usage of runs and model calls. Every method is restricted to the data of `who`."""

    def __init__(
        self,
        database: Database,
        prices: Callable[[str], Mapping[str, PricingConfig]],
        find_window: Callable[[str, str], int | None],
    ) -> None:
        """`prices` returns those of a user; `find_window` the context window of a model of a user, if known."""
        self._database = database
        self._prices = prices
        self._find_window = find_window

    def build_result_write(self, job: Job, discarded: DiscardedHistory | None) -> WriteFunction[None]:
        """Return the write that stores usage, messages and wait reason of an ended run."""
        origin = UsageOrigin(job.run.actor, datetime.now(UTC), job.run.thread_id, job.run.run_id)
        entries = self._add_costs(job.records.tally.entries(), job.run.actor)
        messages = list(job.records.transcript.messages.values())
        write = partial(
            record_run_result, run=job.run, origin=origin, entries=entries, messages=messages, discarded=discarded
        )
        return partial(write, waits_for=job.records.waits_for)

    async def record(self, origin: UsageOrigin, caller: str, model: str, counts: TokenCounts) -> None:
        """Record the usage of a model call outside the agent."""
        entries = self._add_costs([UsageEntry(caller, model, counts)], origin.owner)
        await self._database.write(partial(rows.record_usage, origin=origin, entries=entries))

    def _add_costs(self, entries: Iterable[UsageEntry], owner: str) -> list[UsageEntry]:
        prices = self._prices(owner)
        return [add_cost(entry, prices) for entry in entries]

    async def get_thread_usage(self, thread_id: str, who: Principal) -> ThreadUsage:
        """Return the usage of a thread, or raise `NotFound`."""
        owner = who.user_id
        await self._database.read(partial(find_thread, thread_id=thread_id, owner=owner))
        sums = await self._database.read(partial(rows.sum_thread_usage, thread_id=thread_id, owner=owner))
        context = partial(rows.find_latest_context, thread_id=thread_id, owner=owner, caller=LEAD_AGENT)
        newest = await self._database.read(context)
        return ThreadUsage(
            self._sum(sums, owner),
            self._shares(sums, owner, lambda each: each.model),
            self._shares(sums, owner, lambda each: each.caller),
            ContextWindowUsage(*newest, self._find_window(newest[0], owner)) if newest else None,
        )

    async def get_run_spending(self, run: RunRecord) -> Spending:
        """Return the spending of a run."""
        query = partial(rows.sum_run_usage, owner=run.actor, run_ids=[run.run_id])
        return self._sum(await self._database.read(query), run.actor)

    async def get_prefix_cache(self, run: RunRecord) -> PrefixCacheUsage:
        """Return the prefixes of the requests of a run, so far if it is active."""
        return await Timeline(self._database).prefix_cache(run)

    async def get_stats(self, who: Principal) -> OwnerStats:
        """Return the totals of an owner."""
        threads = await self._database.read(partial(count_threads, owner=who.user_id))
        runs = await self._database.read(partial(count_runs, owner=who.user_id))
        sums = await self._database.read(partial(rows.sum_owner_usage, owner=who.user_id))
        return OwnerStats(threads, runs, self._sum(sums, who.user_id))

    async def list_runs(
        self, who: Principal, limit: int, offset: int = 0, status: RunStatus | None = None
    ) -> Sequence[RunSpending]:
        """Return the owner's runs in all threads, newest first."""
        query = partial(list_runs_by_owner, owner=who.user_id, limit=limit, offset=offset, status=status)
        found = await self._database.read(query)
        ids = [each.run.run_id for each in found]
        sums = await self._database.read(partial(rows.sum_run_usage, owner=who.user_id, run_ids=ids)) if ids else []
        by_run = group_by_name(sums, lambda each: each.run_id or "")
        return [RunSpending(each, self._sum(by_run.get(each.run.run_id, []), who.user_id)) for each in found]

    async def get_daily_usage(self, who: Principal, days: int, zone_name: str, today: date | None = None) -> DailyUsage:
        """Return the usage of the latest `days` by the calendar of a time zone.

        Raises:
            InvalidRequest: The time zone does not exist.
        """
        zone, owner = find_zone(zone_name), who.user_id
        last = today or datetime.now(zone).date()
        dates = [last - timedelta(days=back) for back in range(days - 1, -1, -1)]
        since = datetime.combine(dates[0], time.min, zone)
        query = partial(rows.sum_owner_usage, owner=who.user_id, since=since, by_quarter=True)
        sums = [each for each in await self._database.read(query) if to_day(each.quarter, zone) <= last]
        by_day = group_by_name(sums, lambda each: to_day(each.quarter, zone).isoformat())
        return DailyUsage(
            self._sum(sums, owner),
            [UsageShare(day.isoformat(), self._sum(by_day.get(day.isoformat(), []), owner)) for day in dates],
            self._shares(sums, owner, lambda each: each.model),
            self._shares(sums, owner, lambda each: each.caller),
            await self._list_threads(owner, since),
        )

    async def _list_threads(self, owner: str, since: datetime) -> Sequence[ThreadShare]:
        sums = await self._database.read(partial(rows.sum_usage_by_thread, owner=owner, since=since))
        by_thread = group_by_name(sums, lambda each: each.thread_id or "")
        spent = [(thread_id or None, self._sum(group, owner)) for thread_id, group in by_thread.items()]
        spent.sort(key=lambda each: each[1].counts.total_tokens, reverse=True)
        shown = [thread_id for thread_id, _ in spent[:MAX_THREADS] if thread_id]
        titles = await self._database.read(partial(rows.read_titles, owner=owner, thread_ids=shown))
        return [ThreadShare(id_, titles.get(id_ or ""), spending) for id_, spending in spent[:MAX_THREADS]]

    def _sum(self, sums: Sequence[rows.UsageTotal], owner: str) -> Spending:
        return sum_spending(sums, self._prices(owner))

    def _shares(
        self, sums: Sequence[rows.UsageTotal], owner: str, name: Callable[[rows.UsageTotal], str]
    ) -> list[UsageShare]:
        groups = sorted(group_by_name(sums, name).items())
        return [UsageShare(each, self._sum(group, owner)) for each, group in groups]


def group_by_name(
    sums: Iterable[rows.UsageTotal], name: Callable[[rows.UsageTotal], str]
) -> dict[str, list[rows.UsageTotal]]:
    """Group totals by a name."""
    found: dict[str, list[rows.UsageTotal]] = {}
    for each in sums:
        found.setdefault(name(each), []).append(each)
    return found


def find_zone(name: str) -> tzinfo:
    """Return a time zone such as `Europe/Berlin`.

    Raises:
        InvalidRequest: It does not exist.
    """
    try:
        return UTC if name == "UTC" else ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidRequest(f"unknown time zone {name!r}; use a name such as 'Europe/Berlin' or 'UTC'") from None


def to_day(quarter: int, zone: tzinfo) -> date:
    """Return the day of a quarter of an hour."""
    return datetime.fromtimestamp(quarter * rows.QUARTER // 1_000_000, zone).date()


def add_cost(entry: UsageEntry, prices: Mapping[str, PricingConfig]) -> UsageEntry:
    """Return `entry` with its cost, if the price is known."""
    pricing = prices.get(entry.model)
    if pricing is None or not entry.counts.total_tokens:
        return entry
    cost = compute_cost(entry.counts, pricing)
    # A cost too large for the column is computed when it is read.
    return replace(entry, cost=cost, currency=pricing.currency) if cost < MAX_STORED_COST else entry


def sum_spending(sums: Sequence[UsageTotal], prices: Mapping[str, PricingConfig]) -> Spending:
    """Return the total of `sums`. Usage without a price at the time is valued at the current price, if there is one."""
    costs: dict[str, int] = {}
    unpriced = 0
    for each in (add_current_cost(one, prices) for one in sums):
        if each.cost is None or each.currency is None:
            unpriced += each.counts.total_tokens
        else:
            costs[each.currency] = costs.get(each.currency, 0) + each.cost
    money = [Money(to_amount(cost), currency) for currency, cost in sorted(costs.items())]
    return Spending(sum_counts(each.counts for each in sums), money, unpriced)


def add_current_cost(each: UsageTotal, prices: Mapping[str, PricingConfig]) -> UsageTotal:
    """Return a sum with its cost at the current price, if it has none yet."""
    pricing = prices.get(each.model)
    if each.cost is not None or pricing is None or not each.counts.total_tokens:
        return each
    return replace(each, cost=compute_cost(each.counts, pricing), currency=pricing.currency)
