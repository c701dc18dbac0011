"""What `deerflow serve` costs until `/health` answers.

It is compared with a bare FastAPI + agent + SQLite-saver server, which loads LangGraph at its start, and with the
import of libraries alone: the same that our server has loaded by then, and these with those that come with its first
run, such as LangGraph.
"""

import compileall
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from _measure import ROOT, Ratio, cpu_seconds, free_port, report, resident_bytes, spawn, wait_until_healthy
from _table import Row

ROUNDS = 7
MOST_MB = 110.0
"""Resident memory of a server on a new database. It depends on the libraries more than on the machine."""
SERVER = "deerflow.cli.serve"
DRIVER = "sqlalchemy.dialects.sqlite"
"""Library that is loaded after `SERVER`, when the database is opened."""
WORKER = "deerflow.harness.run_context"
"""Module that comes with the first run, and everything that agents use with it."""
LIST_LIBRARIES = """
import sys
for name in sys.argv[1:]:
    __import__(name)
print(*(name for name in sys.modules if name.partition(".")[0] not in ("deerflow", "__main__")))
"""
IMPORT_LIBRARIES = """
import sys, time
from contextlib import suppress
for name in sys.argv[1:]:
    with suppress(ImportError):  # modules that a library has made by itself
        __import__(name)
print(time.process_time())
"""


def main() -> int:
    """Start both in turn."""
    compileall.compile_dir(ROOT / "src", quiet=1)
    compileall.compile_dir(ROOT / "bench", quiet=1)
    ours: list[tuple[float, float]] = []
    first: list[tuple[float, float]] = []
    floor: list[tuple[float, float]] = []
    imports: list[tuple[float, float]] = []
    libraries = [run_python(LIST_LIBRARIES, *names).split() for names in ((SERVER, DRIVER), (SERVER, DRIVER, WORKER))]
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch)
        serve(home / "warm")  # makes the database, so that the rounds below find one
        for number in range(ROUNDS):
            floor.append(start([sys.executable, str(ROOT / "bench/floor/server.py"), "{port}", scratch], home))
            ours.append(serve(home / "warm"))
            first.append(serve(home / f"new-{number}"))
            here, all_ = (float(run_python(IMPORT_LIBRARIES, *names)) * 1000 for names in libraries)
            imports.append((here, all_))
    megabytes = statistics.median(memory for _, memory in first)
    is_fat = megabytes > MOST_MB
    missed = report(
        [
            Ratio("CPU until /health answers", [c for c, _ in ours], [c for c, _ in floor], 1.25, "ms"),
            Ratio("resident memory then", [m for _, m in ours], [m for _, m in floor], 1.25, "MB"),
            Ratio("CPU of the very first start", [c for c, _ in first], [c for c, _ in floor], None, "ms"),
            Ratio(
                "CPU against the import of the same libraries", [c for c, _ in ours], [h for h, _ in imports], 1.1, "ms"
            ),
            Ratio("CPU against that and those of runs", [c for c, _ in ours], [a for _, a in imports], None, "ms"),
        ],
        [Row("resident memory with a new database", "figure", megabytes, "MB", bar=MOST_MB)],
    )
    print(f"with a new database: {megabytes:.1f} MB   bar ≤ {MOST_MB:g} MB{'  MISSED' if is_fat else ''}")
    return int(missed or is_fat)


def run_python(program: str, *arguments: str) -> str:
    """Run a program in an interpreter of its own; return what it prints."""
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, check=True).stdout


def serve(home: Path) -> tuple[float, float]:
    """Start our server with its state in `home`."""
    return start([str(Path(sys.executable).parent / "deerflow"), "serve", "--port", "{port}"], home)


def start(command: Sequence[str], home: Path) -> tuple[float, float]:
    """CPU milliseconds and resident megabytes of a server that has just become healthy."""
    port = free_port()
    home.mkdir(exist_ok=True)
    environment = {"PATH": os.environ["PATH"], "DEER_FLOW_HOME": str(home)}
    process = spawn([word.format(port=port) for word in command], environment, cwd=home, stdout=-3)
    try:
        wait_until_healthy(port, process)
        return cpu_seconds(process.pid) * 1000, resident_bytes(process.pid) / 1e6
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    sys.exit(main())
