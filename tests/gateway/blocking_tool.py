"""Synchronous tools that block until a test releases them."""

import asyncio
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from langchain_core.tools import BaseTool


def wait_for_release(folder: str) -> str:
    """Report the arrival of a call, then block until the barrier is released.

    Args:
        folder: Folder of the barrier.
    """
    with (Path(folder) / "arrivals").open("wb", buffering=0) as arrivals:
        arrivals.write(b".")
    with (Path(folder) / "lock").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
    return "released"


class WaitForRelease(BaseTool):
    """The same as a class, whose asynchronous method is the one of LangChain."""

    name: str = "wait_for_release"
    description: str = "Block until the barrier is released."

    def _run(self, folder: str) -> str:
        return wait_for_release(folder)


@dataclass(frozen=True)
class Barrier:
    """Holds back all calls of the tools until it is released."""

    folder: Path
    arrivals: int
    lock: int

    @classmethod
    @contextmanager
    def closed(cls, folder: Path) -> Iterator["Barrier"]:
        """Yield a barrier that is released at the latest at the end."""
        folder.mkdir()
        os.mkfifo(folder / "arrivals")
        (folder / "lock").touch()
        arrivals = os.open(folder / "arrivals", os.O_RDWR | os.O_NONBLOCK)
        lock = os.open(folder / "lock", os.O_RDWR)
        fcntl.flock(lock, fcntl.LOCK_EX)
        barrier = cls(folder, arrivals, lock)
        try:
            yield barrier
        finally:
            barrier.release()
            os.close(lock)
            os.close(arrivals)

    async def wait_for_arrivals(self, count: int) -> None:
        """Wait until so many calls block."""
        loop, readable = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self.arrivals, readable.set)
        try:
            while count > 0:
                async with asyncio.timeout(30):
                    await readable.wait()
                readable.clear()
                with suppress(BlockingIOError):  # what woke us was read before
                    count -= len(os.read(self.arrivals, count))
        finally:
            loop.remove_reader(self.arrivals)

    def release(self) -> None:
        """Let all calls continue, also later ones."""
        fcntl.flock(self.lock, fcntl.LOCK_UN)
