"""Processes on this machine, seen from outside of sandboxes."""

import asyncio
import random
from contextlib import suppress
from pathlib import Path


def make_marker() -> str:
    """Return a unique number of seconds to sleep, by which the process is found."""
    return f"1000.{random.SystemRandom().randrange(10**11, 10**12)}"


def find_processes(marker: str) -> list[int]:
    """Return the processes with `marker` in their command line that are not dead."""
    found = []
    for folder in Path("/proc").iterdir():
        with suppress(OSError, IndexError):
            is_marked = folder.name.isdigit() and marker.encode() in (folder / "cmdline").read_bytes()
            if is_marked and (folder / "stat").read_text().rpartition(")")[2].split()[0] not in "ZX":
                found.append(int(folder.name))
    return found


async def wait_for_processes(marker: str, count: int = 1) -> None:
    """Wait until `count` processes are marked."""
    async with asyncio.timeout(15):
        while len(await asyncio.to_thread(find_processes, marker)) < count:
            pass


async def find_survivors(marker: str, within_s: float = 1.0) -> list[int]:
    """Return the marked processes that are still alive after `within_s`."""
    with suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            while await asyncio.to_thread(find_processes, marker):
                pass
    return find_processes(marker)
