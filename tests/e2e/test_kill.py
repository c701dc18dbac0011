"""A server killed during an answer."""

import asyncio
import re
import sys
from pathlib import Path

import httpx

from deerflow.testing import Answer, ScriptedServer, Stall
from tests.e2e.server_process import serve

CONFIG = """
memory: {{debounce_seconds: 3600}}
models:
  - name: scripted
    use: deerflow.models.openai_compatible:OpenAICompatibleChatModel
    model: scripted
    base_url: {base_url}
"""
BODY = {
    "input": {"messages": [{"type": "human", "content": "Tell me a story"}]},
    "stream_mode": ["messages-tuple", "changes"],
    "on_disconnect": "continue",
}


async def test_a_run_resumes_after_kill_and_readers_get_the_remaining_events(tmp_path: Path) -> None:
    async with (
        ScriptedServer([Stall(Answer("Once upon a time")), Answer("The end."), Answer("Another.")]) as model,
        asyncio.timeout(60),
    ):
        config = tmp_path / "config.yaml"
        config.write_text(CONFIG.format(base_url=model.base_url))

        with serve(tmp_path, config=config) as server:
            before, location = await read_until(server.url, "time")
            server.kill()

        with serve(tmp_path, config=config) as server:
            async with httpx.AsyncClient(base_url=f"{server.url}/api", timeout=20) as http:
                stream = (await http.get(f"{location}/stream?stream_mode=messages-tuple&stream_mode=changes")).text
                seen = event_ids(before)
                # All received events are in the log, and a reader resumes from any of them.
                assert stream.startswith(before)
                for last in seen:
                    path = f"{location}/stream?stream_mode=messages-tuple&stream_mode=changes"
                    rest = (await http.get(path, headers={"Last-Event-ID": str(last)})).text
                    assert event_ids(rest) == [seq for seq in event_ids(stream) if seq > last]
                journal = (await http.get(f"{location}/events?limit=1000")).json()["data"]
                assert [event["seq"] for event in journal] == list(range(1, len(journal) + 1))
                assert event_ids(stream) == sorted(set(event_ids(stream)))  # this reader does not get all events
                assert stream.endswith("event: end\ndata: null\n\n")

                run = (await http.get(location)).json()
                assert run["status"] == "success"
                assert await read_messages(http) == ["Tell me a story", "The end."]

                next_run = await http.post("/threads/story/runs/wait", json=BODY)
                assert next_run.status_code == 200
                assert await read_messages(http) == ["Tell me a story", "The end.", "Tell me a story", "Another."]


async def test_the_installed_command_resumes_after_kill(tmp_path: Path) -> None:
    """Uses the installed command in a new interpreter. `bench/recovery.py` measures the time."""
    command = [str(Path(sys.executable).parent / "deerflow")]
    async with (
        ScriptedServer([Stall(Answer("Once upon a time")), Answer("The end.")]) as model,
        asyncio.timeout(100),
    ):
        config = tmp_path / "config.yaml"
        config.write_text(CONFIG.format(base_url=model.base_url))
        with serve(tmp_path, config=config, program=command) as server:
            before, location = await read_until(server.url, "time")
            server.kill()
        with serve(tmp_path, config=config, program=command) as server:
            async with httpx.AsyncClient(base_url=server.url, timeout=60) as http:
                assert (await http.get("/health")).status_code == 200
                path = f"/api{location}/stream?stream_mode=messages-tuple&stream_mode=changes"
                rest = (await http.get(path, headers={"Last-Event-ID": str(event_ids(before)[-1])})).text
                assert event_ids(rest)[0] == event_ids(before)[-1] + 1 and rest.endswith("event: end\ndata: null\n\n")
                assert (await http.get(f"/api{location}")).json()["status"] == "success"


async def read_until(url: str, word: str) -> tuple[str, str]:
    """Read complete events until `word` occurs, and return them and the location of the run."""
    seen = ""
    async with (
        httpx.AsyncClient(base_url=f"{url}/api", timeout=20) as http,
        http.stream("POST", "/threads/story/runs/stream", json=BODY) as response,
    ):
        async for text in response.aiter_text():
            seen += text
            if word in seen and seen.endswith("\n\n"):
                break
        return seen, response.headers["content-location"]


async def read_messages(http: httpx.AsyncClient) -> list[str]:
    state = (await http.get("/threads/story/state")).json()
    return [message["content"] for message in state["values"]["messages"]]


def event_ids(stream: str) -> list[int]:
    return [int(found) for found in re.findall(r"^id: (\d+)$", stream, re.M)]
