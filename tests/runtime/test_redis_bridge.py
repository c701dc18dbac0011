"""Readers in other processes are woken through Redis, and manage without it."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from deerflow.domain.runs import RunEvent
from deerflow.runtime.stream_bridge.local import ALL_PROCESSES
from deerflow.runtime.stream_bridge.redis import RUNS, RedisStreamBridge, open_redis_bridge
from tests.servers import redis, shared_folder


class MemoryLog:
    """Log of run `r` in memory."""

    def __init__(self) -> None:
        self.events: list[RunEvent] = []

    async def read(self, run_id: str, after: int, limit: int) -> Sequence[RunEvent]:
        return self.events[after : after + limit]

    async def is_unfinished(self, run_id: str) -> bool:
        return not self.events or self.events[-1].event != "end"

    def add(self, bridge: RedisStreamBridge, event: str = "custom") -> None:
        """Append an event and publish it with this bridge."""
        new = RunEvent(len(self.events) + 1, event, b"{}")  # type: ignore[arg-type]
        self.events.append(new)
        bridge.publish("r", [new])
        if event == "end":
            bridge.publish_end("r")


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog()


@pytest.fixture
async def bridges(log: MemoryLog, redis_url: str) -> AsyncIterator[tuple[RedisStreamBridge, RedisStreamBridge]]:
    """Yield the bridges of two processes, `a` and `b`."""
    async with (
        open_redis_bridge(redis_url, "a", log.read, log.is_unfinished) as a,
        open_redis_bridge(redis_url, "b", log.read, log.is_unfinished) as b,
        asyncio.timeout(20),
    ):
        await wait_until_connected(a)
        await wait_until_connected(b)
        yield a, b


async def wait_until_connected(bridge: RedisStreamBridge) -> None:
    """Wait until the bridge has subscribed to its channels."""
    await bridge.woken.wait()
    bridge.woken.clear()


async def list_event_numbers(bridge: RedisStreamBridge, after: int = 0) -> list[int]:
    groups = bridge.subscribe("r", last_event_id=after, heartbeat_interval=60)
    return [event.seq async for group in groups for event in group]


async def test_a_reader_in_another_process_gets_every_event(
    bridges: tuple[RedisStreamBridge, RedisStreamBridge], log: MemoryLog
) -> None:
    here, there = bridges
    here.open("r", 0)
    log.add(here)
    groups = there.subscribe("r", heartbeat_interval=60)
    assert [event.seq for event in await anext(groups)] == [1]
    for seq in (2, 3, 4):
        log.add(here)
        assert [event.seq for event in await anext(groups)] == [seq]
    log.add(here, "end")
    assert [event.seq async for group in groups for event in group] == [5]
    assert there._followed == {}


async def test_reading_an_ended_run_stops_after_its_last_event(
    bridges: tuple[RedisStreamBridge, RedisStreamBridge], log: MemoryLog
) -> None:
    here, there = bridges
    log.add(here)
    log.add(here, "end")
    assert await list_event_numbers(there) == [1, 2]
    assert await list_event_numbers(there, after=2) == await list_event_numbers(there, after=7) == []


async def test_readers_of_one_run_share_one_redis_channel(
    bridges: tuple[RedisStreamBridge, RedisStreamBridge], log: MemoryLog
) -> None:
    here, there = bridges
    here.open("r", 0)
    log.add(here)
    first, second = (there.subscribe("r", heartbeat_interval=60) for _ in range(2))
    await anext(first), await anext(second)
    assert there._followed == {RUNS + "r": 2}
    await first.aclose()
    log.add(here)
    assert [event.seq for event in await anext(second)] == [2]
    await second.aclose()
    assert there._followed == {}


async def test_those_who_watch_a_thread_are_notified_of_runs_of_another_process(
    bridges: tuple[RedisStreamBridge, RedisStreamBridge],
) -> None:
    here, there = bridges
    signals = there.watch("t", heartbeat_interval=60)
    assert await anext(signals)
    assert await anext(signals)  # a new subscription is a reason to look
    here.publish_run("t")
    assert await anext(signals)
    await signals.aclose()
    assert there._followed == {}


async def test_only_the_addressed_process_is_woken(bridges: tuple[RedisStreamBridge, RedisStreamBridge]) -> None:
    here, there = bridges
    here.tell("b")
    await there.woken.wait()
    assert not here.woken.is_set()
    there.woken.clear()
    here.tell(ALL_PROCESSES)
    await there.woken.wait()
    await here.woken.wait()


async def test_closing_a_process_disconnects_readers_of_other_processes(
    bridges: tuple[RedisStreamBridge, RedisStreamBridge], log: MemoryLog
) -> None:
    here, there = bridges
    here.open("r", 0)
    log.add(here)
    groups = there.subscribe("r", heartbeat_interval=60)
    await anext(groups)
    rest = asyncio.create_task(anext(groups, None))
    await asyncio.sleep(0)
    there.start_closing()
    assert await rest is None


@pytest.mark.slow
async def test_without_redis_the_log_is_polled_at_heartbeats_and_logged_once(
    log: MemoryLog, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "deerflow.runtime.stream_bridge")
    with shared_folder() as folder:
        async with AsyncExitStack() as stack, asyncio.timeout(60):
            server = stack.enter_context(StartedRedis(folder))
            url = server.url
            here, there = [
                await stack.enter_async_context(open_redis_bridge(url, name, log.read, log.is_unfinished))
                for name in ("a", "b")
            ]
            await wait_until_connected(there)
            here.open("r", 0)
            log.add(here)
            groups = there.subscribe("r", heartbeat_interval=0.05)
            await anext(groups)
            server.stop()
            for _ in range(3):
                log.add(here)
                while not (group := await anext(groups)):
                    pass
                assert group[-1].seq == len(log.events)
            there.woken.clear()
            server.start()
            await there.woken.wait()
            log.add(here, "end")
            assert [event.seq async for group in groups for event in group] == [5]
    lost = [record.message for record in caplog.records if "cannot be reached" in record.message]
    assert len(lost) <= 2 and any("read at every heartbeat" in message for message in lost)  # at most once per process
    assert "Redis is back" in caplog.messages


class StartedRedis:
    """Redis server that can be stopped and started again with the same data."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __enter__(self) -> "StartedRedis":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        self._running = redis(self._folder)
        self.url = self._running.__enter__()

    def stop(self) -> None:
        self._running.__exit__(None, None, None)
