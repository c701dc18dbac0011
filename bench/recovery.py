"""How soon a server that was killed with `kill -9` in the middle of an answer is back, started as a user starts it.

Each round kills a real `deerflow serve` while a model speaks, starts the command again in a fresh interpreter, and
takes the time until `/health` answers and until a reader that comes back gets the next event of its run. The floor is
a bare interpreter that only imports the libraries any such server needs: where that alone takes seconds, the machine is
too busy for the bars, and the ratio to the floor is what tells.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import httpx
from _measure import free_port, spawn, wait_until_healthy
from _table import Row, record

from deerflow.testing import Answer, ScriptedServer, Stall

ROUNDS = 5
MOST_READY_S = 3.0
MOST_RESUMED_S = 5.0
BARE = "import fastapi, langchain.agents, langgraph.graph"
CONFIG = """
log_level: warning
sandbox: {{toolbox: {{enabled: false}}}}
title: {{enabled: false}}
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


@dataclass(frozen=True, slots=True)
class Seen:
    """What a reader had of a run when the server died."""

    place: str
    last_event_id: str


def main() -> int:
    """Kill and start again, a few times."""
    floor, ready, resumed = zip(*asyncio.run(measure()), strict=True)
    title = f"seconds of wall clock, {ROUNDS} cold starts"
    print(f"{title:50} {'median':>8} {'worst':>8} {'ratio':>8} {'bar':>8}")
    show("floor: bare interpreter with the same libraries", floor, floor, None)
    rows, missed = [], False
    for name, seconds, bar in (
        ("ready: /health answers", ready, MOST_READY_S),
        ("resumed: the next event is there", resumed, MOST_RESUMED_S),
    ):
        missed |= show(name, seconds, floor, bar)
        rows += [
            Row(name, "figure", median(seconds), "s", bar=bar),
            Row(f"{name}, against the floor", "ratio", median_ratio(seconds, floor), "×"),
        ]
    record(rows)
    return int(missed)


def show(name: str, seconds: Sequence[float], floor: Sequence[float], bar: float | None) -> bool:
    """Print one line; whether the median misses its bar."""
    is_missed = bar is not None and median(seconds) > bar
    ratio = median_ratio(seconds, floor)
    limit = "" if bar is None else f"≤ {bar:g}"
    verdict = "  MISSED" if is_missed else ""
    print(f"{name:50} {median(seconds):8.2f} {max(seconds):8.2f} {ratio:8.2f} {limit:>8}{verdict}")
    return is_missed


def median_ratio(seconds: Sequence[float], floor: Sequence[float]) -> float:
    """Round by round, since what disturbs the machine disturbs both sides of a round alike."""
    return median(each / least for each, least in zip(seconds, floor, strict=True))


async def measure() -> list[tuple[float, float, float]]:
    """Seconds of the floor, until ready and until resumed, for each round."""
    replies = [reply for _ in range(ROUNDS) for reply in (Stall(Answer("Once upon a time")), Answer("The end."))]
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch)
        async with ScriptedServer(replies) as model:
            (home / "config.yaml").write_text(CONFIG.format(base_url=model.base_url))
            return [(await start_bare(home), *await die_and_come_back(home, number)) for number in range(ROUNDS)]


async def start_bare(home: Path) -> float:
    """Seconds of an interpreter that imports what any server of this kind needs."""
    began = time.monotonic()
    await asyncio.to_thread(subprocess.run, [sys.executable, "-c", BARE], check=True, cwd=home)
    return time.monotonic() - began


async def die_and_come_back(home: Path, number: int) -> tuple[float, float]:
    """Seconds from the start of the second server until it is ready, and until the run goes on."""
    async with server(home) as (process, url):
        seen = await read_half(url, f"round-{number}")
        process.kill()
        process.wait()
    began = time.monotonic()
    async with server(home) as (_, url):
        ready = time.monotonic() - began
        await next_event(url, seen)
        resumed = time.monotonic() - began
        async with httpx.AsyncClient(base_url=url, timeout=60) as http:
            await http.get(f"/api{seen.place}/join")
            run = (await http.get(f"/api{seen.place}")).json()
            if run["status"] != "success":
                sys.exit(f"the run did not go on: {run}")
    return ready, resumed


@asynccontextmanager
async def server(home: Path) -> AsyncIterator[tuple[subprocess.Popen[str], str]]:
    """`deerflow serve` in an interpreter of its own, once it is healthy."""
    port = free_port()
    command = [str(Path(sys.executable).parent / "deerflow"), "serve", "--port", str(port)]
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "DEER_FLOW_HOME": str(home)}
    with (home / "server.log").open("a") as log:
        process = spawn(command, environment, cwd=home, stdout=log, stderr=log)
    try:
        await asyncio.to_thread(wait_until_healthy, port, process)
        yield process, f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


async def read_half(url: str, thread: str) -> Seen:
    """Begin a run and read until the model is in the middle of its answer."""
    last = ""
    async with (
        httpx.AsyncClient(base_url=url, timeout=60) as http,
        http.stream("POST", f"/api/threads/{thread}/runs/stream", json=BODY) as response,
    ):
        async for line in response.aiter_lines():
            last = line.removeprefix("id: ") if line.startswith("id: ") else last
            if "time" in line:
                return Seen(response.headers["content-location"], last)
    sys.exit("the run ended before the server was killed")


async def next_event(url: str, seen: Seen) -> None:
    """Wait for the first event that the reader has not seen."""
    path = f"/api{seen.place}/stream?stream_mode=messages-tuple&stream_mode=changes"
    async with (
        httpx.AsyncClient(base_url=url, timeout=60) as http,
        http.stream("GET", path, headers={"Last-Event-ID": seen.last_event_id}) as response,
    ):
        async for line in response.aiter_lines():
            if line.startswith("event: "):
                return
    sys.exit("the reader got nothing more")


if __name__ == "__main__":
    sys.exit(main())
