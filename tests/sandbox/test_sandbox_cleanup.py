"""Removal of temporary folders and cgroups left by killed servers."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from deerflow.config.sections.sandbox import LimitsConfig
from deerflow.sandbox.local.launcher.cgroups import CgroupControllers, Cgroups
from deerflow.sandbox.local.usage import (
    make_temporary_folder,
    name_process,
    read_pid_namespace,
    remove_stale_folders,
)


def test_removes_folders_of_dead_processes_only() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    ours = make_temporary_folder("etc")
    left = ours.with_name(f"deerflow-etc-n{read_pid_namespace()}-{ended.pid}-{os.urandom(4).hex()}")
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
            ours.with_name(f"deerflow-etc-n{read_pid_namespace()}-{ended.pid}-{number}").mkdir(exist_ok=True)
        with ThreadPoolExecutor(8) as servers:
            list(servers.map(lambda _: remove_stale_folders(), range(8)))
    ours.rmdir()


def test_leaves_what_belongs_to_processes_of_other_containers(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    elsewhere = f"n{read_pid_namespace() + 1}-{ended.pid}"
    here = f"n{read_pid_namespace()}-{ended.pid}"
    groups = {name: tmp_path / f"deerflow-{name}-00112233-box" for name in (elsewhere, here, name_process())}
    for group in groups.values():
        group.mkdir()
    ours = make_temporary_folder("etc")
    theirs = ours.with_name(f"deerflow-etc-{elsewhere}-{os.urandom(4).hex()}")
    theirs.mkdir()
    try:
        Cgroups(CgroupControllers(tmp_path, tmp_path, version=2), LimitsConfig()).remove_stale()
        remove_stale_folders()
        assert [name for name, group in groups.items() if group.exists()] == [elsewhere, name_process()]
        assert theirs.exists()
    finally:
        ours.rmdir()
        theirs.rmdir()
