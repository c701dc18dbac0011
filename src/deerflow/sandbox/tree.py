"""What is in a folder at one moment, told so exactly that two moments can be compared.

Whoever runs in the sandbox may change the folder meanwhile: everything is reached through descriptors, and no link is
followed.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from deerflow.sandbox.beneath import open_step_by_step

IGNORED = frozenset({".home", "node_modules", "__pycache__", ".venv"})
"""Folders of what programs make again by themselves."""
CLOSED = "closed"
"""In place of a target: nobody has looked into this folder."""
MAX_DEPTH = 100
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Entry(NamedTuple):
    """What the system says of a file, a folder, a link or something else."""

    mode: int
    uid: int
    gid: int
    size: int
    mtime_ns: int
    ctime_ns: int
    """Nobody in a sandbox can set it, and no content changes without it."""
    inode: int
    target: str = ""
    """Where a link leads; `CLOSED` for a folder that could not be looked into."""

    @property
    def is_file(self) -> bool:
        return stat.S_ISREG(self.mode)

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.mode)

    @property
    def is_link(self) -> bool:
        return stat.S_ISLNK(self.mode)

    def is_same(self, other: "Entry") -> bool:
        """Whether nothing has happened to it between two moments."""
        if (self.mode, self.uid, self.gid, self.target) != (other.mode, other.uid, other.gid, other.target):
            return False
        # A folder has other times as soon as something in it has; what that is tells itself.
        return not self.is_file or self[3:7] == other[3:7]

    @classmethod
    def of(cls, status: os.stat_result, target: str = "") -> "Entry":
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


class Found(NamedTuple):
    """An entry, its path from the top, and where it can be opened as long as the walk is at it."""

    path: str
    entry: Entry
    folder: int
    name: str
    links: int
    """How many names it has, here or elsewhere."""


def walk_tree(top: Path, areas: tuple[str, ...]) -> Iterator[Found]:
    """Everything below the folders `areas` of `top`, but not these themselves."""
    with opened(top) as root:
        for area in areas:
            with suppress(FileNotFoundError, NotADirectoryError):
                yield from walk_folder(os.open(area, FOLDER, dir_fd=root), area, MAX_DEPTH)


def walk_folder(folder: int, path: str, depth: int) -> Iterator[Found]:
    """Everything below an open folder, which is closed in the end."""
    try:
        with os.scandir(folder) as inside:
            for each in inside:
                if each.name not in IGNORED:
                    yield from walk_entry(folder, each, f"{path}/{each.name}", depth)
    finally:
        os.close(folder)


def walk_entry(folder: int, each: "os.DirEntry[str]", path: str, depth: int) -> Iterator[Found]:
    """One entry of an open folder, and everything below it."""
    try:
        status = each.stat(follow_symlinks=False)
        target = os.readlink(each.name, dir_fd=folder) if stat.S_ISLNK(status.st_mode) else ""
    except OSError:  # it vanished, or turned into something else
        return
    inner = open_inner(folder, each.name, depth) if stat.S_ISDIR(status.st_mode) else None
    if inner is None and stat.S_ISDIR(status.st_mode):
        target = CLOSED
    yield Found(path, Entry.of(status, target), folder, each.name, status.st_nlink)
    if inner is not None:
        yield from walk_folder(inner, path, depth - 1)


def open_inner(folder: int, name: str, depth: int) -> int | None:
    """A descriptor of a folder in an open one; None when it is too deep, or not for us."""
    try:
        return os.open(name, FOLDER, dir_fd=folder) if depth else None
    except OSError:
        return None


def walk_to(top: Path, path: str) -> Iterator[Found]:
    """The folders on the way to a path, below the area it is in, and what is at its end; as far as there is any."""
    names = path.split("/")
    for number in range(1, len(names)):
        with suppress(OSError), opened(top, "/".join(names[:number])) as folder:
            status = os.stat(names[number], dir_fd=folder, follow_symlinks=False)
            target = os.readlink(names[number], dir_fd=folder) if stat.S_ISLNK(status.st_mode) else ""
            found = "/".join(names[: number + 1])
            yield Found(found, Entry.of(status, target), folder, names[number], status.st_nlink)


@contextmanager
def opened(top: Path, below: str = "") -> Iterator[int]:
    """A descriptor of a folder below `top`, reached without following a link."""
    root = os.open(top, FOLDER)
    try:
        descriptor = open_step_by_step(root, below or ".", FOLDER)
    finally:
        os.close(root)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
