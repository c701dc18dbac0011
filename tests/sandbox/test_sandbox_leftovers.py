"""What a killed server leaves in the temporary folder is cleared away by the next one."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

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


def test_servers_that_start_at_once_do_not_stumble_over_each_other() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    ours = make_temporary("etc")
    for _ in range(20):
        for number in range(20):
            ours.with_name(f"deerflow-etc-{ended.pid}-{number}").mkdir(exist_ok=True)
        with ThreadPoolExecutor(8) as servers:
            list(servers.map(lambda _: clear_leftovers(), range(8)))
    ours.rmdir()
