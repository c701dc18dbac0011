"""Memory of a server after 500 runs, and its growth in the second half of many more.

A scripted model answers at once, calls one tool first, or calls two, in turn. Runs go over HTTP and SQLite, five at a
time, ten in each thread. `--runs N` sets their number.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from uuid import uuid4

from _measure import ROOT, free_port, line_through, resident_bytes, wait_until_healthy
from _table import Row, record
from run_overhead import running

RUNS = 2000
EARLY = 500
"""Runs after which the memory is compared with a limit."""
MOST_MB = 150.0
LONG = 10_000
"""Runs after which a server must not grow any more."""
NO_GROWTH_KB = 100.0
"""Growth per 1,000 runs in the second half of a long soak that counts as none: Python takes 1 MB at once."""
MOST_GROWTH_KB = 500.0
"""The same in a shorter soak, in which caches still fill up to their limits."""
PER_THREAD = 10
AT_ONCE = 5
BATCH = AT_ONCE * PER_THREAD
"""Runs between two measurements."""
RUN_LIMIT_S = 60
QUESTIONS = ("Say something.", "Please write a file.", "Please write a file, then read it.")

CONFIG = """
log_level: warning
sandbox: {{toolbox: {{enabled: false}}}}
memory: {{debounce_seconds: 3600}}
models:
  - name: scripted
    use: deerflow.models.openai_compatible:OpenAICompatibleChatModel
    model: scripted
    base_url: {base_url}
"""


def main() -> int:
    """Make the runs, and report the memory and its growth."""
    parser = argparse.ArgumentParser(prog="bench/soak.py", description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS, help=f"number of runs, at least {RUNS}")
    runs = max(RUNS, parser.parse_args().runs)
    began = time.monotonic()
    samples = measure(runs)
    early = [megabytes for count, megabytes in samples if count <= EARLY][-1]
    later = [(count, megabytes) for count, megabytes in samples if count >= runs / 2]
    growth = line_through(*zip(*later, strict=True))[1] * 1000 * 1000  # from MB per run
    bar = NO_GROWTH_KB if runs >= LONG else MOST_GROWTH_KB
    is_missed = early > MOST_MB or growth > bar
    print(
        f"{samples[0][1]:.1f} MB at start, {early:.1f} MB after {EARLY} runs (bar ≤ {MOST_MB:g}), "
        f"{samples[-1][1]:.1f} MB after {runs}; growth in the second half "
        f"{growth:.0f} kB per 1,000 runs (bar ≤ {bar:g}), "
        f"{time.monotonic() - began:.0f} s{'  MISSED' if is_missed else ''}"
    )
    record(
        [
            Row(f"resident memory after {EARLY} runs", "figure", early, "MB", bar=MOST_MB),
            Row("growth per 1,000 runs in the second half", "figure", growth, "kB", bar=bar),
        ]
    )
    return int(is_missed)


def measure(runs: int) -> list[tuple[int, float]]:
    """Make runs; return the resident megabytes after some of them, the first at the start."""
    with ExitStack() as stack:
        server, port = stack.enter_context(our_server(stack.enter_context(mixed_model())))
        samples = [(0, resident_bytes(server.pid) / 1e6)]
        for done in range(BATCH, runs + 1, BATCH):
            asyncio.run(make_runs(port))
            samples.append((done, resident_bytes(server.pid) / 1e6))
            if done % EARLY == 0:
                print(f"{done} runs: {samples[-1][1]:.1f} MB", flush=True)
    return samples


async def make_runs(port: int) -> None:
    """Make a batch of runs in new threads."""
    await asyncio.gather(*(make_thread(port, number) for number in range(AT_ONCE)))


async def make_thread(port: int, number: int) -> None:
    """Make the runs of a thread, one after the other."""
    thread = str(uuid4())
    for turn in range(PER_THREAD):
        async with asyncio.timeout(RUN_LIMIT_S):
            await make_run(port, thread, QUESTIONS[(number + turn) % len(QUESTIONS)])


async def make_run(port: int, thread: str, question: str) -> None:
    """Make a run, and read its stream to the end."""
    body = {
        "input": {"messages": [{"type": "human", "content": question}]},
        "stream_mode": ["messages-tuple", "values"],
    }
    content = json.dumps(body).encode()
    head = (
        f"POST /api/langgraph/threads/{thread}/runs/stream HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n"
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"{head}Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n".encode() + content)
    answer = await reader.read()
    writer.close()
    if b"event: error" in answer or b"event: end" not in answer or b"word0" not in answer:
        sys.exit(f"the run did not end well: {answer[-500:].decode()}")


@contextmanager
def mixed_model() -> Iterator[str]:
    """Serve the model; its address."""
    with running([sys.executable, str(ROOT / "bench/floor/mixed_model.py")], stdout=subprocess.PIPE) as process:
        assert process.stdout
        yield process.stdout.readline().strip()


@contextmanager
def our_server(base_url: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Run `deerflow serve` with the model; the process and its port."""
    port = free_port()
    with tempfile.TemporaryDirectory() as scratch:
        (Path(scratch) / "config.yaml").write_text(CONFIG.format(base_url=base_url))
        command = [str(Path(sys.executable).parent / "deerflow"), "serve", "--port", str(port)]
        with running(command, cwd=scratch, stdout=subprocess.DEVNULL) as process:
            wait_until_healthy(port, process)
            yield process, port


if __name__ == "__main__":
    sys.exit(main())
