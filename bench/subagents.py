"""What it takes to have work done by others: side by side, seen at once, cheap, and really stoppable.

A real `deerflow serve`; the model is a scripted server in this process. Floors are measured in the same round: one
direct request to the model for what is a matter of waiting, one plain run for what is a matter of CPU.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import orjson
from _measure import Ratio, cpu_seconds, free_port, report, spawn, wait_until_healthy
from _table import Row

from deerflow.testing import Answer, ScriptedServer, ServerFault, ServerRequest, calling, in_parallel
from deerflow.testing.scripted_server import ServerReply

ROUNDS = 3
TASKS, TASK_S = 3, 2.0
CPU_REPLIES, CPU_TASKS = 3, 4
ITEMS, AT_ONCE, ITEM_S, KILLED_AFTER = 1000, 16, 0.5, 400
FAILING = ITEMS // 20
MOST_SECONDS, MOST_DELAY_MS, MOST_CPU_MS, MOST_BATCH, MOST_STOP_S = 1.2, 50.0, 30.0, 1.10, 1.0
CONFIG = """
log_level: warning
sandbox: {{toolbox: {{enabled: false}}}}
title: {{enabled: false}}
subagents: {{max_concurrent: 16, max_concurrent_per_user: 16}}
memory: {{debounce_seconds: 3600}}
models:
  - name: scripted
    use: deerflow.models.openai_compatible:OpenAICompatibleChatModel
    model: scripted
    base_url: {base_url}
"""


@dataclass
class Script:
    """What the model says: orders of the lead agent by what it is asked, and slow or quick work for subagents."""

    asked: set[str] = field(default_factory=set)
    is_time: asyncio.Event = field(default_factory=asyncio.Event)
    first_after: asyncio.Event = field(default_factory=asyncio.Event)

    def answer(self, request: ServerRequest) -> ServerReply:
        texts = [each["content"] for each in request.messages if each["role"] == "user"]
        if "<subagent_system>" in str(request.messages[0]["content"]):
            wish = next(text for text in texts if text in ORDERS)
            tools = sum(each["role"] == "assistant" for each in request.messages)
            orders = ORDERS[wish]
            return orders[tools] if tools < len(orders) else Answer("Done.")
        return self.work(next(text for text in texts if text.startswith(("Do ", "Item "))), request)

    def work(self, order: str, request: ServerRequest) -> ServerReply:
        if order == "Do nothing for long":
            return calling("bash", description="wait", command="sleep 98765")
        if order == "Do it slowly":
            return slow(TASK_S)
        if order.startswith("Item "):
            self.asked.add(order)
            self.first_after.set()
            if len(self.asked) >= KILLED_AFTER:
                self.is_time.set()
            return ServerFault(400, "not that one") if int(order.split()[1]) % 20 == 0 else slow(ITEM_S)
        return Answer(("Done.",))


def slow(seconds: float) -> Answer:
    """An answer that takes so long: nobody listens to subagents word by word, so it comes as a whole."""
    return Answer("Done.", delay_s=seconds)


def task(prompt: str) -> Answer:
    """An order for a subagent."""
    return calling("task", description="a part", prompt=prompt, subagent_type="general-purpose")


BATCH = calling(
    "task_batch",
    description="items",
    prompt="Item {item}",
    subagent_type="general-purpose",
    items=[str(number) for number in range(ITEMS)],
    concurrency=AT_ONCE,
    retries=0,
)
ORDERS = {
    "plain": [],
    "slow": [in_parallel(*[task("Do it slowly")] * TASKS)],
    "quick": [in_parallel(*[task("Do it quickly")] * CPU_TASKS)] * CPU_REPLIES,
    "stuck": [task("Do nothing for long")],
    "batch": [BATCH],
}


def main() -> int:
    """Measure, and print what came of it."""
    return asyncio.run(measure())


async def measure() -> int:
    """All figures."""
    script = Script()
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch)
        async with ScriptedServer([script.answer], endless=True) as model:
            (home / "config.yaml").write_text(CONFIG.format(base_url=model.base_url))
            async with server(home) as (process, http):
                await run(http, "plain")  # everything is loaded from here on
                await run(http, "quick")
                rounds = [await one_round(http, process.pid, model) for _ in range(ROUNDS)]
            batch, restart = await batch_with_a_kill(home, script)
            latency = median([await direct(model, "Item 1", ITEM_S) for _ in range(5)])
            least = (ITEMS - FAILING) / AT_ONCE * latency
    walls, floors, delays, tasks_ms, plain_ms, stops = zip(*rounds, strict=True)
    bars = [
        ("delay from a subagent's event to its reader, median", "ms", median(delays), MOST_DELAY_MS),
        ("CPU of one subagent", "ms", median(tasks_ms), MOST_CPU_MS),
        ("from stop to the end of a subagent's command, worst", "s", max(stops), MOST_STOP_S),
    ]
    missed = report(
        [
            Ratio(f"{TASKS} tasks of {TASK_S:g} s side by side", walls, floors, MOST_SECONDS, "s"),
            Ratio("CPU of one subagent, against a plain run", tasks_ms, plain_ms, None, "ms", is_compared=False),
            Ratio(
                f"batch of {ITEMS}, kill -9, 5 % failing",
                [batch],
                [least],
                MOST_BATCH,
                "s",
            ),
        ],
        [Row(name, "figure", value, unit, bar=bar) for name, unit, value, bar in bars],
    )
    print(f"the restart after kill -9, which is not part of the batch's time, took {restart:.2f} s")
    for name, unit, value, bar in bars:
        print(f"{f'{name}, {unit}':60} {value:8.2f} ≤ {bar:g}{'' if value <= bar else '  MISSED'}")
    return int(missed or any(value > bar for _, _, value, bar in bars))


async def one_round(
    http: httpx.AsyncClient, pid: int, model: ScriptedServer
) -> tuple[float, float, float, float, float, float]:
    """Seconds of slow tasks and of their floor, delay, CPU of a subagent and of a plain run, seconds to stop."""
    wall, delay = await run(http, "slow")
    floor = await direct(model, "Do it slowly", TASK_S)
    plain = await cpu_ms(http, pid, "plain", 6)
    quick = await cpu_ms(http, pid, "quick", 2)
    # What the lead agent does besides is as much as a plain run for each of its replies.
    each = (quick - (CPU_REPLIES + 1) * plain) / (CPU_REPLIES * CPU_TASKS)
    return wall, floor, delay, each, plain, await stop_s(http)


async def run(http: httpx.AsyncClient, wish: str) -> tuple[float, float]:
    """Seconds until the run is over, and the median delay in ms of what subagents tell."""
    thread, heard = f"{wish}-{time.monotonic_ns()}", dict[int, float]()
    began = time.monotonic()
    async with http.stream("POST", f"/api/threads/{thread}/runs/stream", json=body(wish, ["custom"])) as response:
        place = response.headers["content-location"]
        async for line in response.aiter_lines():
            if line.startswith("id: "):
                heard[int(line[4:])] = time.time()
    seconds = time.monotonic() - began
    events = (await http.get(f"/api{place}/events", params={"limit": 1000, "event_types": "custom"})).json()["data"]
    delays = [
        1000 * (heard[each["seq"]] - datetime.fromisoformat(each["created_at"]).timestamp())
        for each in events
        if each["seq"] in heard and str(each["data"].get("type")).startswith("task_")
    ]
    return seconds, median(delays or [0.0])


def body(wish: str, modes: list[str]) -> dict[str, Any]:
    """A request for a run."""
    return {
        "input": {"messages": [{"type": "human", "content": wish}]},
        "context": {"subagent_enabled": True, "max_concurrent_subagents": 4},
        "stream_mode": modes,
        "on_disconnect": "continue",
    }


async def direct(model: ScriptedServer, order: str, seconds: float) -> float:
    """Seconds of the same work asked of the model directly."""
    asked = {"model": "scripted", "messages": [{"role": "user", "content": order}]}
    began = time.monotonic()
    async with httpx.AsyncClient(timeout=10 * seconds + 10) as http:
        await http.post(f"{model.base_url}/chat/completions", json=asked)
    return time.monotonic() - began


async def cpu_ms(http: httpx.AsyncClient, pid: int, wish: str, times: int) -> float:
    """CPU of the server for one run, in ms."""
    before = cpu_seconds(pid)
    for _ in range(times):
        await run(http, wish)
    return 1000 * (cpu_seconds(pid) - before) / times


async def stop_s(http: httpx.AsyncClient) -> float:
    """Seconds from the request to stop until the command of a subagent is gone."""
    thread = f"stuck-{time.monotonic_ns()}"
    started = (await http.post(f"/api/threads/{thread}/runs", json=body("stuck", ["custom"]))).json()
    await asyncio.to_thread(wait_for_sleepers, is_there=True)
    began = time.monotonic()
    await http.post(f"/api/threads/{thread}/runs/{started['run_id']}/cancel")
    await asyncio.to_thread(wait_for_sleepers, is_there=False)
    return time.monotonic() - began


def wait_for_sleepers(*, is_there: bool) -> None:
    """Return when the command of the subagent is there, or gone."""
    deadline = time.monotonic() + 30
    while bool(sleepers()) != is_there:
        if time.monotonic() > deadline:
            sys.exit("the command of the subagent did not " + ("begin" if is_there else "end"))
        time.sleep(0.005)


def sleepers() -> list[str]:
    """The processes of the command that a subagent runs."""
    found = []
    for each in Path("/proc").iterdir():
        try:
            if each.name.isdigit() and b"sleep\x0098765" in (each / "cmdline").read_bytes():
                found.append(each.name)
        except OSError:
            continue
    return found


async def batch_with_a_kill(home: Path, script: Script) -> tuple[float, float]:
    """Seconds of a batch in whose middle the server was killed, and of the restart, which are not among them."""
    thread = "batch"
    async with server(home) as (process, http):
        await run(http, "plain")
        began = time.monotonic()
        started = (await http.post(f"/api/threads/{thread}/runs", json=body("batch", ["custom"]))).json()
        await script.is_time.wait()
        process.kill()
        killed = time.monotonic()
        script.first_after.clear()
    async with server(home) as (_, http):
        await script.first_after.wait()
        restart = time.monotonic() - killed
        await http.get(f"/api/threads/{thread}/runs/{started['run_id']}/join")
        seconds = time.monotonic() - began - restart
        state = (await http.get(f"/api/threads/{thread}/state")).json()["values"]
        lines = (await http.get(f"/api/threads/{thread}/artifacts{state['artifacts'][0]}")).text.splitlines()
    outcomes = [(each["index"], each["status"]) for each in map(orjson.loads, lines)]
    wanted = [(number, "failed" if number % 20 == 0 else "completed") for number in range(ITEMS)]
    if outcomes != wanted:
        sys.exit("some items of the batch have no outcome, or not theirs")
    return seconds, restart


@asynccontextmanager
async def server(home: Path) -> AsyncIterator[tuple[subprocess.Popen[str], httpx.AsyncClient]]:
    """`deerflow serve`, once it is healthy, and a client of it."""
    port = free_port()
    command = [str(Path(sys.executable).parent / "deerflow"), "serve", "--port", str(port)]
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "DEER_FLOW_HOME": str(home)}
    with (home / "server.log").open("a") as log:
        process = spawn(command, environment, cwd=home, stdout=log, stderr=log)
        try:
            await asyncio.to_thread(wait_until_healthy, port, process)
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=300) as http:
                yield process, http
        finally:
            process.terminate()
            process.wait()


if __name__ == "__main__":
    sys.exit(main())
