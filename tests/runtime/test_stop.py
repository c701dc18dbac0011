"""Stopping runs: also when a client library ignores the cancellation, and without leaving open tool calls."""

import asyncio
from pathlib import Path

import pytest

from deerflow.config.source import open_source
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import CancelAction, RunRequest, RunStatus
from deerflow.harness import open_harness
from deerflow.testing import Answer, ScriptedModel, ScriptedServer, calling, in_parallel
from tests.runtime.support import build_request, finish_run, read_state, wait_for_event

LONG = Answer(" ".join(["word"] * 20_000), delay_s=0.0005)
TRIES = 8


async def test_stop_ends_a_fast_answer_of_a_foreign_client(tmp_path: Path) -> None:
    async with ScriptedServer([LONG] * TRIES) as server:
        model = {
            "name": "foreign",
            "use": "langchain_openai:ChatOpenAI",
            "native": False,
            "model": "scripted",
            "api_key": "none",
            "base_url": server.base_url,
        }
        settings = {"models": [model], "memory": {"enabled": False}, "title": {"enabled": False}}
        source = open_source(directory=tmp_path, environment={}, overrides=settings)
        async with open_harness(source) as harness:
            for number in range(TRIES):
                thread_id = f"t{number}"
                request = RunRequest(thread_id, [{"type": "human", "content": "Hi"}])
                run = await harness.runs.create_or_reject(request, LOCAL_USER)
                seen = 0
                async for events in harness.runs.listen(run):
                    seen += sum(event.event == "messages" for event in events)
                    if seen > number % 4:
                        break
                server.disconnected.clear()
                async with asyncio.timeout(5):  # the answer alone takes longer
                    await harness.runs.cancel(thread_id, run.run_id, LOCAL_USER)
                    await server.disconnected.wait()
                ended = await harness.runs.get(thread_id, run.run_id, LOCAL_USER)
                assert ended.status is RunStatus.INTERRUPTED


async def block() -> str:
    """Wait without end."""
    await asyncio.Event().wait()
    return "never"


BLOCK_TOOL = {"name": "block", "group": "test", "use": "tests.runtime.test_stop:block"}


@pytest.mark.parametrize("action", [CancelAction.INTERRUPT, CancelAction.ROLLBACK])
async def test_a_stop_leaves_no_tool_call_without_result(tmp_path: Path, action: CancelAction) -> None:
    model = ScriptedModel.saying(in_parallel(calling("block"), calling("block")), "All right.")
    source = open_source(
        directory=tmp_path, environment={}, overrides={"tools": [BLOCK_TOOL], "title": {"enabled": False}}
    )
    async with open_harness(source, model) as harness, asyncio.timeout(30):
        request = build_request("Block, please.")
        run = await harness.runs.create_or_reject(request, LOCAL_USER)
        await wait_for_event(harness, run, "tool_intent")
        await harness.runs.cancel("t", run.run_id, LOCAL_USER, action)
        messages = (await read_state(harness)).get("messages", [])
        calls = {call["id"] for message in messages for call in message.get("tool_calls", ())}
        results = {message["tool_call_id"]: message for message in messages if message["type"] == "tool"}
        assert calls == results.keys() and len(calls) == (2 if action is CancelAction.INTERRUPT else 0)
        assert all(each["status"] == "error" and "stopped the run" in each["content"] for each in results.values())
        ended, _ = await finish_run(harness, build_request("And now?"))
        assert ended.status is RunStatus.SUCCESS
