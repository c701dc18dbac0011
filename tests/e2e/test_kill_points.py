"""Fifty servers killed at arbitrary points while runs are active.

Each server is killed during several runs, after an event and a delay chosen by a seeded random generator. The next
server resumes all of them.
"""

import asyncio
import os
import random
import signal
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import orjson
import pytest

from deerflow.runtime.journal.state_diff import DerivedState
from deerflow.testing import Answer, ScriptedServer, calling
from deerflow.testing.scripted_server import ServerRequest
from tests.e2e.server_process import ServerLauncher

KILLS = 50
THREADS = 3
CALLS = 3
MAX_EVENTS = 30
REQUEST_TIMEOUT_S = 60
LIMIT_S = 560
MARKS = "marks"
READY_S, RESUMED_S = 3, 5
CONFIG = """
memory: {{debounce_seconds: 3600}}
models:
  - name: scripted
    use: deerflow.models.openai_compatible:OpenAICompatibleChatModel
    model: scripted
    base_url: {base_url}
sandbox: {{toolbox: {{enabled: false}}}}
title: {{enabled: false}}
"""
BODY = {"input": {"messages": [{"type": "human", "content": "Go on"}]}, "on_disconnect": "continue"}
MODES = "stream_mode=messages-tuple&stream_mode=changes&stream_mode=custom"


def reply(request: ServerRequest) -> Answer:
    """Return text with a command a few times, then only text. Every command writes unique marks."""
    results = 0
    for message in reversed(request.messages):
        if message["role"] == "user":
            break
        results += message["role"] == "tool"
    words = tuple(f"word{number} " for number in range(8))
    if results >= CALLS:
        return Answer(words, delay_s=0.005)
    number = request.number
    command = f"echo begin-{number} >> {MARKS}; sleep 0.03; echo end-{number} >> {MARKS}"
    return Answer(words, calls=calling("bash", description="mark", command=command).calls, delay_s=0.003)


@dataclass
class Timings:
    """Measured times."""

    ready: list[float] = field(default_factory=list)
    resumed: list[float] = field(default_factory=list)


@dataclass
class KillScenario:
    """Repeatedly killed servers of one home folder, and their runs."""

    servers: ServerLauncher
    random_source: random.Random
    timings: Timings = field(default_factory=Timings)
    runs: dict[str, list[str]] = field(default_factory=lambda: {f"t{n}": [] for n in range(THREADS)})

    async def run_and_kill_server(self) -> None:
        """Start a server, wait until it resumes active runs, start more runs, and kill it."""
        began = time.monotonic()
        with self.servers.start() as (url, pid):
            self.timings.ready.append(time.monotonic() - began)
            async with open_client(url) as http:
                if active := await self.active_runs(http):
                    await asyncio.gather(*(self.wait_for_event(http, thread, run) for thread, run in active.items()))
                    self.timings.resumed.append(time.monotonic() - began)
                for thread in self.runs.keys() - active.keys():
                    await self.start_run(http, thread)
                await self.wait_for_kill_point(http)
            os.kill(pid, signal.SIGKILL)

    async def start_run(self, http: httpx.AsyncClient, thread: str) -> None:
        """Start a run in a thread."""
        answer = await http.post(f"/threads/{thread}/runs", json=BODY)
        assert answer.status_code == 200, answer.text
        self.runs[thread].append(answer.json()["run_id"])

    async def active_runs(self, http: httpx.AsyncClient) -> dict[str, str]:
        """Return the active runs by thread."""
        newest = {thread: runs[-1] for thread, runs in self.runs.items() if runs}
        states = {thread: (await http.get(f"/threads/{thread}/runs/{run}")).json() for thread, run in newest.items()}
        return {thread: run for thread, run in newest.items() if states[thread]["status"] in ("pending", "running")}

    async def wait_for_event(self, http: httpx.AsyncClient, thread: str, run: str) -> None:
        """Wait until a resumed run has a new event or has ended."""
        seen = self.last_seq(run)
        async for seq in stream_event_ids(http, thread, run, after=seen):
            if seq > seen:
                return

    async def wait_for_kill_point(self, http: httpx.AsyncClient) -> None:
        """Wait for a random event of a random run and a random delay."""
        thread = self.random_source.choice(sorted(self.runs))
        count, delay_s = self.random_source.randint(1, MAX_EVENTS), self.random_source.random() * 0.04
        run = self.runs[thread][-1]
        async for _ in stream_event_ids(http, thread, run, after=self.last_seq(run)):
            count -= 1
            if count == 0:
                break
        with suppress(TimeoutError):
            async with asyncio.timeout(delay_s):
                await asyncio.Event().wait()

    def last_seq(self, run: str) -> int:
        return len(self.read_log(run))

    def derived_state(self, runs: list[str]) -> bytes:
        """Return the state derived from all events of a thread."""
        state = DerivedState()
        for _, event, data in (entry for run in runs for entry in self.read_log(run)):
            if event == "changes":
                state.apply(data)
        return state.to_json()

    def read_log(self, run: str) -> list[tuple[int, str, bytes]]:
        """Return the stored events of a run."""
        with sqlite3.connect(self.servers.home / "data" / "deerflow.db") as database:
            query = "SELECT seq, event, data FROM run_events WHERE run_id = ? ORDER BY seq"
            return database.execute(query, (run,)).fetchall()


@asynccontextmanager
async def open_client(url: str) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=f"{url}/api", timeout=REQUEST_TIMEOUT_S) as http:
        yield http


async def stream_event_ids(http: httpx.AsyncClient, thread: str, run: str, after: int) -> AsyncIterator[int]:
    """Stream the event numbers of a run."""
    headers = {"Last-Event-ID": str(after)} if after else {}
    async with http.stream("GET", f"/threads/{thread}/runs/{run}/stream?{MODES}", headers=headers) as answer:
        async for line in answer.aiter_lines():
            if line.startswith("id: "):
                yield int(line.removeprefix("id: "))


@pytest.mark.timeout(600)
async def test_after_fifty_kills_no_run_is_lost_and_no_command_repeated(tmp_path: Path) -> None:
    async with ScriptedServer([reply], endless=True) as model, asyncio.timeout(LIMIT_S):
        config = tmp_path / "config.yaml"
        config.write_text(CONFIG.format(base_url=model.base_url))
        servers = ServerLauncher(tmp_path, config)
        scenario = KillScenario(servers, random.Random(5))
        for _ in range(KILLS):
            await scenario.run_and_kill_server()
        with servers.start() as (url, _):
            async with open_client(url) as http:
                await finish(scenario, http)
        for request in model.requests:
            check_conversation(request.messages)
    check_timings(scenario)


async def finish(scenario: KillScenario, http: httpx.AsyncClient) -> None:
    """Wait until all runs have ended, and check them."""
    for thread, runs in scenario.runs.items():
        async with asyncio.timeout(REQUEST_TIMEOUT_S):
            await http.get(f"/threads/{thread}/runs/{runs[-1]}/join")
        for run in runs:
            check_log(scenario, run, (await http.get(f"/threads/{thread}/runs/{run}")).json())
        check_marks(scenario, thread)
        state = (await http.get(f"/threads/{thread}/state")).json()["values"]
        assert orjson.loads(scenario.derived_state(runs))["messages"] == state["messages"]
        answer = await http.post(f"/threads/{thread}/runs/wait", json=BODY)
        assert answer.json()["messages"][-1]["content"].startswith("word0 word1"), answer.text


def check_log(scenario: KillScenario, run: str, run_record: dict[str, Any]) -> None:
    """Check that events have no gaps, the run ended once, and each call has one intent and at most one outcome."""
    entries = scenario.read_log(run)
    assert [seq for seq, _, _ in entries] == list(range(1, len(entries) + 1))
    names = [name for _, name, _ in entries]
    assert names.count("end") == 1 and names[-1] == "end"
    assert run_record["status"] in ("success", "error")
    assert run_record["status"] == "success" or "3 times" in run_record["error"], run_record
    for name in ("tool_intent", "tool_outcome"):
        calls = Counter(orjson.loads(data)["tool_call_id"] for _, event, data in entries if event == name)
        assert set(calls.values()) <= {1}


def check_marks(scenario: KillScenario, thread: str) -> None:
    """Check that no command ran twice."""
    (file,) = scenario.servers.home.glob(f"users/*/threads/{thread}/user-data/workspace/{MARKS}")
    assert set(Counter(file.read_text().split()).values()) == {1}


def check_conversation(messages: list[dict[str, Any]]) -> None:
    """Check that every tool call in a model request is directly followed by its result."""
    open_calls: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            open_calls.remove(message["tool_call_id"])
        else:
            assert open_calls == []
            open_calls = [call["id"] for call in message.get("tool_calls") or ()]
    assert open_calls == []


def check_timings(scenario: KillScenario) -> None:
    """Print the measured times and check their limits."""
    for name, seconds in (("ready", scenario.timings.ready), ("resumed", scenario.timings.resumed)):
        summary = f"median {median(seconds):.2f} s, worst {max(seconds):.2f} s, {len(seconds)} times"
        sys.stdout.write(f"\n{name} after a kill: {summary}\n")
    assert median(scenario.timings.ready) < READY_S
    assert median(scenario.timings.resumed) < RESUMED_S


async def die() -> str:
    """Kill the server."""
    os.kill(os.getpid(), signal.SIGKILL)
    return "never said"


KILLING_TOOL = """
tools:
  - {name: die, group: test, use: "tests.e2e.test_kill_points:die"}
"""


@pytest.mark.timeout(120)
async def test_a_run_that_kills_every_server_fails(tmp_path: Path) -> None:
    async with ScriptedServer([calling("die")], endless=True) as model, asyncio.timeout(100):
        config = tmp_path / "config.yaml"
        config.write_text(CONFIG.format(base_url=model.base_url) + KILLING_TOOL)
        servers = ServerLauncher(tmp_path, config)
        scenario = KillScenario(servers, random.Random(5), runs={"t": []})
        with servers.start() as (url, _):
            async with open_client(url) as http:
                with suppress(httpx.HTTPError):  # the server may exit before it responds
                    await http.post("/threads/t/runs", json=BODY, headers={"Idempotency-Key": "one"})
                await wait_until_gone(http)
        for _ in range(2):
            with servers.start() as (url, _):
                async with open_client(url) as http:
                    await wait_until_gone(http)
        with servers.start() as (url, _):
            async with open_client(url) as http:
                run = (await http.get("/threads/t/runs")).json()[0]
                await http.get(f"/threads/t/runs/{run['run_id']}/join")
                check_log(scenario, run["run_id"], (await http.get(f"/threads/t/runs/{run['run_id']}")).json())
                state = (await http.get("/threads/t/state")).json()
                *_, request, result = state["values"]["messages"]
                assert result["tool_call_id"] == request["tool_calls"][0]["id"] and state["next"] == []
                assert "how far it came is not known" in result["content"]
        assert len(model.requests) == 3


async def wait_until_gone(http: httpx.AsyncClient) -> None:
    """Wait until a server is unreachable."""
    while True:
        try:
            await http.get("/models")
        except httpx.HTTPError:
            return
