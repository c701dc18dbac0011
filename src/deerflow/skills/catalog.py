"""Skill catalog: list, read and enable or disable skills."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from deerflow.domain.errors import NotFound
from deerflow.domain.skills import SkillMetadata, SkillTerms
from deerflow.skills.folders import custom_root, read_skill_file, to_display_path, walk_entries, write_switch
from deerflow.skills.format import split_skill
from deerflow.skills.index import SkillIndex
from deerflow.skills.skill import Skill, SkillSet

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


class SkillCatalog:
    """Catalog of the skills of each user."""

    def __init__(self, index: SkillIndex, home: Path, set_enabled: SetEnabled) -> None:
        self.index = index
        self._home = home
        self._set_builtin_enabled = set_enabled

    async def list(self, owner: str) -> SkillSet:
        """Return all skills of a user, and the folders that were rejected."""
        return await self.index.load(owner)

    async def find(self, owner: str, name: str) -> Skill:
        """Return the skill with the given name.

        Raises:
            NotFound: There is no such skill.
        """
        skill = (await self.index.load(owner)).skills.get(name)
        if skill is None:
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
        if not skill.editable:
            await asyncio.to_thread(self._set_builtin_enabled, name, enabled)
        else:
            await asyncio.to_thread(write_switch, custom_root(self._home, owner), name, enabled=enabled)
        return await self.find(owner, name)

    async def reload(self, owner: str) -> SkillSet:
        """Read all folders again. Needed on file systems that do not report changes."""
        self.index.reload()
        return await self.index.load(owner)


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
