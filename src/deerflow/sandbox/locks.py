"""What keeps two changes of one file from mixing, whoever makes them in this process."""

import asyncio
from pathlib import PurePosixPath
from weakref import WeakValueDictionary


class FileLocks:
    """A lock for each file of each thread, kept as long as somebody holds it or waits for it."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    def lock(self, thread_id: str, path: str) -> asyncio.Lock:
        """The lock of one file."""
        return self._locks.setdefault((thread_id, str(PurePosixPath(path))), asyncio.Lock())
