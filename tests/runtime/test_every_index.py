"""A run of five thousand events, and a reader that loses the connection after every one of them.

At every index, before a restart and after it, whoever comes back gets exactly the rest, event by event. That makes 13
million events each time, so the piece of the log (five hundred events) that a reader is given first is read from the
database at every index, and those after it, which are others' first ones, are taken from there. At every fiftieth index
all of it comes from the database, through all of the gateway and over real HTTP, and is folded into a state. On
PostgreSQL, which answers more slowly, every fiftieth index is enough.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from pathlib import Path

import orjson
import pytest
from langchain.tools import ToolRuntime

from deerflow.config.source import open_source
from deerflow.domain.context import RunContext
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import RunEvent, RunRecord, RunRequest, RunStatus
from deerflow.domain.tools import read_only
from deerflow.harness import Harness, open_harness
from deerflow.harness.runs import read_log
from deerflow.persistence.engine import open_database
from deerflow.runtime.journal.state_diff import DerivedState
from deerflow.runtime.stream_bridge.local import MemoryStreamBridge
from deerflow.testing import Answer, ScriptedModel, Stall, calling
from deerflow.testing.turns import ToolRequest
from tests.support import browse

pytestmark = pytest.mark.slow

EVENTS = 5000
CALLS = 20
EVENTS_PER_CALL = EVENTS // CALLS - 4
"""Custom events of each call; its reply and its result make the rest."""
SETTINGS = {
    "tools": [{"name": "chatter", "group": "test", "use": "tests.runtime.test_every_index:chatter"}],
    "sandbox": {"toolbox": {"enabled": False}},
    "loop_detection": {"enabled": False},
    "title": {"enabled": False},
    "memory": {"debounce_seconds": 3600},
}
HALF = CALLS // 2
WHOLE_EVERY = 50
LIMIT_S = 250


@read_only
async def chatter(count: int, runtime: ToolRuntime[RunContext]) -> str:
    """Tell a lot.

    Args:
        count: How much.
    """
    for number in range(count):
        runtime.stream_writer({"number": number})
    return f"told {count}"


def build_calls(numbers: range) -> list[Answer]:
    """Return replies with one call each; no two calls have the same arguments or id."""
    said = [calling("chatter", count=EVENTS_PER_CALL + number % 3).calls[0] for number in numbers]
    return [
        Answer(f"Call {number}.", calls=(ToolRequest(call.name, call.arguments, id=f"call-{number}"),))
        for number, call in zip(numbers, said, strict=True)
    ]


def open_test_harness(home: Path, *replies: Answer | Stall | str) -> AbstractAsyncContextManager[Harness]:
    source = open_source(directory=home, environment={}, overrides=SETTINGS)
    return open_harness(source, ScriptedModel.saying(*replies))


async def start_run(harness: Harness) -> RunRecord:
    request = RunRequest("t", [{"type": "human", "content": "Talk"}], recursion_limit=1000)
    return await harness.runs.create_or_reject(request, LOCAL_USER)


async def list_events(harness: Harness, run: RunRecord, after: int) -> list[RunEvent]:
    """Return all events after event `after`."""
    return [event async for group in harness.runs.listen(run, after=after) for event in group]


async def list_events_until(harness: Harness, run: RunRecord, after: int, last: int) -> list[RunEvent]:
    """Return the events of an active run after event `after`, up to event `last`."""
    seen: list[RunEvent] = []
    async with aclosing(harness.runs.listen(run, after=after)) as groups:
        async for group in groups:
            seen += group
            if seen and seen[-1].seq >= last:
                break
    return seen


@asynccontextmanager
async def open_bridge(place: Path | str, whole: Sequence[RunEvent]) -> AsyncIterator[MemoryStreamBridge]:
    """Open a bridge for readers of an ended run that compares each part of the log with `whole` once."""
    read: set[int] = set()

    async def read_once(run_id: str, after: int, limit: int) -> Sequence[RunEvent]:
        right = whole[after : after + limit]
        if after not in read:
            assert await read_log(database, run_id, after, limit) == right, f"after event {after}"
            read.add(after)
        else:
            await asyncio.sleep(0)  # as a database does
        return right

    async with open_database(place) as database:
        yield MemoryStreamBridge(read_once)


async def check_every_index(place: Path | str, run: RunRecord, whole: Sequence[RunEvent]) -> None:
    """Assert that a reader gets exactly the missing events in order, from any index."""
    stride = 1 if isinstance(place, Path) else WHOLE_EVERY
    async with open_bridge(place, whole) as bridge:
        for index in range(0, len(whole) + 1, stride):
            groups = bridge.subscribe(run.run_id, last_event_id=index)
            missing = [event async for group in groups for event in group]
            assert missing == whole[index:] and [*whole[:index], *missing] == whole


async def read_first_group(harness: Harness, run: RunRecord, after: int) -> Sequence[RunEvent]:
    """Return the first group of events after event `after`, and disconnect."""
    async with aclosing(harness.runs.listen(run, after=after)) as groups:
        async for group in groups:
            if group:
                return group
    return ()


def apply_changes(events: Sequence[RunEvent], state: DerivedState | None = None) -> bytes:
    """Return the state after the `changes` events are applied."""
    state = state or DerivedState()
    for event in events:
        if event.event == "changes":
            state.apply(event.data)
    return state.to_json()


@pytest.mark.timeout(300)
async def test_reading_can_resume_from_every_event_also_after_restarts(
    tmp_path: Path, database_location: Path | str
) -> None:
    async with asyncio.timeout(LIMIT_S):
        async with open_test_harness(tmp_path, *build_calls(range(HALF)), Stall(Answer("In the middle"))) as harness:
            run = await start_run(harness)
            before = await read_until_stalled(harness, run)
            for index in range(0, len(before), WHOLE_EVERY):
                assert await list_events_until(harness, run, index, len(before)) == before[index:]
        async with open_test_harness(tmp_path, *build_calls(range(HALF, CALLS)), "Done.") as harness:
            assert (await harness.runs.join("t", run.run_id, LOCAL_USER)).status is RunStatus.SUCCESS
            whole = await list_events(harness, run, 0)
            await check_every_index(database_location, run, whole)
        async with open_test_harness(tmp_path) as harness:
            assert await list_events(harness, run, 0) == whole
            assert whole[: len(before)] == before
            assert [event.seq for event in whole] == list(range(1, len(whole) + 1)) and len(whole) >= EVENTS
            assert await list_events(harness, run, len(whole)) == []
            for index in range(0, len(whole), WHOLE_EVERY):
                assert await list_events(harness, run, index) == whole[index:]
                assert apply_changes(whole[index:], await harness.runs.state_before(run, after=index)) == apply_changes(
                    whole
                )
            await check_every_index(database_location, run, whole)


@pytest.mark.timeout(300)
async def test_a_live_reader_that_reconnects_after_each_event_misses_none(tmp_path: Path) -> None:
    async with open_test_harness(tmp_path, *build_calls(range(CALLS)), "Done.") as harness, asyncio.timeout(LIMIT_S):
        run = await start_run(harness)
        seen: list[RunEvent] = []
        while not seen or seen[-1].event != "end":
            seen.append((await read_first_group(harness, run, len(seen)))[0])
        assert seen == await list_events(harness, run, 0) and len(seen) >= EVENTS


@pytest.mark.timeout(300)
async def test_the_same_holds_over_http(tmp_path: Path) -> None:
    async with open_test_harness(tmp_path, *build_calls(range(CALLS)), "Done.") as harness, asyncio.timeout(LIMIT_S):
        run = await start_run(harness)
        await harness.runs.join("t", run.run_id, LOCAL_USER)
        async with browse(harness) as http:
            path = f"/api/threads/t/runs/{run.run_id}/stream?stream_mode=values&stream_mode=custom"
            whole = parse_events((await http.get(path)).text)
            for index in range(0, len(whole), WHOLE_EVERY):
                last_seen = whole[index][0]
                text = (await http.get(path, headers={"Last-Event-ID": str(last_seen)})).text
                assert parse_events(text) == whole[index + 1 :]


async def read_until_stalled(harness: Harness, run: RunRecord) -> list[RunEvent]:
    """Return the events until the answer of the model stalls."""
    seen: list[RunEvent] = []
    async for group in harness.runs.listen(run):
        seen += group
        if any(event.event == "messages" and b"middle" in event.data for event in group):
            return seen
    pytest.fail("the run ended")


def parse_events(stream: str) -> list[tuple[int, str, object]]:
    """Return the events of a stream."""
    found = re.findall(r"^id: (\d+)\nevent: (.*)\ndata: (.*)\n\n", stream, re.M)
    return [(int(seq), name, orjson.loads(data)) for seq, name, data in found]
