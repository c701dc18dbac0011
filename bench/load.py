"""Many runs with many readers: how late events arrive, whether any is lost, and what idle readers cost.

Fifty runs are spoken to by a model at 20 tokens a second, four readers each. Every token is the moment it was sent, so
that each reader can tell how late it is. Then five hundred readers wait for a run that says nothing.
"""

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from _measure import ROOT, free_port, resident_bytes, spawn, wait_until_healthy
from _table import Row, record

RUNS = 50
READERS = 4
TOKENS = 200
PAUSE_MS = 50
MOST_P95_MS = 150.0
IDLE = 500
MOST_IDLE_MB = 15.0
STAMP = re.compile(rb"\d{19}")

CONFIG = """
log_level: warning
sandbox: {{toolbox: {{enabled: false}}}}
memory: {{debounce_seconds: 3600}}
models:
  - name: clock
    use: deerflow.models.openai_compatible:OpenAICompatibleChatModel
    model: clock
    base_url: {base_url}
"""


def main() -> int:
    """Measure both."""
    with clock_model(TOKENS, PAUSE_MS) as base_url, our_server(base_url) as (_, port):
        delays, lost = asyncio.run(follow_many(port))
    p95 = percentile(delays, 95)
    is_late = p95 > MOST_P95_MS or lost > 0
    print(
        f"{RUNS} runs, {RUNS * READERS} readers: {len(delays)} tokens, median {percentile(delays, 50):.1f} ms late, "
        f"p95 {p95:.1f} ms, p99 {percentile(delays, 99):.1f} ms, lost {lost}   bar p95 ≤ {MOST_P95_MS:g} ms, 0 lost"
        f"{'  MISSED' if is_late else ''}"
    )
    with clock_model(1, 3_600_000) as base_url, our_server(base_url) as (server, port):
        megabytes = asyncio.run(wait_idle(server.pid, port))
    is_fat = megabytes > MOST_IDLE_MB
    print(f"{IDLE} idle readers: {megabytes:.1f} MB more   bar ≤ {MOST_IDLE_MB:g} MB{'  MISSED' if is_fat else ''}")
    readers = f"{RUNS} runs, {RUNS * READERS} readers"
    record(
        [
            Row(f"{readers}: delay of a token, median", "figure", percentile(delays, 50), "ms"),
            Row(f"{readers}: delay of a token, p95", "figure", p95, "ms", bar=MOST_P95_MS),
            Row(f"{readers}: tokens lost", "count", lost, bar=0),
            Row(f"{IDLE} idle readers", "figure", megabytes, "MB", bar=MOST_IDLE_MB),
        ]
    )
    return int(is_late or is_fat)


def percentile(values: list[float], percent: int) -> float:
    """The value that so many percent do not exceed."""
    return sorted(values)[min(len(values) - 1, len(values) * percent // 100)]


async def follow_many(port: int) -> tuple[list[float], int]:
    """How late every token was for every reader, in milliseconds, and how many never came."""
    places = await asyncio.gather(*(start(port) for _ in range(RUNS)))
    readers = [follow(port, place) for place in places for _ in range(READERS)]
    late = [delay for delays in await asyncio.gather(*readers) for delay in delays]
    return late, RUNS * READERS * TOKENS - len(late)


async def start(port: int) -> str:
    """Begin a run in a thread of its own; where it is."""
    body = {"input": {"messages": [{"type": "human", "content": "What time is it?"}]}, "on_disconnect": "continue"}
    head, reader, writer = await request(port, "POST", f"/api/threads/{uuid4()}/runs", json.dumps(body).encode())
    writer.close()
    found = re.search(r"(?i)content-location: (\S+)", head)
    assert found, head
    return found[1]


async def follow(port: int, place: str) -> list[float]:
    """How late each token of a run was."""
    path = f"/api{place}/stream?stream_mode=messages-tuple"
    _, reader, writer = await request(port, "GET", path)
    delays: list[float] = []
    rest = b""
    while chunk := await reader.read(65536):
        now = time.time_ns()
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            delays += [(now - int(stamp)) / 1e6 for stamp in STAMP.findall(line)]
        if any(line == b"event: end" for line in lines):
            break
    writer.close()
    return delays


async def wait_idle(pid: int, port: int, readers: int = IDLE) -> float:
    """How many megabytes so many readers cost who wait for a silent run."""
    place = await start(port)
    # Whatever the run and the first readers need is not counted: its first state tells that the run has loaded all.
    opened = [await listen(port, place, b"event: values") for _ in range(10)]
    before = resident_bytes(pid)
    opened += [await listen(port, place) for _ in range(readers)]
    after = resident_bytes(pid)
    for writer in opened:
        writer.close()
    return (after - before) / 1e6


async def listen(port: int, place: str, until: bytes = b"event: metadata") -> asyncio.StreamWriter:
    """A reader that has had its first event, or a later one."""
    _, reader, writer = await request(port, "GET", f"/api{place}/stream")
    await reader.readuntil(until)
    return writer


async def request(
    port: int, method: str, path: str, body: bytes = b"", statuses: Sequence[str] = ("200",)
) -> tuple[str, asyncio.StreamReader, asyncio.StreamWriter]:
    """The head of an answer, and the connection behind it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    kind = "Content-Type: application/json\r\n" if body else ""
    head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{kind}Content-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    await writer.drain()
    answer = (await reader.readuntil(b"\r\n\r\n")).decode()
    if answer.split()[1] not in statuses:
        sys.exit(f"{method} {path}: {answer}")
    return answer, reader, writer


@contextmanager
def clock_model(tokens: int, pause_ms: int) -> Iterator[str]:
    """A model whose tokens are the moments they were sent; its address."""
    command = [sys.executable, str(ROOT / "bench/floor/clock_model.py"), str(tokens), str(pause_ms)]
    with running(command, stdout=subprocess.PIPE) as process:
        assert process.stdout
        yield process.stdout.readline().strip()


@contextmanager
def our_server(base_url: str, directory: Path | None = None) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """`deerflow serve` with that model, in an empty directory or in a given one."""
    port = free_port()
    with tempfile.TemporaryDirectory() as empty:
        scratch = directory or Path(empty)
        (scratch / "config.yaml").write_text(CONFIG.format(base_url=base_url))
        command = [str(Path(sys.executable).parent / "deerflow"), "serve", "--port", str(port)]
        with running(command, cwd=scratch, stdout=subprocess.DEVNULL) as process:
            wait_until_healthy(port, process)
            yield process, port


@contextmanager
def running(command: list[str], **options: object) -> Iterator[subprocess.Popen[str]]:
    """A process for as long as it is needed."""
    process = spawn(command, {"PATH": os.environ["PATH"], "PYTHONPATH": os.environ.get("PYTHONPATH", "")}, **options)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    sys.exit(main())
