"""Runs with which processes die again and again."""

import asyncio
import os
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import orjson
import pytest
from sqlalchemy import delete, update

from deerflow.agents.middlewares.dangling_tool_call_middleware import is_complete
from deerflow.config.source import open_source
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import RunRecord, RunRequest, RunStatus
from deerflow.harness import Harness, open_harness
from deerflow.persistence.engine import open_database
from deerflow.persistence.tables import run_events
from deerflow.runtime.runs.job import HANDED_OVER
from deerflow.runtime.transcript import to_messages
from deerflow.testing import Answer, ScriptedModel, Stall, calling
from tests.runtime.test_breakpoints import LOOKS
from tests.runtime.test_resume import COUNTS, PAUSES
from tests.support import OpenHarness

ASKED = RunRequest("t", [{"type": "human", "content": "one"}])


async def spoken(harness: Harness, run: RunRecord, word: str) -> None:
    """Wait until the run has said a word."""
    async for group in harness.runs.listen(run):
        if any(event.event == "messages" and word.encode() in event.data for event in group):
            return


async def until(harness: Harness, run: RunRecord, name: str) -> None:
    """Wait until an event of that name has come."""
    async for group in harness.runs.listen(run):
        if any(event.event == name for event in group):
            return


async def state_of(harness: Harness) -> dict[str, Any]:
    state: dict[str, Any] = orjson.loads((await harness.threads.state("t", LOCAL_USER)).values)
    return state


async def said(harness: Harness) -> list[str]:
    return [message["content"] for message in (await state_of(harness))["messages"]]


async def known(harness: Harness) -> list[str]:
    """What somebody knows who has read every event of the thread."""
    (last, *_) = await harness.runs.list_by_thread("t", LOCAL_USER)
    state = orjson.loads((await harness.runs.state_before(last, after=10**9)).to_json())
    return [message["content"] for message in state["messages"]]


async def let_die(place: Path | str, failure: bytes | None = None) -> None:
    """Have it look as if the last process had not been put away in good order, and perhaps had told of a failure."""
    change = delete(run_events) if failure is None else update(run_events).values(event="error", data=failure)
    farewell = change.where(run_events.c.data == HANDED_OVER)
    async with open_database(place) as database:
        assert await database.write(lambda connection: connection.execute(farewell).rowcount) == 1


async def test_a_run_fails_after_three_process_deaths(database_place: Path | str, harness_saying: OpenHarness) -> None:
    async with asyncio.timeout(30):
        async with harness_saying(ScriptedModel.saying(Stall(Answer("Half 0")))) as harness:
            run = await harness.runs.create_or_reject(ASKED, LOCAL_USER)
            await spoken(harness, run, "0")
        for number in (1, 2):
            await let_die(database_place)
            async with harness_saying(ScriptedModel.saying(Stall(Answer(f"Half {number}")))) as harness:
                await spoken(harness, run, str(number))
        await let_die(database_place)
        async with harness_saying(ScriptedModel.saying("Next.")) as harness:
            ended = await harness.runs.join("t", run.run_id, LOCAL_USER)
            assert ended.status is RunStatus.ERROR and "died 3 times" in (ended.error or "")
            events = [event async for group in harness.runs.listen(run) for event in group]
            assert [event.event for event in events][-2:] == ["error", "end"]
            assert orjson.loads(events[-2].data)["name"] == "RunGivenUp"
            assert await said(harness) == await known(harness) == ["one"]
            after = await harness.runs.create_or_reject(ASKED, LOCAL_USER)
            assert (await harness.runs.join("t", after.run_id, LOCAL_USER)).status is RunStatus.SUCCESS


@pytest.mark.slow
async def test_every_call_of_a_failed_run_has_a_result(tmp_path: Path, database_place: Path | str) -> None:
    marks, bell = tmp_path / "marks", tmp_path / "bell"
    os.mkfifo(bell)
    pause = calling("pause", file=str(marks), bell=str(bell)).calls
    several = (*calling("count", file=str(marks)).calls, *calling("look").calls, *pause)

    def opened(*answers: Answer | str) -> AbstractAsyncContextManager[Harness]:
        tools = {"tools": [COUNTS, PAUSES, *LOOKS["tools"]]}
        return open_harness(
            open_source(directory=tmp_path, environment={}, overrides=tools), ScriptedModel.saying(*answers)
        )

    async with asyncio.timeout(60):
        async with opened(Answer("1", calls=pause).with_call_ids(1)) as harness:
            run = await harness.runs.create_or_reject(ASKED, LOCAL_USER)
            await asyncio.to_thread(bell.read_text)
        await let_die(database_place)
        async with opened(Answer("2", calls=pause).with_call_ids(2)) as harness:
            await asyncio.to_thread(bell.read_text)
        await let_die(database_place)
        async with opened(Answer("3", calls=several).with_call_ids(3)) as harness:
            await until(harness, run, "tool_outcome")
            await asyncio.to_thread(bell.read_text)
        await let_die(database_place)
        async with opened("Next.") as harness:
            assert (await harness.runs.join("t", run.run_id, LOCAL_USER)).status is RunStatus.ERROR
            *_, asked, counted, looked, paused = await said(harness)
            assert asked == "3" and counted == "counted" and "not known" in paused
            assert looked == "nothing here" or "nothing was changed by it" in looked
            assert is_complete(to_messages((await state_of(harness))["messages"]))
            assert await said(harness) == await known(harness)
            assert (await harness.threads.state("t", LOCAL_USER)).next == ()
            after = await harness.runs.create_or_reject(ASKED, LOCAL_USER)
            assert (await harness.runs.join("t", after.run_id, LOCAL_USER)).status is RunStatus.SUCCESS
            assert (await said(harness))[-2:] == ["one", "Next."] and await said(harness) == await known(harness)
            assert marks.read_text() == "counted\n" * 4
            there = await state_of(harness)
        async with opened() as harness:
            assert await state_of(harness) == there


async def test_regular_shutdowns_do_not_count_as_deaths(harness_saying: OpenHarness) -> None:
    async with asyncio.timeout(30):
        async with harness_saying(ScriptedModel.saying(Stall(Answer("Half 0")))) as harness:
            run = await harness.runs.create_or_reject(ASKED, LOCAL_USER)
            await spoken(harness, run, "0")
        for number in range(1, 5):
            async with harness_saying(ScriptedModel.saying(Stall(Answer(f"Half {number}")))) as harness:
                await spoken(harness, run, str(number))
        async with harness_saying(ScriptedModel.saying("At last.")) as harness:
            assert (await harness.runs.join("t", run.run_id, LOCAL_USER)).status is RunStatus.SUCCESS
            assert await said(harness) == await known(harness) == ["one", "At last."]


async def test_a_published_failure_ends_the_run_even_if_the_process_dies(
    database_place: Path | str, harness_saying: OpenHarness
) -> None:
    async with asyncio.timeout(30):
        async with harness_saying(ScriptedModel.saying(Stall(Answer("Half")))) as harness:
            run = await harness.runs.create_or_reject(ASKED, LOCAL_USER)
            await spoken(harness, run, "Half")
        failure = orjson.dumps({"error": "RunTimeout", "name": "RunTimeout", "message": "too long"})
        await let_die(database_place, failure)
        async with harness_saying(ScriptedModel.saying()) as harness:
            ended = await harness.runs.join("t", run.run_id, LOCAL_USER)
            assert (ended.status, ended.error) == (RunStatus.TIMEOUT, "too long")
            events = [event.event async for group in harness.runs.listen(run) for event in group]
            assert events.count("error") == 1 and events[-1] == "end"
