"""Cgroups that limit all commands of a thread together, if the server may create them, and what is measured if not."""

import asyncio
import os
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex

from deerflow.config.sections.sandbox import LimitsConfig
from deerflow.sandbox.local.usage import FIRST_CHECK_S, has_exited, name_process

ROOT = Path("/sys/fs/cgroup")
PREFIX = "deerflow-"
MB = 1024 * 1024
RESIDENT = re.compile(r"^Rss(?:Anon|Shmem):\s+(\d+) kB$", re.M)


@dataclass(frozen=True, slots=True)
class CgroupControllers:
    """Hierarchies in which groups can be created: one for all limits (version 2), or one per controller."""

    memory: Path | None
    pids: Path | None
    version: int

    @property
    def trees(self) -> Sequence[Path]:
        return list(dict.fromkeys(filter(None, (self.memory, self.pids))))


def find_controllers(root: Path = ROOT) -> CgroupControllers:
    """Return the hierarchies in which this process can create groups."""
    if (root / "cgroup.controllers").is_file():
        usable = set(read_words(root / "cgroup.controllers")) & {"memory", "pids"}
        with suppress(OSError):
            (root / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in sorted(usable)))
        enabled = set(read_words(root / "cgroup.subtree_control")) if os.access(root, os.W_OK) else set()
        return CgroupControllers(root if "memory" in enabled else None, root if "pids" in enabled else None, version=2)
    memory, pids = (root / name if os.access(root / name, os.W_OK) else None for name in ("memory", "pids"))
    return CgroupControllers(memory, pids, version=1)


class Cgroups:
    """Groups of one server."""

    def __init__(self, controllers: CgroupControllers, limits: LimitsConfig) -> None:
        self.controllers = controllers
        self._limits = limits
        self._prefix = f"{PREFIX}{name_process()}-{token_hex(4)}"
        self._open: set[str] = set()

    def remove_stale(self) -> None:
        """Remove groups left by servers that have exited."""
        for tree in self.controllers.trees:
            for group in tree.glob(f"{PREFIX}*"):
                if has_exited("-".join(group.name.removeprefix(PREFIX).split("-")[:2])):
                    remove_groups([group])

    async def open(self, sandbox_id: str) -> list[str]:
        """Return the files that add a process to the group of a sandbox, which is created if missing.

        Every use of their file system, even to look whether a group exists, waits for all other changes of groups on
        the machine, so a thread does it.
        """
        if sandbox_id not in self._open:
            await asyncio.to_thread(self._create, sandbox_id)
            self._open.add(sandbox_id)
        return [str(group / "cgroup.procs") for _, group in self._groups(sandbox_id)]

    async def close(self, sandbox_id: str) -> None:
        """Remove the group of a sandbox after its commands have exited."""
        if sandbox_id in self._open:
            self._open.remove(sandbox_id)
            await asyncio.to_thread(remove_groups, [group for _, group in self._groups(sandbox_id)])

    def _groups(self, sandbox_id: str) -> list[tuple[Path, Path]]:
        """Return each hierarchy and the group in it."""
        return [(tree, tree / f"{self._prefix}-{sandbox_id}") for tree in self.controllers.trees]

    def _create(self, sandbox_id: str) -> None:
        for tree, group in self._groups(sandbox_id):
            group.mkdir(exist_ok=True)
            self._limit(tree, group)

    def _limit(self, tree: Path, group: Path) -> None:
        memory = str(self._limits.memory_mb * MB)
        if tree == self.controllers.memory and self.controllers.version == 2:
            write_limit(group / "memory.max", memory)
            write_limit(group / "memory.swap.max", "0")
            write_limit(group / "memory.oom.group", "0")
        elif tree == self.controllers.memory:
            write_limit(group / "memory.limit_in_bytes", memory)
            write_limit(group / "memory.memsw.limit_in_bytes", memory)
        if tree == self.controllers.pids:
            write_limit(group / "pids.max", str(self._limits.processes))


def remove_groups(groups: Sequence[Path]) -> None:
    """Remove groups unless they have processes."""
    for group in groups:
        with suppress(OSError):
            group.rmdir()


def write_limit(file: Path, value: str) -> None:
    """Set a limit; kernels without swap accounting lack some files."""
    with suppress(FileNotFoundError, PermissionError):
        file.write_text(value)


def read_words(file: Path) -> list[str]:
    """Return the words in a cgroup file."""
    with suppress(OSError):
        return file.read_text().split()
    return []


class MemoryMonitor:
    """Monitor of the total memory of the commands in one network namespace."""

    def __init__(self, namespace: int, limit: int) -> None:
        self._namespace = namespace
        self._limit = limit

    async def wait_for_excess(self) -> str:
        """Return a message when the commands use too much; otherwise run until cancelled."""
        while True:
            started = time.monotonic()
            used = await asyncio.to_thread(measure_memory, self._namespace)
            if used > self._limit:
                return f"the commands of this thread took more than {self._limit // 1024**2} MB of memory"
            await asyncio.sleep(max(FIRST_CHECK_S, 20 * (time.monotonic() - started)))


def measure_memory(namespace: int) -> int:
    """Return the memory used by the processes in a network namespace, without file caches."""
    total, memfds = 0, dict[int, int]()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # exited meanwhile, or of another user
            if (process / "ns/net").stat().st_ino == namespace:
                total += sum(int(kilobytes) * 1024 for kilobytes in RESIDENT.findall((process / "status").read_text()))
                memfds |= measure_memfds(process)
    return total + sum(memfds.values())


def measure_memfds(process: Path) -> dict[int, int]:
    """Return the sizes of the memory files that a process has open, by inode."""
    found = {}
    for link in (process / "fd").iterdir():
        with suppress(OSError):
            if str(link.readlink()).startswith("/memfd:"):
                status = link.stat()
                found[status.st_ino] = status.st_blocks * 512
    return found
