"""Skills for people and programs: what there is, what is in it, on and off."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from deerflow.domain.errors import NotFound
from deerflow.skills.folders import entries_below, read_skill_file, readable
from deerflow.skills.index import SkillIndex
from deerflow.skills.roots import custom_root
from deerflow.skills.skill import Skill, SkillSet
from deerflow.skills.switches import write_switch

Switch = Callable[[str, bool], None]
"""Switches a skill of everybody on or off, for the next run of any process."""


@dataclass(frozen=True, slots=True)
class SkillFile:
    """A file of a skill, by its path below the skill's folder."""

    path: str
    size: int


@dataclass(frozen=True, slots=True)
class SkillPackage:
    """A skill with what is in it."""

    skill: Skill
    content: str
    """The whole SKILL.md."""
    files: tuple[SkillFile, ...]


class Skills:
    """The skills of each person."""

    def __init__(self, index: SkillIndex, home: Path, switch: Switch) -> None:
        self.index = index
        self._home = home
        self._switch = switch

    async def list(self, owner: str) -> SkillSet:
        """All skills there are for somebody, and the folders that were refused."""
        return await self.index.load(owner)

    async def find(self, owner: str, name: str) -> Skill:
        """The skill of that name.

        Raises:
            NotFound: There is none.
        """
        skill = (await self.index.load(owner)).skills.get(name)
        if skill is None:
            raise NotFound(f"there is no skill {name!r}")
        return skill

    async def read(self, owner: str, name: str) -> SkillPackage:
        """The skill of that name with its text and the list of its files.

        Raises:
            NotFound: There is none.
            SkillInvalid: It cannot be read any more.
        """
        skill = await self.find(owner, name)
        return await asyncio.to_thread(read_package, skill)

    async def switch(self, owner: str, name: str, *, enabled: bool) -> Skill:
        """Switch a skill on or off; this counts for every run that begins from now on.

        Raises:
            NotFound: There is none.
            ConfigError: The switch cannot be written down.
        """
        skill = await self.find(owner, name)
        if skill.category == "public":
            await asyncio.to_thread(self._switch, name, enabled)
        else:
            await asyncio.to_thread(write_switch, custom_root(self._home, owner), name, enabled=enabled)
        return await self.find(owner, name)

    async def reload(self, owner: str) -> SkillSet:
        """Read all folders again, for file systems that tell of no changes."""
        self.index.reload()
        return await self.index.load(owner)


def read_package(skill: Skill) -> SkillPackage:
    """A skill with its text and the list of its files."""
    files = tuple(
        SkillFile(readable(Path(entry.path).relative_to(skill.folder)), entry.stat(follow_symlinks=False).st_size)
        for entry in entries_below(skill.folder)
        if entry.is_file(follow_symlinks=False)
    )
    return SkillPackage(skill, read_skill_file(skill.folder), tuple(sorted(files, key=lambda file: file.path)))
