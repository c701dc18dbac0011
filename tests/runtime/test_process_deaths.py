"""Runs with which processes die again and again."""

import asyncio
import os
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import orjson
import pytest

from deerflow.agents.middlewares.dangling_tool_call_middleware import is_complete
from deerflow.config.source import open_source
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import RunRequest, RunStatus
from deerflow.harness import Harness, open_harness
from deerflow.runtime.transcript import to_messages
from deerflow.testing import Answer, ScriptedModel, Stall, calling
from tests.runtime.support import (
    COUNT_TOOL,
    LOOK_TOOL,
    PAUSE_TOOL,
    read_contents,
    read_state,
    replay_contents,
    simulate_crash,
    wait_for_event,
    wait_for_text,
)
from tests.support import OpenHarness

REQUEST = RunRequest("t", [{"type": "human", "content": "one"}])


async def test_a_run_fails_after_three_process_deaths(
    database_location: Path | str, harness_saying: OpenHarness
) -> None:
    async with asyncio.timeout(30):
        async with harness_saying(ScriptedModel.saying(Stall(Answer("Half 0")))) as harness:
            run = await harness.runs.create_or_reject(REQUEST, LOCAL_USER)
            await wait_for_text(harness, run, "0")
        for number in (1, 2):
            await simulate_crash(database_location)
            async with harness_saying(ScriptedModel.saying(Stall(Answer(f"Half {number}")))) as harness:
                await wait_for_text(harness, run, str(number))
        await simulate_crash(database_location)
        async with harness_saying(ScriptedModel.saying("Next.")) as harness:
            ended = await harness.runs.join("t", run.run_id, LOCAL_USER)
            assert ended.status is RunStatus.ERROR and "died 3 times" in (ended.error or "")
            events = [event async for group in harness.runs.listen(run) for event in group]
            assert [event.event for event in events][-2:] == ["error", "end"]
            assert orjson.loads(events[-2].data)["name"] == "RunGivenUp"
            assert await read_contents(harness) == await replay_contents(harness) == ["one"]
            after = await harness.runs.create_or_reject(REQUEST, LOCAL_USER)
            assert (await harness.runs.join("t", after.run_id, LOCAL_USER)).status is RunStatus.SUCCESS


@pytest.mark.slow
async def test_every_call_of_a_failed_run_has_a_result(tmp_path: Path, database_location: Path | str) -> None:
    marks, bell = tmp_path / "marks", tmp_path / "bell"
    os.mkfifo(bell)
    pause = calling("pause", file=str(marks), bell=str(bell)).calls
    several = (*calling("count", file=str(marks)).calls, *calling("look").calls, *pause)

    def opened(*answers: Answer | str) -> AbstractAsyncContextManager[Harness]:
        tools = {"tools": [COUNT_TOOL, PAUSE_TOOL, LOOK_TOOL]}
        return open_harness(
            open_source(directory=tmp_path, environment={}, overrides=tools), ScriptedModel.saying(*answers)
        )

    async with asyncio.timeout(60):
        async with opened(Answer("1", calls=pause).with_call_ids(1)) as harness:
            run = await harness.runs.create_or_reject(REQUEST, LOCAL_USER)
            await asyncio.to_thread(bell.read_text)
        await simulate_crash(database_location)
        async with opened(Answer("2", calls=pause).with_call_ids(2)) as harness:
            await asyncio.to_thread(bell.read_text)
        await simulate_crash(database_location)
        async with opened(Answer("3", calls=several).with_call_ids(3)) as harness:
            await wait_for_event(harness, run, "tool_outcome")
            await asyncio.to_thread(bell.read_text)
        await simulate_crash(database_location)
        async with opened("Next.") as harness:
            assert (await harness.runs.join("t", run.run_id, LOCAL_USER)).status is RunStatus.ERROR
            *_, asked, counted, looked, paused = await read_contents(harness)
            assert asked == "3" and counted == "counted" and "not known" in paused
            assert looked == "nothing here" or "nothing was changed by it" in looked
            assert is_complete(to_messages((await read_state(harness))["messages"]))
            assert await read_contents(harness) == await replay_contents(harness)
            assert (await harness.threads.state("t", LOCAL_USER)).next == ()
            after = await harness.runs.create_or_reject(REQUEST, LOCAL_USER)
            assert (await harness.runs.join("t", after.run_id, LOCAL_USER)).status is RunStatus.SUCCESS
            assert (await read_contents(harness))[-2:] == ["one", "Next."] and await read_contents(
                harness
            ) == await replay_contents(harness)
            assert marks.read_text() == "counted\n" * 4
            there = await read_state(harness)
        async with opened() as harness:
            assert await read_state(harness) == there


async def test_regular_shutdowns_do_not_count_as_deaths(harness_saying: OpenHarness) -> None:
    async with asyncio.timeout(30):
        async with harness_saying(ScriptedModel.saying(Stall(Answer("Half 0")))) as harness:
            run = await harness.runs.create_or_reject(REQUEST, LOCAL_USER)
            await wait_for_text(harness, run, "0")
        for number in range(1, 5):
            async with harness_saying(ScriptedModel.saying(Stall(Answer(f"Half {number}")))) as harness:
                await wait_for_text(harness, run, str(number))
        async with harness_saying(ScriptedModel.saying("At last.")) as harness:
            assert (await harness.runs.join("t", run.run_id, LOCAL_USER)).status is RunStatus.SUCCESS
            assert await read_contents(harness) == await replay_contents(harness) == ["one", "At last."]


async def test_a_published_failure_ends_the_run_even_if_the_process_dies(
    database_location: Path | str, harness_saying: OpenHarness
) -> None:
    async with asyncio.timeout(30):
        async with harness_saying(ScriptedModel.saying(Stall(Answer("Half")))) as harness:
            run = await harness.runs.create_or_reject(REQUEST, LOCAL_USER)
            await wait_for_text(harness, run, "Half")
        failure = orjson.dumps({"error": "RunTimeout", "name": "RunTimeout", "message": "too long"})
        await simulate_crash(database_location, failure)
        async with harness_saying(ScriptedModel.saying()) as harness:
            ended = await harness.runs.join("t", run.run_id, LOCAL_USER)
            assert (ended.status, ended.error) == (RunStatus.TIMEOUT, "too long")
            events = [event.event async for group in harness.runs.listen(run) for event in group]
            assert events.count("error") == 1 and events[-1] == "end"
