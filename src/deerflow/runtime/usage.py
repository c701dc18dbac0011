"""What runs took and cost: kept when they end, added up by thread, model, caller and day."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import partial
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from deerflow.domain.errors import InvalidRequest
from deerflow.domain.principal import Principal
from deerflow.domain.runs import RunRecord, RunStatus
from deerflow.domain.search import LeftBehind
from deerflow.domain.usage import LEAD_AGENT, TokenCounts, UsageEntry, UsageOrigin
from deerflow.persistence import usage as rows
from deerflow.persistence.closing import close_run
from deerflow.persistence.console import RunOfThread, count_runs, count_threads, runs_of_owner
from deerflow.persistence.database import Database
from deerflow.persistence.events import Change
from deerflow.persistence.threads import find_thread
from deerflow.runtime.pricing import Prices, Spent, priced, spent
from deerflow.runtime.runs.job import Job


@dataclass(frozen=True, slots=True)
class Share:
    """What was spent under one name: a model's, a caller's, a day's."""

    name: str
    spent: Spent


@dataclass(frozen=True, slots=True)
class ContextUse:
    """How full the window of the model was when it was last asked."""

    model: str
    used_tokens: int
    window_tokens: int | None


@dataclass(frozen=True, slots=True)
class ThreadUsage:
    """What a thread has taken."""

    totals: Spent
    by_model: Sequence[Share]
    by_caller: Sequence[Share]
    context: ContextUse | None


@dataclass(frozen=True, slots=True)
class DailyUsage:
    """What an owner has taken in the latest days, each of which is there, oldest first."""

    totals: Spent
    by_day: Sequence[Share]
    by_model: Sequence[Share]
    by_caller: Sequence[Share]


@dataclass(frozen=True, slots=True)
class Stats:
    """What an owner has."""

    threads: int
    runs: dict[RunStatus, int]
    totals: Spent


@dataclass(frozen=True, slots=True)
class RunSpending:
    """A run, the name of its thread, and what it has taken."""

    run: RunOfThread
    spent: Spent


class Usage:
    """Every method sees only what belongs to `who`."""

    def __init__(self, database: Database, prices: Prices, window: Callable[[str], int | None]) -> None:
        """`window` is how many tokens the model of a name reads at most, if that is known."""
        self._database = database
        self._prices = prices
        self._window = window

    def closing(self, job: Job, left: LeftBehind | None) -> Change[None]:
        """Keeps what a run leaves behind."""
        origin = UsageOrigin(job.run.owner, datetime.now(UTC), job.run.thread_id, job.run.run_id)
        entries = self._priced(job.records.tally.entries())
        said = list(job.records.said.messages.values())
        kept = partial(close_run, run=job.run, origin=origin, entries=entries, said=said, left=left)
        return partial(kept, waits_for=job.records.waits_for)

    async def note(self, origin: UsageOrigin, caller: str, model: str, counts: TokenCounts) -> None:
        """Keep what a call beside a run took."""
        entries = self._priced([UsageEntry(caller, model, counts)])
        await self._database.write(partial(rows.record_usage, origin=origin, entries=entries))

    def _priced(self, entries: Iterable[UsageEntry]) -> list[UsageEntry]:
        prices = self._prices()
        return [priced(entry, prices) for entry in entries]

    async def of_thread(self, thread_id: str, who: Principal) -> ThreadUsage:
        """What a thread has taken, or `NotFound`."""
        owner = who.user_id
        await self._database.read(partial(find_thread, thread_id=thread_id, owner=owner))
        sums = await self._database.read(partial(rows.sums_of_thread, thread_id=thread_id, owner=owner))
        context = partial(rows.newest_context, thread_id=thread_id, owner=owner, caller=LEAD_AGENT)
        newest = await self._database.read(context)
        return ThreadUsage(
            self._spent(sums),
            self._shares(sums, lambda each: each.model),
            self._shares(sums, lambda each: each.caller),
            ContextUse(*newest, self._window(newest[0])) if newest else None,
        )

    async def of_run(self, run: RunRecord) -> Spent:
        """What a run has taken."""
        query = partial(rows.sums_of_runs, owner=run.owner, run_ids=[run.run_id])
        return self._spent(await self._database.read(query))

    async def stats(self, who: Principal) -> Stats:
        """What an owner has and has taken, all in all."""
        threads = await self._database.read(partial(count_threads, owner=who.user_id))
        runs = await self._database.read(partial(count_runs, owner=who.user_id))
        sums = await self._database.read(partial(rows.sums_of_owner, owner=who.user_id))
        return Stats(threads, runs, self._spent(sums))

    async def runs(
        self, who: Principal, limit: int, offset: int = 0, status: RunStatus | None = None
    ) -> Sequence[RunSpending]:
        """The runs of all threads, newest first."""
        mine = partial(runs_of_owner, owner=who.user_id, limit=limit, offset=offset, status=status)
        found = await self._database.read(mine)
        ids = [each.run.run_id for each in found]
        sums = await self._database.read(partial(rows.sums_of_runs, owner=who.user_id, run_ids=ids)) if ids else []
        by_run = grouped(sums, lambda each: each.run_id or "")
        return [RunSpending(each, self._spent(by_run.get(each.run.run_id, []))) for each in found]

    async def daily(self, who: Principal, days: int, zone_name: str, today: date | None = None) -> DailyUsage:
        """What was taken in the latest `days`, as the calendar in a time zone has them.

        Raises:
            InvalidRequest: there is no such time zone.
        """
        zone = find_zone(zone_name)
        last = today or datetime.now(zone).date()
        dates = [last - timedelta(days=back) for back in range(days - 1, -1, -1)]
        since = datetime.combine(dates[0], time.min, zone)
        query = partial(rows.sums_of_owner, owner=who.user_id, since=since, by_quarter=True)
        sums = [each for each in await self._database.read(query) if day_of(each.quarter, zone) <= last]
        by_day = grouped(sums, lambda each: day_of(each.quarter, zone).isoformat())
        return DailyUsage(
            self._spent(sums),
            [Share(day.isoformat(), self._spent(by_day.get(day.isoformat(), []))) for day in dates],
            self._shares(sums, lambda each: each.model),
            self._shares(sums, lambda each: each.caller),
        )

    def _spent(self, sums: Sequence[rows.UsageSum]) -> Spent:
        return spent(sums, self._prices())

    def _shares(self, sums: Sequence[rows.UsageSum], name: Callable[[rows.UsageSum], str]) -> list[Share]:
        return [Share(each, self._spent(group)) for each, group in sorted(grouped(sums, name).items())]


def grouped(sums: Iterable[rows.UsageSum], name: Callable[[rows.UsageSum], str]) -> dict[str, list[rows.UsageSum]]:
    """Sums by a name."""
    found: dict[str, list[rows.UsageSum]] = {}
    for each in sums:
        found.setdefault(name(each), []).append(each)
    return found


def find_zone(name: str) -> tzinfo:
    """The time zone of that name, as `Europe/Berlin`.

    Raises:
        InvalidRequest: there is none.
    """
    try:
        return UTC if name == "UTC" else ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidRequest(f"there is no time zone {name!r}; write one as 'Europe/Berlin' or 'UTC'") from None


def day_of(quarter: int, zone: tzinfo) -> date:
    """The day a quarter of an hour belongs to."""
    return datetime.fromtimestamp(quarter * rows.QUARTER // 1_000_000, zone).date()
