"""Two processes, as if on two machines, on one PostgreSQL and one Redis."""

import asyncio
import signal
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from deerflow.config.source import open_source
from deerflow.domain.errors import Conflict
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import MultitaskStrategy, RunEvent, RunRecord, RunStatus
from deerflow.harness import Harness, open_harness
from deerflow.testing import ScriptedModel
from tests.runtime.other_processes import STALLING_MODEL, OtherProcess, start_process
from tests.runtime.support import build_request, read_contents, wait_for_text
from tests.support import browse

pytestmark = pytest.mark.external  # some ask for their servers while they run


@dataclass(frozen=True)
class Machines:
    """Two homes that share a database and optionally a Redis."""

    here: Path
    there: Path

    def open_here(self, *answers: str) -> AbstractAsyncContextManager[Harness]:
        return open_harness(open_source(directory=self.here, environment={}), ScriptedModel.saying(*answers))

    def start_there(self, script: str = STALLING_MODEL) -> AbstractAsyncContextManager[OtherProcess]:
        return start_process(self.there, script)


def create_machines(tmp_path: Path, postgres_url: str, bridge: str = "") -> Machines:
    both = Machines(tmp_path / "here", tmp_path / "there")
    for home in (both.here, both.there):
        home.mkdir()
        (home / "config.yaml").write_text(f"database:\n  url: {postgres_url}\n  lease_seconds: 4\n{bridge}")
    return both


@pytest.fixture
def joined(tmp_path: Path, postgres_url: str, redis_url: str) -> Machines:
    return create_machines(tmp_path, postgres_url, f"stream_bridge:\n  type: redis\n  redis_url: {redis_url}\n")


@pytest.fixture
def separate(tmp_path: Path, postgres_url: str) -> Machines:
    return create_machines(tmp_path, postgres_url)


async def get_run(harness: Harness, run_id: str) -> RunRecord:
    return await harness.runs.get("t", run_id, LOCAL_USER)


async def list_events(harness: Harness, run: RunRecord) -> list[RunEvent]:
    return [event async for group in harness.runs.listen(run) for event in group]


def are_complete(events: list[RunEvent]) -> bool:
    return [event.seq for event in events] == list(range(1, len(events) + 1)) and events[-1].event == "end"


async def test_a_reader_follows_a_run_of_another_process_that_is_killed_and_resumed(joined: Machines) -> None:
    async with joined.open_here("All of it.") as here, joined.start_there() as there, asyncio.timeout(60):
        run = await get_run(here, await there.request("begin", "t"))
        await wait_for_text(here, run, "the")
        reader = asyncio.create_task(list_events(here, run))
        there.process.kill()
        assert are_complete(await reader)
        ended = await get_run(here, run.run_id)
        assert (ended.status, ended.attempt) == (RunStatus.SUCCESS, 2)
        assert await read_contents(here) == ["one", "All of it."]


async def test_a_frozen_process_abandons_runs_that_were_taken_over(joined: Machines) -> None:
    async with joined.open_here("All of it.") as here, joined.start_there() as there, asyncio.timeout(60):
        run = await get_run(here, await there.request("begin", "t"))
        await wait_for_text(here, run, "the")
        there.send_signal(signal.SIGSTOP)
        events = await list_events(here, run)
        there.send_signal(signal.SIGCONT)
        while await there.request("held") != "0":
            pass
        assert are_complete(events) and await list_events(here, run) == events
        assert await read_contents(here) == ["one", "All of it."]


async def test_late_writes_of_a_frozen_process_are_rejected(joined: Machines, postgres_url: str) -> None:
    async with (
        joined.open_here("All of it.", "Next.") as here,
        joined.start_there() as there,
        asyncio.timeout(60),
    ):
        run = await get_run(here, await there.request("begin", "t"))
        await wait_for_text(here, run, "the")
        there.send_signal(signal.SIGSTOP)
        events = await list_events(here, run)
        steps = await list_checkpoint_ids(here)
        await there.send("release")
        with psycopg.connect(postgres_url) as connection:
            # So that it ends its answer, and wants to keep it, before it can find out what happened meanwhile.
            connection.execute("LOCK TABLE processes IN ACCESS EXCLUSIVE MODE")
            there.send_signal(signal.SIGCONT)
            assert await there.receive() == "released"
            while await there.request("held") != "0":
                pass
        assert await list_checkpoint_ids(here) == steps and await list_events(here, run) == events
        assert (await get_run(here, run.run_id)).status is RunStatus.SUCCESS
        after = await here.runs.create_or_reject(build_request("two"), LOCAL_USER)
        assert are_complete(await list_events(here, after))
        assert await read_contents(here) == ["one", "All of it.", "two", "Next."]


async def list_checkpoint_ids(harness: Harness) -> list[str | None]:
    """Return the ids of the checkpoints of the thread."""
    return [state.checkpoint_id for state in await harness.threads.history("t", LOCAL_USER, limit=100)]


@pytest.mark.parametrize("bridge", ["joined", "separate"])
async def test_disconnecting_cancels_a_run_of_another_process(request: pytest.FixtureRequest, bridge: str) -> None:
    both: Machines = request.getfixturevalue(bridge)
    async with both.open_here() as here, both.start_there() as there, browse(here) as http, asyncio.timeout(60):
        run = await get_run(here, await there.request("begin", "t"))
        await wait_for_text(here, run, "the", heartbeat_s=0.1)
        path = f"/api/threads/t/runs/{run.run_id}/stream?stream_mode=messages-tuple&cancel_on_disconnect=true"
        async with http.stream("GET", path) as response:
            async for line in response.aiter_lines():
                if "the" in line:
                    break
        while not (ended := await get_run(here, run.run_id)).status.is_final:
            pass
        assert ended.status is RunStatus.INTERRUPTED
        assert await read_contents(here) == ["one", "Half of the"]


@pytest.mark.parametrize("bridge", ["joined", "separate"])
async def test_runs_can_be_rejected_and_cancelled_from_any_process(request: pytest.FixtureRequest, bridge: str) -> None:
    both: Machines = request.getfixturevalue(bridge)
    async with both.open_here() as here, both.start_there() as there, asyncio.timeout(60):
        first = await get_run(here, await there.request("begin", "t"))
        await wait_for_text(here, first, "the", heartbeat_s=0.1)
        with pytest.raises(Conflict, match="busy"):
            await here.runs.create_or_reject(build_request("two"), LOCAL_USER)
        second = await here.runs.create_or_reject(build_request("two", strategy=MultitaskStrategy.ENQUEUE), LOCAL_USER)
        for run in (second, first):
            await here.runs.cancel("t", run.run_id, LOCAL_USER)
            assert (await get_run(here, run.run_id)).status is RunStatus.INTERRUPTED
        assert await read_contents(here) == ["one", "Half of the"]
        with pytest.raises(Conflict, match="has already ended with 'interrupted'"):
            await here.runs.cancel("t", first.run_id, LOCAL_USER)


@pytest.mark.parametrize("strategy", [MultitaskStrategy.INTERRUPT, MultitaskStrategy.ROLLBACK])
async def test_a_run_of_another_process_can_be_replaced(joined: Machines, strategy: MultitaskStrategy) -> None:
    async with joined.open_here() as here, joined.start_there() as there, asyncio.timeout(60):
        first = await get_run(here, await there.request("begin", "t"))
        await wait_for_text(here, first, "the")
        second = await here.runs.create_or_reject(build_request("two", strategy=strategy), LOCAL_USER)
        assert are_complete(await list_events(here, second))
        assert (await get_run(here, second.run_id)).status is RunStatus.SUCCESS
        kept = ["one", "Half of the"] if strategy is MultitaskStrategy.INTERRUPT else []
        assert await read_contents(here) == [*kept, "two", "Said elsewhere."]


async def test_twenty_submits_with_one_key_at_two_processes_create_one_run(joined: Machines) -> None:
    async with joined.open_here("Said here.") as here, joined.start_there() as there, asyncio.timeout(60):
        at_once = (here.runs.create_or_reject(build_request("one", key="k"), LOCAL_USER) for _ in range(10))
        elsewhere, *runs = await asyncio.gather(there.request("submit", "t", "k", "10"), *at_once)
        assert {run.run_id for run in runs} == {elsewhere}
        assert len(await here.runs.list_by_thread("t", LOCAL_USER)) == 1
