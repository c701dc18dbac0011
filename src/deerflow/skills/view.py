"""Skill views for sandboxes: a folder per user with a copy of each enabled skill.

The folder itself is never replaced, because containers keep it mounted. Each skill in it is added, swapped and removed
atomically, so a sandbox never sees a partial copy.
"""

import ctypes
import json
import os
import shutil
import stat
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from deerflow.config.loader.files import O_CLOEXEC, O_NOFOLLOW, O_NONBLOCK, lock_folder
from deerflow.domain.errors import SandboxError
from deerflow.skills.folders import describe_os_error, owner_folder, walk_entries
from deerflow.skills.index import SkillIndex
from deerflow.skills.skill import Skill, SkillSet

AT_FDCWD, RENAME_EXCHANGE = -100, 2
MANIFEST = "view.json"


class SkillViews:
    """Folders that are mounted at `/mnt/skills`."""

    def __init__(self, home: Path, index: SkillIndex) -> None:
        self._home = home
        self._index = index
        self._versions: dict[str, str] = {}

    def prepare(self, owner: str) -> Path:
        """Return the view folder of `owner` with their current skills. Copies what has changed, so it blocks.

        Raises:
            SandboxError: The skills cannot be copied.
        """
        skills = self._index.read(owner)
        base = owner_folder(self._home, owner)
        view = base / "view"
        if self._versions.get(owner) != skills.version or not view.is_dir():
            try:
                base.mkdir(parents=True, exist_ok=True)
                with lock_folder(base):
                    update_view(base, view, skills)
            except OSError as error:
                raise SandboxError(f"cannot copy skills for the sandbox: {describe_os_error(error)}") from error
            self._versions[owner] = skills.version
        return view


def update_view(base: Path, view: Path, skills: SkillSet) -> None:
    """Update `view` to hold the enabled skills. The manifest and removed folders are kept in `base`."""
    # Folders removed by the last update are deleted only now, because a process may have been using them.
    retired = base / "retired"
    shutil.rmtree(retired, ignore_errors=True)
    for folder in (retired, view, view / "public", view / "custom"):
        folder.mkdir(exist_ok=True)
        folder.chmod(0o755)
    enabled = {f"{skill.category}/{skill.relative}": skill for skill in skills.enabled}
    current = {target: fingerprint for target, fingerprint in read_manifest(base).items() if (view / target).is_dir()}
    write_manifest(base, dict.fromkeys(current | enabled, ""))  # after a crash from here on, everything is copied again
    for target in sorted(current.keys() - enabled.keys()):
        (view / target).rename(retired / uuid4().hex)
        remove_empty_parents(view / target, view)
    for target, skill in sorted(enabled.items()):
        if current.get(target) != skill.fingerprint:
            copy = retired / uuid4().hex
            copy_skill(skill, copy)
            place_folder(copy, view / target)
    write_manifest(base, {target: skill.fingerprint for target, skill in enabled.items()})


def copy_skill(skill: Skill, copy: Path) -> None:
    """Copy the files of a skill, world-readable. Links and special files are skipped."""
    copy.mkdir()
    copy.chmod(0o755)
    for entry in walk_entries(skill.folder):
        target = copy / Path(entry.path).relative_to(skill.folder)
        if entry.is_dir(follow_symlinks=False):
            target.mkdir()
            target.chmod(0o755)
        elif entry.is_file(follow_symlinks=False):
            with suppress(FileNotFoundError):  # removed since it was listed
                copy_file(entry.path, target)


def copy_file(source: str, target: Path) -> None:
    """Copy one regular file, safe against concurrent replacement."""
    descriptor = os.open(source, os.O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            return
        with os.fdopen(descriptor, "rb", closefd=False) as file, target.open("xb") as copied:
            shutil.copyfileobj(file, copied)
        target.chmod(0o755 if mode & 0o111 else 0o644)
    finally:
        os.close(descriptor)


def place_folder(copy: Path, target: Path) -> None:
    """Move `copy` to `target`. An existing folder is swapped and ends up at the path of the copy."""
    if target.exists():
        swap_folders(copy, target)
        return
    for folder in reversed([folder for folder in target.parents if not folder.exists()]):
        folder.mkdir()
        folder.chmod(0o755)
    copy.rename(target)


def swap_folders(one: Path, other: Path) -> None:
    """Swap two folders, atomically if the file system supports it."""
    libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
    names = (AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other))
    if libc is not None and hasattr(libc, "renameat2") and libc.renameat2(*names, RENAME_EXCHANGE) == 0:
        return
    temporary = one.with_name(uuid4().hex)
    other.rename(temporary)
    one.rename(other)


def remove_empty_parents(target: Path, view: Path) -> None:
    """Remove the empty parent folders of a removed skill."""
    for folder in target.parents:
        if folder.parent == view:
            return
        try:
            folder.rmdir()
        except OSError:
            return


def read_manifest(base: Path) -> Mapping[str, str]:
    """Return the fingerprints of the skills in a view, by path."""
    try:
        written = json.loads((base / MANIFEST).read_bytes())
    except (OSError, ValueError):
        return {}
    return written if isinstance(written, dict) else {}


def write_manifest(base: Path, manifest: Mapping[str, str]) -> None:
    """Write the manifest of a view."""
    temporary = base / f".{MANIFEST}"
    temporary.write_text(json.dumps(manifest))
    temporary.replace(base / MANIFEST)
