"""Data model of skills."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from deerflow.domain.skills import SkillMetadata
from deerflow.skills.contract import Contract
from deerflow.skills.format import SKILL_FILE

SKILLS_FOLDER = "/mnt/skills"
Category = Literal["public", "custom"]


@dataclass(frozen=True, slots=True)
class Skill:
    """A valid skill folder with a SKILL.md."""

    name: str
    description: str
    category: Category
    folder: Path
    relative: PurePosixPath
    """Folder relative to the root of the category."""
    license: str | None = None
    allowed_tools: tuple[str, ...] | None = None
    """Tools allowed while the skill is active; None means no restriction."""
    enabled: bool = True
    is_shared: bool = False
    """True for skills in the project folder, which belong to all users and cannot be changed by them."""
    contract: Contract | None = None
    """Parsed skill.toml, or None."""
    fields: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Front matter, including unknown fields."""
    fingerprint: str = ""
    """Hash that changes with every file of the folder."""
    metadata: SkillMetadata = field(init=False, repr=False, compare=False)
    """Metadata for agents, computed once: every run reads those of all skills before it asks the model."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "metadata", build_metadata(self))

    @property
    def directory(self) -> str:
        """Folder of the skill in the sandbox."""
        return f"{SKILLS_FOLDER}/{self.category}/{self.relative}"

    @property
    def location(self) -> str:
        """Path of SKILL.md in the sandbox."""
        return f"{self.directory}/{SKILL_FILE}"

    @property
    def editable(self) -> bool:
        """True if the owner may change the skill."""
        return self.category == "custom" and not self.is_shared


def build_metadata(skill: Skill) -> SkillMetadata:
    """Return the part of a skill that agents know."""
    contract = skill.contract
    tools = contract.restrict_tools(skill.allowed_tools) if contract else skill.allowed_tools
    terms = contract.terms if contract else None
    return SkillMetadata(skill.name, skill.description, skill.location, skill.editable, tools, terms)


@dataclass(frozen=True, slots=True)
class RejectedSkill:
    """A folder that is not a valid skill, with the reason."""

    category: Category
    path: str
    """Folder relative to the root of the category."""
    reason: str


@dataclass(frozen=True, slots=True)
class SkillSet:
    """Skills of one user at one time."""

    skills: Mapping[str, Skill] = field(default_factory=dict)
    """All skills by name, sorted, including disabled ones."""
    rejected: tuple[RejectedSkill, ...] = ()
    version: str = ""
    """Hash of all skills and their files."""

    @property
    def enabled(self) -> tuple[Skill, ...]:
        """The enabled skills."""
        return tuple(skill for skill in self.skills.values() if skill.enabled)
