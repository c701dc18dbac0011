"""Graceful shutdown of a server."""

import asyncio
import shutil
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from deerflow.testing import Answer, ScriptedServer, Stall, calling
from tests.e2e.server_process import DEERFLOW, RunningServer, serve
from tests.gateway import blocking_tool

CONFIG = """
memory: {{debounce_seconds: 3600}}
models:
  - name: scripted
    use: deerflow.models.openai_compatible:OpenAICompatibleChatModel
    model: scripted
    base_url: {base_url}
sandbox: {{toolbox: {{enabled: false}}}}
title: {{enabled: false}}
runs: {{drain_seconds: {drain_s}}}
"""
BODY = {
    "input": {"messages": [{"type": "human", "content": "Tell me a story"}]},
    "stream_mode": ["messages-tuple", "changes", "custom"],
}
END = "event: end\ndata: null\n\n"
LONG_DRAIN_S = 600
LIMIT_S = 60


def write_config(home: Path, model: ScriptedServer, drain_s: float) -> Path:
    config = home / "config.yaml"
    config.write_text(CONFIG.format(base_url=model.base_url, drain_s=drain_s))
    return config


@asynccontextmanager
async def start_reading(server: RunningServer) -> AsyncIterator[tuple[AsyncIterator[str], str]]:
    """Start a run, wait for its first text, and return the stream and the location of the run."""
    async with (
        httpx.AsyncClient(base_url=f"{server.url}/api", timeout=LIMIT_S) as http,
        http.stream("POST", "/threads/story/runs/stream", json=BODY) as response,
    ):
        chunks = response.aiter_text()
        async for chunk in chunks:
            if "time" in chunk:
                break
        yield chunks, response.headers["content-location"]


async def wait_for_exit(server: RunningServer) -> int:
    return await asyncio.to_thread(server.process.wait, LIMIT_S)


async def finish_on_next_server(home: Path, config: Path, location: str) -> tuple[str, str]:
    """Return status and log of a run after it has ended on the next server."""
    with serve(home, config=config) as server:
        async with httpx.AsyncClient(base_url=f"{server.url}/api", timeout=LIMIT_S) as http:
            modes = "&".join(f"stream_mode={mode}" for mode in BODY["stream_mode"])
            log = (await http.get(f"{location}/stream?{modes}")).text
            return (await http.get(location)).json()["status"], log


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
async def test_shutdown_waits_for_runs_that_end_in_time(tmp_path: Path, number: signal.Signals) -> None:
    async with ScriptedServer([Stall(Answer("Once upon a time")), "Unused."]) as model, asyncio.timeout(LIMIT_S):
        config = write_config(tmp_path, model, LONG_DRAIN_S)
        with serve(tmp_path, config=config) as server:
            async with start_reading(server) as (chunks, location):
                server.process.send_signal(number)
                await wait_until_refused(server)
                model.release()
                assert "".join([chunk async for chunk in chunks]).endswith(END)
            assert await wait_for_exit(server) == 0
        status, log = await finish_on_next_server(tmp_path, config, location)
        assert status == "success" and "handed_over" not in log
        assert len(model.requests) == 1


async def test_runs_that_do_not_end_in_time_are_handed_over_to_the_next_server(tmp_path: Path) -> None:
    turns = [Stall(Answer("Once upon a time")), Answer("The end.")]
    async with ScriptedServer(turns) as model, asyncio.timeout(LIMIT_S):
        config = write_config(tmp_path, model, 0.2)
        with serve(tmp_path, config=config) as server:
            async with start_reading(server) as (chunks, location):
                server.process.send_signal(signal.SIGTERM)
                assert END not in "".join([chunk async for chunk in chunks])
            assert await wait_for_exit(server) == 0
        status, log = await finish_on_next_server(tmp_path, config, location)
        assert status == "success" and log.endswith(END)
        assert log.count("handed_over") == 1


async def test_a_second_signal_ends_the_server_at_once(tmp_path: Path) -> None:
    turns = [Stall(Answer("Once upon a time")), Answer("The end.")]
    async with ScriptedServer(turns) as model, asyncio.timeout(LIMIT_S):
        config = write_config(tmp_path, model, LONG_DRAIN_S)
        with serve(tmp_path, config=config) as server:
            async with start_reading(server) as (chunks, location):
                server.process.send_signal(signal.SIGINT)
                await wait_until_refused(server)
                server.process.send_signal(signal.SIGINT)
                assert END not in "".join([chunk async for chunk in chunks])
            assert await wait_for_exit(server) == 0
        assert (await finish_on_next_server(tmp_path, config, location))[0] == "success"


async def wait_until_refused(server: RunningServer) -> None:
    """Wait until the server refuses connections."""
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.close()
        except ConnectionRefusedError:
            return
        except ConnectionResetError:  # the socket is just being closed
            continue


async def test_a_tool_that_blocks_forever_does_not_keep_the_server_from_stopping(tmp_path: Path) -> None:
    folder = tmp_path / "barrier"
    shutil.copy(blocking_tool.__file__, tmp_path)  # the server finds modules in its folder
    tool = 'tools: [{name: wait_for_release, group: test, use: "blocking_tool:wait_for_release"}]'
    with blocking_tool.Barrier.closed(folder) as barrier:
        async with ScriptedServer([calling("wait_for_release", folder=str(folder))]) as model:
            config = write_config(tmp_path, model, 0.1)
            config.write_text(config.read_text() + tool)
            with serve(tmp_path, config=config, program=DEERFLOW) as server:
                async with httpx.AsyncClient(base_url=f"{server.url}/api", timeout=LIMIT_S) as http:
                    await http.post("/threads/story/runs", json={**BODY, "on_disconnect": "continue"})
                await barrier.wait_for_arrivals(1)
                server.process.send_signal(signal.SIGTERM)
                assert await wait_for_exit(server) == 0
