"""The files of a skill's folder, and their hashes."""

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from deerflow.skills.folders import MAX_FILES

PIECE = 1024 * 1024
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def hash_files(folder: Path) -> dict[str, str]:
    """The SHA-256 of each file below `folder`, by its path; of a link, of where it leads. Blocks."""
    return {path: hash_file(folder / path, status) for path, status in walk(folder)}


def hash_file(file: Path, status: os.stat_result | None = None) -> str:
    """The SHA-256 of a file's content."""
    if stat.S_ISLNK((status or file.lstat()).st_mode):
        return hashlib.sha256(b"link to " + os.fsencode(file.readlink())).hexdigest()
    digest = hashlib.sha256()
    with os.fdopen(os.open(file, READ), "rb") as opened:
        while piece := opened.read(PIECE):
            digest.update(piece)
    return digest.hexdigest()


def walk(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Everything below `folder` that is no folder, in order; nothing is followed, and there is an end to it."""
    waiting, count = [""], 0
    while waiting:
        inner = waiting.pop()
        with os.scandir(folder / inner) as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
        folders = []
        for entry in entries:
            path = f"{inner}/{entry.name}" if inner else entry.name
            if entry.is_dir(follow_symlinks=False):
                folders.append(path)
                continue
            count += 1
            if count > 2 * MAX_FILES:  # more than enough to be refused
                return
            yield path, entry.stat(follow_symlinks=False)
        waiting += reversed(folders)
