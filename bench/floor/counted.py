"""Counts what the runs of a harness cost besides CPU: hand-overs to threads, transactions and bytes written.

Makes runs in this process and prints the counts. `run_overhead.py` counts its fsyncs from outside, with strace.
"""

import asyncio
import json
import sqlite3
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiosqlite

from deerflow.config.source import open_source
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import RunRequest, RunStatus
from deerflow.harness import open_harness
from deerflow.sandbox.files.mounts import user_data_folder

COUNTS: Counter[str] = Counter()
SETTINGS = {
    "log_level": "warning",
    "sandbox": {"toolbox": {"enabled": False}},
    "memory": {"debounce_seconds": 3600},
    "tools": [{"name": "ping", "group": "bench", "use": "agent:ping"}],
}
WARM_UP = 3


def count_hand_overs() -> None:
    """Count work that is given to another thread: by executors, and by the connections of aiosqlite."""
    submit, execute = ThreadPoolExecutor.submit, aiosqlite.Connection._execute

    def counted_submit(*arguments: Any, **options: Any) -> Any:
        COUNTS["hops"] += 1
        return submit(*arguments, **options)

    def counted_execute(*arguments: Any, **options: Any) -> Any:
        COUNTS["hops"] += 1
        return execute(*arguments, **options)

    ThreadPoolExecutor.submit = counted_submit  # type: ignore[method-assign]
    aiosqlite.Connection._execute = counted_execute  # type: ignore[method-assign]


def count_transactions() -> None:
    """Count the commits of every SQLite connection."""
    connect = sqlite3.connect

    def count(statement: str) -> None:
        COUNTS["transactions"] += statement.lstrip().upper().startswith("COMMIT")

    def counted_connect(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*arguments, **options)
        connection.set_trace_callback(count)
        return connection

    sqlite3.connect = sqlite3.dbapi2.connect = counted_connect  # type: ignore[assignment]


def written_bytes() -> int:
    """Return the bytes that this process has written to disk."""
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(fields["write_bytes"])


async def main(base_url: str, runs: int) -> None:
    """Make the runs and print the counts."""
    model = {
        "name": "lean",
        "use": "deerflow.models.openai_compatible:OpenAICompatibleChatModel",
        "model": "scripted",
        "base_url": base_url,
    }
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        source = open_source(directory=Path(folder), environment={}, overrides={**SETTINGS, "models": [model]})
        async with open_harness(source) as harness:
            for number in range(WARM_UP + runs):
                if number == WARM_UP:
                    COUNTS.clear()
                    before = written_bytes()
                await run(harness)
            # Checkpoints and maintenance in the background are not part of a run.
            print(json.dumps({**COUNTS, "bytes": written_bytes() - before}), flush=True)


async def run(harness: Any) -> None:
    """Make one run in a thread of its own, in which there is a file to read."""
    thread = str(uuid4())
    file = user_data_folder(harness.core.home, LOCAL_USER.user_id, thread) / "workspace" / "given.txt"
    file.parent.mkdir(parents=True)
    file.write_text("A line of text.\n" * 60)
    request = RunRequest(thread, [{"type": "human", "content": "Say something long."}])
    started = await harness.runs.create_or_reject(request, LOCAL_USER)
    ended = await harness.runs.join(thread, started.run_id, LOCAL_USER)
    assert ended.status is RunStatus.SUCCESS, ended.error


if __name__ == "__main__":
    count_hand_overs()
    count_transactions()
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
