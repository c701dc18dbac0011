"""Counts of one run: hand-overs to threads, transactions and bytes written.

Makes runs in this process and prints the least count of each kind as JSON, because whatever disturbs a run adds to it.
`run_overhead.py` counts fsyncs and allocations of the same process from outside. Everything that depends on the clock
or on chance is fixed, so that the counts are the same every time:

- Nothing happens because time has passed: the journal writes when it must, the leases of runs are not renewed, a
  folder is measured once, and no write is taken for a slow one.
- Random ids are made from a fixed seed, and threads have fixed ids: pages of a B-tree depend on the order of its keys.
- The write-ahead logs are not merged into their files, which happens in the background after many runs.
"""

import asyncio
import json
import os
import random
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import aiosqlite

from deerflow.config.source import open_source
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import RunRequest, RunStatus
from deerflow.harness import Harness, open_harness
from deerflow.persistence.checkpoints import inserter
from deerflow.persistence.engine import database
from deerflow.persistence.engine.sqlite import Appender
from deerflow.runtime.journal import journal
from deerflow.runtime.runs import heartbeat
from deerflow.sandbox.files.mounts import user_data_folder
from deerflow.sandbox.local import usage

COUNTS: Counter[str] = Counter()
SETTINGS = {
    "log_level": "warning",
    "sandbox": {"toolbox": {"enabled": False}},
    "memory": {"debounce_seconds": 3600},
    "tools": [{"name": "ping", "group": "bench", "use": "agent:ping"}],
}
WARM_UP = 2
IDLE_LIMIT_S = 30.0
POLL_S = 0.02
CHANGES = ("INSERT", "REPLACE", "UPDATE", "DELETE")
SCRATCH = "/dev/shm" if Path("/dev/shm").is_dir() else None
"""In memory where the system has such a folder: a slow disk lets writes wait for each other."""
INTERVALS: tuple[tuple[ModuleType, str, float], ...] = (
    (journal, "PACE_S", 3600.0),
    (inserter, "DELAY_S", 3600.0),
    (database, "LOOK_UP_LIMIT_S", 3600.0),
    (heartbeat, "RENEWALS_PER_LEASE", 1e-4),
    (usage, "MEASUREMENT_TTL_S", 60.0),
    (usage, "FIRST_CHECK_S", 3600.0),
    (usage, "CHECK_INTERVAL_S", 3600.0),
)
"""Constants of modules, and the values with which they never matter during a run."""
JOURNAL_WRITER = "Journal._write_groups"
"""Task that may be left after a run: it waits for the next event."""


def stop_the_clock() -> None:
    """Let nothing happen because of the time that has passed."""
    for module, name, value in INTERVALS:
        assert hasattr(module, name), name
        setattr(module, name, value)
    open_appender = Appender.__init__

    def open_patient_appender(self: Appender, file: Path) -> None:
        open_appender(self, file, slow_s=float("inf"))

    Appender.__init__ = open_patient_appender  # type: ignore[assignment,method-assign]


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
    """Count the commits of every SQLite connection, and changes outside of transactions: they commit by themselves."""
    connect = sqlite3.connect

    def counted_connect(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*arguments, **options)

        def count(statement: str) -> None:
            word = statement.lstrip()[:10].upper()
            COUNTS["transactions"] += word.startswith("COMMIT")
            COUNTS["transactions"] += word.startswith(CHANGES) and not connection.in_transaction

        connection.execute("PRAGMA wal_autocheckpoint=0")
        connection.set_trace_callback(count)
        return connection

    sqlite3.connect = sqlite3.dbapi2.connect = counted_connect  # type: ignore[assignment]


def written_bytes() -> int:
    """Return the bytes that this process has passed to the system for files; sockets are not among them."""
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(fields["wchar"])


async def main(base_url: str, runs: int) -> None:
    """Make the runs and print the counts."""
    model = {
        "name": "lean",
        "use": "deerflow.models.openai_compatible:OpenAICompatibleChatModel",
        "model": "scripted",
        "base_url": base_url,
    }
    with tempfile.TemporaryDirectory(dir=SCRATCH) as folder:
        source = open_source(directory=Path(folder), environment={}, overrides={**SETTINGS, "models": [model]})
        async with open_harness(source) as harness:
            standing = asyncio.all_tasks()
            counts = [await count_run(harness, number, standing) for number in range(WARM_UP + runs)][WARM_UP:]
    print(json.dumps({name: min(each[name] for each in counts) for name in counts[0]}), flush=True)


async def count_run(harness: Harness, number: int, standing: set["asyncio.Task[Any]"]) -> dict[str, int]:
    """Make one run and return its counts, with those of the work that it leaves to the background."""
    COUNTS.clear()
    before = written_bytes()
    await run(harness, number)
    deadline = time.monotonic() + IDLE_LIMIT_S
    while left := {task for task in asyncio.all_tasks() - standing if name_of(task) != JOURNAL_WRITER}:
        if time.monotonic() > deadline:
            sys.exit(f"the run left tasks behind: {left}")
        await asyncio.sleep(POLL_S)
    return {**COUNTS, "bytes": written_bytes() - before}


def name_of(task: "asyncio.Task[Any]") -> str:
    """Return the name of the function that a task executes."""
    return getattr(task.get_coro(), "__qualname__", "")


async def run(harness: Harness, number: int) -> None:
    """Make one run in a thread of its own, in which there is a file to read."""
    thread = f"00000000-0000-4000-8000-{number:012}"
    file = user_data_folder(harness.core.home, LOCAL_USER.user_id, thread) / "workspace" / "given.txt"
    file.parent.mkdir(parents=True)
    file.write_text("A line of text.\n" * 60)
    request = RunRequest(thread, [{"type": "human", "content": "Say something long."}])
    started = await harness.runs.create_or_reject(request, LOCAL_USER)
    ended = await harness.runs.join(thread, started.run_id, LOCAL_USER)
    assert ended.status is RunStatus.SUCCESS, ended.error


if __name__ == "__main__":
    # It counts the allocations of this process; those that the process starts have nothing to do with it.
    os.environ.pop("LD_PRELOAD", None)
    os.urandom = random.Random(4711).randbytes
    stop_the_clock()
    count_hand_overs()
    count_transactions()
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
