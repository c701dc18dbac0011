"""Temporary folders of servers, and those that killed ones have left."""

import os
import re
import shutil
import tempfile
from pathlib import Path

NAME = re.compile(r"deerflow-(?:stage|etc|service)-(\d+)-.*")


def make_temporary(kind: str) -> Path:
    """A new temporary folder that names this process as its owner."""
    return Path(tempfile.mkdtemp(prefix=f"deerflow-{kind}-{os.getpid()}-"))


def clear_leftovers() -> None:
    """Remove the temporary folders of our own whose processes are gone."""
    for folder in Path(tempfile.gettempdir()).glob("deerflow-*"):
        found = NAME.fullmatch(folder.name)
        if found and not Path("/proc", found[1]).exists() and is_ours(folder):
            shutil.rmtree(folder, ignore_errors=True)


def is_ours(folder: Path) -> bool:
    """Whether a folder belongs to whoever we run as; another server may just have removed it."""
    try:
        return folder.lstat().st_uid == os.geteuid()
    except FileNotFoundError:
        return False
