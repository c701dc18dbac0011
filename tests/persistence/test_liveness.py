"""Processes that share files know of each other."""

import subprocess
import sys
from pathlib import Path

from deerflow.persistence.engine.liveness import hold_process_lock, is_locked

HOLD = """
import sys
from pathlib import Path
from deerflow.persistence.engine.liveness import hold_process_lock
with hold_process_lock(Path(sys.argv[1])) as name:
    print(name, flush=True)
    sys.stdin.read()
"""


def test_a_process_is_alive_while_it_holds_its_lock(tmp_path: Path) -> None:
    with hold_process_lock(tmp_path) as name:
        assert is_locked(tmp_path, name)
    assert is_locked(tmp_path, name) is None
    assert list(tmp_path.iterdir()) == []


def test_a_killed_process_is_dead(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        name = process.stdout.readline().strip()
        assert is_locked(tmp_path, name)
        process.kill()
        process.wait(timeout=10)
    assert is_locked(tmp_path, name) is False


def test_returns_none_for_an_unknown_process(tmp_path: Path) -> None:
    assert is_locked(tmp_path, "nobody") is None
