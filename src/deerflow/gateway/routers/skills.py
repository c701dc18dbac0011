"""/skills: what agents can read up on"""

from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict

from deerflow.gateway.dependencies import TheHarness, Who
from deerflow.gateway.examples import shown_as
from deerflow.skills.catalog import SkillPackage
from deerflow.skills.contract import Contract
from deerflow.skills.skill import Category, Skill, SkillSet

router = APIRouter(prefix="/skills", tags=["skills"])


class SkillSummary(BaseModel):
    """A skill, as lists show it."""

    name: str
    description: str
    license: str | None
    category: Category
    enabled: bool
    editable: bool
    """Whether it is the caller's own."""
    location: str
    """Where agents find its SKILL.md."""
    allowed_tools: list[str] | None
    """The tools it may use while it is active; null: it limits nothing."""

    @classmethod
    def of(cls, skill: Skill) -> "SkillSummary":
        return cls.model_validate(skill, from_attributes=True)


class RefusedSkill(BaseModel):
    """A folder that was to be a skill and is none, and why."""

    category: Category
    path: str
    reason: str


class Skills(BaseModel):
    """The skills there are, by name, and the folders that were refused."""

    skills: list[SkillSummary]
    refused: list[RefusedSkill]

    @classmethod
    def of(cls, found: SkillSet) -> "Skills":
        refused = [RefusedSkill.model_validate(each, from_attributes=True) for each in found.refused]
        return cls(skills=[SkillSummary.of(skill) for skill in found.skills.values()], refused=refused)


class SkillFile(BaseModel):
    """A file of a skill, by its path below the skill's folder."""

    path: str
    size: int


class SkillDetails(SkillSummary):
    """A skill with what is in it."""

    fields: dict[str, Any]
    """The header of SKILL.md as it is written, fields nobody here knows included; plain values are text."""
    content: str
    """The whole SKILL.md."""
    files: list[SkillFile]
    contract: Contract | None
    """What its skill.toml holds it to while it is active; null: it has none."""

    @classmethod
    def showing(cls, package: SkillPackage) -> "SkillDetails":
        files = [SkillFile(path=file.path, size=file.size) for file in package.files]
        summary = SkillSummary.of(package.skill).model_dump()
        skill = package.skill
        return cls(**summary, fields=dict(skill.fields), content=package.content, files=files, contract=skill.contract)


class SkillSwitch(BaseModel):
    """Whether a skill is to be on."""

    model_config = ConfigDict(json_schema_extra=shown_as({"enabled": False}))

    enabled: bool


@router.get("")
async def list_skills(harness: TheHarness, who: Who) -> Skills:
    """All skills there are, those that are switched off too, and the folders that were refused, with the reasons."""
    return Skills.of(await harness.skills.list(who.user_id))


@router.post("/reload")
async def reload_skills(harness: TheHarness, who: Who) -> Skills:
    """Read all folders again. Changes are noticed by themselves, except on some network file systems."""
    return Skills.of(await harness.skills.reload(who.user_id))


@router.get("/{name}")
async def get_skill(name: str, harness: TheHarness, who: Who) -> SkillDetails:
    """One skill: its SKILL.md, its header and the list of its files."""
    return SkillDetails.showing(await harness.skills.read(who.user_id, name))


@router.put("/{name}")
async def update_skill(name: str, body: SkillSwitch, harness: TheHarness, who: Who) -> SkillSummary:
    """Switch a skill on or off, for every run that begins from now on. One that is off is not in sandboxes either."""
    return SkillSummary.of(await harness.skills.switch(who.user_id, name, enabled=body.enabled))
