"""`skills.lock`: the SHA-256 of every file of a person's skills, so that what was changed by other hands is seen.

It is beside the folder of the skills, in none that a sandbox can write to. What differs from it is told of and stays in
use: people may edit their own files.
"""

import fcntl
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path

import orjson
from pydantic import BaseModel, ValidationError

from deerflow.config.files import replace_file
from deerflow.skills.folders import find_skills
from deerflow.skills.format import SKILL_FILE
from deerflow.skills.hashes import hash_files

logger = logging.getLogger(__name__)

LOCK_FILE = "skills.lock"
MUTEX = ".lock"
"""Held by whoever changes skills."""
VERSION = 1


class Lock(BaseModel):
    """What is in the file."""

    version: int = VERSION
    skills: dict[str, dict[str, str]] = {}
    """By the name of the skill and the path in it."""


def read_lock(folder: Path) -> Lock:
    """The lock of the person whose skills are in `folder`; one that cannot be read locks nothing. Blocks."""
    try:
        return Lock.model_validate_json((folder / LOCK_FILE).read_bytes())
    except (FileNotFoundError, ValidationError):
        return Lock()


def write_lock(folder: Path, lock: Lock) -> None:
    """Put a lock in place of the one before, as a whole. Blocks."""
    replace_file(folder / LOCK_FILE, orjson.dumps(lock.model_dump(), option=orjson.OPT_INDENT_2) + b"\n")


def lock_file(folder: Path, name: str, path: str, sha256: str | None) -> None:
    """Note one file of a skill; None: it is gone. The others stay as they are noted, whoever has changed them."""
    lock = read_lock(folder)
    files = lock.skills.setdefault(name, {})
    if sha256 is None:
        files.pop(path, None)
    else:
        files[path] = sha256
    write_lock(folder, lock)


def lock_skill(folder: Path, name: str, skill: Path | None) -> None:
    """Note all files of a skill; None: it is gone."""
    lock = read_lock(folder)
    lock.skills.pop(name, None)
    if skill is not None:
        lock.skills[name] = hash_files(skill)
    write_lock(folder, lock)


def changed_outside(lock: Lock, name: str, skill: Path) -> tuple[str, ...]:
    """What other hands have done to a skill, in words for a person; nothing if it is as it was left. Blocks."""
    known = lock.skills.get(name)
    if known is None:
        return ("put here by hand: no file of it came through DeerFlow",)
    return tuple(differences(known, hash_files(skill)))


class LockWatch:
    """Tells the log of custom skills that other hands have changed, of each change once."""

    def __init__(self) -> None:
        self._told: dict[Path, tuple[str, ...]] = {}

    def look(self, root: Path) -> None:
        """Compare the skills in `root` with the lock beside it, unless somebody is just changing them. Blocks."""
        lock = read_lock(root.parent)
        if not lock.skills or is_being_changed(root.parent):
            return
        for name in lock.skills:
            folder = root / name
            changes = changed_outside(lock, name, folder) if folder.is_dir() else ()
            if changes and self._told.get(folder) != changes:
                logger.warning("the skill %r is in use, but not as DeerFlow left it: %s", name, "; ".join(changes))
            self._told[folder] = changes


def is_being_changed(folder: Path) -> bool:
    """Whether somebody holds the lock for changes; whoever changes skills makes them be looked at again."""
    try:
        with (folder / MUTEX).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def find_changed_skills(home: Path) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """The custom skills of everybody that other hands have changed: whose, which, and how. Blocks."""
    for base in sorted((home / "users").glob("*/skills")):
        lock = read_lock(base)
        folders = {skill.name: skill.folder for skill in find_skills(base / "custom", "custom").skills}
        # One whose SKILL.md cannot be read any more is still there.
        folders |= {file.parent.name: file.parent for file in (base / "custom").glob(f"*/{SKILL_FILE}")}
        for name in sorted(folders.keys() | lock.skills.keys()):
            if name not in folders:
                yield base.parent.name, name, ("removed outside: the whole skill",)
            elif changes := changed_outside(lock, name, folders[name]):
                yield base.parent.name, name, changes


def differences(known: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    """How files differ from what is known of them."""
    for path in sorted(known.keys() | now.keys()):
        if path not in now:
            yield f"removed outside: {path}"
        elif path not in known:
            yield f"added outside: {path}"
        elif known[path] != now[path]:
            yield f"changed outside: {path}"
