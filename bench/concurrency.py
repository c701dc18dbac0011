"""Whether many runs at once get as much done as one after the other, and how soon the first word of an answer arrives.

Runs a second at a concurrency of 50 against the same server's own at 1, and against a bare agent in process, rounds
interleaved. Then the time to the first token through the server against the time to it straight from the model, by
turns: one run at a time, and 20 at once. Each answer is read to its end before the next is asked for. A server that
only relays the model's stream is asked in the same rounds: with it, the figures can be told from those of the machine.
"""

import asyncio
import json
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack
from uuid import uuid4

from _measure import Ratio, report
from _table import Row
from run_overhead import bare_agent, our_server, scripted_model
from scale import relay_server

ROUNDS = 5
RUNS = 50
AT_ONCE = 50
LEAST = 0.9
LEAST_OF_FLOOR = 2.2
"""Runs a second, as a multiple of those of a bare agent."""
ASKED = 40
PACE_MS = 5
MOST_EXTRA_MS = 10.0
FEW, FEW_ROUNDS = 20, 8
MOST_P95_MS = 150.0
QUESTION = {"messages": [{"type": "human", "content": "Say something long."}]}
PLAIN = {"model": "scripted", "stream": True, "messages": [{"role": "user", "content": "Say something long."}]}


def main() -> int:
    """Measure throughput and first tokens."""
    with ExitStack() as stack:
        model = stack.enter_context(scripted_model(0))
        _, port, _ = stack.enter_context(our_server(model))
        floor = stack.enter_context(bare_agent(model))
        together, alone, bare = asyncio.run(compare_throughput(port, floor))
    with ExitStack() as stack:
        model = stack.enter_context(scripted_model(PACE_MS))
        _, port, _ = stack.enter_context(our_server(model))
        _, relay_port = stack.enter_context(relay_server(model))
        model_port = int(model.rsplit(":", 1)[1].split("/")[0])
        ours, direct, relayed = asyncio.run(compare_first_tokens(port, model_port, relay_port))
        at_once = asyncio.run(compare_first_tokens_at_once(port, model_port, relay_port))
    extra, extra_relayed = (
        statistics.median(a - b for a, b in zip(each, direct, strict=True)) for each in (ours, relayed)
    )
    ours_at_once, *_ = at_once
    p95, p95_direct, p95_relayed = (percentile(each, 95) for each in at_once)
    missed = report(
        [
            Ratio(f"seconds for {RUNS} runs, {AT_ONCE} at once", together, alone, 1 / LEAST, "s"),
            Ratio(f"seconds for {RUNS} runs at once, of a bare agent's", together, bare, 1 / LEAST_OF_FLOOR, "s"),
        ],
        [
            Row("first token above the model's own, one run", "figure", extra, "ms", bar=MOST_EXTRA_MS),
            Row("first token above the model's own, one run, bare relay", "figure", extra_relayed, "ms"),
            Row(f"first token, {FEW} runs at once, p95", "figure", p95, "ms", bar=MOST_P95_MS),
            Row(f"first token, {FEW} runs at once, p95, bare relay", "figure", p95_relayed, "ms"),
        ],
    )
    print(
        f"first token, one run: ours {statistics.median(ours):.1f} ms, the model's own "
        f"{statistics.median(direct):.1f} ms, extra {extra:.1f} ms, of a bare relay {extra_relayed:.1f} ms   "
        f"bar ≤ {MOST_EXTRA_MS:g} ms"
        f"{miss(extra > MOST_EXTRA_MS)}"
    )
    print(
        f"first token, {FEW} runs at once: p95 {p95:.1f} ms, median {statistics.median(ours_at_once):.1f} ms, "
        f"the model's own p95 {p95_direct:.1f} ms, of a bare relay {p95_relayed:.1f} ms   "
        f"bar ≤ {MOST_P95_MS:g} ms{miss(p95 > MOST_P95_MS)}"
    )
    return int(missed or extra > MOST_EXTRA_MS or p95 > MOST_P95_MS)


def miss(is_missed: bool) -> str:
    """The end of a line of figures."""
    return "  MISSED" if is_missed else ""


def percentile(values: list[float], percent: int) -> float:
    """The value that so many percent do not exceed."""
    return sorted(values)[min(len(values) - 1, len(values) * percent // 100)]


async def compare_throughput(port: int, floor: subprocess.Popen[str]) -> tuple[list[float], list[float], list[float]]:
    """Seconds for as many runs: many at once, one after the other, and of a bare agent at once, round by round."""
    together, alone, bare = [], [], []
    for number in range(ROUNDS + 1):
        began = time.perf_counter()
        for _ in range(RUNS):
            await whole_run(port)
        middle = time.perf_counter()
        await asyncio.gather(*(whole_run(port) for _ in range(AT_ONCE)))
        ended = time.perf_counter()
        await asyncio.to_thread(run_bare_agent, floor)
        if number:  # the first round warms up
            alone.append(middle - began)
            together.append(ended - middle)
            bare.append(time.perf_counter() - ended)
    return together, alone, bare


def run_bare_agent(floor: subprocess.Popen[str]) -> None:
    """Make all runs of a round at once in the process of the bare agent."""
    assert floor.stdin and floor.stdout
    floor.stdin.write(f"{RUNS} at once\n")
    floor.stdin.flush()
    floor.stdout.readline()


async def whole_run(port: int) -> float:
    """One run, read to its end; milliseconds to its first token."""
    body = {"input": QUESTION, "context": {"model_name": "lean"}, "stream_mode": ["messages-tuple"]}
    path = f"/api/langgraph/threads/{uuid4()}/runs/stream"
    return await ask(port, path, body, b"event: end")


async def whole_answer(model_port: int) -> float:
    """One answer straight from the model, read to its end; milliseconds to its first token."""
    return await ask(model_port, "/v1/chat/completions", PLAIN, b"[DONE]")


async def whole_relay(relay_port: int) -> float:
    """One answer through the relay, read to its end; milliseconds to its first token."""
    return await ask(relay_port, "/stream", {}, b"event: end")


async def compare_first_tokens(
    port: int, model_port: int, relay_port: int
) -> tuple[list[float], list[float], list[float]]:
    """Milliseconds to the first token: through the server, straight from the model, through the relay, by turns."""
    rounds = [
        (await whole_run(port), await whole_answer(model_port), await whole_relay(relay_port)) for _ in range(ASKED + 5)
    ]
    ours, direct, relayed = map(list, zip(*rounds[5:], strict=True))
    return ours, direct, relayed


async def compare_first_tokens_at_once(
    port: int, model_port: int, relay_port: int
) -> tuple[list[float], list[float], list[float]]:
    """The same for many runs that begin at the same moment."""
    ours, direct, relayed = [], [], []
    for number in range(FEW_ROUNDS + 1):
        through = await asyncio.gather(*(whole_run(port) for _ in range(FEW)))
        straight = await asyncio.gather(*(whole_answer(model_port) for _ in range(FEW)))
        past_relay = await asyncio.gather(*(whole_relay(relay_port) for _ in range(FEW)))
        if number:  # the first round warms up
            ours += through
            direct += straight
            relayed += past_relay
    return ours, direct, relayed


async def ask(port: int, path: str, body: dict[str, object], end: bytes) -> float:
    """Milliseconds from a request to the first word of the answer, which is read to its end."""
    content = json.dumps(body).encode()
    began = time.perf_counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
    seen = await read_until(reader, b"word0")
    elapsed = (time.perf_counter() - began) * 1000
    await read_until(reader, end, seen)
    writer.close()
    return elapsed


async def read_until(reader: asyncio.StreamReader, word: bytes, seen: bytes = b"") -> bytes:
    """Read on after `seen` until `word` has come; the end of what has."""
    while word not in seen:
        piece = await reader.read(65536)
        if not piece:
            sys.exit(f"the answer ended without {word.decode()!r}: {seen[-500:].decode()}")
        seen = seen[-100:] + piece
    return seen


if __name__ == "__main__":
    sys.exit(main())
