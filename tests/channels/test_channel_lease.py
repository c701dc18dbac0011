"""Lease of a channel: one process at a time, handed over when its holder dies, stops or cannot renew."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest
from sqlalchemy import Connection

from deerflow.channels.lease import LOCKS, ChannelLease
from deerflow.domain.errors import StorageUnavailable
from deerflow.persistence.engine import open_database
from deerflow.persistence.engine.database import Database
from deerflow.persistence.engine.liveness import hold_process_lock
from deerflow.persistence.queries import channels as rows
from deerflow.testing import ScriptedServer
from tests.channels.kills import CONFIG, check, echo, is_complete, open_telegram
from tests.e2e.server_process import serve

T = TypeVar("T")
STATE: Mapping[str, Any] = {"bot": "deer_bot"}
LIMIT_S = 30


@dataclass
class Clock:
    """Clock that is set by the test."""

    now: float = 100.0

    def __call__(self) -> float:
        return self.now


@dataclass
class UnreliableDatabase:
    """Database of one process, which it cannot reach for a while."""

    database: Database
    is_down: bool = False
    failed: asyncio.Event = field(default_factory=asyncio.Event)

    def _check(self) -> None:
        if self.is_down:
            self.failed.set()
            raise StorageUnavailable("the network is down")

    async def read(self, query: Callable[[Connection], T]) -> T:
        self._check()
        return await self.database.read(query)

    async def look_up(self, query: Callable[[Connection], T]) -> T:
        self._check()
        return await self.database.look_up(query)

    async def write(self, change: Callable[[Connection], T]) -> T:
        self._check()
        return await self.database.write(change)


@dataclass
class Machines:
    """Processes of several machines, which share a database and no files."""

    database: Database
    home: Path
    clock: Clock

    def lease(self, process: str, database: Any = None, *, is_shared: bool = True) -> ChannelLease:
        folder = self.home / process / LOCKS if is_shared else self.home / LOCKS
        return ChannelLease(
            database or self.database, "telegram", process, folder, is_shared, lease_s=0.6, clock=self.clock
        )

    async def find(self) -> rows.ChannelLeaseRow:
        row = await self.database.read(lambda connection: rows.find_lease(connection, "telegram"))
        assert row is not None
        return row


@asynccontextmanager
async def open_machines(home: Path) -> AsyncIterator[Machines]:
    async with asyncio.timeout(LIMIT_S), open_database(home / "lease.db", home) as database:
        yield Machines(database, home, Clock())


async def test_a_second_process_waits_until_the_first_frees_the_lease(tmp_path: Path) -> None:
    async with open_machines(tmp_path) as machines:
        first, second = machines.lease("one"), machines.lease("two")
        await first.acquire()
        waiting = asyncio.create_task(second.acquire())
        await first.release(STATE)
        assert await waiting == STATE
        assert (await machines.find()).process == "two"


async def test_a_process_on_another_machine_loses_the_lease_when_it_expires(tmp_path: Path) -> None:
    async with open_machines(tmp_path) as machines:
        first, second = machines.lease("one"), machines.lease("two")
        await first.acquire()
        assert await second._try_to_take() is None
        machines.clock.now += 0.59
        assert await second._try_to_take() is None
        machines.clock.now += 0.02
        assert await second._try_to_take() is not None


async def test_a_renewal_keeps_the_lease_whatever_the_clocks_say(tmp_path: Path) -> None:
    async with open_machines(tmp_path) as machines:
        first, second = machines.lease("one"), machines.lease("two")
        await first.acquire()
        for _ in range(3):
            assert await second._try_to_take() is None
            machines.clock.now += 0.5
            assert await first._renew(STATE) == 0


async def test_a_process_that_cannot_renew_ends_before_others_may_connect(tmp_path: Path) -> None:
    async with open_machines(tmp_path) as machines:
        database = UnreliableDatabase(machines.database)
        first, second = machines.lease("one", database), machines.lease("two")
        await first.acquire()
        assert await second._try_to_take() is None
        database.is_down = True
        keeping = asyncio.create_task(first.keep(lambda: STATE, lambda: None))
        await database.failed.wait()
        machines.clock.now += 0.21  # a third of the lease
        assert await keeping == "lost"
        assert await second._try_to_take() is None
        machines.clock.now += 0.4
        assert await second._try_to_take() is not None


async def test_a_process_whose_lease_was_taken_ends(tmp_path: Path) -> None:
    async with open_machines(tmp_path) as machines:
        first, second = machines.lease("one"), machines.lease("two")
        await first.acquire()
        assert await second._try_to_take() is None
        machines.clock.now += 0.7
        assert await second._try_to_take() is not None
        first._held_until = machines.clock.now + 10  # it slept, and its own clock stood still
        assert await first.keep(lambda: STATE, lambda: None) == "lost"
        await first.release({})
        assert (await machines.find()).process == "two"


async def test_a_restart_is_seen_once(tmp_path: Path) -> None:
    async with open_machines(tmp_path) as machines:
        lease, seen = machines.lease("one"), asyncio.Event()
        await lease.acquire()
        await machines.database.write(lambda connection: rows.request_restart(connection, "telegram"))
        assert await lease.keep(lambda: STATE, seen.set) == "restart"
        again = asyncio.create_task(lease.keep(lambda: STATE, seen.set))
        await seen.wait()
        assert not again.done()
        again.cancel()


async def test_on_one_machine_a_lock_shows_that_a_process_has_died(tmp_path: Path) -> None:
    async with open_machines(tmp_path) as machines:
        with hold_process_lock(tmp_path / LOCKS) as process:
            first, second = machines.lease(process, is_shared=False), machines.lease("two", is_shared=False)
            await first.acquire()
            machines.clock.now += 1000  # a frozen process keeps it
            assert await second._try_to_take() is None
            before = (await machines.find()).renewals
            assert await first._renew(STATE) == await first._renew(STATE) == 0
            assert (await machines.find()).renewals == before + 1  # nothing is written while nothing changes
        assert await second._try_to_take() is not None


@pytest.mark.slow
async def test_another_server_takes_over_after_kill_9_and_loses_and_doubles_nothing(tmp_path: Path) -> None:
    await hand_over(tmp_path, "")


@pytest.mark.slow
@pytest.mark.external
async def test_servers_with_postgresql_hand_a_channel_over(tmp_path: Path, postgres_url: str) -> None:
    await hand_over(tmp_path, f"database: {{url: '{postgres_url}', lease_seconds: 3}}\n")


async def hand_over(home: Path, database: str) -> None:
    """Kill the server that answers, twice, while another waits; all messages are answered once."""
    messages = 12
    async with asyncio.timeout(120), ScriptedServer([echo], endless=True) as model, open_telegram() as platform:
        telegram, config = platform.fake, home / "config.yaml"
        config.write_text(CONFIG.format(base_url=model.base_url, channel=platform.channel) + database)
        servers = []
        with await asyncio.to_thread(lambda: serve(home, config=config)) as one:
            await telegram.wait_until(lambda: telegram.calls)
            servers.append(one)
            with await asyncio.to_thread(lambda: serve(home, config=config)) as two:
                for at in range(messages // 2):
                    await platform.write(at)
                goal = len(telegram.calls) + 4
                await telegram.wait_until(lambda: len(telegram.calls) >= goal)
                one.kill()
                for at in range(messages // 2, messages):
                    await platform.write(at)
                await telegram.wait_until(lambda: is_complete(platform, messages) and platform.confirmed())
                assert two.url != one.url
        if not database:
            check(platform, home, messages)
