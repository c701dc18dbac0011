"""The log of a run that several write to at once: one order, for readers and in the database."""

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime
from functools import partial

import pytest
from langchain_core.messages import AIMessageChunk
from sqlalchemy import Connection

from deerflow.domain.errors import StorageUnavailable
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import RunEvent, RunRecord, RunRequest, RunStatus
from deerflow.persistence.engine import open_database
from deerflow.persistence.engine.database import Database, DatabaseLocation
from deerflow.persistence.queries.events import LoggedEvent, do_nothing, read_events
from deerflow.persistence.queries.transactions import accept_run
from deerflow.runtime.journal import journal as journal_module
from deerflow.runtime.journal.journal import REFUSED, Journal, RunLog
from deerflow.runtime.runs.request import create_run_record, request_messages, serialize_request
from deerflow.runtime.stream_bridge import MemoryStreamBridge

LIMIT_S = 10


class BlockingWrite:
    """Write that blocks the database until it is released."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._go = threading.Event()

    def __call__(self, connection: Connection) -> None:
        self._loop.call_soon_threadsafe(self.began.set)
        self._go.wait(LIMIT_S)

    def release(self) -> None:
        self._go.set()


class OpenRun:
    """Active run with its log and a live reader."""

    def __init__(self, run: RunRecord, database: Database, journal: Journal, bridge: MemoryStreamBridge) -> None:
        self.run = run
        self.log: RunLog = journal.open(run, 1)
        self._database = database
        self._bridge = bridge
        self._reader = asyncio.create_task(self._read())

    def follow(self) -> AsyncGenerator[Sequence[RunEvent]]:
        """Return the groups of events after the first, as a reader gets them."""
        return self._bridge.subscribe(self.run.run_id, last_event_id=1)

    async def _read(self) -> list[int]:
        return [event.seq async for group in self._bridge.subscribe(self.run.run_id) for event in group]

    async def end(self) -> tuple[list[int], list[RunEvent]]:
        """End the run; return the event numbers that the reader has seen, and the stored events."""
        await self.log.finish(RunStatus.SUCCESS)
        async with asyncio.timeout(LIMIT_S):
            seen = await self._reader
        query = partial(read_events, run_id=self.run.run_id, after=0, limit=1000)
        return seen, list(await self._database.read(query))


@asynccontextmanager
async def open_run(place: DatabaseLocation) -> AsyncIterator[OpenRun]:
    async with asyncio.timeout(3 * LIMIT_S), open_database(place) as database:

        async def read_log(run_id: str, after: int, limit: int) -> list[RunEvent]:
            return list(await database.read(partial(read_events, run_id=run_id, after=after, limit=limit)))

        bridge = MemoryStreamBridge(read_log)
        request = RunRequest("t1", [{"type": "human", "content": "hi"}])
        run, first = create_run_record(request, LOCAL_USER, "us"), RunEvent(1, "metadata", b"{}")
        stored, logged = (
            serialize_request(request, request_messages(request)),
            LoggedEvent(run.run_id, first, datetime.now(UTC)),
        )
        accept = partial(accept_run, run=run, request=stored, first=logged, title=None, may_create_thread=True)
        await database.write(accept)
        bridge.open(run.run_id, 0)
        bridge.publish(run.run_id, [first])
        journal = Journal(database, bridge)
        yield OpenRun(run, database, journal, bridge)
        await journal.aclose()


async def yield_to_loop(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_a_durable_commit_is_not_overtaken_by_later_events(database_location: DatabaseLocation) -> None:
    async with open_run(database_location) as opened:
        write = BlockingWrite()
        first = asyncio.create_task(opened.log.commit("tool_intent", b'"first"', write))
        await write.began.wait()
        second = asyncio.create_task(opened.log.commit("tool_intent", b'"second"', do_nothing))
        third = asyncio.create_task(opened.log.commit("tool_intent", b'"third"', do_nothing))
        await yield_to_loop()
        opened.log.append("custom", b'"said meanwhile"')
        await yield_to_loop()
        write.release()
        await asyncio.gather(first, second, third)
        opened.log.append("custom", b'"said later"')
        seen, kept = await opened.end()
    assert seen == [event.seq for event in kept] == list(range(1, len(kept) + 1))
    assert {event.data for event in kept} >= {b'"first"', b'"second"', b'"third"', b'"said meanwhile"', b'"said later"'}


async def test_a_cancelled_commit_leaves_no_gap_for_readers(database_location: DatabaseLocation) -> None:
    async with open_run(database_location) as opened:
        write = BlockingWrite()
        opened.log.append("custom", b'"before"')
        stopped = asyncio.create_task(opened.log.commit("tool_intent", b'"the call"', write))
        await write.began.wait()
        stopped.cancel()
        await yield_to_loop()
        opened.log.append("custom", b'"after"')
        write.release()
        with pytest.raises(asyncio.CancelledError):
            await stopped
        seen, kept = await opened.end()
    assert [event.data for event in kept][1:-1] == [b'"before"', b'"the call"', b'"after"']
    assert seen == [event.seq for event in kept]


async def test_a_rejected_event_loses_no_earlier_event_and_leaves_no_gap(database_location: DatabaseLocation) -> None:
    async with open_run(database_location) as opened:
        opened.log.append("custom", b'"before"')
        with pytest.raises(StorageUnavailable):
            await opened.log.commit("tool_intent", b'"the call"', fail_write)
        seen, kept = await opened.end()
    assert [event.data for event in kept][1:-1] == [b'"before"', REFUSED]
    assert seen == [event.seq for event in kept] == list(range(1, len(kept) + 1))


async def test_text_is_written_at_once_unless_a_group_was_written_just_before(
    database_location: DatabaseLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "PACE_S", 3600.0)
    async with open_run(database_location) as opened, aclosing(opened.follow()) as groups:
        opened.log.append_chunk(AIMessageChunk("one ", id="m"), {})
        assert [event.seq for event in await anext(groups)] == [2]
        opened.log.append_chunk(AIMessageChunk("two ", id="m"), {})
        await yield_to_loop()

        monkeypatch.setattr(journal_module, "PACE_S", 0.0)  # as if that time had passed
        opened.log.append_chunk(AIMessageChunk("three", id="m"), {})
        [written] = await anext(groups)

    assert written.seq == 3
    assert b"two three" in written.data


def fail_write(connection: Connection) -> None:
    raise StorageUnavailable("the disk is full")
