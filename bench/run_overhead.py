"""What one streamed answer costs end to end over HTTP and SQLite, against a bare in-process agent.

The floor is `create_agent` + `ChatOpenAI` + an in-memory saver without any server. The model is a scripted server in a
process of its own. Rounds of all contestants are interleaved, so that a noisy machine is noisy for all of them.
"""

import http.client
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from uuid import uuid4

from _measure import ROOT, Ratio, cpu_seconds, free_port, report, spawn, wait_until_healthy

TOKENS = 200
ROUNDS = 6
RUNS = {0: 12, 1: 6, 5: 3}
"""Runs per round at each pace (milliseconds between tokens)."""
TOOL_CALLS = 5
TOOL_RUNS = 6

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
    return report([*ratios, *measure_tools()])


def measure_tools() -> list[Ratio]:
    """The cost of a run that calls a tool several times before it answers; each call is written down twice."""
    figures: dict[str, list[float]] = {"floor": [], "lean": []}
    with ExitStack() as stack:
        base_url = stack.enter_context(scripted_model(0, TOOL_CALLS))
        floor = stack.enter_context(bare_agent(base_url))
        server, port = stack.enter_context(our_server(base_url))
        for number in range(ROUNDS + 1):
            for name, seconds in {
                "floor": run_floor(floor, TOOL_RUNS),
                "lean": run_ours(server, port, "lean", TOOL_RUNS),
            }.items():
                if number:  # the first round warms up
                    figures[name].append(seconds * 1000 / TOOL_RUNS)
    return [Ratio(f"CPU per run, our client, {TOOL_CALLS} tool calls", figures["lean"], figures["floor"], 1.2, "ms")]


def measure(delay_ms: int) -> list[Ratio]:
    """The cost of a run with a token every `delay_ms`."""
    figures: dict[str, list[float]] = {"floor": [], "lean": [], "openai": []}
    with ExitStack() as stack:
        base_url = stack.enter_context(scripted_model(delay_ms))
        floor = stack.enter_context(bare_agent(base_url))
        server, port = stack.enter_context(our_server(base_url))
        for number in range(ROUNDS + 1):
            round_of = {
                "floor": lambda: run_floor(floor, RUNS[delay_ms]),
                "lean": lambda: run_ours(server, port, "lean", RUNS[delay_ms]),
                "openai": lambda: run_ours(server, port, "openai", RUNS[delay_ms]),
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


def run_ours(server: subprocess.Popen[str], port: int, model: str, runs: int) -> float:
    """CPU seconds our server takes for `runs` runs, each read to its end."""
    before = cpu_seconds(server.pid)
    for _ in range(runs):
        follow(port, model)
    return cpu_seconds(server.pid) - before


def follow(port: int, model: str) -> None:
    """Start a run in a new thread and read its stream; the answer must be whole."""
    body = {
        "input": {"messages": [{"type": "human", "content": "Say something long."}]},
        "context": {"model_name": model},
        "stream_mode": ["messages-tuple"],
    }
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    path = f"/api/langgraph/threads/{uuid4()}/runs/stream"
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    text = connection.getresponse().read().decode()
    connection.close()
    if "event: error" in text or not text.endswith("event: end\ndata: null\n\n"):
        sys.exit(f"the run did not end well: {text[-500:]}")


@contextmanager
def scripted_model(delay_ms: int, tool_calls: int = 0) -> Iterator[str]:
    """A scripted model server; its address."""
    command = [sys.executable, "-m", "deerflow.testing.server", "--port", "0", "--tokens", str(TOKENS)]
    command += ["--tool-calls", str(tool_calls)]
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
def our_server(base_url: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """`deerflow serve` with both clients configured."""
    port = free_port()
    with tempfile.TemporaryDirectory() as scratch:
        (Path(scratch) / "config.yaml").write_text(CONFIG.format(base_url=base_url))
        command = [str(Path(sys.executable).parent / "deerflow"), "serve", "--port", str(port)]
        with running(command, cwd=scratch, stdout=subprocess.DEVNULL) as process:
            wait_until_healthy(port, process)
            yield process, port


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
