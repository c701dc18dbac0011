"""Fifty servers that die at any moment, and runs that do not mind.

Each server is killed while several runs are in the middle of something: after an event chosen by a seed, and a few
milliseconds that differ each time. The next one has to go on with all of them.
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
from tests.e2e.stage import Nursery

KILLS = 50
THREADS = 3
CALLS = 3
MOST_EVENTS = 30
PATIENCE_S = 60
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
    """Some words and a command, a few times; then only words. No two commands leave the same mark."""
    done = 0
    for message in reversed(request.messages):
        if message["role"] == "user":
            break
        done += message["role"] == "tool"
    words = tuple(f"word{number} " for number in range(8))
    if done >= CALLS:
        return Answer(words, delay_s=0.005)
    number = request.number
    command = f"echo begin-{number} >> {MARKS}; sleep 0.03; echo end-{number} >> {MARKS}"
    return Answer(words, calls=calling("bash", description="mark", command=command).calls, delay_s=0.003)


@dataclass
class Figures:
    """What was measured."""

    ready: list[float] = field(default_factory=list)
    resumed: list[float] = field(default_factory=list)


@dataclass
class World:
    """A home whose servers are killed again and again, and the runs that were begun in it."""

    servers: Nursery
    chance: random.Random
    figures: Figures = field(default_factory=Figures)
    begun: dict[str, list[str]] = field(default_factory=lambda: {f"t{n}": [] for n in range(THREADS)})

    async def live_and_die(self) -> None:
        """One server: it goes on with what is left, is given more to do, and is killed."""
        began = time.monotonic()
        with self.servers.serving() as (url, pid):
            self.figures.ready.append(time.monotonic() - began)
            async with browser(url) as http:
                if left := await self.unfinished(http):
                    await asyncio.gather(*(self.news(http, thread, run) for thread, run in left.items()))
                    self.figures.resumed.append(time.monotonic() - began)
                for thread in self.begun.keys() - left.keys():
                    await self.begin(http, thread)
                await self.moment(http)
            os.kill(pid, signal.SIGKILL)

    async def begin(self, http: httpx.AsyncClient, thread: str) -> None:
        """Say something in a thread."""
        answer = await http.post(f"/threads/{thread}/runs", json=BODY)
        assert answer.status_code == 200, answer.text
        self.begun[thread].append(answer.json()["run_id"])

    async def unfinished(self, http: httpx.AsyncClient) -> dict[str, str]:
        """The threads that have a run under way, and which."""
        newest = {thread: runs[-1] for thread, runs in self.begun.items() if runs}
        states = {thread: (await http.get(f"/threads/{thread}/runs/{run}")).json() for thread, run in newest.items()}
        return {thread: run for thread, run in newest.items() if states[thread]["status"] in ("pending", "running")}

    async def news(self, http: httpx.AsyncClient, thread: str, run: str) -> None:
        """Wait until a run that was left behind says something again, or has ended."""
        seen = self.last_seq(run)
        async for seq in events(http, thread, run, after=seen):
            if seq > seen:
                return

    async def moment(self, http: httpx.AsyncClient) -> None:
        """Wait for a moment to die: some event of some run, and a little more."""
        thread = self.chance.choice(sorted(self.begun))
        count, more_s = self.chance.randint(1, MOST_EVENTS), self.chance.random() * 0.04
        run = self.begun[thread][-1]
        async for _ in events(http, thread, run, after=self.last_seq(run)):
            count -= 1
            if count == 0:
                break
        with suppress(TimeoutError):
            async with asyncio.timeout(more_s):
                await asyncio.Event().wait()

    def last_seq(self, run: str) -> int:
        return len(self.log(run))

    def known(self, runs: list[str]) -> bytes:
        """What somebody knows who has read every event of a thread."""
        state = DerivedState()
        for _, event, data in (entry for run in runs for entry in self.log(run)):
            if event == "changes":
                state.apply(data)
        return state.to_json()

    def log(self, run: str) -> list[tuple[int, str, bytes]]:
        """What the database holds of a run."""
        with sqlite3.connect(self.servers.home / "data" / "deerflow.db") as database:
            query = "SELECT seq, event, data FROM run_events WHERE run_id = ? ORDER BY seq"
            return database.execute(query, (run,)).fetchall()


@asynccontextmanager
async def browser(url: str) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=f"{url}/api", timeout=PATIENCE_S) as http:
        yield http


async def events(http: httpx.AsyncClient, thread: str, run: str, after: int) -> AsyncIterator[int]:
    """The numbers of a run's events as they come."""
    headers = {"Last-Event-ID": str(after)} if after else {}
    async with http.stream("GET", f"/threads/{thread}/runs/{run}/stream?{MODES}", headers=headers) as answer:
        async for line in answer.aiter_lines():
            if line.startswith("id: "):
                yield int(line.removeprefix("id: "))


@pytest.mark.timeout(600)
async def test_fifty_servers_are_killed_and_no_run_is_lost_or_does_anything_twice(tmp_path: Path) -> None:
    async with ScriptedServer([reply], endless=True) as model, asyncio.timeout(LIMIT_S):
        config = tmp_path / "config.yaml"
        config.write_text(CONFIG.format(base_url=model.base_url))
        servers = Nursery(tmp_path, config)
        world = World(servers, random.Random(5))
        for _ in range(KILLS):
            await world.live_and_die()
        with servers.serving() as (url, _):
            async with browser(url) as http:
                await finish(world, http)
        for request in model.requests:
            check_conversation(request.messages)
    tell(world)


async def finish(world: World, http: httpx.AsyncClient) -> None:
    """Let everything end, then look at all of it."""
    for thread, runs in world.begun.items():
        async with asyncio.timeout(PATIENCE_S):
            await http.get(f"/threads/{thread}/runs/{runs[-1]}/join")
        for run in runs:
            check_log(world, run, (await http.get(f"/threads/{thread}/runs/{run}")).json())
        check_marks(world, thread)
        state = (await http.get(f"/threads/{thread}/state")).json()["values"]
        assert orjson.loads(world.known(runs))["messages"] == state["messages"]
        answer = await http.post(f"/threads/{thread}/runs/wait", json=BODY)
        assert answer.json()["messages"][-1]["content"].startswith("word0 word1"), answer.text


def check_log(world: World, run: str, shown: dict[str, Any]) -> None:
    """Without gap or duplicate, ended once, every call begun once and answered at most once."""
    log = world.log(run)
    assert [seq for seq, _, _ in log] == list(range(1, len(log) + 1))
    names = [name for _, name, _ in log]
    assert names.count("end") == 1 and names[-1] == "end"
    assert shown["status"] in ("success", "error")
    assert shown["status"] == "success" or "3 times" in shown["error"], shown
    for name in ("tool_intent", "tool_outcome"):
        calls = Counter(orjson.loads(data)["tool_call_id"] for _, event, data in log if event == name)
        assert set(calls.values()) <= {1}


def check_marks(world: World, thread: str) -> None:
    """No command has left its marks twice; whatever has an outcome has left both."""
    (file,) = world.servers.home.glob(f"users/*/threads/{thread}/user-data/workspace/{MARKS}")
    assert set(Counter(file.read_text().split()).values()) == {1}


def check_conversation(messages: list[dict[str, Any]]) -> None:
    """Every call that the model is shown has one answer, right behind it."""
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            waiting.remove(message["tool_call_id"])
        else:
            assert waiting == []
            waiting = [call["id"] for call in message.get("tool_calls") or ()]
    assert waiting == []


def tell(world: World) -> None:
    """Print what was measured."""
    for name, seconds in (("ready", world.figures.ready), ("resumed", world.figures.resumed)):
        shown = f"median {median(seconds):.2f} s, worst {max(seconds):.2f} s, {len(seconds)} times"
        sys.stdout.write(f"\n{name} after a kill: {shown}\n")
    assert median(world.figures.ready) < READY_S
    assert median(world.figures.resumed) < RESUMED_S


async def die() -> str:
    """Kill the server."""
    os.kill(os.getpid(), signal.SIGKILL)
    return "never said"


POISONOUS = """
tools:
  - {name: die, group: test, use: "tests.e2e.test_kill_points:die"}
"""


@pytest.mark.timeout(120)
async def test_a_run_that_kills_every_server_is_given_up(tmp_path: Path) -> None:
    async with ScriptedServer([calling("die")], endless=True) as model, asyncio.timeout(100):
        config = tmp_path / "config.yaml"
        config.write_text(CONFIG.format(base_url=model.base_url) + POISONOUS)
        servers = Nursery(tmp_path, config)
        world = World(servers, random.Random(5), begun={"t": []})
        with servers.serving() as (url, _):
            async with browser(url) as http:
                with suppress(httpx.HTTPError):  # it may be gone before it has answered
                    await http.post("/threads/t/runs", json=BODY, headers={"Idempotency-Key": "one"})
                await gone(http)
        for _ in range(2):
            with servers.serving() as (url, _):
                async with browser(url) as http:
                    await gone(http)
        with servers.serving() as (url, _):
            async with browser(url) as http:
                run = (await http.get("/threads/t/runs")).json()[0]
                await http.get(f"/threads/t/runs/{run['run_id']}/join")
                check_log(world, run["run_id"], (await http.get(f"/threads/t/runs/{run['run_id']}")).json())
                state = (await http.get("/threads/t/state")).json()
                *_, asked, answered = state["values"]["messages"]
                assert answered["tool_call_id"] == asked["tool_calls"][0]["id"] and state["next"] == []
                assert "how far it came is not known" in answered["content"]
        assert len(model.requests) == 3


async def gone(http: httpx.AsyncClient) -> None:
    """Wait until a server is gone."""
    while True:
        try:
            await http.get("/models")
        except httpx.HTTPError:
            return
