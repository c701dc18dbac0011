"""Stopping runs: also when a client library ignores the cancellation, and without leaving open tool calls."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from langchain.agents.middleware import AgentMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk, ChatResult

from deerflow.config.source import ConfigSource, open_source
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import CancelAction, RunRequest, RunStatus
from deerflow.harness import open_harness
from deerflow.testing import Answer, ScriptedModel, ScriptedServer, calling, in_parallel
from tests.runtime.stubborn_work import STUBBORN_TOOL, WORKS, StubbornWork
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


class StubbornModel(BaseChatModel):
    """Model whose client swallows the first cancellations, and talks or waits on."""

    work: Any
    pace_s: float

    @property
    def _llm_type(self) -> str:
        return "stubborn"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self

    def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
        raise NotImplementedError

    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        yield ChatGenerationChunk(message=AIMessageChunk("Well, "))
        while True:
            await self.work.pause(self.pace_s)
            yield ChatGenerationChunk(message=AIMessageChunk("word "))


def quiet_source(home: Path, **more: Any) -> ConfigSource:
    settings = {"memory": {"enabled": False}, "title": {"enabled": False}, **more}
    return open_source(directory=home, environment={}, overrides=settings)


@pytest.mark.parametrize("pace_s", [0.01, 3600], ids=["it talks", "it is silent"])
@pytest.mark.parametrize("swallows", [1, 4])
async def test_stop_is_repeated_until_a_client_obeys(tmp_path: Path, swallows: int, pace_s: float) -> None:
    work = StubbornWork(swallows)
    model = StubbornModel(work=work, pace_s=pace_s)
    async with open_harness(quiet_source(tmp_path), model) as harness, asyncio.timeout(30):
        run = await harness.runs.create_or_reject(build_request("Hi"), LOCAL_USER)
        await wait_for_event(harness, run, "messages")
        await harness.runs.cancel("t", run.run_id, LOCAL_USER)
        assert (await harness.runs.get("t", run.run_id, LOCAL_USER)).status is RunStatus.INTERRUPTED
        await work.has_ended.wait()
        assert (await read_state(harness))["messages"][-1]["content"].startswith("Well, ")


@pytest.mark.slow
@pytest.mark.parametrize("swallows", [1, 3])
async def test_stop_is_repeated_until_a_tool_obeys(
    tmp_path: Path, swallows: int, request: pytest.FixtureRequest
) -> None:
    name = request.node.name
    work = WORKS[name] = StubbornWork(swallows)
    model = ScriptedModel.saying(calling("insist", name=name), "All right.")
    async with open_harness(quiet_source(tmp_path, tools=[STUBBORN_TOOL]), model) as harness, asyncio.timeout(30):
        run = await harness.runs.create_or_reject(build_request("Insist."), LOCAL_USER)
        await work.has_begun.wait()
        await harness.runs.cancel("t", run.run_id, LOCAL_USER)
        assert (await harness.runs.get("t", run.run_id, LOCAL_USER)).status is RunStatus.INTERRUPTED
        await work.has_ended.wait()
        ended, _ = await finish_run(harness, build_request("And now?"))
        assert ended.status is RunStatus.SUCCESS


class StubbornMiddleware(AgentMiddleware[Any, Any, Any]):
    """Middleware that waits before the first model call, and swallows a cancellation."""

    def __init__(self) -> None:
        super().__init__()
        self.work = StubbornWork(1)

    async def abefore_model(self, state: Any, runtime: Any) -> None:
        for _ in range(2):
            await self.work.pause(3600)


@pytest.mark.slow
async def test_stop_is_repeated_until_the_run_ends(tmp_path: Path) -> None:
    middleware = StubbornMiddleware()
    model = ScriptedModel.saying("All right.")
    opened = open_harness(quiet_source(tmp_path), model, extra_middleware=[middleware])
    async with opened as harness, asyncio.timeout(30):
        run = await harness.runs.create_or_reject(build_request("Hi"), LOCAL_USER)
        await middleware.work.has_begun.wait()
        await harness.runs.cancel("t", run.run_id, LOCAL_USER)
        assert (await harness.runs.get("t", run.run_id, LOCAL_USER)).status is RunStatus.INTERRUPTED
