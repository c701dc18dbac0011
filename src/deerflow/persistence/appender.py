"""Appends to the write-ahead log from the event loop itself, as long as that costs no more than copying memory."""

import sqlite3
import time
from pathlib import Path

Insert = tuple[str, tuple[object, ...]]
"""A statement in the driver's own words, and its values."""

SLOW_S = 0.005
AVOID_S = 10.0
CHECKPOINT_EVERY = 1000


class Appender:
    """A connection that never waits: neither for a lock nor for the disk."""

    def __init__(self, file: Path, slow_s: float = SLOW_S) -> None:
        """An append that takes longer than `slow_s` is the last one here for a while."""
        self._connection = sqlite3.connect(file, timeout=0, isolation_level=None)
        for setting in ("foreign_keys=ON", "synchronous=NORMAL", "wal_autocheckpoint=0"):
            self._connection.execute(f"PRAGMA {setting}")
        self._slow_s = slow_s
        self._avoid_until = 0.0
        self._count = 0

    def append(self, insert: Insert) -> bool:
        """Carry out `insert` if that can be done at once; whether it was. The caller turns to a thread otherwise."""
        began = time.monotonic()
        if began < self._avoid_until:
            return False
        try:
            self._connection.execute(*insert)
        except sqlite3.OperationalError:  # locked, or a full disk: the thread waits, or says what is wrong
            return False
        if time.monotonic() - began > self._slow_s:
            self._avoid_until = began + AVOID_S
        return True

    def is_checkpoint_due(self) -> bool:
        """Counts; True once for every `CHECKPOINT_EVERY` times it is asked."""
        self._count = (self._count + 1) % CHECKPOINT_EVERY
        return self._count == 0

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()
