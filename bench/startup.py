"""What `deerflow serve` costs until `/health` answers, against a bare FastAPI + agent + SQLite-saver server."""

import compileall
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from _measure import ROOT, Ratio, cpu_seconds, free_port, report, resident_bytes, spawn, wait_until_healthy

ROUNDS = 7


def main() -> int:
    """Start both in turn."""
    compileall.compile_dir(ROOT / "src", quiet=1)
    compileall.compile_dir(ROOT / "bench", quiet=1)
    ours: list[tuple[float, float]] = []
    first: list[tuple[float, float]] = []
    floor: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch)
        serve(home / "warm")  # makes the database, so that the rounds below find one
        for number in range(ROUNDS):
            floor.append(start([sys.executable, str(ROOT / "bench/floor/server.py"), "{port}", scratch], home))
            ours.append(serve(home / "warm"))
            first.append(serve(home / f"new-{number}"))
    return report(
        [
            Ratio("CPU until /health answers", [c for c, _ in ours], [c for c, _ in floor], 1.4, "ms"),
            Ratio("resident memory then", [m for _, m in ours], [m for _, m in floor], 1.4, "MB"),
            Ratio("CPU of the very first start (migrations)", [c for c, _ in first], [c for c, _ in floor], None, "ms"),
        ]
    )


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
