"""A server that is asked to stop."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from deerflow.testing import Answer, ScriptedServer, Stall
from tests.e2e.stage import DEERFLOW, RunningServer, serving

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
FOREVER_S = 600
LIMIT_S = 60


def written(home: Path, model: ScriptedServer, drain_s: float) -> Path:
    config = home / "config.yaml"
    config.write_text(CONFIG.format(base_url=model.base_url, drain_s=drain_s))
    return config


@asynccontextmanager
async def reading(server: RunningServer) -> AsyncIterator[tuple[AsyncIterator[str], str]]:
    """A reader of a run that has begun to speak, and where the run is."""
    async with (
        httpx.AsyncClient(base_url=f"{server.url}/api", timeout=LIMIT_S) as http,
        http.stream("POST", "/threads/story/runs/stream", json=BODY) as response,
    ):
        pieces = response.aiter_text()
        async for piece in pieces:
            if "time" in piece:
                break
        yield pieces, response.headers["content-location"]


async def exit_code(server: RunningServer) -> int:
    return await asyncio.to_thread(server.process.wait, LIMIT_S)


async def ended(home: Path, config: Path, location: str) -> tuple[str, str]:
    """The status and the log of a run once it has ended in the next server."""
    with serving(home, config=config, program=DEERFLOW) as server:
        async with httpx.AsyncClient(base_url=f"{server.url}/api", timeout=LIMIT_S) as http:
            modes = "&".join(f"stream_mode={mode}" for mode in BODY["stream_mode"])
            log = (await http.get(f"{location}/stream?{modes}")).text
            return (await http.get(location)).json()["status"], log


async def test_runs_that_end_in_time_are_waited_for_with_their_readers(tmp_path: Path) -> None:
    async with ScriptedServer([Stall(Answer("Once upon a time")), "Unused."]) as model, asyncio.timeout(LIMIT_S):
        config = written(tmp_path, model, FOREVER_S)
        with serving(tmp_path, config=config, program=DEERFLOW) as server:
            async with reading(server) as (pieces, location):
                server.process.send_signal(signal.SIGTERM)
                await refused(server)
                model.release()
                assert "".join([piece async for piece in pieces]).endswith(END)
            assert await exit_code(server) == 0
        status, log = await ended(tmp_path, config, location)
        assert status == "success" and "handed_over" not in log
        assert len(model.requests) == 1


async def test_runs_that_do_not_are_left_to_the_next_server_without_being_stopped(tmp_path: Path) -> None:
    turns = [Stall(Answer("Once upon a time")), Answer("The end.")]
    async with ScriptedServer(turns) as model, asyncio.timeout(LIMIT_S):
        config = written(tmp_path, model, 0.2)
        with serving(tmp_path, config=config, program=DEERFLOW) as server:
            async with reading(server) as (pieces, location):
                server.process.send_signal(signal.SIGTERM)
                assert END not in "".join([piece async for piece in pieces])
            assert await exit_code(server) == 0
        status, log = await ended(tmp_path, config, location)
        assert status == "success" and log.endswith(END)
        assert log.count("handed_over") == 1


async def test_a_second_signal_is_not_kept_waiting(tmp_path: Path) -> None:
    turns = [Stall(Answer("Once upon a time")), Answer("The end.")]
    async with ScriptedServer(turns) as model, asyncio.timeout(LIMIT_S):
        config = written(tmp_path, model, FOREVER_S)
        with serving(tmp_path, config=config, program=DEERFLOW) as server:
            async with reading(server) as (pieces, location):
                server.process.send_signal(signal.SIGINT)
                await refused(server)
                server.process.send_signal(signal.SIGINT)
                assert END not in "".join([piece async for piece in pieces])
            assert await exit_code(server) == 0
        assert (await ended(tmp_path, config, location))[0] == "success"


async def refused(server: RunningServer) -> None:
    """Wait until the server takes no more connections."""
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.close()
        except ConnectionRefusedError:
            return
        except ConnectionResetError:  # it was just about to be
            continue
