"""Quotas of people: configured limits, those that an administrator sets for a person, and what is left of them."""

import asyncio
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, date, datetime, timedelta
from datetime import time as clock_time
from decimal import Decimal
from functools import partial
from typing import Any

from deerflow.accounts import queries as rows
from deerflow.accounts.authenticator import MAX_AGE_S, Authenticator
from deerflow.config.sections.base import Settings
from deerflow.config.sections.server import QuotasConfig, UsersConfig
from deerflow.domain.errors import QuotaExceeded
from deerflow.domain.identity import Principal
from deerflow.domain.usage import SpendingLimit
from deerflow.persistence.engine.database import Database
from deerflow.persistence.queries.usage import (
    count_busy_threads,
    read_daily_spending,
    read_quota,
    write_quota,
)

MB = 1024 * 1024
BURST_S = 2.0
"""Seconds whose requests may come at once."""
MAX_PEOPLE = 10_000
RETRY_S = 30.0
"""Time after which a run that was refused because of others may be sent again."""
MEASURED_S = 5.0
"""Age up to which the size of a person's files is used again."""


@dataclass(frozen=True, slots=True)
class Quota:
    """Limits of a person; None for none."""

    storage_mb: int | None = None
    concurrent_runs: int | None = None
    requests_per_second: float | None = None
    tokens_per_day: int | None = None
    cost_per_day: Decimal | None = None
    currency: str = "USD"

    @property
    def spending(self) -> SpendingLimit:
        """The limit of a day."""
        return SpendingLimit(self.tokens_per_day, self.cost_per_day, self.currency)

    @property
    def storage_bytes(self) -> int | None:
        """The limit of the files in bytes."""
        return None if self.storage_mb is None else self.storage_mb * MB


TICK_S, LATE_S, DELAY_WEIGHT, PRESENT_S = 0.1, 0.012, 0.25, 10.0
"""Interval of measurements, mean delay of the event loop that is too much, weight of the latest, and how long a person
who did something counts as present."""
SLOW_WRITE_S = 0.02
"""Mean time of a group of events in the database that is too much: events of everybody wait for it."""
LOADED = 0.2
"""Share of a core that this process uses when it may be late because of its own work."""
MIN_SHARE, MAX_SHARE, UNLIMITED_TURNS = 2, 64, 1_000_000
UNLIMITED, NOT_CONFIGURED = Quota(), QuotasConfig()
LIMITS = tuple(each.name for each in fields(Quota) if each.name != "currency")
"""Names of the limits that can be set for a person."""


@dataclass(frozen=True, slots=True)
class QuotaUsage:
    """Limits of a person, and what is used of them now. Reserved tokens and money are included."""

    quota: Quota
    storage_bytes: int
    runs: int
    tokens: int
    cost: int
    """In 10⁻¹² of the currency of the quota."""
    resets_at: datetime


@dataclass(frozen=True, slots=True)
class KnownQuota:
    """Limits of a person as they were a moment ago, and the configuration that they are based on."""

    quota: Quota
    configured: QuotasConfig
    read_at: float


@dataclass(slots=True)
class TokenBucket:
    """Requests that a person may still send at once."""

    level: float
    filled_at: float

    def take(self, rate: float, now: float) -> float:
        """Take a request and return 0, or the seconds until there is one."""
        most = max(1.0, rate * BURST_S)
        self.level = min(most, self.level + (now - self.filled_at) * rate)
        self.filled_at = now
        if self.level < 1:
            return (1 - self.level) / rate
        self.level -= 1
        return 0.0


class LoadMonitor:
    """Finds how much each person may do at once so that the event loop and the database are not late for others."""

    def __init__(self, cpu_clock: Callable[[], float] = time.process_time) -> None:
        self._cpu_clock = cpu_clock
        self._seen: dict[str, float] = {}
        self._delay_s = self._write_s = self._slowest_s = 0.0
        self._used_s = cpu_clock()
        self._share = float(MAX_SHARE)
        self._timer: asyncio.TimerHandle | None = None
        self.on_tick: list[Callable[[], None]] = []

    @property
    def share(self) -> int:
        """Turns of each kind that a person may have; as many as they like while no one else is present."""
        return UNLIMITED_TURNS if self._timer is None else int(self._share)

    def note(self, user: str) -> None:
        """Note that a person is present."""
        loop = asyncio.get_running_loop()
        self._seen[user] = loop.time()
        if self._timer is None and len(self._seen) > 1:
            self._timer = loop.call_later(TICK_S, self._tick, loop, loop.time() + TICK_S)

    def note_write(self, seconds: float) -> None:
        """Note how long a group of events took in the database."""
        self._slowest_s = max(self._slowest_s, seconds)

    def _tick(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        now, self._timer = loop.time(), None
        self._delay_s += DELAY_WEIGHT * (now - due - self._delay_s)
        self._write_s += DELAY_WEIGHT * (self._slowest_s - self._write_s)
        self._slowest_s = 0.0
        cpu_s = self._cpu_clock()
        used_s, self._used_s = cpu_s - self._used_s, cpu_s
        # Other programs and a slow disk make events late, too, and fewer turns would not help against them.
        is_loaded = used_s > LOADED * (now - due + TICK_S)
        is_late = is_loaded and (self._delay_s > LATE_S or self._write_s > SLOW_WRITE_S)
        self._share = max(MIN_SHARE, self._share * 0.7) if is_late else min(MAX_SHARE, self._share + 0.2)
        self._seen = {user: seen for user, seen in self._seen.items() if now - seen < PRESENT_S}
        if len(self._seen) > 1:
            self._timer = loop.call_later(TICK_S, self._tick, loop, now + TICK_S)
        for admit in self.on_tick:
            admit()


class Turns:
    """Limits what one person has done at the same time, so that other people have their turn."""

    def __init__(self, monitor: LoadMonitor, limit: int, moment_s: float | None = None) -> None:
        """Hold to `limit`, and to the share of each person in a busy server. After `moment_s` a turn is over."""
        self._monitor = monitor
        self._limit = limit
        self._moment_s = moment_s
        self._active: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        monitor.on_tick.append(self._admit_all)

    @asynccontextmanager
    async def slot(self, user: str) -> AsyncIterator[Callable[[], None]]:
        """Hold a turn of a person, and yield what ends it before."""
        self._monitor.note(user)
        await self._acquire(user)
        is_held, loop = True, asyncio.get_running_loop()

        def release() -> None:
            nonlocal is_held
            if is_held:
                is_held = False
                self._active[user] -= 1
                self._admit(user)

        timer = loop.call_later(self._moment_s, release) if self._moment_s is not None else None
        try:
            yield release
        finally:
            if timer is not None:
                timer.cancel()
            release()
            self._monitor.note(user)

    def _is_free(self, user: str) -> bool:
        return self._active[user] < min(self._limit, self._monitor.share)

    async def _acquire(self, user: str) -> None:
        if user not in self._waiting and self._is_free(user):
            self._active[user] += 1
            return
        admitted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(user, deque()).append(admitted)
        try:
            await admitted
        except asyncio.CancelledError:
            if not admitted.cancelled():  # it was admitted in the same moment
                self._active[user] -= 1
                self._admit(user)
            raise

    def _admit(self, user: str) -> None:
        queue = self._waiting.get(user, deque())
        while queue and (queue[0].done() or self._is_free(user)):
            admitted = queue.popleft()
            if not admitted.done():  # else it was given up
                self._active[user] += 1
                admitted.set_result(None)
        if not queue:
            self._waiting.pop(user, None)
            if not self._active[user]:
                del self._active[user]

    def _admit_all(self) -> None:
        for user in list(self._waiting):
            self._admit(user)


class FairTurns:
    """Turns of people: for requests, for the begin of runs, and for model calls."""

    def __init__(self) -> None:
        monitor = self.monitor = LoadMonitor()
        # A request that takes longer than a moment is waiting for something.
        self.requests = Turns(monitor, limit=6, moment_s=0.5)
        self.run_starts = Turns(monitor, limit=4, moment_s=2.0)
        self.model_calls = Turns(monitor, limit=UNLIMITED_TURNS)

    @asynccontextmanager
    async def start_run(self, user: str) -> AsyncIterator[Callable[[], AbstractAsyncContextManager[object]]]:
        """Hold a turn to begin a run, until its first model call; yield what returns the turns of model calls."""
        async with self.run_starts.slot(user) as has_begun:

            def call_model() -> AbstractAsyncContextManager[object]:
                has_begun()
                return self.model_calls.slot(user)

            yield call_model


@dataclass
class Quotas:
    """Quotas of the people of a server."""

    database: Database
    settings: Settings[UsersConfig]
    authenticator: Authenticator
    measure: Callable[[str], Awaitable[int]]
    """Returns the bytes that the files of a person take."""
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], datetime] = partial(datetime.now, UTC)
    turns: FairTurns = field(default_factory=FairTurns)
    _known: dict[str, KnownQuota] = field(default_factory=dict)
    _buckets: dict[str, TokenBucket] = field(default_factory=dict)
    _sizes: dict[str, tuple[float, int]] = field(default_factory=dict)

    async def find(self, owner: str) -> Quota:
        """Return the limits of a person. Without accounts and limits nothing is read."""
        configured = self.settings.current.quotas
        if not self.authenticator.is_login_required and configured == NOT_CONFIGURED:
            return UNLIMITED
        known = self._known.get(owner)
        if known is None or known.configured is not configured or self.clock() - known.read_at > MAX_AGE_S:
            read_at, changed = self.clock(), await self.read_changes(owner)
            if len(self._known) >= MAX_PEOPLE:
                self._known.clear()
            known = self._known[owner] = KnownQuota(merge_quota(configured, changed), configured, read_at)
        return known.quota

    async def find_spending_limit(self, owner: str) -> SpendingLimit:
        """Return the limit of tokens and money of a person for a day."""
        return (await self.find(owner)).spending

    async def find_storage_limit(self, owner: str) -> int | None:
        """Return the limit of the files of a person in bytes; None for none."""
        return (await self.find(owner)).storage_bytes

    async def read_changes(self, owner: str) -> Mapping[str, Any]:
        """Return the limits that an administrator has set for a person."""
        return await self.database.read(partial(read_quota, owner=owner))

    async def change(self, owner: str, limits: Mapping[str, Any]) -> Quota:
        """Replace the limits that are set for a person: others are configured, None is none.

        Raises:
            NotFound: There is no such account.
        """
        await self.database.read(partial(rows.find_account, owner=owner))
        stored = {name: str(value) if isinstance(value, Decimal) else value for name, value in limits.items()}
        await self.database.write(partial(write_quota, owner=owner, limits=stored))
        self._known.pop(owner, None)
        return merge_quota(self.settings.current.quotas, stored)

    async def get_usage(self, who: Principal) -> QuotaUsage:
        """Return the limits of a person, and what is used of them."""
        owner, today = who.user_id, self.now().date()
        quota = await self.find(owner)
        tokens, cost = await self.database.read(partial(read_daily_spending, owner=owner, day=today.isoformat()))
        busy = await self.database.read(partial(count_busy_threads, owner=owner))
        return QuotaUsage(quota, await self.measure(owner), busy, tokens, cost, end_of(today))

    async def check_request(self, owner: str) -> float:
        """Count a request of a person. Return 0, or the seconds until it is allowed."""
        rate = (await self.find(owner)).requests_per_second
        if rate is None:
            return 0.0
        now = self.clock()
        if owner not in self._buckets:
            if len(self._buckets) >= MAX_PEOPLE:
                self._buckets.clear()
            self._buckets[owner] = TokenBucket(max(1.0, rate * BURST_S), now)
        return self._buckets[owner].take(rate, now)

    async def check_run(self, owner: str) -> int | None:
        """Check that a person may begin a run; return the maximum number of threads with an active run.

        Raises:
            QuotaExceeded: The tokens or the money of the day are spent, or the files take too much space.
        """
        quota, now = await self.find(owner), self.now()
        if quota.spending.is_set:
            query = partial(read_daily_spending, owner=owner, day=now.date().isoformat())
            await self._check_spending(quota, await self.database.read(query), now)
        if quota.storage_bytes is not None and await self.measure_files(owner) > quota.storage_bytes:
            raise QuotaExceeded(
                f"your files take more than your quota of {quota.storage_mb} MB; delete threads or files first", RETRY_S
            )
        return quota.concurrent_runs

    async def _check_spending(self, quota: Quota, spent: tuple[int, int], now: datetime) -> None:
        tokens, cost = quota.tokens_per_day, quota.cost_per_day
        wait = (end_of(now.date()) - now).total_seconds()
        if tokens is not None and spent[0] >= tokens:
            raise QuotaExceeded(f"your quota of {tokens} tokens for today is used up", wait)
        if cost is not None and spent[1] >= int(cost * 10**12):
            raise QuotaExceeded(f"your quota of {cost} {quota.currency} for today is used up", wait)

    async def measure_files(self, owner: str) -> int:
        """Return the bytes that the files of a person take, measured in the last seconds."""
        measured_at, size = self._sizes.get(owner, (float("-inf"), 0))
        if self.clock() - measured_at > MEASURED_S:
            size = await self.measure(owner)
            if len(self._sizes) >= MAX_PEOPLE:
                self._sizes.clear()
            self._sizes[owner] = self.clock(), size
        return size


def merge_quota(configured: QuotasConfig, changed: Mapping[str, Any]) -> Quota:
    """Return the configured limits with those that are set for a person."""
    quota = Quota(**configured.model_dump())
    known = {name: value for name, value in changed.items() if name in LIMITS}
    if known.get("cost_per_day") is not None:
        known["cost_per_day"] = Decimal(known["cost_per_day"])
    return replace(quota, **known)


def end_of(day: date) -> datetime:
    """Return the end of a day in UTC, when the next quota begins."""
    return datetime.combine(day + timedelta(days=1), clock_time.min, UTC)
