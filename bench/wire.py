"""Whether what goes over the wire, and what is stored, grows with what is said and with nothing else.

Answers of very different lengths in one thread that grows all the while: the bytes a reader gets for each, and the
bytes the log grows by, are compared with the length of the answer. A line through the points explains all of it if the
cost of a run depends on its own content alone; a server that resends the conversation would bend it.
"""

import asyncio
import sqlite3
import sys
import tempfile
from pathlib import Path

from _measure import line_through
from _table import Row, record

from deerflow.config.source import open_source
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import RunRequest, RunStatus
from deerflow.gateway.sse import encode_events
from deerflow.harness import Harness, open_harness
from deerflow.testing import ScriptedModel

LENGTHS = [200, 3200, 400, 6400, 800, 12800, 1600, 1200, 9600, 300, 4800, 2400]
WORD = "considerable "
LEAST = 0.999
MODES = ["messages-tuple", "changes"]
# A summary would be an answer of its own.
SETTINGS = {"log_level": "error", "summarization": {"enabled": False}, "memory": {"debounce_seconds": 3600}}


def main() -> int:
    """Measure once."""
    with tempfile.TemporaryDirectory() as scratch:
        sizes = asyncio.run(talk(Path(scratch)))
    contents = [length * len(WORD) for length in LENGTHS]
    missed, rows = False, []
    for name, measured in sizes.items():
        fit, slope = line_through(contents, measured)
        missed |= fit < LEAST
        verdict = "  MISSED" if fit < LEAST else ""
        rows += [
            Row(f"{name}: R² of bytes over bytes said", "ratio", fit, better="higher", bar=LEAST),
            Row(f"{name}: bytes per byte said", "ratio", slope, "×"),
        ]
        print(f"{name:34} {slope:5.2f} bytes per byte said   R² {fit:.5f}   bar ≥ {LEAST}{verdict}")
    record(rows)
    return int(missed)


async def talk(home: Path) -> dict[str, list[float]]:
    """Bytes for each answer: those a reader of each kind got, and those the database grew by."""
    source = open_source(directory=home, environment={}, overrides=SETTINGS)
    model = ScriptedModel.saying(*(WORD * length for length in LENGTHS))
    on_wire: list[float] = []
    stored: list[float] = []
    async with open_harness(source, model) as harness:
        for _ in LENGTHS:
            before = used(home)
            on_wire.append(await one_answer(harness))
            stored.append(used(home) - before)
    return {"wire, messages-tuple and changes": on_wire, "log of events": stored}


async def one_answer(harness: Harness) -> float:
    """The bytes of one run's stream."""
    request = RunRequest("t", [{"type": "human", "content": "Say something."}])
    run = await harness.runs.create_or_reject(request, LOCAL_USER)
    size = 0
    async for piece in encode_events(harness.runs, run, MODES, after=0):  # type: ignore[arg-type]
        size += len(piece)
    ended = await harness.runs.join("t", run.run_id, LOCAL_USER)
    assert ended.status is RunStatus.SUCCESS, ended.error
    return size


def used(home: Path) -> float:
    """The bytes of the events that are stored."""
    (file,) = home.rglob("deerflow.db")
    with sqlite3.connect(file) as connection:
        return float(connection.execute("SELECT COALESCE(SUM(LENGTH(data)), 0) FROM run_events").fetchone()[0])


if __name__ == "__main__":
    sys.exit(main())
