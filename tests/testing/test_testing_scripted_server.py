"""The scripted server."""

import asyncio
import sys
from contextlib import suppress
from typing import Any

import aiohttp
import pytest

from deerflow.testing import (
    Answer,
    CutAfter,
    RateLimited,
    Raw,
    ScriptedServer,
    ServerFault,
    Stall,
    Usage,
    calling,
    in_parallel,
    thinking,
)

BODY = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


async def send_request(base_url: str, **body: Any) -> tuple[int, str]:
    async with aiohttp.ClientSession() as http, http.post(f"{base_url}/chat/completions", json=BODY | body) as response:
        return response.status, await response.text()


async def test_serves_one_turn_per_request_streamed_or_whole() -> None:
    async with ScriptedServer(["one two", lambda request: f"asked {request.messages[-1]['content']}"]) as server:
        _, streamed = await send_request(server.base_url, stream=True)
        _, whole = await send_request(server.base_url)

    assert streamed.count("data: ") == 5 and streamed.endswith("data: [DONE]\n\n")
    assert '"content":"asked hi"' in whole
    assert [request.number for request in server.requests] == [1, 2]


async def test_streams_usage_on_request() -> None:
    turn = Answer("one", usage=Usage(3, 4))
    async with ScriptedServer([turn, turn]) as server:
        _, with_usage = await send_request(server.base_url, stream=True, stream_options={"include_usage": True})
        _, without = await send_request(server.base_url, stream=True)

    assert '"total_tokens":7' in with_usage
    assert "usage" not in without


async def test_streams_reasoning_then_calls_in_chunks() -> None:
    turn = thinking("Hm.", then=in_parallel(calling("ls", path="/mnt"), calling("date")))
    async with ScriptedServer([turn]) as server:
        _, text = await send_request(server.base_url, stream=True)

    assert text.index("reasoning_content") < text.index('"name":"ls"') < text.index('"name":"date"')
    assert text.count('"index":0,"function":{"arguments"') > 1


async def test_serves_faults() -> None:
    async with ScriptedServer(
        [RateLimited(2), ServerFault(503, "down"), Raw((b"any", b"thing"), status=418)]
    ) as server:
        url = f"{server.base_url}/chat/completions"
        async with aiohttp.ClientSession() as http, http.post(url, json=BODY) as response:
            assert (response.status, response.headers["Retry-After"]) == (429, "2")
        assert (await send_request(server.base_url))[0] == 503
        assert await send_request(server.base_url) == (418, "anything")


async def test_cut_closes_the_connection_inside_an_event() -> None:
    received = b""
    async with (
        ScriptedServer([CutAfter(1)]) as server,
        aiohttp.ClientSession() as http,
        http.post(f"{server.base_url}/chat/completions", json=BODY | {"stream": True}) as response,
    ):
        with pytest.raises(aiohttp.ClientPayloadError):
            while part := await response.content.readany():
                received += part

    assert b'"content":"one"' in received and b"two" not in received
    assert not received.endswith(b"\n")


async def test_stalled_turn_can_be_released_or_abandoned() -> None:
    async with ScriptedServer([Stall(Answer("one")), Stall()]) as server, asyncio.timeout(5):
        answer = asyncio.create_task(send_request(server.base_url, stream=True))
        await server.waiting.wait()
        server.release()
        assert (await answer)[1].endswith("data: [DONE]\n\n")
        assert not server.disconnected.is_set()

        answer = asyncio.create_task(send_request(server.base_url, stream=True))
        await server.waiting.wait()
        answer.cancel()
        with suppress(asyncio.CancelledError):
            await answer
        await server.disconnected.wait()


async def test_exhausted_script_returns_400_unless_endless() -> None:
    async with ScriptedServer(["one"]) as server:
        await send_request(server.base_url)
        status, text = await send_request(server.base_url)
    assert status == 400 and "the script has 1 turns and this is request 2" in text

    async with ScriptedServer(["one"], endless=True) as server:
        assert {(await send_request(server.base_url))[0] for _ in range(3)} == {200}


async def test_lists_models() -> None:
    async with (
        ScriptedServer(models=["a", "b"]) as server,
        aiohttp.ClientSession() as http,
        http.get(f"{server.base_url}/models") as response,
    ):
        listing = await response.json()

    assert [entry["id"] for entry in listing["data"]] == ["a", "b"]


@pytest.mark.slow
async def test_runs_as_a_process() -> None:
    command = (sys.executable, "-m", "deerflow.testing.server", "--tokens", "3", "--calls", '[["ls", {}]]')
    child = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, env={"PYTHONPATH": ":".join(sys.path)}
    )
    assert child.stdout is not None
    try:
        async with asyncio.timeout(60):
            base_url = (await child.stdout.readline()).decode().strip()
            tools = [{"type": "function", "function": {"name": "ls"}}]
            _, first = await send_request(base_url, tools=tools)
            result = [*BODY["messages"], {"role": "assistant"}, {"role": "tool", "content": "", "tool_call_id": "1"}]
            _, second = await send_request(base_url, tools=tools, messages=result)
    finally:
        child.terminate()
        await child.wait()

    assert '"name":"ls"' in first
    assert '"content":"word0 word1 word2 "' in second
