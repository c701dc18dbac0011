"""Runs whose process goes away: the next one goes on with them, and nothing is done twice."""

import asyncio
import os
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import orjson

from deerflow.config.source import open_source
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import RunRecord, RunRequest, RunStatus
from deerflow.harness import Harness, open_harness
from deerflow.testing import Answer, ScriptedModel, Stall, ToolRequest, calling
from tests.support import OpenHarness

COUNTS: Mapping[str, Any] = {"name": "count", "group": "test", "use": "tests.runtime.test_resume:count"}
PAUSES: Mapping[str, Any] = {"name": "pause", "group": "test", "use": "tests.runtime.test_resume:pause"}


def count(file: str) -> str:
    """Add a line to a file.

    Args:
        file: Which one.
    """
    with Path(file).open("a") as lines:
        lines.write("counted\n")
    return "counted"


async def pause(file: str, bell: str) -> str:
    """Add a line to a file, ring and never return.

    Args:
        file: Which one.
        bell: A pipe whose other end hears it.
    """
    await asyncio.to_thread(count, file)
    await asyncio.to_thread(Path(bell).write_text, "done")
    await asyncio.Event().wait()
    return "never"


def opened(home: Path, model: ScriptedModel) -> AbstractAsyncContextManager[Harness]:
    return open_harness(open_source(directory=home, environment={}, overrides={"tools": [COUNTS, PAUSES]}), model)


def saying(text: str) -> RunRequest:
    return RunRequest("t", [{"type": "human", "content": text}])


async def events_of(harness: Harness, run: RunRecord) -> list[tuple[int, str, Any]]:
    groups = [group async for group in harness.runs.listen(run)]
    return [(event.seq, event.event, orjson.loads(event.data)) for group in groups for event in group]


async def until(harness: Harness, run: RunRecord, event: str) -> None:
    async for group in harness.runs.listen(run):
        if any(each.event == event for each in group):
            return


async def said(harness: Harness) -> list[tuple[str, str]]:
    state = orjson.loads((await harness.threads.state("t", LOCAL_USER)).values)
    return [(message["type"], message["content"]) for message in state["messages"]]


async def known(harness: Harness) -> list[tuple[str, str]]:
    """What somebody knows who has read every event of the thread."""
    (last, *_) = await harness.runs.list_by_thread("t", LOCAL_USER)
    state = orjson.loads((await harness.runs.state_before(last, after=10**9)).to_json())
    return [(message["type"], message["content"]) for message in state["messages"]]


async def test_a_resumed_run_keeps_its_id_and_discards_the_partial_answer(harness_saying: OpenHarness) -> None:
    async with asyncio.timeout(20):
        async with harness_saying(ScriptedModel.saying(Stall(Answer("Half of the")))) as harness:
            run = await harness.runs.create_or_reject(saying("one"), LOCAL_USER)
            await until(harness, run, "messages")
        async with harness_saying(ScriptedModel.saying("All of it.")) as harness:
            ended = await harness.runs.join("t", run.run_id, LOCAL_USER)
            events = await events_of(harness, run)
            assert (ended.status, ended.attempt) == (RunStatus.SUCCESS, 2)
            assert [seq for seq, _, _ in events] == list(range(1, len(events) + 1))
            assert [name for _, name, _ in events].count("end") == 1
            half = next(data[0]["id"] for _, name, data in events if name == "messages")
            assert any(half in data["removed"] for _, name, data in events if name == "changes")
            assert await said(harness) == await known(harness) == [("human", "one"), ("ai", "All of it.")]


async def test_a_call_with_unknown_result_is_reported_and_not_repeated(tmp_path: Path) -> None:
    marks, bell = tmp_path / "marks", tmp_path / "bell"
    os.mkfifo(bell)
    begin = ScriptedModel.saying(calling("pause", file=str(marks), bell=str(bell)))
    async with asyncio.timeout(20):
        async with opened(tmp_path, begin) as harness:
            run = await harness.runs.create_or_reject(saying("one"), LOCAL_USER)
            await until(harness, run, "tool_intent")
            await asyncio.to_thread(bell.read_text)
        model = ScriptedModel.saying("I will check.")
        async with opened(tmp_path, model) as harness:
            assert (await harness.runs.join("t", run.run_id, LOCAL_USER)).status is RunStatus.SUCCESS
            assert marks.read_text() == "counted\n"
            told = (await said(harness))[2]
            assert told[0] == "tool" and "how far it came is not known" in told[1]
            assert await said(harness) == await known(harness)


async def test_a_call_with_a_recorded_result_is_not_repeated(tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    model = ScriptedModel.saying(calling("count", file=str(marks)), Stall(Answer("It was")))
    async with asyncio.timeout(20):
        async with opened(tmp_path, model) as harness:
            run = await harness.runs.create_or_reject(saying("one"), LOCAL_USER)
            await until(harness, run, "tool_outcome")
        async with opened(tmp_path, ScriptedModel.saying("Done.")) as harness:
            assert (await harness.runs.join("t", run.run_id, LOCAL_USER)).status is RunStatus.SUCCESS
            assert marks.read_text() == "counted\n"
            assert [kind for kind, _ in await said(harness)] == ["human", "ai", "tool", "ai"]
            assert await said(harness) == await known(harness)


async def test_a_thread_accepts_messages_after_a_resumed_run(harness_saying: OpenHarness) -> None:
    async with asyncio.timeout(20):
        async with harness_saying(ScriptedModel.saying(Stall(Answer("Half")))) as harness:
            run = await harness.runs.create_or_reject(saying("one"), LOCAL_USER)
            await until(harness, run, "messages")
        async with harness_saying(ScriptedModel.saying("First.", "Second.")) as harness:
            await harness.runs.join("t", run.run_id, LOCAL_USER)
            after = await harness.runs.create_or_reject(saying("two"), LOCAL_USER)
            assert (await harness.runs.join("t", after.run_id, LOCAL_USER)).status is RunStatus.SUCCESS
            assert [text for _, text in await said(harness)] == ["one", "First.", "two", "Second."]


async def test_a_call_with_a_reused_id_is_executed_after_the_restart(tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    again = ToolRequest("count", orjson.dumps({"file": str(marks)}).decode(), id="call_0")
    async with asyncio.timeout(20):
        async with opened(tmp_path, ScriptedModel.saying(Answer(calls=(again,)), Stall(Answer("It was")))) as harness:
            run = await harness.runs.create_or_reject(saying("one"), LOCAL_USER)
            await until(harness, run, "messages")
            await until(harness, run, "tool_outcome")
        async with opened(tmp_path, ScriptedModel.saying(Answer(calls=(again,)), "Done.")) as harness:
            assert (await harness.runs.join("t", run.run_id, LOCAL_USER)).status is RunStatus.SUCCESS
            assert marks.read_text() == "counted\ncounted\n", "once before the restart, once after it"
