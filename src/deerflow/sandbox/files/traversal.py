"""Safe traversal of folders that a sandbox may change at the same time.

Everything is reached through descriptors, and no link leads outside. File stats are exact enough to compare the folder
at two points in time.
"""

import ctypes
import errno
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from deerflow.config.loader.files import O_CLOEXEC, O_DIRECTORY, O_NOFOLLOW

OPENAT2 = 437
"""System call number, the same on every architecture."""
RESOLVE_NO_MAGICLINKS, RESOLVE_BENEATH = 0x02, 0x08
TRIES = 100


class OpenHow(ctypes.Structure):
    """Argument `struct open_how` of openat2."""

    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def open_beneath(folder: int, path: str, flags: int) -> int:
    """Open `path` below `folder` and return the descriptor. Links are followed as long as they stay below.

    The kernel checks during resolution, so concurrent changes do no harm. Kernels before 5.6 and some containers lack
    openat2, and so does macOS: there each folder is opened from its parent, and no link is followed.
    """
    if LIBC is None:
        return open_step_by_step(folder, path, flags)
    for _ in range(TRIES):
        how = OpenHow(flags | O_CLOEXEC, 0, RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS)
        opened: int = LIBC.syscall(OPENAT2, folder, os.fsencode(path), ctypes.byref(how), ctypes.sizeof(how))
        if opened >= 0:
            return opened
        problem = ctypes.get_errno()
        if problem in (errno.ENOSYS, errno.EPERM):
            return open_step_by_step(folder, path, flags)
        if problem != errno.EAGAIN:  # a rename during resolution
            break
    raise OSError(problem, os.strerror(problem))


def open_step_by_step(folder: int, path: str, flags: int) -> int:
    """Open `path` below `folder` component by component, without following links."""
    *folders, name = path.split("/")
    if ".." in (*folders, name):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
    descriptor = os.dup(folder)
    try:
        for each in folders:
            inner = os.open(each, os.O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
        return os.open(name, flags | O_NOFOLLOW | O_CLOEXEC, dir_fd=descriptor)
    finally:
        os.close(descriptor)


IGNORED_FOLDERS = frozenset({".home", "node_modules", "__pycache__", ".venv"})
"""Folders that programs recreate by themselves."""
UNREADABLE = "closed"
"""Marker in place of a link target: the folder could not be read."""
MAX_DEPTH = 100
FOLDER_FLAGS = os.O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC


class FileStat(NamedTuple):
    """Metadata of a file, folder, link or other file type."""

    mode: int
    uid: int
    gid: int
    size: int
    mtime_ns: int
    ctime_ns: int
    """Commands cannot set it, and it changes with every change of the content."""
    inode: int
    target: str = ""
    """Target of a link; `UNREADABLE` for a folder that could not be read."""

    @property
    def is_file(self) -> bool:
        return stat.S_ISREG(self.mode)

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.mode)

    @property
    def is_link(self) -> bool:
        return stat.S_ISLNK(self.mode)

    def is_same(self, other: "FileStat") -> bool:
        """Return True if nothing has changed between two stats."""
        if (self.mode, self.uid, self.gid, self.target) != (other.mode, other.uid, other.gid, other.target):
            return False
        # The times of a folder change with its entries, which are compared themselves.
        return not self.is_file or self[3:7] == other[3:7]

    @classmethod
    def from_stat_result(cls, status: os.stat_result, target: str = "") -> "FileStat":
        return cls(
            status.st_mode,
            status.st_uid,
            status.st_gid,
            status.st_size,
            status.st_mtime_ns,
            status.st_ctime_ns,
            status.st_ino,
            target,
        )


class TreeEntry(NamedTuple):
    """A stat with its path from the top, and the open folder it can be opened from during the walk."""

    path: str
    stat: FileStat
    folder: int
    name: str
    links: int
    """Number of hard links, here or elsewhere."""


def walk_tree(top: Path, areas: tuple[str, ...]) -> Iterator[TreeEntry]:
    """Yield everything below the folders `areas` of `top`, without these folders."""
    with open_subfolder(top) as root:
        for area in areas:
            with suppress(FileNotFoundError, NotADirectoryError):
                yield from walk_folder(os.open(area, FOLDER_FLAGS, dir_fd=root), area, MAX_DEPTH)


def walk_folder(folder: int, path: str, depth: int) -> Iterator[TreeEntry]:
    """Yield everything below an open folder, and close it at the end."""
    try:
        with os.scandir(folder) as inside:
            for each in inside:
                if each.name not in IGNORED_FOLDERS:
                    yield from walk_entry(folder, each, f"{path}/{each.name}", depth)
    finally:
        os.close(folder)


def walk_entry(folder: int, each: "os.DirEntry[str]", path: str, depth: int) -> Iterator[TreeEntry]:
    """Yield one entry of an open folder and everything below it."""
    try:
        status = each.stat(follow_symlinks=False)
        target = os.readlink(each.name, dir_fd=folder) if stat.S_ISLNK(status.st_mode) else ""
    except OSError:  # removed, or replaced by another file type
        return
    inner = open_child_folder(folder, each.name, depth) if stat.S_ISDIR(status.st_mode) else None
    if inner is None and stat.S_ISDIR(status.st_mode):
        target = UNREADABLE
    yield TreeEntry(path, FileStat.from_stat_result(status, target), folder, each.name, status.st_nlink)
    if inner is not None:
        yield from walk_folder(inner, path, depth - 1)


def open_child_folder(folder: int, name: str, depth: int) -> int | None:
    """Open a subfolder of an open folder; return None if it is too deep or not permitted."""
    try:
        return os.open(name, FOLDER_FLAGS, dir_fd=folder) if depth else None
    except OSError:
        return None


def walk_path(top: Path, path: str) -> Iterator[TreeEntry]:
    """Yield the folders on a path below its area, and the entry at its end, as far as they exist."""
    names = path.split("/")
    for number in range(1, len(names)):
        with suppress(OSError), open_subfolder(top, "/".join(names[:number])) as folder:
            status = os.stat(names[number], dir_fd=folder, follow_symlinks=False)
            target = os.readlink(names[number], dir_fd=folder) if stat.S_ISLNK(status.st_mode) else ""
            found = "/".join(names[: number + 1])
            yield TreeEntry(found, FileStat.from_stat_result(status, target), folder, names[number], status.st_nlink)


@contextmanager
def open_subfolder(top: Path, below: str = "") -> Iterator[int]:
    """Open a folder below `top` without following links, and yield its descriptor."""
    root = os.open(top, FOLDER_FLAGS)
    try:
        descriptor = open_step_by_step(root, below or ".", FOLDER_FLAGS)
    finally:
        os.close(root)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
