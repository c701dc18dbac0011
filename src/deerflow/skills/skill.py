"""A skill, as everybody else knows it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from deerflow.domain.skills import SkillCard
from deerflow.skills.contract import Contract
from deerflow.skills.format import SKILL_FILE

SKILLS_FOLDER = "/mnt/skills"
Category = Literal["public", "custom"]


@dataclass(frozen=True, slots=True)
class Skill:
    """A folder with a SKILL.md that can be used."""

    name: str
    description: str
    category: Category
    folder: Path
    relative: PurePosixPath
    """The folder as seen from the root of its category."""
    license: str | None = None
    allowed_tools: tuple[str, ...] | None = None
    """The tools it may use while it is active; None: it limits nothing."""
    enabled: bool = True
    contract: Contract | None = None
    """What its skill.toml says; None: it has none."""
    fields: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """The header as it is written, fields nobody knows included."""
    fingerprint: str = ""
    """Changes with every file of the folder."""

    @property
    def directory(self) -> str:
        """Its folder in the sandbox."""
        return f"{SKILLS_FOLDER}/{self.category}/{self.relative}"

    @property
    def location(self) -> str:
        """Its SKILL.md in the sandbox."""
        return f"{self.directory}/{SKILL_FILE}"

    @property
    def card(self) -> SkillCard:
        """What an agent knows of it."""
        contract = self.contract
        tools = contract.narrowed(self.allowed_tools) if contract else self.allowed_tools
        terms = contract.terms if contract else None
        return SkillCard(self.name, self.description, self.location, self.editable, tools, terms)

    @property
    def editable(self) -> bool:
        """Whether its owner may change it."""
        return self.category == "custom"


@dataclass(frozen=True, slots=True)
class RefusedSkill:
    """A folder that was to be a skill and is none, and why, in words for a person."""

    category: Category
    path: str
    """The folder as seen from the root of its category."""
    reason: str


@dataclass(frozen=True, slots=True)
class SkillSet:
    """The skills of somebody at one moment."""

    skills: Mapping[str, Skill] = field(default_factory=dict)
    """By name, in the order of their names; those that are switched off too."""
    refused: tuple[RefusedSkill, ...] = ()
    version: str = ""
    """Equal versions hold equal skills, file for file."""

    @property
    def enabled(self) -> tuple[Skill, ...]:
        """Those that are switched on."""
        return tuple(skill for skill in self.skills.values() if skill.enabled)
