"""The files of a skill's folder, read as far as the scanner looks at them."""

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from deerflow.skills.hashes import READ, walk
from deerflow.skills.scanner.package import HEAD, MAX_ALL_TEXT, MAX_TEXT, SkillFile


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


def beginning(file: Path, room: int) -> bytes:
    """A text as far as it is looked at; of anything else what tells its kind."""
    with os.fdopen(os.open(file, READ), "rb") as opened:
        if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
            return b""
        head = opened.read(HEAD)
        # One byte beyond what there is room for is enough to be too much.
        return head if b"\0" in head else head + opened.read(min(MAX_TEXT, room + 1) - min(len(head), room + 1))
