"""What it costs to isolate a command, and whether the server still answers while commands run.

The floor is the same command as a plain subprocess of the same event loop, one by one in turn with ours. Then a run
makes eight calls of `bash` at once while another process keeps asking `/health`.
"""

import asyncio
import http.client
import multiprocessing
import statistics
import sys
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path

import uvicorn
from _measure import free_port
from _table import Row, record

from deerflow.config.sections.sandbox import SandboxConfig, ToolboxConfig
from deerflow.config.source import open_source
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import RunRequest
from deerflow.gateway.app import create_app
from deerflow.harness import open_harness
from deerflow.runtime import RunManager
from deerflow.sandbox.local import LocalSandboxProvider
from deerflow.sandbox.sandbox_provider import HostContext
from deerflow.testing import ScriptedModel, calling, in_parallel

COMMAND = "echo hello"
ROUNDS = 100
MOST_MS = 20.0
BUSY = "for i in $(seq 20); do echo line $i; sleep 0.05; done"
AT_ONCE = 8
MOST_HEALTH_MS = 50.0


def main() -> int:
    """Measure both."""
    with tempfile.TemporaryDirectory() as scratch:
        ours, plain = asyncio.run(compare(Path(scratch)))
    extra = statistics.median(a - b for a, b in zip(ours, plain, strict=True))
    print(
        f"{'median command':32} ours {statistics.median(ours):6.1f} ms   plain {statistics.median(plain):6.1f} ms   "
        f"extra {extra:6.1f} ms   bar ≤ {MOST_MS:g} ms{verdict(extra <= MOST_MS)}"
    )
    with tempfile.TemporaryDirectory() as scratch:
        delays = asyncio.run(ask_meanwhile(Path(scratch)))
    worst, median = max(delays), statistics.median(delays)
    print(
        f"{f'/health while {AT_ONCE} commands run':32} worst {worst:5.1f} ms   median {median:5.1f} ms   "
        f"of {len(delays)}   bar ≤ {MOST_HEALTH_MS:g} ms{verdict(worst <= MOST_HEALTH_MS)}"
    )
    record(
        [
            Row("median command, longer than a plain one", "figure", extra, "ms", bar=MOST_MS),
            Row(f"/health while {AT_ONCE} commands run, worst", "figure", worst, "ms", bar=MOST_HEALTH_MS),
        ]
    )
    return int(extra > MOST_MS or worst > MOST_HEALTH_MS)


def verdict(is_met: bool) -> str:
    """What is printed behind a bar."""
    return "" if is_met else "  MISSED"


async def compare(scratch: Path) -> tuple[list[float], list[float]]:
    """Milliseconds per command, isolated and plain, by turns."""
    config = SandboxConfig(toolbox=ToolboxConfig(enabled=False))
    provider = LocalSandboxProvider(config, HostContext(scratch, scratch / "cache"))
    report = await provider.open()
    if report.tier != "isolated":
        sys.exit(f"commands cannot be isolated here: {report.problem}")
    sandbox = await provider.get(await provider.acquire("bench", "local"))
    assert sandbox is not None
    ours, plain = [], []
    for number in range(ROUNDS + 5):
        began = time.perf_counter()
        result = await sandbox.execute_command(COMMAND)
        isolated = time.perf_counter()
        process = await asyncio.create_subprocess_exec("/bin/bash", "-c", COMMAND, stdout=asyncio.subprocess.PIPE)
        output, _ = await process.communicate()
        ended = time.perf_counter()
        assert result.output.encode() == output
        if number >= 5:  # the first ones warm up
            ours.append((isolated - began) * 1000)
            plain.append((ended - isolated) * 1000)
    await provider.aclose()
    return ours, plain


async def ask_meanwhile(scratch: Path) -> list[float]:
    """How long `/health` took, in milliseconds, while commands ran."""
    source = open_source(
        overrides={"log_level": "error"}, environment={"DEER_FLOW_HOME": str(scratch)}, directory=scratch
    )
    calls = in_parallel(*(calling("bash", description="work", command=BUSY) for _ in range(AT_ONCE)))
    model = ScriptedModel.saying("Ready.", calls, "Done.")
    port = free_port()
    async with open_harness(source, model) as harness:
        options = uvicorn.Config(create_app(harness), port=port, log_config=None, lifespan="off")
        server = uvicorn.Server(options)
        serving = asyncio.create_task(server.serve())
        await run(harness.runs, "Get ready")
        ours, theirs = multiprocessing.get_context("spawn").Pipe()
        asking = multiprocessing.get_context("spawn").Process(target=keep_asking, args=(theirs, port))
        asking.start()
        await asyncio.to_thread(ours.recv)  # it has begun
        await run(harness.runs, "Work")
        ours.send("enough")
        delays: list[float] = await asyncio.to_thread(ours.recv)
        asking.join()
        server.should_exit = True
        await serving
    return delays


async def run(runs: RunManager, text: str) -> None:
    """One run to its end."""
    request = RunRequest("bench", [{"type": "human", "content": text}])
    record = await runs.create_or_reject(request, LOCAL_USER)
    async for _ in runs.listen(record):
        pass


def keep_asking(connection: Connection, port: int) -> None:
    """Ask for health again and again until told that it is enough."""
    http_connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    delays: list[float] = []
    connection.send("begun")
    while not connection.poll(0.005):
        began = time.perf_counter()
        http_connection.request("GET", "/health")
        http_connection.getresponse().read()
        delays.append((time.perf_counter() - began) * 1000)
    connection.send(delays)


if __name__ == "__main__":
    sys.exit(main())
