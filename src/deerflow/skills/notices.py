"""What the kernel noticed of changes in folders, asked for when it is needed: nobody waits, and nothing is missed."""

import ctypes
import errno
import os
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

CHANGES = 0x002 | 0x008 | 0x040 | 0x080 | 0x100 | 0x200 | 0x400 | 0x800
"""Written to, closed, moved away or in, made, deleted, and the folder itself deleted or moved.

Changes of attributes are left out: a hard link made elsewhere is one.
"""
ONLY_FOLDERS, NO_LINKS = 0x0100_0000, 0x0200_0000
OVERFLOWN, WATCH_ENDED = 0x4000, 0x8000
EVENT, EVENT_SIZE = "iIII", 16
BUFFER = 64 * 1024


class Notices:
    """Folders the kernel looks after, each for somebody who wants to know. Made by `open_notices`."""

    def __init__(self, descriptor: int, libc: ctypes.CDLL) -> None:
        self._descriptor = descriptor
        self._libc = libc
        self._wanted: dict[int, set[Path]] = {}
        self._lock = threading.Lock()

    def look_after(self, folder: Path, root: Path) -> bool:
        """Have changes directly in `folder` told as changes of `root`; False when the kernel cannot."""
        with self._lock:
            flags = CHANGES | ONLY_FOLDERS | NO_LINKS
            watch: int = self._libc.inotify_add_watch(self._descriptor, os.fsencode(folder), flags)
            if watch < 0:
                # A folder that has gone meanwhile changed the one above it, which is told.
                return ctypes.get_errno() in (errno.ENOENT, errno.ENOTDIR)
            self._wanted.setdefault(watch, set()).add(root)
            return True

    def changed(self) -> frozenset[Path]:
        """The roots below which something has changed since the last time; asking costs a microsecond."""
        with self._lock:
            return frozenset(self._read()) if self._descriptor >= 0 else frozenset()

    def close(self) -> None:
        """Stop looking. Whoever asks later hears of nothing."""
        with self._lock:
            os.close(self._descriptor)
            self._descriptor = -1

    def _read(self) -> Iterator[Path]:
        while events := self._next():
            at = 0
            while at < len(events):
                watch, mask, _, length = struct.unpack_from(EVENT, events, at)
                at += EVENT_SIZE + length
                if mask & OVERFLOWN:
                    yield from {root for roots in self._wanted.values() for root in roots}
                yield from self._wanted.get(watch, ())
                if mask & WATCH_ENDED:
                    self._wanted.pop(watch, None)

    def _next(self) -> bytes:
        try:
            return os.read(self._descriptor, BUFFER)
        except BlockingIOError:
            return b""


def open_notices() -> Notices | None:
    """A way to hear of changes; None where the system has none to give."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "inotify_init1"):
        return None
    descriptor: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    return Notices(descriptor, libc) if descriptor >= 0 else None
