"""Stopping a run is a decision that outlives the process it was told to."""

import asyncio
import os
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest

from deerflow.config.source import open_source
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import CancelAction, MultitaskStrategy, RunRecord, RunRequest, RunStatus
from deerflow.harness import Harness, open_harness
from deerflow.persistence.engine import open_database
from deerflow.persistence.engine.database import Database
from deerflow.persistence.queries.runs import read_run_controls, request_stop
from deerflow.testing import Answer, ScriptedModel, Stall, calling
from tests.runtime.other_processes import start_process
from tests.runtime.support import read_contents, replay_contents
from tests.support import OpenHarness

UNSTOPPABLE_TOOL: dict[str, Any] = {
    "name": "hold_on",
    "group": "test",
    "use": "tests.runtime.test_cancel_after_death:hold_on",
}
SCRIPT = "tests.runtime.test_cancel_after_death:create_unstoppable_model"
BELL = "bell"
UNKNOWN = "how far it came is not known"


async def hold_on(bell: str) -> str:
    """Ring, and do not let go whatever happens.

    Args:
        bell: A pipe whose other end hears it.
    """
    await asyncio.to_thread(Path(bell).write_text, "begun")
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            continue


def create_unstoppable_model(home: Path) -> ScriptedModel:
    """Return a model that calls a tool that cannot be stopped."""
    return ScriptedModel.saying(calling("hold_on", bell=str(home / BELL)), "Never said.")


def open_test_harness(home: Path, *answers: str) -> AbstractAsyncContextManager[Harness]:
    return open_harness(open_source(directory=home, environment={}), ScriptedModel.saying(*answers))


async def join_run(harness: Harness, run_id: str) -> RunRecord:
    return await harness.runs.join("t", run_id, LOCAL_USER)


async def wait_for_stop_request(database: Database, run_id: str) -> None:
    """Wait until the request to stop a run is stored."""
    while (await database.read(partial(read_run_controls, run_ids=[run_id])))[run_id].stop is None:
        pass


@pytest.fixture
def bell(tmp_path: Path, database_location: Path | str) -> Path:
    """Configure a tool that cannot be stopped, and return the pipe it writes to."""
    config = tmp_path / "config.yaml"
    settings = config.read_text() if config.exists() else ""
    config.write_text(f"{settings}tools:\n  - {orjson.dumps(UNSTOPPABLE_TOOL).decode()}\n")
    os.mkfifo(tmp_path / BELL)
    return tmp_path / BELL


@pytest.mark.slow
@pytest.mark.parametrize("action", ["interrupt", "rollback"])
async def test_a_cancelled_run_stays_cancelled_when_its_process_dies(
    tmp_path: Path, database_location: Path | str, bell: Path, action: str
) -> None:
    async with asyncio.timeout(60):
        async with start_process(tmp_path, SCRIPT) as other, open_database(database_location) as database:
            run_id = await other.request("begin", "t")
            await asyncio.to_thread(bell.read_text)
            await other.send("cancel", "t", run_id, action)
            await wait_for_stop_request(database, run_id)
            await other.kill()
        async with open_test_harness(tmp_path, "Next.") as harness:
            run = await join_run(harness, run_id)
            if action == "interrupt":
                assert (run.status, run.error, run.attempt) == (RunStatus.INTERRUPTED, None, 2)
                assert (await read_contents(harness))[:2] == ["one", ""] and UNKNOWN in (await read_contents(harness))[
                    2
                ]
            else:
                assert (run.status, run.error) == (RunStatus.ERROR, "rolled back by the user")
                assert await read_contents(harness) == []
            assert await read_contents(harness) == await replay_contents(harness)
            events = [event.event async for group in harness.runs.listen(run) for event in group]
            assert events.count("end") == 1 and "tool_outcome" not in events
            request = RunRequest("t", [{"type": "human", "content": "two"}])
            after = await harness.runs.create_or_reject(request, LOCAL_USER)
            assert (await join_run(harness, after.run_id)).status is RunStatus.SUCCESS
            assert (await read_contents(harness))[-2:] == (await replay_contents(harness))[-2:] == ["two", "Next."]


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["interrupt", "rollback"])
async def test_a_replacing_run_starts_even_if_the_process_dies(tmp_path: Path, bell: Path, strategy: str) -> None:
    async with asyncio.timeout(60):
        async with start_process(tmp_path, SCRIPT) as other:
            first = await other.request("begin", "t")
            await asyncio.to_thread(bell.read_text)
            waiting = await other.request("enqueue", "t")
            second = await other.request(strategy, "t")
            await other.kill()
        async with open_test_harness(tmp_path, "Next.") as harness:
            assert (await join_run(harness, second)).status is RunStatus.SUCCESS
            assert (await join_run(harness, waiting)).status is RunStatus.INTERRUPTED
            stopped = RunStatus.INTERRUPTED if strategy == "interrupt" else RunStatus.ERROR
            assert (await join_run(harness, first)).status is stopped
            assert (await read_contents(harness))[-2:] == ["two", "Next."]
            assert len(await read_contents(harness)) == (5 if strategy == "interrupt" else 2)
            assert await read_contents(harness) == await replay_contents(harness)


@pytest.mark.slow
async def test_a_partial_answer_is_kept_when_the_next_process_applies_the_cancel(
    database_location: Path | str, harness_saying: OpenHarness
) -> None:
    async with asyncio.timeout(20):
        async with harness_saying(ScriptedModel.saying(Stall(Answer("Half of the")))) as harness:
            run = await harness.runs.create_or_reject(
                RunRequest("t", [{"type": "human", "content": "one"}]), LOCAL_USER
            )
            async for group in harness.runs.listen(run):
                if any(b"the" in event.data for event in group if event.event == "messages"):
                    break
        async with open_database(database_location) as database:
            await database.write(partial(request_stop, run_id=run.run_id, action=CancelAction.INTERRUPT))
        async with harness_saying(ScriptedModel.saying()) as harness:
            assert (await join_run(harness, run.run_id)).status is RunStatus.INTERRUPTED
            assert await read_contents(harness) == await replay_contents(harness) == ["one", "Half of the"]


async def test_a_pending_run_is_dropped_when_its_client_disconnects(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying(Stall(Answer("Half")))) as harness, asyncio.timeout(20):
        requests = [
            RunRequest("t", [{"type": "human", "content": text}], multitask_strategy=MultitaskStrategy.ENQUEUE)
            for text in ("one", "two")
        ]
        first, second = [await harness.runs.create_or_reject(request, LOCAL_USER) for request in requests]
        harness.runs.cancel_in_background(second)
        assert (await join_run(harness, second.run_id)).status is RunStatus.INTERRUPTED
        harness.runs.cancel_in_background(first)
        assert (await join_run(harness, first.run_id)).status is RunStatus.INTERRUPTED
