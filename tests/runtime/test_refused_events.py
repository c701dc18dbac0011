"""Events that the database refuses: the run that has them ends with an error, and nobody else is affected."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from typing import TypeVar

import orjson
import pytest
from langchain_core.messages import BaseMessage
from sqlalchemy import Connection

from deerflow.config.source import ConfigSource
from deerflow.domain.errors import EventRefused, StorageUnavailable
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import RunEvent, RunRecord, RunRequest, RunStatus
from deerflow.harness import Harness, open_harness
from deerflow.persistence.engine import open_database
from deerflow.persistence.engine.database import Database, DatabaseLocation
from deerflow.persistence.queries.events import LoggedEvent, do_nothing, read_events
from deerflow.persistence.queries.transactions import accept_run
from deerflow.runtime.journal.journal import REFUSED, Journal, RunLog
from deerflow.runtime.runs.request import create_run_record, request_messages, serialize_request
from deerflow.runtime.stream_bridge import MemoryStreamBridge
from deerflow.testing import Answer, ScriptedModel, Stall
from tests.runtime.support import build_request, read_contents, simulate_crash, wait_for_text

LIMIT_S = 20
POISON = b"poison"
T = TypeVar("T")


class FaultyDatabase:
    """A database that fails while `is_faulty` says so of the events to append."""

    def __init__(self, database: Database, is_faulty: Callable[[Sequence[LoggedEvent]], bool]) -> None:
        self._database = database
        self._is_faulty = is_faulty

    async def read(self, query: Callable[[Connection], T]) -> T:
        return await self._database.read(query)

    async def look_up(self, query: Callable[[Connection], T]) -> T:
        return await self._database.look_up(query)

    async def write(self, change: Callable[[Connection], T]) -> T:
        return await self._database.write(change)

    async def append(self, events: Sequence[LoggedEvent]) -> Collection[str]:
        if self._is_faulty(events):
            raise LookupError("nobody expects this")
        return await self._database.append(events)

    async def aclose(self) -> None:
        await self._database.aclose()


def has_poison(events: Sequence[LoggedEvent]) -> bool:
    return any(POISON in logged.event.data for logged in events)


class Logs:
    """Logs of runs with live readers, over a database that may fail."""

    def __init__(self, database: Database, is_faulty: Callable[[Sequence[LoggedEvent]], bool]) -> None:
        self._database = database
        self._bridge = MemoryStreamBridge(self._read)
        self.journal = Journal(FaultyDatabase(database, is_faulty), self._bridge)
        self.refused: list[str] = []
        self.has_refused = asyncio.Event()

    async def _read(self, run_id: str, after: int, limit: int) -> list[RunEvent]:
        return list(await self._database.read(partial(read_events, run_id=run_id, after=after, limit=limit)))

    async def open(self, thread_id: str) -> RunLog:
        request = RunRequest(thread_id, [{"type": "human", "content": "Hi"}])
        run, first = create_run_record(request, LOCAL_USER, "us"), RunEvent(1, "metadata", b"{}")
        stored = serialize_request(request, request_messages(request))
        logged = LoggedEvent(run.run_id, first, datetime.now(UTC))
        accept = partial(accept_run, run=run, request=stored, first=logged, title=None, may_create_thread=True)
        await self._database.write(accept)
        self._bridge.open(run.run_id, 1)
        return self.journal.open(run, 1, refused=partial(self._refuse, thread_id))

    def _refuse(self, thread_id: str) -> None:
        self.refused.append(thread_id)
        self.has_refused.set()

    async def follow(self, log: RunLog, count: int) -> list[RunEvent]:
        """Return the first events that a live reader gets."""
        events: list[RunEvent] = []
        async for group in self._bridge.subscribe(log.run_id):
            events += group
            if len(events) >= count:
                return events
        return events

    async def stored(self, log: RunLog) -> list[RunEvent]:
        return await self._read(log.run_id, 0, 1000)


@asynccontextmanager
async def open_logs(place: DatabaseLocation, is_faulty: Callable[[Sequence[LoggedEvent]], bool]) -> AsyncIterator[Logs]:
    async with asyncio.timeout(LIMIT_S), open_database(place) as database:
        logs = Logs(database, is_faulty)
        yield logs
        await logs.journal.aclose()


async def test_an_exception_that_persists_is_isolated_to_its_event(
    database_location: DatabaseLocation, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_logs(database_location, has_poison) as logs:
        odd, other = await logs.open("odd"), await logs.open("other")
        for number in range(20):
            odd.append("custom", POISON if number == 7 else b'"odd"')
            other.append("custom", b"%d" % number)
        assert [event.data for event in (await logs.follow(other, 21))[1:]] == [b"%d" % number for number in range(20)]
        assert await logs.follow(odd, 21) == await logs.stored(odd)
        assert [event.data for event in await logs.stored(odd)][8] == REFUSED
        assert logs.refused == ["odd"] and isinstance(odd.refusal, EventRefused) and other.refusal is None
        for log in (odd, other):
            await log.finish(RunStatus.ERROR if log is odd else RunStatus.SUCCESS)
            assert [event.seq for event in await logs.stored(log)] == list(range(1, 23))
    assert "was refused" in caplog.text and "LookupError" in caplog.text


@pytest.mark.parametrize("entries", [1, 20])
async def test_an_exception_that_occurs_once_loses_nothing(database_location: DatabaseLocation, entries: int) -> None:
    failures = iter([True])
    async with open_logs(database_location, lambda events: next(failures, False)) as logs:
        log = await logs.open("t")
        for number in range(entries):
            log.append("custom", b"%d" % number)
        seen = await logs.follow(log, entries + 1)
        assert [event.data for event in seen[1:]] == [b"%d" % number for number in range(entries)]
        assert log.refusal is None and logs.refused == []
        await log.finish(RunStatus.SUCCESS)
        assert [event.seq for event in await logs.stored(log)] == list(range(1, entries + 3))


async def test_a_log_to_which_nothing_can_be_added_holds_no_other(database_location: DatabaseLocation) -> None:
    stuck: list[str] = []
    async with open_logs(database_location, lambda events: any(log.run_id in stuck for log in events)) as logs:
        odd, other = await logs.open("odd"), await logs.open("other")
        stuck.append(odd.run_id)
        odd.append("custom", b"1")
        other.append("custom", b"1")
        assert len(await logs.follow(other, 2)) == 2
        await logs.has_refused.wait()
        stuck.clear()
        odd.append("custom", b"2")  # after one that is missing, so it may not be recorded
        for write in (odd.write("custom", b"3"), odd.commit("custom", b"3", do_nothing), odd.finish(RunStatus.SUCCESS)):
            with pytest.raises(EventRefused):
                await write
        other.append("custom", b"2")
        assert len(await logs.follow(other, 3)) == 3
        assert [event.seq for event in await logs.stored(odd)] == [1]


async def test_a_writer_that_was_ended_is_started_again(database_location: DatabaseLocation) -> None:
    async with open_logs(database_location, lambda events: False) as logs:
        log = await logs.open("t")
        log.append("custom", b"1")
        await logs.journal.aclose()
        log.append("custom", b"2")
        assert [event.data for event in (await logs.follow(log, 3))[1:]] == [b"1", b"2"]


def fail(connection: Connection) -> None:
    raise LookupError("nobody expects this")


async def test_a_transaction_that_fails_leaves_no_gap(database_location: DatabaseLocation) -> None:
    async with open_logs(database_location, lambda events: False) as logs:
        log = await logs.open("t")
        log.append("custom", b'"before"')
        with pytest.raises(EventRefused, match="LookupError"):
            await log.commit("tool_intent", b'"the call"', fail)
        log.append("custom", b'"after"')
        with pytest.raises(LookupError):
            await log.finish(RunStatus.SUCCESS, also=fail)
        await log.finish(RunStatus.ERROR)
        data = [event.data for event in await logs.stored(log)]
        assert data == [b"{}", b'"before"', REFUSED, b'"after"', REFUSED, b"null"]


REFUSE_POISON = "position('poison'::bytea in NEW.data) > 0", "instr(NEW.data, CAST('poison' AS BLOB)) > 0"
REFUSE_THREAD = ("NEW.seq > 1 AND (SELECT thread_id FROM runs WHERE run_id = NEW.run_id) = 'odd'",) * 2


async def add_trigger(place: DatabaseLocation, conditions: tuple[str, str]) -> None:
    """Make the database refuse the events that meet a condition."""

    def create(connection: Connection) -> None:
        if connection.dialect.name == "sqlite":
            connection.exec_driver_sql(
                f"CREATE TRIGGER refuse BEFORE INSERT ON run_events WHEN {conditions[1]} "
                "BEGIN SELECT RAISE(ABORT, 'refused'); END"
            )
            return
        connection.exec_driver_sql(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$ BEGIN IF {conditions[0]} THEN RAISE EXCEPTION 'refused'; END IF; RETURN NEW; END $$"
        )
        connection.exec_driver_sql(
            "CREATE TRIGGER refuse BEFORE INSERT ON run_events FOR EACH ROW EXECUTE FUNCTION refuse()"
        )

    async with open_database(place) as database:
        await database.write(create)


async def remove_trigger(place: DatabaseLocation) -> None:
    statement = "DROP TRIGGER refuse ON run_events" if isinstance(place, str) else "DROP TRIGGER refuse"
    async with open_database(place) as database:
        await database.write(lambda connection: connection.exec_driver_sql(statement))


WORDS = tuple(f"word{number} " for number in range(40))


ANSWERS = {
    "odd": Answer(("Before ", "poison", " after."), delay_s=0.05),
    "other": Answer(WORDS, delay_s=0.02),
    "live": Stall(Answer("Half")),
    "plain": Answer("Fine."),
}


def answer(messages: Sequence[BaseMessage]) -> Answer | Stall:
    return next(ANSWERS[message.text] for message in reversed(messages) if message.text in ANSWERS)


async def start(harness: Harness, thread_id: str, text: str) -> RunRecord:
    return await harness.runs.create_or_reject(build_request(text, thread_id), LOCAL_USER)


async def follow(harness: Harness, run: RunRecord) -> tuple[RunRecord, list[RunEvent]]:
    async with asyncio.timeout(LIMIT_S):
        events = [event async for group in harness.runs.listen(run) for event in group]
        return await harness.runs.join(run.thread_id, run.run_id, LOCAL_USER), events


def streamed_text(events: Sequence[RunEvent]) -> str:
    return "".join(orjson.loads(event.data)[0]["content"] for event in events if event.event == "messages")


async def assert_others_stream(harness: Harness, run: RunRecord) -> None:
    ended, events = await follow(harness, run)
    assert ended.status is RunStatus.SUCCESS and streamed_text(events) == "".join(WORDS)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))


async def test_only_the_run_with_the_refused_event_fails(
    source: ConfigSource, database_location: DatabaseLocation
) -> None:
    model = ScriptedModel.saying(*([answer] * 8))
    async with open_harness(source, model) as harness:
        await add_trigger(database_location, REFUSE_POISON)
        other, odd = await start(harness, "other", "other"), await start(harness, "t", "odd")
        ended, events = await follow(harness, odd)
        assert ended.status is RunStatus.ERROR and "could not be recorded" in (ended.error or "")
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        assert [event.event for event in events].count("end") == 1
        assert REFUSED in [event.data for event in events]
        (error,) = [orjson.loads(event.data) for event in events if event.event == "error"]
        assert error["name"] == "EventRefused"
        await assert_others_stream(harness, other)
        again, _ = await follow(harness, await start(harness, "t", "plain"))
        assert again.status is RunStatus.SUCCESS and (await read_contents(harness))[-1] == "Fine."
        third = await start(harness, "third", "plain")
        assert (await follow(harness, third))[0].status is RunStatus.SUCCESS
        last = await start(harness, "last", "live")
        await wait_for_text(harness, last, "Half")  # it never ends, so this is live
        await harness.runs.cancel("last", last.run_id, LOCAL_USER)


async def test_a_run_of_which_nothing_can_be_recorded_ends(
    source: ConfigSource, database_location: DatabaseLocation
) -> None:
    model = ScriptedModel.saying(*([answer] * 8))
    async with open_harness(source, model) as harness:
        await add_trigger(database_location, REFUSE_THREAD)
        other, odd = await start(harness, "other", "other"), await start(harness, "odd", "plain")
        ended, events = await follow(harness, odd)
        assert ended.status is RunStatus.ERROR and "EventRefused" in (ended.error or "")
        assert [event.seq for event in events] == [1]
        await assert_others_stream(harness, other)
        await remove_trigger(database_location)
        again, events = await follow(harness, await start(harness, "odd", "plain"))
        assert again.status is RunStatus.SUCCESS and streamed_text(events) == "Fine."


async def test_a_run_that_cannot_even_be_ended_does_not_stop_a_start(
    source: ConfigSource, database_location: DatabaseLocation
) -> None:
    async with open_harness(source, ScriptedModel.saying(Stall(Answer("Half")))) as harness:
        odd = await start(harness, "odd", "plain")
        await wait_for_text(harness, odd, "Half")
    await simulate_crash(database_location)
    await add_trigger(database_location, REFUSE_THREAD)
    async with open_harness(source, ScriptedModel.saying(*([answer] * 8))) as harness:
        ended, events = await follow(harness, odd)
        assert ended.status is RunStatus.ERROR
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        await assert_others_stream(harness, await start(harness, "other", "other"))


async def test_a_database_that_is_unavailable_refuses_no_event(database_location: DatabaseLocation) -> None:
    outages = iter([True, True])

    def is_out(events: Sequence[LoggedEvent]) -> bool:
        if next(outages, False):
            raise StorageUnavailable("the disk is full")
        return False

    async with open_logs(database_location, is_out) as logs:
        log = await logs.open("t")
        log.append("custom", b"1")
        assert [event.data for event in await logs.follow(log, 2)] == [b"{}", b"1"]
        assert log.refusal is None
