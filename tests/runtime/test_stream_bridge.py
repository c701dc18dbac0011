"""Readers of a run: each event once, in order, however late they come or slow they are."""

import asyncio
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as some

from deerflow.domain.runs import RunEvent
from deerflow.runtime.stream_bridge import MemoryStreamBridge
from deerflow.runtime.stream_bridge.local import TAIL, Wakeup


class MemoryLog:
    """A log in memory with the bridge over it."""

    def __init__(self) -> None:
        self.events: list[RunEvent] = []
        self.reads = 0
        self.bridge = MemoryStreamBridge(self.read)
        self.bridge.open("r", 0)

    async def read(self, run_id: str, after: int, limit: int) -> Sequence[RunEvent]:
        self.reads += 1
        return self.events[after : after + limit]

    def add(self, count: int) -> None:
        new = [RunEvent(len(self.events) + n, "messages", b"{}") for n in range(1, count + 1)]
        self.events += new
        self.bridge.publish("r", new)

    def end(self) -> None:
        last = RunEvent(len(self.events) + 1, "end", b"null")
        self.events.append(last)
        self.bridge.publish("r", [last])
        self.bridge.publish_end("r")


async def test_a_wakeup_before_the_wait_is_not_lost() -> None:
    news = Wakeup()
    news.set()
    assert await news.wait(0)
    news.clear()
    assert not await news.wait(0)


async def test_a_wakeup_ends_the_wait() -> None:
    news = Wakeup()
    waiting = asyncio.create_task(news.wait(30))
    await asyncio.sleep(0)
    news.set()
    news.set()
    async with asyncio.timeout(5):
        assert await waiting


async def test_a_cancelled_wait_leaves_nothing_behind() -> None:
    news = Wakeup()
    waiting = asyncio.create_task(news.wait(30))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait({waiting})
    assert waiting.cancelled() and news.waiter is None
    news.set()
    assert await news.wait(0)


async def list_event_numbers(log: MemoryLog, after: int = 0) -> list[int]:
    async with asyncio.timeout(5):
        return [event.seq async for group in log.bridge.subscribe("r", last_event_id=after) for event in group]


@given(groups=some.lists(some.integers(1, TAIL + 50), max_size=6), after=some.integers(0, 400))
@settings(max_examples=50, deadline=None)
def test_a_reader_gets_every_later_event_once_and_in_order(groups: list[int], after: int) -> None:
    async def scenario() -> tuple[list[int], int]:
        log = MemoryLog()
        log.add(1)
        reader = asyncio.create_task(list_event_numbers(log, after))
        for count in groups:
            log.add(count)
            await asyncio.sleep(0)
        log.end()
        return await reader, len(log.events)

    seen, last = asyncio.run(scenario())
    assert seen == list(range(after + 1, last + 1)) or (after > last and seen == [])


async def test_a_run_that_has_ended_is_read_from_the_log_alone() -> None:
    log = MemoryLog()
    log.add(3)
    log.end()
    assert await list_event_numbers(log) == [1, 2, 3, 4]
    assert await list_event_numbers(log, after=2) == [3, 4]
    assert await list_event_numbers(log, after=4) == []


async def test_a_reader_that_keeps_up_needs_no_query() -> None:
    log = MemoryLog()
    log.add(1)
    reader = asyncio.create_task(list_event_numbers(log))
    for _ in range(50):
        log.add(1)
        await asyncio.sleep(0)
    log.end()
    assert len(await reader) == 52
    assert log.reads == 0


async def test_heartbeats_are_sent_while_there_are_no_events() -> None:
    log = MemoryLog()
    log.add(1)
    groups = log.bridge.subscribe("r", heartbeat_interval=0.01)
    assert [event.seq for event in await anext(groups)] == [1]
    assert await anext(groups) == ()
    assert await anext(groups) == ()
    await groups.aclose()


async def test_a_disconnected_reader_is_removed() -> None:
    log = MemoryLog()
    log.add(1)
    reader = asyncio.create_task(list_event_numbers(log))
    await asyncio.sleep(0)
    assert len(log.bridge._readers["r"]) == 1
    reader.cancel()
    await asyncio.wait({reader})
    assert log.bridge._readers == {}


async def test_those_who_watch_a_thread_are_notified_of_new_runs_until_the_process_closes() -> None:
    bridge = MemoryLog().bridge
    async with asyncio.timeout(5):
        signals = bridge.watch("t", heartbeat_interval=5)
        assert await anext(signals)
        bridge.publish_run("other")
        bridge.publish_run("t")  # between two looks
        assert await anext(signals)
        waiting = asyncio.ensure_future(anext(signals, None))
        await asyncio.sleep(0)
        bridge.start_closing()
        assert await waiting is None
        assert bridge.reader_count() == 0


async def test_those_who_watch_a_thread_get_heartbeats() -> None:
    bridge = MemoryLog().bridge
    signals = bridge.watch("t", heartbeat_interval=0)
    assert [await anext(signals) for _ in range(3)] == [True, False, False]
    await signals.aclose()
    assert bridge.reader_count() == 0
