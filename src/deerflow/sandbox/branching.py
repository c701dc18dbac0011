"""Gives a new thread the files of another, whatever the sandbox of that one does to them meanwhile."""

import logging
import os
import stat
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from deerflow.domain.errors import FileProblem
from deerflow.sandbox.copies import copy_content
from deerflow.sandbox.files import MAKE_FILE, READ, UNFINISHED
from deerflow.sandbox.places import AREAS, make_folder
from deerflow.sandbox.restoring import ARRIVING, set_rights
from deerflow.sandbox.tree import Found, opened, walk_tree

logger = logging.getLogger(__name__)

CANNOT_BE_HAD = (FileNotFoundError, PermissionError, NotADirectoryError)
"""It vanished, turned into something else, or is not for us."""


def copy_tree(source: Path, target: Path, owner: int | None) -> None:
    """Copy the files below the folders of a thread to those of a new one, which nobody uses yet.

    Raises:
        FileProblem: The disk is full, or cannot be written for another reason.
    """
    areas = tuple(AREAS.values())
    for area in areas:
        make_folder(target / area, owner)
    if not source.is_dir():
        return
    folders: list[Found] = []
    try:
        for found in ours(source, areas):
            with opened(target, found.path.rpartition("/")[0]) as folder:
                put(found, folder)
            if found.entry.is_folder:
                folders.append(found)
        for found in reversed(folders):  # only now, as some folders let nobody write into them
            with opened(target, found.path) as folder:
                set_rights(folder, found.entry)
    except OSError as problem:
        raise FileProblem(f"the files cannot be copied: {(problem.strerror or str(problem)).lower()}") from problem


def ours(source: Path, areas: tuple[str, ...]) -> Iterator[Found]:
    """What is to be copied. A file with a name elsewhere is not: it might be none of the sandbox's."""
    names = Counter(found.entry.inode for found in walk_tree(source, areas) if found.links > 1 and found.entry.is_file)
    for found in walk_tree(source, areas):
        is_known = not found.entry.is_file or found.links == 1 or names[found.entry.inode] >= found.links
        if is_known and not found.name.startswith(UNFINISHED) and not found.path.startswith(ARRIVING):
            yield found


def put(found: Found, folder: int) -> None:
    """Make in `folder` what a walk has found."""
    entry = found.entry
    if entry.is_folder:
        os.mkdir(found.name, 0o700, dir_fd=folder)
    elif entry.is_link:
        os.symlink(entry.target, found.name, dir_fd=folder)
        os.chown(found.name, entry.uid, entry.gid, dir_fd=folder, follow_symlinks=False)
    elif entry.is_file:
        put_file(found, folder)


def put_file(found: Found, folder: int) -> None:
    """Make in `folder` a file with the content, the rights and the time of the one a walk has found."""
    try:
        source = os.open(found.name, READ | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=found.folder)
    except CANNOT_BE_HAD as problem:
        logger.warning("%r is left out of a copy: %s", found.path, problem)
        return
    try:
        status = os.fstat(source)
        if not stat.S_ISREG(status.st_mode):
            return
        target = os.open(found.name, MAKE_FILE, 0o600, dir_fd=folder)
        try:
            copy_content(source, target, status.st_size)
            set_rights(target, found.entry)
            os.utime(target, ns=(found.entry.mtime_ns, found.entry.mtime_ns))
        finally:
            os.close(target)
    finally:
        os.close(source)
