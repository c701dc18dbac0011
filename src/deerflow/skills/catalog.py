"""Skill catalog: list, read and enable or disable skills; and the folder of enabled skills for sandboxes."""

import asyncio
import ctypes
import json
import os
import shutil
import stat
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Protocol
from uuid import uuid4

from deerflow.config.loader.files import O_CLOEXEC, O_NOFOLLOW, O_NONBLOCK, lock_folder
from deerflow.domain.errors import NotFound, SandboxError
from deerflow.domain.skills import SkillMetadata, SkillTerms
from deerflow.skills.folders import (
    custom_root,
    describe_os_error,
    owner_folder,
    read_skill_file,
    to_display_path,
    walk_entries,
    write_switch,
)
from deerflow.skills.format import Skill, SkillSet, split_skill
from deerflow.skills.index import SkillIndex

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


SetEnabled = Callable[[str, bool], None]
"""Function that enables or disables a built-in skill for all users, from the next run on."""


@dataclass(frozen=True, slots=True)
class PackageFile:
    """A file of a skill, with its path relative to the skill folder."""

    path: str
    size: int


@dataclass(frozen=True, slots=True)
class SkillPackage:
    """A skill with its SKILL.md and file list."""

    skill: Skill
    content: str
    """Content of SKILL.md."""
    files: tuple[PackageFile, ...]


class SkillShares(Protocol):
    """Skills that others share with people."""

    async def refresh(self, user_id: str) -> object:
        """Read what others share with a person, for the index."""
        ...

    async def accept_skill(self, user_id: str, address: str, *, accepted: bool) -> None:
        """Switch a shared skill on or off for a person, or raise `NotFound`."""
        ...


class SkillCatalog:
    """Catalog of the skills of each user."""

    def __init__(self, index: SkillIndex, home: Path, set_enabled: SetEnabled, shares: SkillShares) -> None:
        self.index = index
        self._home = home
        self._set_builtin_enabled = set_enabled
        self._shares = shares

    async def list(self, owner: str) -> SkillSet:
        """Return all skills of a user, and the folders that were rejected."""
        await self._shares.refresh(owner)
        return await self.index.load(owner)

    async def find(self, owner: str, name: str) -> Skill:
        """Return the skill with the given name; the address of a shared skill is accepted, too.

        Raises:
            NotFound: There is no such skill.
        """
        skill = (await self.list(owner)).skills.get(name.partition("@")[0])
        if skill is None or ("@" in name and (skill.share is None or skill.share.address != name)):
            raise NotFound(f"skill not found: {name!r}")
        return skill

    async def read(self, owner: str, name: str) -> SkillPackage:
        """Return a skill with its content and file list.

        Raises:
            NotFound: There is no such skill.
            SkillInvalid: It can no longer be read.
        """
        skill = await self.find(owner, name)
        return await asyncio.to_thread(read_package, skill)

    async def set_enabled(self, owner: str, name: str, *, enabled: bool) -> Skill:
        """Enable or disable a skill, effective for every run that starts later.

        Raises:
            NotFound: There is no such skill.
            ConfigError: The setting cannot be saved.
        """
        skill = await self.find(owner, name)
        if skill.share is not None:
            await self._shares.accept_skill(owner, skill.share.address, accepted=enabled)
        elif not skill.editable:
            await asyncio.to_thread(self._set_builtin_enabled, name, enabled)
        else:
            await asyncio.to_thread(write_switch, custom_root(self._home, owner), name, enabled=enabled)
        return await self.find(owner, name)

    async def reload(self, owner: str) -> SkillSet:
        """Read all folders again. Needed on file systems that do not report changes."""
        self.index.reload()
        return await self.list(owner)


def read_package(skill: Skill) -> SkillPackage:
    """Return a skill with its content and file list."""
    files = tuple(
        PackageFile(
            to_display_path(Path(entry.path).relative_to(skill.folder)), entry.stat(follow_symlinks=False).st_size
        )
        for entry in walk_entries(skill.folder)
        if entry.is_file(follow_symlinks=False)
    )
    return SkillPackage(skill, read_skill_file(skill.folder), tuple(sorted(files, key=lambda file: file.path)))


def filter_skills(found: SkillSet, *limits: Collection[str] | None) -> tuple[Skill, ...]:
    """Return the enabled skills that every limit names. A limit of None does not filter."""
    selected = found.enabled
    for limit in limits:
        if limit is not None:
            names = frozenset(limit)
            selected = tuple(skill for skill in selected if skill.name in names)
    return selected


class SelectedSkills:
    """Skills of one run. A body is read once and does not change during the run."""

    def __init__(self, skills: Sequence[Skill], default_terms: SkillTerms | None = None) -> None:
        """Create the skills of a run. `default_terms` apply to skills without a contract."""
        self._skills = {skill.name: skill for skill in skills}
        self._metadata = {skill.name: skill.metadata for skill in skills}
        if default_terms is not None:
            for name, each in self._metadata.items():
                self._metadata[name] = replace(each, terms=each.terms or default_terms)
        self._names = {skill.location: skill.name for skill in skills}
        self._bodies: dict[str, str] = {}

    def find(self, name: str) -> SkillMetadata | None:
        return self._metadata.get(name)

    def find_by_path(self, path: str) -> SkillMetadata | None:
        return self._metadata.get(self._names.get(str(PurePosixPath(path)), ""))  # normalizes `a//b` and `a/./b`

    async def read_body(self, name: str) -> str:
        if name not in self._bodies:
            text = await asyncio.to_thread(read_skill_file, self._skills[name].folder)
            self._bodies[name] = split_skill(text)[1].strip()
        return self._bodies[name]
