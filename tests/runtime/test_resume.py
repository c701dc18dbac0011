"""Runs whose process goes away: the next one goes on with them, and nothing is done twice."""

import asyncio
import os
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import orjson

from deerflow.config.source import open_source
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import RunRecord, RunStatus
from deerflow.harness import Harness, open_harness
from deerflow.testing import Answer, ScriptedModel, Stall, ToolRequest, calling
from tests.runtime.support import (
    COUNT_TOOL,
    PAUSE_TOOL,
    build_request,
    read_messages,
    replay_messages,
    wait_for_event,
)
from tests.support import OpenHarness


def open_test_harness(home: Path, model: ScriptedModel) -> AbstractAsyncContextManager[Harness]:
    return open_harness(
        open_source(directory=home, environment={}, overrides={"tools": [COUNT_TOOL, PAUSE_TOOL]}), model
    )


async def list_numbered_events(harness: Harness, run: RunRecord) -> list[tuple[int, str, Any]]:
    groups = [group async for group in harness.runs.listen(run)]
    return [(event.seq, event.event, orjson.loads(event.data)) for group in groups for event in group]


async def test_a_resumed_run_keeps_its_id_and_discards_the_partial_answer(harness_saying: OpenHarness) -> None:
    async with asyncio.timeout(20):
        async with harness_saying(ScriptedModel.saying(Stall(Answer("Half of the")))) as harness:
            run = await harness.runs.create_or_reject(build_request("one"), LOCAL_USER)
            await wait_for_event(harness, run, "messages")
        async with harness_saying(ScriptedModel.saying("All of it.")) as harness:
            ended = await harness.runs.join("t", run.run_id, LOCAL_USER)
            events = await list_numbered_events(harness, run)
            assert (ended.status, ended.attempt) == (RunStatus.SUCCESS, 2)
            assert [seq for seq, _, _ in events] == list(range(1, len(events) + 1))
            assert [name for _, name, _ in events].count("end") == 1
            half = next(data[0]["id"] for _, name, data in events if name == "messages")
            assert any(half in data["removed"] for _, name, data in events if name == "changes")
            assert (
                await read_messages(harness)
                == await replay_messages(harness)
                == [("human", "one"), ("ai", "All of it.")]
            )


async def test_a_call_with_unknown_result_is_reported_and_not_repeated(tmp_path: Path) -> None:
    marks, bell = tmp_path / "marks", tmp_path / "bell"
    os.mkfifo(bell)
    begin = ScriptedModel.saying(calling("pause", file=str(marks), bell=str(bell)))
    async with asyncio.timeout(20):
        async with open_test_harness(tmp_path, begin) as harness:
            run = await harness.runs.create_or_reject(build_request("one"), LOCAL_USER)
            await wait_for_event(harness, run, "tool_intent")
            await asyncio.to_thread(bell.read_text)
        model = ScriptedModel.saying("I will check.")
        async with open_test_harness(tmp_path, model) as harness:
            assert (await harness.runs.join("t", run.run_id, LOCAL_USER)).status is RunStatus.SUCCESS
            assert marks.read_text() == "counted\n"
            result = (await read_messages(harness))[2]
            assert result[0] == "tool" and "how far it came is not known" in result[1]
            assert await read_messages(harness) == await replay_messages(harness)


async def test_a_call_with_a_recorded_result_is_not_repeated(tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    model = ScriptedModel.saying(calling("count", file=str(marks)), Stall(Answer("It was")))
    async with asyncio.timeout(20):
        async with open_test_harness(tmp_path, model) as harness:
            run = await harness.runs.create_or_reject(build_request("one"), LOCAL_USER)
            await wait_for_event(harness, run, "tool_outcome")
        async with open_test_harness(tmp_path, ScriptedModel.saying("Done.")) as harness:
            assert (await harness.runs.join("t", run.run_id, LOCAL_USER)).status is RunStatus.SUCCESS
            assert marks.read_text() == "counted\n"
            assert [kind for kind, _ in await read_messages(harness)] == ["human", "ai", "tool", "ai"]
            assert await read_messages(harness) == await replay_messages(harness)


async def test_a_thread_accepts_messages_after_a_resumed_run(harness_saying: OpenHarness) -> None:
    async with asyncio.timeout(20):
        async with harness_saying(ScriptedModel.saying(Stall(Answer("Half")))) as harness:
            run = await harness.runs.create_or_reject(build_request("one"), LOCAL_USER)
            await wait_for_event(harness, run, "messages")
        async with harness_saying(ScriptedModel.saying("First.", "Second.")) as harness:
            await harness.runs.join("t", run.run_id, LOCAL_USER)
            after = await harness.runs.create_or_reject(build_request("two"), LOCAL_USER)
            assert (await harness.runs.join("t", after.run_id, LOCAL_USER)).status is RunStatus.SUCCESS
            assert [text for _, text in await read_messages(harness)] == ["one", "First.", "two", "Second."]


async def test_a_call_with_a_reused_id_is_executed_after_the_restart(tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    again = ToolRequest("count", orjson.dumps({"file": str(marks)}).decode(), id="call_0")
    async with asyncio.timeout(20):
        async with open_test_harness(
            tmp_path, ScriptedModel.saying(Answer(calls=(again,)), Stall(Answer("It was")))
        ) as harness:
            run = await harness.runs.create_or_reject(build_request("one"), LOCAL_USER)
            await wait_for_event(harness, run, "messages")
            await wait_for_event(harness, run, "tool_outcome")
        async with open_test_harness(tmp_path, ScriptedModel.saying(Answer(calls=(again,)), "Done.")) as harness:
            assert (await harness.runs.join("t", run.run_id, LOCAL_USER)).status is RunStatus.SUCCESS
            assert marks.read_text() == "counted\ncounted\n", "once before the restart, once after it"
