"""Runs a command and restarts it after every change of a Python file, for `make dev`. Standard library only.

python scripts/dev.py FOLDER … -- COMMAND …
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path

POLL_S = 0.5
STOP_S = 20.0


def main() -> None:
    """Run the command of the arguments until a signal arrives or it ends by itself."""
    arguments = sys.argv[1:]
    if "--" not in arguments[1:-1]:
        sys.exit(__doc__)
    at = arguments.index("--")
    folders, command = [Path(name) for name in arguments[:at]], arguments[at + 1 :]
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: ended.set())
    seen = read_stamps(folders)
    process = subprocess.Popen(command)
    code = None
    while not ended.wait(POLL_S) and (code := process.poll()) is None:
        now = read_stamps(folders)
        if now != seen:
            changed = sorted({str(path) for path, _ in now ^ seen})
            print(f"restarting: {', '.join(changed[:3])}{' …' if len(changed) > 3 else ''} changed", flush=True)
            stop(process)
            process, seen = subprocess.Popen(command), now
    stop(process)
    sys.exit(code or 0)


def read_stamps(folders: list[Path]) -> set[tuple[Path, int]]:
    """Return all Python files with their modification times."""
    found = set()
    for folder in folders:
        for path in folder.rglob("*.py"):
            try:
                found.add((path, path.stat().st_mtime_ns))
            except FileNotFoundError:  # removed since it was listed
                continue
    return found


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a process, by force if it takes too long."""
    process.terminate()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


if __name__ == "__main__":
    main()
