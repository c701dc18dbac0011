"""Processes that share files know of each other."""

import subprocess
import sys
from pathlib import Path

from deerflow.persistence.liveness import is_locked, sign_of_life

HOLD = """
import sys
from pathlib import Path
from deerflow.persistence.liveness import sign_of_life
with sign_of_life(Path(sys.argv[1])) as name:
    print(name, flush=True)
    sys.stdin.read()
"""


def test_a_process_is_alive_until_it_says_good_bye(tmp_path: Path) -> None:
    with sign_of_life(tmp_path) as name:
        assert is_locked(tmp_path, name)
    assert is_locked(tmp_path, name) is None
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_was_killed_is_dead(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        name = process.stdout.readline().strip()
        assert is_locked(tmp_path, name)
        process.kill()
        process.wait(timeout=10)
    assert is_locked(tmp_path, name) is False


def test_a_name_nobody_has_is_nobodys(tmp_path: Path) -> None:
    assert is_locked(tmp_path, "nobody") is None
