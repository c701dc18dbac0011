"""Faults of model servers: the run recovers or ends with an error, and the thread accepts the next message."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import orjson
import pytest

from deerflow.config.source import open_source
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import RunRecord, RunRequest, RunStatus
from deerflow.harness import Harness, open_harness
from deerflow.testing import (
    Answer,
    CutAfter,
    RateLimited,
    Raw,
    ScriptedServer,
    ServerFault,
    ToolRequest,
    calling,
    in_parallel,
)

CLIENTS: dict[str, dict[str, object]] = {
    "own client": {},
    "ChatOpenAI": {"use": "langchain_openai:ChatOpenAI", "native": False, "max_retries": 0},
}
FAULTS = {
    "cut in the middle of a token, then well": [CutAfter(2, Answer("One two three four.")), "All of it."],
    "malformed arguments of a tool": [
        Answer(calls=(ToolRequest("list_uploaded_files", '{"broken": ', "call_1"),)),
        "I could not list the files.",
    ],
    "a tool that does not exist": [calling("list_uploads"), "There is no such tool."],
    "an empty answer, then words": ["", "Here I am."],
    "slow down": [RateLimited(retry_after=0), "Now I can answer."],
    "a server that fails once": [ServerFault(503), "Back again."],
}


@pytest.mark.parametrize("replies", FAULTS.values(), ids=list(FAULTS))
async def test_the_run_recovers_from_a_model_fault(tmp_path: Path, replies: Sequence[object]) -> None:
    async with (
        ScriptedServer([*replies, "And the next one."]) as server,
        open_server_harness(tmp_path, server) as harness,
    ):
        first = await ask(harness, "hello?")
        assert first.status is RunStatus.SUCCESS, first.error
        assert (await read_answers(harness))[-1] == replies[-1]
        second = await ask(harness, "and now?")
        assert second.status is RunStatus.SUCCESS, second.error
        assert (await read_answers(harness))[-1] == "And the next one."


async def test_each_of_300_parallel_calls_gets_a_result(tmp_path: Path) -> None:
    calls = in_parallel(*(calling("list_uploaded_files") for _ in range(300)))
    async with (
        ScriptedServer([calls, "Fine."], endless=True) as server,
        open_server_harness(tmp_path, server) as harness,
    ):
        for text in ("hello?", "and now?"):
            run = await ask(harness, text)
            assert run.status is RunStatus.SUCCESS, run.error
            assert (await read_answers(harness))[-1] == "Fine."
        for request in server.requests:
            call_ids = [call["id"] for message in request.body["messages"] for call in message.get("tool_calls") or ()]
            result_ids = [message["tool_call_id"] for message in request.body["messages"] if message["role"] == "tool"]
            assert sorted(call_ids) == sorted(result_ids)


async def test_a_filtered_answer_is_reported(tmp_path: Path) -> None:
    turns = [Answer("Well, ", finish_reason="content_filter"), "Fine."]
    async with ScriptedServer(turns) as server, open_server_harness(tmp_path, server) as harness:
        assert (await ask(harness, "hello?")).status is RunStatus.SUCCESS
        assert "content rules" in (await read_answers(harness))[-1]
        assert (await ask(harness, "and now?")).status is RunStatus.SUCCESS


async def test_a_failing_model_server_fails_the_run_and_the_thread_continues(tmp_path: Path) -> None:
    turns = [*[ServerFault(500)] * 3, "Fine."]
    async with ScriptedServer(turns) as server, open_server_harness(tmp_path, server) as harness:
        run = await ask(harness, "hello?")
        assert run.status is RunStatus.ERROR and "500" in (run.error or "")
        assert (await ask(harness, "and now?")).status is RunStatus.SUCCESS
        assert (await read_answers(harness))[-1] == "Fine."


@pytest.mark.slow
@pytest.mark.parametrize("client", CLIENTS.values(), ids=list(CLIENTS))
async def test_an_endless_line_ends_the_run_and_the_thread_continues(tmp_path: Path, client: dict[str, object]) -> None:
    endless = Raw((b"data: ", *[b"x" * 1024**2] * 17))
    async with ScriptedServer([endless, "Fine."]) as server, open_server_harness(tmp_path, server, client) as harness:
        run = await ask(harness, "hello?")
        assert run.status is RunStatus.ERROR and "sent more than 16 MB without completing an event" in (run.error or "")
        assert len(server.requests) == 1, "it would be the same again"
        assert (await ask(harness, "and now?")).status is RunStatus.SUCCESS
        assert (await read_answers(harness))[-1] == "Fine."


ODD_REPLIES = {
    "choices that are a number": b'{"choices": 5}',
    "content that is a number": b'{"choices": [{"index": 0, "delta": {"content": {"a": 5}}}]}',
    "a list": b"[[]]",
    "a web page": b"<html>Welcome</html>",
}


@pytest.mark.parametrize("client", CLIENTS.values(), ids=list(CLIENTS))
@pytest.mark.parametrize("payload", ODD_REPLIES.values(), ids=list(ODD_REPLIES))
@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")  # of the vendor's SDK
async def test_an_unreadable_reply_is_tried_again_and_then_ends_the_run(
    tmp_path: Path, client: dict[str, object], payload: bytes
) -> None:
    odd = Raw((b"data: " + payload + b"\n\n",))
    turns = [odd, "Well.", *[odd] * 3, "Fine."]
    async with ScriptedServer(turns) as server, open_server_harness(tmp_path, server, client) as harness:
        assert (await ask(harness, "hello?")).status is RunStatus.SUCCESS
        run = await ask(harness, "and now?")
        assert run.status is RunStatus.ERROR and run.error, run
        assert not any(name in run.error.partition(":")[0] for name in ("TypeError", "AttributeError", "KeyError"))
        assert (await ask(harness, "and then?")).status is RunStatus.SUCCESS
        assert (await read_answers(harness))[-1] == "Fine."


async def test_the_fallback_model_answers(tmp_path: Path) -> None:
    async with ScriptedServer([ServerFault(401)]) as first, ScriptedServer(["From the second."]) as second:
        models = [
            {**first.model_config("one").model_dump(), "fallback": ["two"]},
            second.model_config("two").model_dump(),
        ]
        source = open_source(directory=tmp_path, environment={}, overrides={"models": models})
        async with open_harness(source) as harness:
            run = await ask(harness, "hello?")
            assert run.status is RunStatus.SUCCESS, run.error
            assert await read_answers(harness) == ["From the second."]


async def test_an_authentication_error_is_not_retried(tmp_path: Path) -> None:
    async with ScriptedServer([ServerFault(401), "Fine."]) as server, open_server_harness(tmp_path, server) as harness:
        run = await ask(harness, "hello?")
        assert run.status is RunStatus.ERROR and "401" in (run.error or "")
        assert len(server.requests) == 1


def open_server_harness(
    home: Path, server: ScriptedServer, client: Mapping[str, object] | None = None
) -> AbstractAsyncContextManager[Harness]:
    model = server.model_config("scripted", **client or {}).model_dump()
    overrides = {"models": [model], "llm_call": {"retry_base_delay_ms": 1, "retry_cap_delay_ms": 2}}
    return open_harness(open_source(directory=home, environment={}, overrides=overrides))


async def ask(harness: Harness, text: str) -> RunRecord:
    request = RunRequest("t", [{"type": "human", "content": text}])
    run = await harness.runs.create_or_reject(request, LOCAL_USER)
    async with asyncio.timeout(20):
        return await harness.runs.join("t", run.run_id, LOCAL_USER)


async def read_answers(harness: Harness) -> list[str]:
    state = orjson.loads((await harness.threads.state("t", LOCAL_USER)).values)
    return [message["content"] for message in state["messages"] if message["type"] == "ai"]
