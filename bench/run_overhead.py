"""What one streamed answer costs end to end over HTTP and SQLite, against a bare in-process agent.

The floor is `create_agent` + `ChatOpenAI` + an in-memory saver without any server. The model is a scripted server in a
process of its own. Rounds of all contestants are interleaved, so that a noisy machine is noisy for all of them.

`--count WORKLOAD` only prints the hops, transactions and bytes of one workload.
"""

import argparse
import compileall
import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO
from uuid import uuid4

from _measure import ROOT, Ratio, free_port, report, spawn, tree_cpu_seconds, wait_until_healthy
from _table import Row

Call = tuple[str, dict[str, str]]
TOKENS = 200
PLAIN = f"{TOKENS} tokens"
ROUNDS = 6
RUNS = {0: 12, 1: 6, 5: 3}
"""Runs per round at each pace (milliseconds between tokens)."""
MOST_LEAN = 0.45
"""Most CPU of a run without tools, with our client, as a share of that of the floor."""
TOOL_RUNS = 6
FEW_RUNS, MANY_RUNS = 2, 10
COUNT_LIMIT_S = 300
ALLOCATIONS_TOLERANCE = 0.02
"""In repetitions they differ by less than one percent, because threads wait for each other more or less often."""
ANSI = re.compile(r"\x1b\[[0-9;]*m")


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
    native: false
    model: scripted
    base_url: {base_url}
    api_key: none
"""


def main() -> int:
    """Measure at every pace, and with tools."""
    parser = argparse.ArgumentParser(prog="bench/run_overhead.py")
    parser.add_argument("--count", choices=WORKLOADS, help="only print the counts of this workload as JSON")
    if workload := parser.parse_args().count:
        with scripted_model(0, WORKLOADS[workload][0]) as base_url:
            print(json.dumps(count_runs(base_url, FEW_RUNS)))
        return 0
    ratios = [ratio for delay in RUNS for ratio in measure(delay)]
    ratios += [measure_tools(workload) for workload in WORKLOADS]
    counts = [row for name, (calls, _) in {PLAIN: ((), None), **WORKLOADS}.items() for row in count_costs(name, calls)]
    return report(ratios, counts)


def measure_tools(workload: str) -> Ratio:
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
    return Ratio(f"CPU per run, our client, {workload}", figures["lean"], figures["floor"], bar, "ms")


def count_costs(name: str, calls: Sequence[Call]) -> list[Row]:
    """Return the costs of a run besides CPU. Those counted from outside are the difference of few and more runs."""
    compileall.compile_dir(ROOT / "src", quiet=1)  # to compile a module that was just edited takes many allocations
    with scripted_model(0, calls) as base_url:
        few, many = (count_traced(base_url, runs) for runs in (FEW_RUNS, MANY_RUNS))
    outside = {key: (many[key] - few[key]) / (MANY_RUNS - FEW_RUNS) for key in ("fsyncs", "allocations")}
    rows = [
        Row(f"{name}: hops to threads", "count", many["hops"]),
        Row(f"{name}: transactions", "count", many["transactions"]),
        Row(f"{name}: fsyncs", "count", round(outside["fsyncs"], 1)),
        Row(f"{name}: written", "count", round(many["bytes"] / 1000), "kB"),
        Row(f"{name}: allocations", "count", round(outside["allocations"], -2), tolerance=ALLOCATIONS_TOLERANCE),
    ]
    print("per run, " + ", ".join(f"{row.name} {row.value:g} {row.unit}".rstrip() for row in rows), flush=True)
    return rows


def count_traced(base_url: str, runs: int) -> dict[str, float]:
    """Return the counts of a process: fsyncs by strace, allocations by the library of glibc that reports them."""
    if shutil.which("strace") is None:
        sys.exit("strace, which counts fsyncs, is not installed")
    with tempfile.TemporaryDirectory() as scratch:
        log, errors = Path(scratch) / "strace", Path(scratch) / "errors"
        trace = ["strace", "-f", "-e", "trace=fsync,fdatasync", "-o", str(log)]
        for variable in ("LD_PRELOAD=libmemusage.so", "PYTHONMALLOC=malloc", "PYTHONHASHSEED=0"):
            trace += ["-E", variable]
        with errors.open("w") as stderr:
            counts = count_runs(base_url, runs, trace, stderr)
        summary = ANSI.sub("", errors.read_text())
        calls = [int(number) for number in re.findall(r"^ *(?:malloc|realloc|calloc)\| +(\d+)", summary, re.MULTILINE)]
        if len(calls) != 3:
            sys.exit(f"libmemusage.so of glibc, which counts allocations, reported nothing: {summary[-500:]}")
        return {**counts, "fsyncs": log.read_text().count("sync("), "allocations": sum(calls)}


def count_runs(base_url: str, runs: int, trace: Sequence[str] = (), stderr: IO[str] | None = None) -> dict[str, float]:
    """Return the counts that a process makes of so many runs."""
    command = [*trace, sys.executable, str(ROOT / "bench/_counts.py"), base_url, str(runs)]
    with running(command, stdout=subprocess.PIPE, stderr=stderr) as process:
        printed = process.communicate(timeout=COUNT_LIMIT_S)[0]
    if process.returncode:
        problem = Path(stderr.name).read_text()[-2000:] if stderr else ""
        sys.exit(f"the counts failed with exit code {process.returncode}: {problem}")
    counts: dict[str, float] = json.loads(printed)
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
        Ratio(f"CPU per run, our client, {pace}", figures["lean"], figures["floor"], MOST_LEAN, "ms"),
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
