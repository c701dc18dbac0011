"""The cost of streamed tool arguments: it grows with their length and with nothing else, for both model clients.

One run per length, from 1 kB to 1 MB: the model streams calls of a tool that does nothing, without pauses, in small
and in large pieces. The CPU time of the run must lie on a line; of several rounds the best counts for each length. The
event loop must not be held for long, in no callback of any round. A hold is the CPU time that the thread of the loop
spends in one callback, so that other processes and the thread of the scripted server do not count.
"""

import asyncio
import gc
import re
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
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
    """Return the CPU seconds of a run for each length, the least of several rounds, and the longest hold of all."""
    best = [float("inf")] * len(LENGTHS)
    calls = {length: stream_call(length, piece) for length in LENGTHS}

    def reply(request: ServerRequest) -> Raw | Answer:
        if request.messages[-1]["role"] == "tool":
            return Answer("Done.")
        asked = re.search(r"Write (\d+)", str(request.messages[1:]))
        assert asked is not None
        return calls[int(asked[1])]

    with serve_in_thread(ScriptedServer([reply], endless=True)) as server:
        entry = {"name": "m", "use": use, "native": None if "deerflow" in use else False, "model": "scripted"}
        model = {**entry, "api_key": "none", "base_url": server.base_url}
        with tempfile.TemporaryDirectory() as home:
            source = open_source(directory=Path(home), environment={}, overrides={"models": [model], **QUIET})
            async with open_harness(source) as harness:
                await measure_run(harness, LENGTHS[0])  # loads what the first run loads
                with recorded_holds() as holds:
                    for _ in range(ROUNDS):
                        for index, length in enumerate(LENGTHS):
                            best[index] = min(best[index], await measure_run(harness, length))
    return best, max(holds) * 1000


async def measure_run(harness: Harness, length: int) -> float:
    """Return the CPU seconds of one run."""
    await asyncio.to_thread(gc.collect)  # not a callback of the loop
    await asyncio.sleep(0)
    started = time.process_time()
    request = RunRequest(new_id(), [{"type": "human", "content": f"Write {length}"}])
    run = await harness.runs.create_or_reject(request, LOCAL_USER)
    ended = await harness.runs.join(run.thread_id, run.run_id, LOCAL_USER)
    seconds = time.process_time() - started
    assert ended.status is RunStatus.SUCCESS, ended.error
    return seconds


@contextmanager
def recorded_holds() -> Iterator[list[float]]:
    """Yield a list of the CPU seconds that each callback of the loop of this thread takes."""
    holds: list[float] = []
    original, thread = asyncio.Handle._run, threading.get_ident()

    def run(handle: asyncio.Handle) -> None:
        if threading.get_ident() != thread:
            original(handle)
            return
        started = time.thread_time()
        original(handle)
        holds.append(time.thread_time() - started)

    asyncio.Handle._run = run  # type: ignore[method-assign]
    try:
        yield holds
    finally:
        asyncio.Handle._run = original  # type: ignore[method-assign]


@contextmanager
def serve_in_thread(server: ScriptedServer) -> Iterator[ScriptedServer]:
    """Run a scripted server in a loop and thread of its own."""
    ready, loop, ended = threading.Event(), asyncio.new_event_loop(), asyncio.Event()

    async def serve() -> None:
        async with server:
            ready.set()
            await ended.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=[serve()])
    thread.start()
    try:
        assert ready.wait(20)
        yield server
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join(20)
        loop.close()


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
