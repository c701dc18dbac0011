"""Tests of quotas and of the turns of people."""

import asyncio
from collections.abc import Callable
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deerflow.accounts.quotas import (
    BURST_S,
    MAX_SHARE,
    MIN_SHARE,
    SLOW_WRITE_S,
    LoadMonitor,
    Quota,
    TokenBucket,
    Turns,
    merge_quota,
)
from deerflow.config.sections.server import QuotasConfig


class BusyMonitor(LoadMonitor):
    """Monitor of a server whose load the test sets."""

    turns = 1000

    @property
    def share(self) -> int:
        return self.turns

    def note(self, user: str) -> None:
        """Do nothing: the test sets the load."""


def test_limits_of_a_person_replace_the_configured_ones_and_null_is_none() -> None:
    configured = QuotasConfig(tokens_per_day=1000, concurrent_runs=2)
    changed = {"tokens_per_day": None, "cost_per_day": "1.5", "removed_in_the_future": 1}
    assert merge_quota(configured, changed) == Quota(concurrent_runs=2, cost_per_day=Decimal("1.5"))
    assert merge_quota(configured, {}).spending.max_tokens == 1000


@given(st.floats(0.01, 1000), st.lists(st.floats(0, 5), max_size=200))
def test_no_more_requests_pass_than_the_rate_and_a_burst_allow(rate: float, pauses: list[float]) -> None:
    bucket, now, passed = TokenBucket(max(1.0, rate * BURST_S), 0.0), 0.0, 0
    for pause in pauses:
        now += pause
        wait = bucket.take(rate, now)
        passed += wait == 0
        assert 0 <= wait <= 1 / rate + 1e-6
    assert passed <= max(1.0, rate * BURST_S) + now * rate + 1e-6


async def hold(turns: Turns, user: str, until: asyncio.Event, running: list[str]) -> None:
    async with turns.slot(user):
        running.append(user)
        await until.wait()
        running.remove(user)


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_one_person_waits_for_a_turn_and_another_does_not() -> None:
    turns, end, running = Turns(BusyMonitor(), limit=3), asyncio.Event(), list[str]()
    tasks = [asyncio.create_task(hold(turns, "ann", end, running)) for _ in range(10)]
    await settle()
    tasks.append(asyncio.create_task(hold(turns, "bob", end, running)))
    await settle()
    assert sorted(running) == ["ann"] * 3 + ["bob"]
    end.set()
    async with asyncio.timeout(5):
        await asyncio.gather(*tasks)
    assert running == []


async def test_while_the_server_is_busy_people_have_fewer_turns() -> None:
    monitor = BusyMonitor()
    turns, end, running = Turns(monitor, limit=100), asyncio.Event(), list[str]()
    monitor.turns = 2
    tasks = [asyncio.create_task(hold(turns, "ann", end, running)) for _ in range(10)]
    await settle()
    assert len(running) == 2
    monitor.turns = 1000
    for admit in monitor.on_tick:
        admit()
    await settle()
    assert len(running) == 10
    end.set()
    await asyncio.gather(*tasks)


@pytest.mark.parametrize("cancelled", [0, 1, 2, 3])
async def test_a_turn_that_is_given_up_goes_to_the_next(cancelled: int) -> None:
    turns, end, running = Turns(BusyMonitor(), limit=1), asyncio.Event(), list[str]()
    tasks = [asyncio.create_task(hold(turns, "ann", end, running)) for _ in range(4)]
    await settle()
    tasks[cancelled].cancel()
    await settle()
    end.set()
    async with asyncio.timeout(5):
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    assert [isinstance(each, asyncio.CancelledError) for each in ended].count(True) == 1
    late: list[str] = []
    async with asyncio.timeout(5):
        await hold(turns, "ann", end, late)


async def test_a_turn_counts_for_a_moment_only() -> None:
    turns, end, running = Turns(BusyMonitor(), limit=1, moment_s=0.01), asyncio.Event(), list[str]()
    tasks = [asyncio.create_task(hold(turns, "ann", end, running)) for _ in range(3)]
    await settle()
    async with asyncio.timeout(20):
        async with turns.slot("ann"):
            pass
    assert len(running) == 3
    end.set()
    await asyncio.gather(*tasks)


async def test_a_person_alone_is_never_limited_by_load() -> None:
    monitor = LoadMonitor()
    monitor.note("ann")
    assert monitor.share > 1000


async def watch(monitor: LoadMonitor, write_s: float, until: Callable[[int], bool]) -> list[int]:
    """Return the share of each person after each measurement, while groups of events take a time to be written."""
    shares, is_done = list[int](), asyncio.Event()

    def note() -> None:
        monitor.note_write(write_s)
        monitor.note("ann")
        monitor.note("bob")
        shares.append(monitor.share)
        if until(len(shares)):
            is_done.set()

    monitor.on_tick.append(note)
    monitor.note_write(write_s)
    monitor.note("ann")
    monitor.note("bob")
    async with asyncio.timeout(30):
        await is_done.wait()
    monitor.on_tick.remove(note)
    return shares


async def test_people_have_fewer_turns_while_a_busy_server_writes_events_slowly() -> None:
    used_s = 0.0

    def cpu_clock() -> float:
        nonlocal used_s
        used_s += 1000
        return used_s

    monitor = LoadMonitor(cpu_clock)
    shares = await watch(monitor, 10 * SLOW_WRITE_S, lambda _: monitor.share == MIN_SHARE)
    assert shares == sorted(shares, reverse=True) and shares[-1] == MIN_SHARE
    monitor = LoadMonitor(lambda: 0.0)
    monitor._share = MIN_SHARE
    shares = await watch(monitor, 0.0, lambda count: monitor.share > MIN_SHARE)
    assert shares == sorted(shares)


async def test_a_slow_disk_of_an_idle_server_takes_no_turns_away() -> None:
    monitor = LoadMonitor(lambda: 0.0)
    assert set(await watch(monitor, 10 * SLOW_WRITE_S, lambda count: count == 5)) == {MAX_SHARE}
