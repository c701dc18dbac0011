"""What a chat app costs a server: one that is idle, and a file of 20 MB that is received and sent.

python bench/channels.py [--rounds 3] [--idle 30]

Two servers are compared in each round, one of them with Telegram, for which a fake server stands in. Both answer one
message over HTTP first, because the libraries of a chat app are also those of model clients.
"""

import argparse
import asyncio
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from _measure import cpu_seconds, free_port, resident_bytes, spawn, wait_until_healthy
from _table import Row, record

from deerflow.testing import ScriptedServer, calling
from deerflow.testing.channels.telegram import TOKEN, FakeTelegram
from deerflow.testing.scripted_server import ServerTurn

OWNER = 7
MAX_IDLE_MB, MAX_IDLE_CPU_S, MAX_FILE_MB = 5.0, 0.1, 32.0
FILE_BYTES = 20 * 10**6
WAIT_S = 120
COPY = "cp /mnt/user-data/uploads/data.bin /mnt/user-data/outputs/copy.bin"
OFF = {"enabled": False}


def main() -> int:
    """Measure, print and compare with the bars; return 1 if one is missed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--idle", type=float, default=30.0)
    options = parser.parse_args()
    rows = asyncio.run(measure(options.rounds, options.idle))
    record(rows)
    for row in rows:
        missed = "  MISSED" if row.bar is not None and row.value > row.bar else ""
        print(f"{row.name:60} {row.value:8.2f} {row.unit:3} bar ≤ {row.bar}{missed}")
    return int(any(row.bar is not None and row.value > row.bar for row in rows))


async def measure(rounds: int, idle_s: float) -> list[Row]:
    """Return the medians of all rounds."""
    idle = [await measure_idle(idle_s) for _ in range(rounds)]
    files = [await measure_file() for _ in range(rounds)]
    return [
        figure("memory of an idle chat app", [megabytes for megabytes, _ in idle], "MB", MAX_IDLE_MB),
        figure(f"CPU of a chat app, start and {idle_s:g} s idle", [cpu for _, cpu in idle], "s", MAX_IDLE_CPU_S),
        figure("memory for a file of 20 MB, received and sent", files, "MB", MAX_FILE_MB),
    ]


def figure(name: str, values: list[float], unit: str, bar: float) -> Row:
    """Return the median as a row."""
    return Row(name, "figure", statistics.median(values), unit, bar=bar)


async def measure_idle(idle_s: float) -> tuple[float, float]:
    """Return what a server with a chat app needs more than one without: megabytes and CPU seconds."""
    async with (
        ScriptedServer(["Hello"], endless=True) as model,
        FakeTelegram() as telegram,
        serve(model, None) as without,
        serve(model, telegram) as with_app,
    ):
        servers = [without, with_app]
        await wait(lambda: telegram.polls > 0, telegram)
        for server in servers:
            await ask(server)
        await asyncio.sleep(idle_s)
        memory = [resident_bytes(server.process.pid) / 1e6 for server in servers]
        cpu = [cpu_seconds(server.process.pid) for server in servers]
    return memory[1] - memory[0], cpu[1] - cpu[0]


async def measure_file() -> float:
    """Return how many megabytes the peak of memory grows while a file is received and sent."""
    turns: list[ServerTurn] = [
        calling("bash", description="copy", command=COPY),
        calling("present_files", filepaths=["/mnt/user-data/outputs/copy.bin"]),
        "Done",
    ]
    async with ScriptedServer(turns * 2) as model, FakeTelegram() as telegram, serve(model, telegram) as server:
        await copy_file(telegram, b"small", 1)
        before = resident_bytes(server.process.pid)
        forget_peak(server.process.pid)
        telegram.write("/new")
        await wait(lambda: len(telegram.in_chat(OWNER)) > 2, telegram)
        await copy_file(telegram, hashlib.sha256(b"seed").digest() * (FILE_BYTES // 32), 2)
        return (peak_bytes(server.process.pid) - before) / 1e6


async def copy_file(telegram: FakeTelegram, content: bytes, count: int) -> None:
    """Send a file, and compare the one that comes back."""
    telegram.write("Copy it", document=("data.bin", content))
    await wait(lambda: sum(message.file is not None for message in telegram.in_chat(OWNER)) == count, telegram)
    *_, sent = [message for message in telegram.in_chat(OWNER) if message.file is not None]
    if sent.file != content:
        sys.exit("the file has come back differently")


def forget_peak(pid: int) -> None:
    """Let the peak of a process begin again from what it has in use now."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def peak_bytes(pid: int) -> int:
    """Return the most memory that a process has had in use."""
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(fields["VmHWM"].split()[0]) * 1024


class Server:
    """A server in a process of its own."""

    def __init__(self, process: "subprocess.Popen[str]", url: str) -> None:
        self.process = process
        self.url = url


@asynccontextmanager
async def serve(model: ScriptedServer, telegram: FakeTelegram | None) -> AsyncIterator[Server]:
    """Start a server, with Telegram if it is given."""
    entry = model.model_config().model_dump(mode="json", exclude_unset=True)
    config: dict[str, Any] = {"models": [entry], "memory": OFF, "title": OFF, "suggestions": OFF}
    if telegram is not None:
        app = {"bot_token": TOKEN, "base_url": telegram.base_url, "allowed_users": [OWNER]}
        config["channels"] = {"telegram": app}
    with tempfile.TemporaryDirectory() as home:
        path = Path(home) / "config.yaml"
        path.write_text(json.dumps(config))
        port = free_port()
        program = str(Path(sys.executable).parent / "deerflow")
        environment = {"PATH": os.environ["PATH"], "DEER_FLOW_HOME": str(Path(home) / "state")}
        command = [program, "serve", "--port", str(port), "--config", str(path)]
        process = spawn(command, environment, cwd=home, stdout=-3, stderr=-3)
        try:
            await asyncio.to_thread(wait_until_healthy, port, process)
            yield Server(process, f"http://127.0.0.1:{port}")
        finally:
            process.terminate()
            process.wait()


async def ask(server: Server) -> None:
    """Have one message answered."""
    body = {"input": {"messages": [{"role": "user", "content": "Hello"}]}}
    async with httpx.AsyncClient(base_url=server.url, timeout=WAIT_S) as http:
        (await http.post("/api/threads/t/runs/wait", json=body)).raise_for_status()


async def wait(is_true: Any, telegram: FakeTelegram) -> None:
    """Wait until something is true of the fake server."""
    async with asyncio.timeout(WAIT_S):
        await telegram.wait_until(is_true)


if __name__ == "__main__":
    sys.exit(main())
