"""Whether one person who floods the server, or a hundred logins at once, delay the events of another.

A person follows a run whose tokens are the moments at which they were sent. Meanwhile another person keeps many runs
and requests going as fast as the server answers, in a process of their own. Rounds with and without the flood are
interleaved. Then a hundred people log in at the same moment.
"""

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from uuid import uuid4

import httpx
from _measure import ROOT, cpu_seconds, free_port, resident_bytes, spawn, wait_until_healthy
from _table import Row, record
from load import STAMP, clock_model, percentile
from run_overhead import scripted_model

ROUNDS = 4
TOKENS, PAUSE_MS = 60, 50
RUNS_AT_ONCE, REQUESTS_AT_ONCE = 40, 40
LOGINS = 100
MOST_P95_MS = 200.0
MOST_LOGIN_MB = 140.0
SETTLE_S = 1.5
"""Time for a flood to begin."""
PASSWORD = "correct horse battery"
ANN, BOB = "ann@example.com", "bob@example.com"

CONFIG = """
log_level: error
sandbox: {{toolbox: {{enabled: false}}}}
memory: {{debounce_seconds: 3600}}
models:
  - name: clock
    use: deerflow.models.openai_compatible:OpenAICompatibleChatModel
    model: clock
    base_url: {clock}
  - name: fast
    use: deerflow.models.openai_compatible:OpenAICompatibleChatModel
    model: scripted
    base_url: {fast}
"""


def main() -> int:
    """Measure floods and logins; or be the person who floods."""
    if sys.argv[1:2] == ["--flood"]:
        asyncio.run(flood(int(sys.argv[2]), sys.argv[3]))
        return 0
    alone: list[float] = []
    flooded: list[float] = []
    with ExitStack() as stack:
        clock = stack.enter_context(clock_model(TOKENS, PAUSE_MS))
        server, port, (ann, bob) = stack.enter_context(our_server(clock, stack.enter_context(scripted_model(0))))
        asyncio.run(follow(port, ann))  # loads what runs need
        for _ in range(ROUNDS):
            alone.append(percentile(asyncio.run(follow(port, ann)), 95))
            with flooding(port, bob) as counts:
                time.sleep(SETTLE_S)
                began, used, busy = time.monotonic(), cpu_seconds(server.pid), busy_seconds()
                flooded.append(percentile(asyncio.run(follow(port, ann)), 95))
                seconds = time.monotonic() - began
            share = (cpu_seconds(server.pid) - used) / seconds
            others = (busy_seconds() - busy) / seconds - share
            print(
                f"alone {alone[-1]:.1f} ms, during a flood {flooded[-1]:.1f} ms; CPUs of the server {share:.2f}, of "
                f"all others {others:.2f}; {counts()}",
                flush=True,
            )
        delays, more_mb, statuses = asyncio.run(log_in_many(port, ann, server.pid))
    p95, login_p95 = statistics.median(flooded), percentile(delays, 95)
    ratio = statistics.median(b / a for a, b in zip(alone, flooded, strict=True))
    print(
        f"p95 delay of an event: alone {statistics.median(alone):.1f} ms, during a flood of {RUNS_AT_ONCE} runs and "
        f"{REQUESTS_AT_ONCE} requests {p95:.1f} ms ({ratio:.1f} ×)   bar ≤ {MOST_P95_MS:g} ms{miss(p95 > MOST_P95_MS)}"
    )
    print(
        f"{LOGINS} logins at once ({statuses}): p95 {login_p95:.1f} ms   bar ≤ {MOST_P95_MS:g} ms"
        f"{miss(login_p95 > MOST_P95_MS)}; {more_mb:.1f} MB more   bar ≤ {MOST_LOGIN_MB:g} MB"
        f"{miss(more_mb > MOST_LOGIN_MB)}"
    )
    record(
        [
            Row("flood of one person: p95 delay of another", "figure", p95, "ms", bar=MOST_P95_MS),
            Row("flood of one person: p95 delay against alone", "figure", ratio, "×"),
            Row(f"{LOGINS} logins at once: p95 delay of another", "figure", login_p95, "ms", bar=MOST_P95_MS),
            Row(f"{LOGINS} logins at once: memory", "figure", more_mb, "MB", bar=MOST_LOGIN_MB),
        ]
    )
    return int(p95 > MOST_P95_MS or login_p95 > MOST_P95_MS or more_mb > MOST_LOGIN_MB)


def busy_seconds() -> float:
    """Return the seconds for which the processors of this machine were busy. Other programs make events late, too."""
    ticks = [int(each) for each in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")


def miss(is_missed: bool) -> str:
    """Return the end of a line of figures."""
    return "  MISSED" if is_missed else ""


@contextmanager
def our_server(clock: str, fast: str) -> Iterator[tuple[subprocess.Popen[str], int, tuple[str, str]]]:
    """Run a server with two accounts; yield its process, its port and the API tokens of both people."""
    port = free_port()
    program = str(Path(sys.executable).parent / "deerflow")
    with tempfile.TemporaryDirectory() as scratch:
        (Path(scratch) / "config.yaml").write_text(CONFIG.format(clock=clock, fast=fast))
        environment = {"PATH": os.environ["PATH"]}
        for email in (ANN, BOB):
            command = [program, "users", "add", email]
            subprocess.run(command, cwd=scratch, env=environment, input=f"{PASSWORD}\n", text=True, check=True)
        process = spawn([program, "serve", "--port", str(port)], environment, cwd=scratch, stdout=subprocess.DEVNULL)
        try:
            wait_until_healthy(port, process)
            yield process, port, (create_token(port, ANN), create_token(port, BOB))
        finally:
            process.kill()
            process.wait()


def create_token(port: int, email: str) -> str:
    """Log in and return a new API token."""
    url = f"http://127.0.0.1:{port}"
    headers = {"origin": url, "x-csrf-protection": "1"}
    with httpx.Client(base_url=f"{url}/api/v1/auth", headers=headers, timeout=30) as http:
        http.post("/login/local", json={"email": email, "password": PASSWORD}).raise_for_status()
        return str(http.post("/tokens", json={"name": "bench", "scope": "run"}).raise_for_status().json()["token"])


def headers_of(token: str) -> dict[str, str]:
    """Return the headers of requests with a token."""
    return {"authorization": f"Bearer {token}"}


async def follow(port: int, token: str) -> list[float]:
    """Return how many milliseconds late each token of a run was."""
    body = {
        "input": {"messages": [{"type": "human", "content": "What time is it?"}]},
        "context": {"model_name": "clock"},
        "stream_mode": ["messages-tuple"],
    }
    delays: list[float] = []
    rest = b""
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", headers=headers_of(token), timeout=120) as http:
        path = f"/api/langgraph/threads/{uuid4()}/runs/stream"
        async with http.stream("POST", path, json=body) as answer:
            async for piece in answer.aiter_raw():
                now = time.time_ns()
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    delays += [(now - int(stamp)) / 1e6 for stamp in STAMP.findall(line)]
    if len(delays) < TOKENS:
        sys.exit(f"{TOKENS - len(delays)} tokens were lost")
    return delays


@contextmanager
def flooding(port: int, token: str):  # type: ignore[no-untyped-def]  # the type of a context manager of a function
    """Flood the server from another process; yield what tells how much it got done."""
    command = [sys.executable, __file__, "--flood", str(port), token]
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "bench")}
    process = spawn(command, environment, stdout=subprocess.PIPE)
    lines: list[str] = []
    assert process.stdout
    reader = threading.Thread(target=lambda: lines.extend(process.stdout or ()), daemon=True)
    reader.start()
    try:
        yield lambda: lines[-1].strip() if lines else ""
    finally:
        process.terminate()
        process.wait()
        reader.join(5)


async def flood(port: int, token: str) -> None:
    """Keep runs and requests going for ever; print their numbers every second."""
    done = {"runs": 0, "requests": 0, "refused": 0}
    limits = httpx.Limits(max_connections=None)
    url = f"http://127.0.0.1:{port}"
    async with httpx.AsyncClient(base_url=url, headers=headers_of(token), timeout=300, limits=limits) as http:
        body = {
            "input": {"messages": [{"type": "human", "content": "Say something long."}]},
            "context": {"model_name": "fast"},
        }

        async def run_again() -> None:
            while True:
                answer = await http.post(f"/api/langgraph/threads/{uuid4()}/runs/stream", json=body)
                done["runs" if answer.status_code == 200 else "refused"] += 1

        async def ask_again() -> None:
            while True:
                answer = await http.post("/api/threads/search", json={})
                done["requests" if answer.status_code == 200 else "refused"] += 1

        async def tell() -> None:
            while True:
                await asyncio.sleep(1)
                print(json.dumps(done), flush=True)

        runs = [run_again() for _ in range(RUNS_AT_ONCE)]
        await asyncio.gather(tell(), *runs, *(ask_again() for _ in range(REQUESTS_AT_ONCE)))


async def log_in_many(port: int, token: str, pid: int) -> tuple[list[float], float, dict[int, int]]:
    """Return the delays of a run during many logins, the memory that these took, and their status codes."""
    before = resident_bytes(pid)
    following = asyncio.create_task(follow(port, token))
    await asyncio.sleep(TOKENS * PAUSE_MS / 4000)
    peak, statuses = before, dict[int, int]()
    url = f"http://127.0.0.1:{port}"
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=url, headers={"origin": url}, timeout=120, limits=limits) as http:

        async def log_in(email: str) -> None:
            answer = await http.post("/api/v1/auth/login/local", json={"email": email, "password": PASSWORD})
            statuses[answer.status_code] = statuses.get(answer.status_code, 0) + 1

        logins = asyncio.gather(*(log_in(f"p{number}@example.com") for number in range(LOGINS)))
        while not logins.done():
            peak = max(peak, resident_bytes(pid))
            await asyncio.sleep(0.02)
        await logins
    return await following, (peak - before) / 1e6, statuses


if __name__ == "__main__":
    sys.exit(main())
