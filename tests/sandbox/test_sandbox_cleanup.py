"""Removal of temporary folders left by killed servers."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from deerflow.sandbox.local.usage import make_temporary_folder, remove_stale_folders


def test_removes_folders_of_dead_processes_only() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    ours = make_temporary_folder("etc")
    left = ours.with_name(f"deerflow-etc-{ended.pid}-{os.urandom(4).hex()}")
    (left / "ssl").mkdir(parents=True)
    try:
        remove_stale_folders()
        assert ours.exists() and not left.exists()
    finally:
        ours.rmdir()


def test_concurrent_cleanups_do_not_conflict() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    ours = make_temporary_folder("etc")
    for _ in range(20):
        for number in range(20):
            ours.with_name(f"deerflow-etc-{ended.pid}-{number}").mkdir(exist_ok=True)
        with ThreadPoolExecutor(8) as servers:
            list(servers.map(lambda _: remove_stale_folders(), range(8)))
    ours.rmdir()
