"""The cost of streamed tool arguments: it grows with their length and with nothing else, for both model clients.

One run per length, from 1 kB to 1 MB: the model streams calls of a tool that does nothing, without pauses, in small
and in large pieces. The CPU time of the run must lie on a line, and the event loop must not be held for long. Of
several rounds the best counts for each length, because other processes take the CPU at times.
"""

import asyncio
import gc
import re
import sys
import tempfile
import time
from pathlib import Path

import orjson
from _measure import line_through
from _table import Row, record

from deerflow.config.source import open_source
from deerflow.domain.identity import LOCAL_USER, new_id
from deerflow.domain.runs import RunRequest, RunStatus
from deerflow.harness import Harness, open_harness
from deerflow.testing import Answer, ScriptedServer
from deerflow.testing.scripted_server import ServerRequest
from deerflow.testing.turns import Raw

LENGTHS = [1_000, 250_000, 50_000, 1_000_000, 500_000, 100_000, 750_000]
PIECES = {"small pieces": 200, "large pieces": 100_000}
CLIENTS = {
    "our client": "deerflow.models.openai_compatible:OpenAICompatibleChatModel",
    "ChatOpenAI": "langchain_openai:ChatOpenAI",
}
LEAST = 0.99
MOST_HELD_MS = 50.0
ROUNDS = 5
CALLS = 4
"""Calls of a reply: with one, the rest of a run costs as much as its arguments."""
QUIET = {
    "memory": {"enabled": False},
    "title": {"enabled": False},
    "sandbox": {"toolbox": {"enabled": False}},
    "log_level": "error",
    "tools": [{"name": "take_text", "group": "bench", "use": "tool_arguments:take_text"}],
}
LINE = 'print("a line of a program, with an umlaut: ä")\n'


async def take_text(name: str, content: str) -> str:
    """Take a text.

    Args:
        name: The name of the text.
        content: The text.
    """
    return f"{name}: {len(content)} characters"


def main() -> int:
    """Measure all clients and sizes of pieces."""
    missed, rows = False, []
    for client, use in CLIENTS.items():
        for name, size in PIECES.items():
            seconds, held_ms = asyncio.run(measure(use, size))
            fit, slope = line_through([CALLS * length for length in LENGTHS], seconds)
            missed |= fit < LEAST or held_ms > MOST_HELD_MS
            print(
                f"{client}, {name:13} {slope * 1e6:6.3f} s CPU per MB   R² {fit:.4f}   bar ≥ {LEAST}"
                f"{'  MISSED' if fit < LEAST else ''}   loop held at most {held_ms:.0f} ms   bar ≤ {MOST_HELD_MS:.0f}"
                f"{'  MISSED' if held_ms > MOST_HELD_MS else ''}"
            )
            rows += [
                Row(f"{client}, {name}: R² of CPU over length", "ratio", fit, better="higher", bar=LEAST),
                Row(f"{client}, {name}: CPU per MB", "figure", slope * 1e6, "s"),
                Row(f"{client}, {name}: loop held at most", "figure", held_ms, "ms", bar=MOST_HELD_MS),
            ]
    record(rows)
    return int(missed)


async def measure(use: str, piece: int) -> tuple[list[float], float]:
    """Return the CPU seconds of a run for each length, and the longest hold; the least of several rounds."""
    best, held = [float("inf")] * len(LENGTHS), [float("inf")] * len(LENGTHS)
    calls = {length: stream_call(length, piece) for length in LENGTHS}

    def reply(request: ServerRequest) -> Raw | Answer:
        if request.messages[-1]["role"] == "tool":
            return Answer("Done.")
        asked = re.search(r"Write (\d+)", str(request.messages[1:]))
        assert asked is not None
        return calls[int(asked[1])]

    async with ScriptedServer([reply], endless=True) as server:
        entry = {"name": "m", "use": use, "native": None if "deerflow" in use else False, "model": "scripted"}
        model = {**entry, "api_key": "none", "base_url": server.base_url}
        with tempfile.TemporaryDirectory() as home:
            source = open_source(directory=Path(home), environment={}, overrides={"models": [model], **QUIET})
            async with open_harness(source) as harness:
                await measure_run(harness, LENGTHS[0])  # loads what the first run loads
                for _ in range(ROUNDS):
                    for index, length in enumerate(LENGTHS):
                        seconds, held_ms = await measure_run(harness, length)
                        best[index], held[index] = min(best[index], seconds), min(held[index], held_ms)
    return best, max(held)


async def measure_run(harness: Harness, length: int) -> tuple[float, float]:
    """Return the CPU seconds of one run, and how many milliseconds the event loop was held at most."""
    gc.collect()
    watch = asyncio.create_task(longest_hold())
    await asyncio.sleep(0)
    started = time.process_time()
    request = RunRequest(new_id(), [{"type": "human", "content": f"Write {length}"}])
    run = await harness.runs.create_or_reject(request, LOCAL_USER)
    ended = await harness.runs.join(run.thread_id, run.run_id, LOCAL_USER)
    seconds = time.process_time() - started
    watch.cancel()
    assert ended.status is RunStatus.SUCCESS, ended.error
    return seconds, await watch


async def longest_hold() -> float:
    """Return the longest time between two turns of the event loop in milliseconds, when it is cancelled."""
    longest, last = 0.0, time.perf_counter()
    try:
        while True:
            await asyncio.sleep(0.001)
            now = time.perf_counter()
            longest, last = max(longest, now - last), now
    except asyncio.CancelledError:
        return longest * 1000


def stream_call(length: int, piece: int) -> Raw:
    """Return a response that calls `take_text` several times, each with a text of `length` bytes."""
    text = (LINE * (length // len(LINE) + 1))[:length]
    events = []
    for index in range(CALLS):
        arguments = orjson.dumps({"name": f"{index}.py", "content": text}).decode()
        function: dict[str, object] = {"name": "take_text", "arguments": ""}
        events.append(event(index, {"id": f"call_{index}", "type": "function", "function": function}))
        for start in range(0, len(arguments), piece):
            events.append(event(index, {"function": {"arguments": arguments[start : start + piece]}}))
    return Raw((*events, end({"delta": {}, "finish_reason": "tool_calls"}), b"data: [DONE]\n\n"))


def event(index: int, call: dict[str, object]) -> bytes:
    """Return an event with a part of a tool call."""
    return end({"delta": {"tool_calls": [{"index": index, **call}]}})


def end(choice: dict[str, object]) -> bytes:
    """Return an event of the stream."""
    body = {"id": "1", "object": "chat.completion.chunk", "model": "scripted", "choices": [{"index": 0, **choice}]}
    return b"data: " + orjson.dumps(body) + b"\n\n"


if __name__ == "__main__":
    sys.exit(main())
