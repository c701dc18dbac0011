"""What one streamed answer costs end to end over HTTP and SQLite, against a bare in-process agent.

The floor is `create_agent` + `ChatOpenAI` + an in-memory saver without any server. The model is a scripted server in a
process of its own. Rounds of all contestants are interleaved, so that a noisy machine is noisy for all of them.
"""

import http.client
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from uuid import uuid4

from _measure import ROOT, Ratio, free_port, report, spawn, tree_cpu_seconds, wait_until_healthy

Call = tuple[str, dict[str, str]]
TOKENS = 200
ROUNDS = 6
RUNS = {0: 12, 1: 6, 5: 3}
"""Runs per round at each pace (milliseconds between tokens)."""
TOOL_RUNS = 6
COUNTED_RUNS = 5


def write(number: int) -> Call:
    """A call that writes a small file."""
    path = f"/mnt/user-data/workspace/n{number}.txt"
    return "write_file", {"description": "note", "path": path, "content": "A line of text.\n" * 60}


READ: Call = "read_file", {"description": "look", "path": "/mnt/user-data/workspace/given.txt"}
RUN: Call = "bash", {"description": "do", "command": "true"}
WORKLOADS: dict[str, tuple[list[Call], float]] = {
    "5 calls that do nothing": ([("ping", {"text": str(number)}) for number in range(5)], 0.8),
    "5 write_file": ([write(number) for number in range(5)], 0.8),
    "5 read_file": ([READ] * 5, 0.8),
    "5 bash": ([RUN] * 5, 1.3),
    "a mix of 5": ([write(1), READ, RUN, write(2), READ], 1.0),
}
"""Calls of a run before its answer, and the most it may cost against its floor."""

CONFIG = """
log_level: warning
sandbox: {{toolbox: {{enabled: false}}}}
tools: [{{name: ping, group: bench, use: "agent:ping"}}]
memory: {{debounce_seconds: 3600}}
models:
  - name: lean
    use: deerflow.models.openai_compatible:OpenAICompatibleChatModel
    model: scripted
    base_url: {base_url}
  - name: openai
    use: langchain_openai:ChatOpenAI
    model: scripted
    base_url: {base_url}
    api_key: none
"""


def main() -> int:
    """Measure at every pace."""
    ratios = [ratio for delay in RUNS for ratio in measure(delay)]
    tools = [ratio for workload in WORKLOADS for ratio in measure_tools(workload)]
    return report([*ratios, *tools])


def measure_tools(workload: str) -> list[Ratio]:
    """The cost of a run that calls tools before it answers, against plain functions that do the same work."""
    figures: dict[str, list[float]] = {"floor": [], "lean": []}
    calls, bar = WORKLOADS[workload]
    with ExitStack() as stack:
        base_url = stack.enter_context(scripted_model(0, calls))
        floor = stack.enter_context(bare_agent(base_url))
        server, port, home = stack.enter_context(our_server(base_url))
        for number in range(ROUNDS + 1):
            for name, seconds in {
                "floor": run_floor(floor, TOOL_RUNS),
                "lean": run_ours(server, port, "lean", TOOL_RUNS, home),
            }.items():
                if number:  # the first round warms up
                    figures[name].append(seconds * 1000 / TOOL_RUNS)
        print(f"{workload}: {count_costs(base_url)}", flush=True)
    return [Ratio(f"CPU per run, our client, {workload}", figures["lean"], figures["floor"], bar, "ms")]


def count_costs(base_url: str) -> str:
    """What a run costs besides CPU; the difference between a few runs and more leaves out the start."""
    few, many = (count_once(base_url, runs) for runs in (COUNTED_RUNS, 3 * COUNTED_RUNS))
    per_run = {name: (many[name] - few[name]) / (2 * COUNTED_RUNS) for name in many}
    return "per run " + ", ".join(f"{value:.1f} {name}" for name, value in per_run.items())


def count_once(base_url: str, runs: int) -> dict[str, float]:
    """The counts of so many runs in a process of their own."""
    command = [sys.executable, str(ROOT / "bench/floor/counted.py"), base_url, str(runs)]
    with tempfile.NamedTemporaryFile() as log:
        traced = shutil.which("strace") is not None
        trace = ["strace", "-f", "-e", "trace=fsync,fdatasync", "-o", log.name] if traced else []
        with running([*trace, *command], stdout=subprocess.PIPE) as process:
            counts: dict[str, float] = json.loads(process.communicate(timeout=120)[0])
        if traced:
            counts["fsyncs"] = Path(log.name).read_text().count("sync(")
    return counts


def measure(delay_ms: int) -> list[Ratio]:
    """The cost of a run with a token every `delay_ms`."""
    figures: dict[str, list[float]] = {"floor": [], "lean": [], "openai": []}
    with ExitStack() as stack:
        base_url = stack.enter_context(scripted_model(delay_ms))
        floor = stack.enter_context(bare_agent(base_url))
        server, port, home = stack.enter_context(our_server(base_url))
        for number in range(ROUNDS + 1):
            round_of = {
                "floor": lambda: run_floor(floor, RUNS[delay_ms]),
                "lean": lambda: run_ours(server, port, "lean", RUNS[delay_ms], home),
                "openai": lambda: run_ours(server, port, "openai", RUNS[delay_ms], home),
            }
            for name, run in round_of.items():
                milliseconds = run() * 1000 / RUNS[delay_ms]
                if number:  # the first round warms up
                    figures[name].append(milliseconds)
    pace = f"{TOKENS} tokens, {delay_ms} ms apart"
    return [
        Ratio(f"CPU per run, our client, {pace}", figures["lean"], figures["floor"], 0.8, "ms"),
        Ratio(f"CPU per run, ChatOpenAI, {pace}", figures["openai"], figures["floor"], 1.6, "ms"),
    ]


def run_floor(floor: subprocess.Popen[str], runs: int) -> float:
    """CPU seconds of `runs` runs of the bare agent."""
    assert floor.stdin and floor.stdout
    floor.stdin.write(f"{runs}\n")
    floor.stdin.flush()
    return float(floor.stdout.readline())


def run_ours(server: subprocess.Popen[str], port: int, model: str, runs: int, home: Path) -> float:
    """CPU seconds our server and its processes take for `runs` runs, each read to its end."""
    before = tree_cpu_seconds(server.pid)
    for _ in range(runs):
        follow(port, model, home)
    return tree_cpu_seconds(server.pid) - before


def follow(port: int, model: str, home: Path) -> None:
    """Start a run in a new thread with a file in it, and read its stream; the answer must be whole."""
    thread = str(uuid4())
    file = home / "users" / "local" / "threads" / thread / "user-data" / "workspace" / "given.txt"
    file.parent.mkdir(parents=True)
    file.write_text("A line of text.\n" * 60)
    body = {
        "input": {"messages": [{"type": "human", "content": "Say something long."}]},
        "context": {"model_name": model},
        "stream_mode": ["messages-tuple"],
    }
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    path = f"/api/langgraph/threads/{thread}/runs/stream"
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    text = connection.getresponse().read().decode()
    connection.close()
    if "event: error" in text or not text.endswith("event: end\ndata: null\n\n"):
        sys.exit(f"the run did not end well: {text[-500:]}")


@contextmanager
def scripted_model(delay_ms: int, calls: Sequence[Call] = ()) -> Iterator[str]:
    """A scripted model server; its address."""
    command = [sys.executable, "-m", "deerflow.testing.server", "--port", "0", "--tokens", str(TOKENS)]
    command += ["--calls", json.dumps(calls)]
    with running([*command, "--delay-ms", str(delay_ms)], stdout=subprocess.PIPE) as process:
        assert process.stdout
        yield process.stdout.readline().strip()


@contextmanager
def bare_agent(base_url: str) -> Iterator[subprocess.Popen[str]]:
    """The floor."""
    command = [sys.executable, str(ROOT / "bench/floor/agent.py"), base_url]
    with running(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield process


@contextmanager
def our_server(base_url: str) -> Iterator[tuple[subprocess.Popen[str], int, Path]]:
    """`deerflow serve` with both clients configured; the process, its port and its state directory."""
    port = free_port()
    with tempfile.TemporaryDirectory() as scratch:
        (Path(scratch) / "config.yaml").write_text(CONFIG.format(base_url=base_url))
        command = [str(Path(sys.executable).parent / "deerflow"), "serve", "--port", str(port)]
        with running(command, cwd=scratch, stdout=subprocess.DEVNULL) as process:
            wait_until_healthy(port, process)
            yield process, port, Path(scratch) / ".deer-flow"


@contextmanager
def running(command: list[str], **options: object) -> Iterator[subprocess.Popen[str]]:
    """A process for as long as it is needed."""
    process = spawn(command, {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "bench/floor")}, **options)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    sys.exit(main())
