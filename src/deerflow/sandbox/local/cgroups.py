"""Limits for all commands of a thread together, where this machine lets the server set them."""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex

from deerflow.config.sandbox import LimitsConfig

ROOT = Path("/sys/fs/cgroup")
PREFIX = "deerflow-"
MB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Controllers:
    """Where groups can be made: one tree for everything (version 2), or one for each kind of limit."""

    memory: Path | None
    pids: Path | None
    version: int

    @property
    def trees(self) -> Sequence[Path]:
        return list(dict.fromkeys(filter(None, (self.memory, self.pids))))


def find_controllers(root: Path = ROOT) -> Controllers:
    """The trees in which this process can make groups."""
    if (root / "cgroup.controllers").is_file():
        usable = set(read_words(root / "cgroup.controllers")) & {"memory", "pids"}
        with suppress(OSError):
            (root / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in sorted(usable)))
        enabled = set(read_words(root / "cgroup.subtree_control")) if os.access(root, os.W_OK) else set()
        return Controllers(root if "memory" in enabled else None, root if "pids" in enabled else None, version=2)
    memory, pids = (root / name if os.access(root / name, os.W_OK) else None for name in ("memory", "pids"))
    return Controllers(memory, pids, version=1)


class ControlGroups:
    """The groups of one server; those of servers that are gone are removed at the start."""

    def __init__(self, controllers: Controllers, limits: LimitsConfig) -> None:
        self.controllers = controllers
        self._limits = limits
        self._own = f"{PREFIX}{os.getpid()}-{token_hex(4)}"

    def open(self) -> None:
        """Remove what servers left behind that are gone."""
        for tree in self.controllers.trees:
            for group in tree.glob(f"{PREFIX}*"):
                pid = group.name.removeprefix(PREFIX).partition("-")[0]
                if pid.isdigit() and not Path("/proc", pid).exists():
                    remove(group)

    def join_files(self, sandbox_id: str) -> list[str]:
        """Files through which a process enters the group of a sandbox, which is made if there is none."""
        return [str(group / "cgroup.procs") for group in self._groups(sandbox_id)]

    def close(self, sandbox_id: str) -> None:
        """Remove the group of a sandbox, in which nothing runs any more."""
        for tree in self.controllers.trees:
            remove(tree / f"{self._own}-{sandbox_id}")

    def _groups(self, sandbox_id: str) -> Iterator[Path]:
        for tree in self.controllers.trees:
            group = tree / f"{self._own}-{sandbox_id}"
            if not group.exists():
                group.mkdir()
                self._limit(tree, group)
            yield group

    def _limit(self, tree: Path, group: Path) -> None:
        memory = str(self._limits.memory_mb * MB)
        if tree == self.controllers.memory and self.controllers.version == 2:
            write(group / "memory.max", memory)
            write(group / "memory.swap.max", "0")
            write(group / "memory.oom.group", "0")
        elif tree == self.controllers.memory:
            write(group / "memory.limit_in_bytes", memory)
            write(group / "memory.memsw.limit_in_bytes", memory)
        if tree == self.controllers.pids:
            write(group / "pids.max", str(self._limits.processes))


def remove(group: Path) -> None:
    """Remove a group, unless something still runs in it."""
    with suppress(OSError):
        group.rmdir()


def write(file: Path, value: str) -> None:
    """Set a limit; kernels without swap accounting lack some of the files."""
    with suppress(FileNotFoundError, PermissionError):
        file.write_text(value)


def read_words(file: Path) -> list[str]:
    """What a file of the control groups lists."""
    with suppress(OSError):
        return file.read_text().split()
    return []
