"""`skills.lock`: SHA-256 hashes of a user's skill files, used to detect external changes, and sources of skills.

The file is next to the skill folder, where no sandbox can write. Changed skills are reported and stay in use, because
users may edit their own files.
"""

import hashlib
import logging
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import orjson
from pydantic import BaseModel, ValidationError

from deerflow.config.loader.files import O_CLOEXEC, O_NOFOLLOW, O_NONBLOCK, acquire_lock, replace_file
from deerflow.skills.folders import MAX_FILES, find_skills
from deerflow.skills.format import SKILL_FILE

CHUNK_SIZE = 1024 * 1024
READ_FLAGS = os.O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC


def hash_files(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file below `folder` by path. For links, the target path is hashed. Blocks."""
    return {path: hash_file(folder / path, status) for path, status in walk_files(folder)}


def hash_file(file: Path, status: os.stat_result | None = None) -> str:
    """Return the SHA-256 of a file."""
    if stat.S_ISLNK((status or file.lstat()).st_mode):
        return hashlib.sha256(b"link to " + os.fsencode(file.readlink())).hexdigest()
    digest = hashlib.sha256()
    with os.fdopen(os.open(file, READ_FLAGS), "rb") as opened:
        while chunk := opened.read(CHUNK_SIZE):
            digest.update(chunk)
    return digest.hexdigest()


def walk_files(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yield all non-folders below `folder` in order. Links are not followed, and the number is limited."""
    pending, count = [""], 0
    while pending:
        subfolder = pending.pop()
        with os.scandir(folder / subfolder) as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
        folders = []
        for entry in entries:
            path = f"{subfolder}/{entry.name}" if subfolder else entry.name
            if entry.is_dir(follow_symlinks=False):
                folders.append(path)
                continue
            count += 1
            if count > 2 * MAX_FILES:  # enough to be refused
                return
            yield path, entry.stat(follow_symlinks=False)
        pending += reversed(folders)


logger = logging.getLogger(__name__)

LOCK_FILE = "skills.lock"
MUTEX_FILE = ".lock"
"""Lock file that is held during changes."""
VERSION = 1


@dataclass(frozen=True, slots=True)
class SkillSource:
    """Origin of an installed skill, pinned to what was downloaded."""

    url: str
    """Git repository or archive."""
    revision: str
    """Commit; for an archive, its hash as `sha256:…`."""
    ref: str | None = None
    """Branch or tag that updates follow; None for the default branch."""
    folder: str | None = None
    """Folder of the skill in the repository; None for the only skill in it."""


class SkillsLock(BaseModel):
    """Content of `skills.lock`."""

    version: int = VERSION
    skills: dict[str, dict[str, str]] = {}
    """Hashes by skill name and path."""
    sources: dict[str, SkillSource] = {}
    """Sources by skill name, for skills that were installed from a URL."""


def read_lock(folder: Path) -> SkillsLock:
    """Read the lock in `folder`. An unreadable lock is empty. Blocks."""
    try:
        return SkillsLock.model_validate_json((folder / LOCK_FILE).read_bytes())
    except (FileNotFoundError, ValidationError):
        return SkillsLock()


def write_lock(folder: Path, lock: SkillsLock) -> None:
    """Replace the lock atomically. Blocks."""
    replace_file(folder / LOCK_FILE, orjson.dumps(lock.model_dump(), option=orjson.OPT_INDENT_2) + b"\n")


def lock_file(folder: Path, name: str, path: str, sha256: str | None) -> None:
    """Record the hash of one file; None removes it. Other entries are unchanged."""
    lock = read_lock(folder)
    files = lock.skills.setdefault(name, {})
    if sha256 is None:
        files.pop(path, None)
    else:
        files[path] = sha256
    write_lock(folder, lock)


def lock_skill(folder: Path, name: str, skill: Path | None) -> None:
    """Record the hashes of all files of a skill; None removes it."""
    lock = read_lock(folder)
    lock.skills.pop(name, None)
    if skill is not None:
        lock.skills[name] = hash_files(skill)
    write_lock(folder, lock)


def lock_source(folder: Path, name: str, source: SkillSource | None) -> None:
    """Record the source of a skill; None removes it."""
    lock = read_lock(folder)
    if lock.sources.get(name) == source:
        return
    lock.sources.pop(name, None)
    if source is not None:
        lock.sources[name] = source
    write_lock(folder, lock)


def find_external_changes(lock: SkillsLock, name: str, skill: Path) -> tuple[str, ...]:
    """Return the external changes of a skill as messages. Blocks."""
    recorded = lock.skills.get(name)
    if recorded is None:
        return ("added outside: the whole skill",)
    return tuple(diff_hashes(recorded, hash_files(skill)))


class LockMonitor:
    """Logs external changes of custom skills, each change once."""

    def __init__(self) -> None:
        self._reported: dict[Path, tuple[str, ...]] = {}

    def check(self, root: Path) -> None:
        """Compare the skills in `root` with the lock, unless a change is in progress. Blocks."""
        lock = read_lock(root.parent)
        if not lock.skills or is_locked(root.parent):
            return
        for name in lock.skills:
            folder = root / name
            changes = find_external_changes(lock, name, folder) if folder.is_dir() else ()
            if changes and self._reported.get(folder) != changes:
                logger.warning("skill %r was changed outside DeerFlow and stays in use: %s", name, "; ".join(changes))
            self._reported[folder] = changes


def is_locked(folder: Path) -> bool:
    """Return True if a change is in progress. Its author triggers another check."""
    try:
        with (folder / MUTEX_FILE).open("rb") as file:
            acquire_lock(file, shared=True, wait=False)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def find_externally_changed_skills(home: Path) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield the owner, name and external changes of custom skills of all users. Blocks."""
    for base in sorted((home / "users").glob("*/skills")):
        lock = read_lock(base)
        folders = {skill.name: skill.folder for skill in find_skills(base / "custom", "custom").skills}
        # Includes skills whose SKILL.md is no longer valid.
        folders |= {file.parent.name: file.parent for file in (base / "custom").glob(f"*/{SKILL_FILE}")}
        for name in sorted(folders.keys() | lock.skills.keys()):
            if name not in folders:
                yield base.parent.name, name, ("removed outside: the whole skill",)
            elif changes := find_external_changes(lock, name, folders[name]):
                yield base.parent.name, name, changes


def diff_hashes(recorded: Mapping[str, str], current: Mapping[str, str]) -> Iterator[str]:
    """Yield the differences between recorded and current hashes."""
    for path in sorted(recorded.keys() | current.keys()):
        if path not in current:
            yield f"removed outside: {path}"
        elif path not in recorded:
            yield f"added outside: {path}"
        elif recorded[path] != current[path]:
            yield f"changed outside: {path}"
