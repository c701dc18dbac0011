"""What a killed server leaves in the temporary folder is cleared away by the next one."""

import os
import subprocess
import sys

from deerflow.sandbox.local.leftovers import clear_leftovers, make_temporary


def test_folders_of_processes_that_are_gone_are_removed_and_those_of_living_ones_stay() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    ours = make_temporary("etc")
    left = ours.with_name(f"deerflow-etc-{ended.pid}-{os.urandom(4).hex()}")
    (left / "ssl").mkdir(parents=True)
    try:
        clear_leftovers()
        assert ours.exists() and not left.exists()
    finally:
        ours.rmdir()
