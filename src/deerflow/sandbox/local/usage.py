"""How much the commands of a thread use, where the kernel does not count it for us."""

import asyncio
import os
import re
import stat
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from deerflow.sandbox.beneath import open_beneath

T = TypeVar("T")

HELD = re.compile(r"^Rss(?:Anon|Shmem):\s+(\d+) kB$", re.M)
FIRST_LOOK_S = 0.25
LOOK_S = 1.0
FRESH_S = 2.0
"""So long is a look at the disk good for further commands, most of which are short."""
SLACK = 16 * 1024 * 1024
"""So much may a thread grow that is over its limit already: it has to run something to delete something."""
RESERVE = 256 * 1024 * 1024
SMALLEST = 4096
"""An empty file takes a place too, of which a disk has only so many."""
LONG_PATH = 3000
FOLDER = os.O_RDONLY | os.O_DIRECTORY


class DiskWatch:
    """Sees to it that the folders of a thread do not hold more than they may together."""

    def __init__(self, folders: Sequence[Path], limit: int, reserve: int = RESERVE) -> None:
        """`reserve` is how much of the disk is left for others, whoever uses it."""
        self._folders = folders
        self._limit = limit
        self._reserve = reserve
        self._allowed: int | None = None
        self._looked_at = 0.0

    async def await_excess(self) -> str:
        """Return, with a sentence, when a command has written too much. Otherwise this goes on until cancelled."""
        if time.monotonic() - self._looked_at < FRESH_S:
            await asyncio.sleep(FIRST_LOOK_S)
        while True:
            began = time.monotonic()
            used = await asyncio.to_thread(self.measure)
            self._looked_at = time.monotonic()
            if complaint := self._judge(used):
                return complaint
            # Looking must not become the load itself, however many files there are.
            await asyncio.sleep(max(LOOK_S, 20 * (self._looked_at - began)))

    def measure(self) -> int:
        """The bytes on disk below the folders."""
        return sum(map(disk_usage, self._folders))

    def _judge(self, used: int) -> str | None:
        if self._allowed is None:
            self._allowed = max(self._limit, used + SLACK)
        if used > self._allowed:
            self._allowed = used + SLACK
            return f"the files of this thread took more than {self._limit // 1024**2} MB; delete what is not needed"
        if used <= self._limit:
            self._allowed = self._limit
        else:  # what was deleted is not given back
            self._allowed = min(self._allowed, used + SLACK)
        is_full = any(free_bytes(folder) < self._reserve for folder in self._folders[:1])
        return "the disk of this machine is almost full" if is_full else None


class MemoryWatch:
    """Sees to it that the commands in one network do not take more memory than they may together."""

    def __init__(self, network: int, limit: int) -> None:
        self._network = network
        self._limit = limit

    async def await_excess(self) -> str:
        """Return, with a sentence, when they have taken too much. Otherwise this goes on until cancelled."""
        while True:
            began = time.monotonic()
            used = await asyncio.to_thread(memory_in, self._network)
            if used > self._limit:
                return f"the commands of this thread took more than {self._limit // 1024**2} MB of memory"
            await asyncio.sleep(max(FIRST_LOOK_S, 20 * (time.monotonic() - began)))


def memory_in(network: int) -> int:
    """The bytes that the processes in a network namespace hold, besides the files they read."""
    total, unnamed = 0, dict[int, int]()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # gone meanwhile, or somebody else's
            if (process / "ns/net").stat().st_ino == network:
                total += sum(int(kilobytes) * 1024 for kilobytes in HELD.findall((process / "status").read_text()))
                unnamed |= files_in_memory(process)
    return total + sum(unnamed.values())


def files_in_memory(process: Path) -> dict[int, int]:
    """The sizes of the files that a process has open and that are nowhere but in memory."""
    found = {}
    for link in (process / "fd").iterdir():
        with suppress(OSError):
            if str(link.readlink()).startswith("/memfd:"):
                status = link.stat()
                found[status.st_ino] = status.st_blocks * 512
    return found


async def until_excess(
    running: Coroutine[Any, Any, T], watch: Callable[[], Coroutine[Any, Any, str]]
) -> tuple[T | None, str | None]:
    """How a command ended, or why it had to be ended."""
    command, watching = asyncio.create_task(running), asyncio.create_task(watch())
    try:
        await asyncio.wait({command, watching}, return_when=asyncio.FIRST_COMPLETED)
        if command.done():
            return command.result(), None
        complaint = watching.result()
        command.cancel()
        await asyncio.wait({command})
        return None, complaint
    finally:
        watching.cancel()
        if not command.done():
            command.cancel()
            await asyncio.wait({command})


class OpenFolder:
    """A folder that is open as long as somebody holds this."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def __del__(self) -> None:
        os.close(self.descriptor)


Pending = list[tuple[OpenFolder, str]]
"""Folders that are still to be looked into, as paths from open ones: whoever wants to hide files nests them deeply."""


def disk_usage(folder: Path) -> int:
    """The bytes on disk below a folder. No link is followed."""
    total, pending = 0, Pending()
    with suppress(OSError):
        pending.append((OpenFolder(os.open(folder.parent, FOLDER | os.O_CLOEXEC)), folder.name))
    while pending:
        with suppress(OSError):  # gone meanwhile
            total += look_into(*pending.pop(), pending)
    return total


def look_into(base: OpenFolder, path: str, pending: Pending) -> int:
    """The bytes on disk of what is in a folder; the folders in it are added to `pending`."""
    folder = OpenFolder(open_folder(base.descriptor, path))
    base, path = (folder, ".") if len(path) > LONG_PATH else (base, path)
    total = 0
    with os.scandir(folder.descriptor) as inside:
        for each in inside:
            with suppress(OSError):  # gone meanwhile
                status = each.stat(follow_symlinks=False)
                total += max(status.st_blocks * 512, SMALLEST)
                if stat.S_ISDIR(status.st_mode):
                    pending.append((base, f"{path}/{each.name}"))
    return total


def open_folder(base: int, path: str) -> int:
    """A descriptor of a folder. One of ours that is closed to everybody is opened: nothing can be hidden in it."""
    try:
        return open_beneath(base, path, FOLDER)
    except PermissionError:
        closed = OpenFolder(open_beneath(base, path, os.O_PATH | os.O_DIRECTORY))
        itself = Path(f"/proc/self/fd/{closed.descriptor}")
        itself.chmod(stat.S_IMODE(itself.stat().st_mode) | stat.S_IRWXU)
        return os.open(itself, FOLDER | os.O_CLOEXEC)


def free_bytes(folder: Path) -> int:
    """How much more the disk of a folder can take."""
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize
