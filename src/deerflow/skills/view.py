"""What sandboxes see of skills: a folder per person with a copy of each skill that is switched on, and nothing else.

The folder itself stays the same one, for containers have it mounted for as long as they live. A skill in it is put in
place, exchanged and taken away as a whole, so nobody meets half of one.
"""

import ctypes
import fcntl
import json
import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from deerflow.domain.errors import SandboxError
from deerflow.skills.folders import entries_below, reason
from deerflow.skills.index import SkillIndex
from deerflow.skills.roots import owner_folder
from deerflow.skills.skill import Skill, SkillSet

AT_WORKING_FOLDER, EXCHANGE = -100, 2
MANIFEST = "view.json"


class SkillViews:
    """Keeps the folders that are shown at `/mnt/skills`."""

    def __init__(self, home: Path, index: SkillIndex) -> None:
        self._home = home
        self._index = index
        self._shown: dict[str, str] = {}

    def folder_for(self, owner: str) -> Path:
        """The folder for the sandboxes of `owner`, as their skills are now. Copies what has changed, so it blocks.

        Raises:
            SandboxError: They cannot be copied; the text says why.
        """
        skills = self._index.current(owner)
        base = owner_folder(self._home, owner)
        view = base / "view"
        if self._shown.get(owner) != skills.version or not view.is_dir():
            try:
                base.mkdir(parents=True, exist_ok=True)
                with alone_in(base):
                    bring_up_to_date(base, view, skills)
            except OSError as problem:
                raise SandboxError(f"skills cannot be shown to the sandbox: {reason(problem)}") from problem
            self._shown[owner] = skills.version
        return view


def bring_up_to_date(base: Path, view: Path, skills: SkillSet) -> None:
    """Have `view` hold the skills that are switched on; what it needs besides is kept in `base`."""
    # What the last change took away is removed only now: a process may have stood in it.
    retired = base / "retired"
    shutil.rmtree(retired, ignore_errors=True)
    for folder in (retired, view, view / "public", view / "custom"):
        folder.mkdir(exist_ok=True)
        folder.chmod(0o755)
    wanted = {f"{skill.category}/{skill.relative}": skill for skill in skills.enabled}
    shown = {place: fingerprint for place, fingerprint in read_manifest(base).items() if (view / place).is_dir()}
    write_manifest(base, dict.fromkeys(shown | wanted, ""))  # a crash from here on: all of it is made anew
    for place in sorted(shown.keys() - wanted.keys()):
        (view / place).rename(retired / uuid4().hex)
        remove_empty_above(view / place, view)
    for place, skill in sorted(wanted.items()):
        if shown.get(place) != skill.fingerprint:
            copy = retired / uuid4().hex
            copy_skill(skill, copy)
            put(copy, view / place)
    write_manifest(base, {place: skill.fingerprint for place, skill in wanted.items()})


def copy_skill(skill: Skill, copy: Path) -> None:
    """Copy the files of a skill, readable for everybody; links and whatever else is no file are left out."""
    copy.mkdir()
    copy.chmod(0o755)
    for entry in entries_below(skill.folder):
        target = copy / Path(entry.path).relative_to(skill.folder)
        if entry.is_dir(follow_symlinks=False):
            target.mkdir()
            target.chmod(0o755)
        elif entry.is_file(follow_symlinks=False):
            with suppress(FileNotFoundError):  # it was there a moment ago
                copy_file(entry.path, target)


def copy_file(source: str, target: Path) -> None:
    """Copy one file, whatever somebody puts in its place meanwhile."""
    descriptor = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            return
        with os.fdopen(descriptor, "rb", closefd=False) as file, target.open("xb") as copied:
            shutil.copyfileobj(file, copied)
        target.chmod(0o755 if mode & 0o111 else 0o644)
    finally:
        os.close(descriptor)


def put(copy: Path, place: Path) -> None:
    """Have `copy` be at `place`; what was there is then where the copy was."""
    if place.exists():
        exchange(copy, place)
        return
    for folder in reversed([folder for folder in place.parents if not folder.exists()]):
        folder.mkdir()
        folder.chmod(0o755)
    copy.rename(place)


def exchange(one: Path, other: Path) -> None:
    """Have two folders change places, in one step where the file system can."""
    libc = ctypes.CDLL(None, use_errno=True)
    names = (AT_WORKING_FOLDER, os.fsencode(one), AT_WORKING_FOLDER, os.fsencode(other))
    if hasattr(libc, "renameat2") and libc.renameat2(*names, EXCHANGE) == 0:
        return
    aside = one.with_name(uuid4().hex)
    other.rename(aside)
    one.rename(other)


def remove_empty_above(place: Path, view: Path) -> None:
    """Remove the folders above a skill that has gone, as far as nothing else is in them."""
    for folder in place.parents:
        if folder.parent == view:
            return
        try:
            folder.rmdir()
        except OSError:
            return


def read_manifest(base: Path) -> Mapping[str, str]:
    """Which skills a view holds, and how they looked when they were copied."""
    try:
        written = json.loads((base / MANIFEST).read_bytes())
    except (OSError, ValueError):
        return {}
    return written if isinstance(written, dict) else {}


def write_manifest(base: Path, manifest: Mapping[str, str]) -> None:
    """Note what a view holds."""
    unfinished = base / f".{MANIFEST}"
    unfinished.write_text(json.dumps(manifest))
    unfinished.replace(base / MANIFEST)


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Wait until nobody else, in this process or another, works in `folder`."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
