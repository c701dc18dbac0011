"""The files of a skill's folder: read as far as somebody looks at them, and hashed."""

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from deerflow.skills.scanner.package import HEAD, MAX_ALL_TEXT, MAX_FILES, MAX_TEXT, SkillFile

PIECE = 1024 * 1024
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def read_files(folder: Path, changes: Mapping[str, bytes | None] | None = None) -> list[SkillFile]:
    """The files below `folder` for the scanner, as they would be with `changes` (None: without that file). Blocks."""
    changes = changes or {}
    room = MAX_ALL_TEXT
    found = []
    for path, status in walk(folder):
        if path in changes:
            continue
        content = b"" if stat.S_ISLNK(status.st_mode) else beginning(folder / path, room)
        room -= len(content)
        found.append(SkillFile(path, status.st_size, content, is_link=not stat.S_ISREG(status.st_mode)))
    found += [
        SkillFile(path, len(content), content[:MAX_TEXT]) for path, content in changes.items() if content is not None
    ]
    return sorted(found, key=lambda file: file.path)


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


def beginning(file: Path, room: int) -> bytes:
    """A text as far as it is looked at; of anything else what tells its kind."""
    with os.fdopen(os.open(file, READ), "rb") as opened:
        if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
            return b""
        head = opened.read(HEAD)
        # One byte beyond what there is room for is enough to be too much.
        return head if b"\0" in head else head + opened.read(min(MAX_TEXT, room + 1) - min(len(head), room + 1))
