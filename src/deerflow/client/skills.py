"""Skills: found, read and switched by a program."""

from typing import Any

from deerflow.client.faces import Session
from deerflow.domain.principal import LOCAL_USER
from deerflow.skills.skill import Skill, SkillSet

USER = LOCAL_USER.user_id


async def list_skills(session: Session, enabled_only: bool = False) -> dict[str, Any]:
    """The skills there are, by name, and the folders that were refused, with the reasons.

    Args:
        enabled_only: Leave out those that are switched off.
    """
    return show_skills(await session.harness.skills.list(USER), enabled_only=enabled_only)


async def get_skill(session: Session, name: str) -> dict[str, Any]:
    """One skill with its SKILL.md, its header and the list of its files.

    Raises:
        NotFound: there is no such skill.
    """
    package = await session.harness.skills.read(USER, name)
    files = [{"path": file.path, "size": file.size} for file in package.files]
    return {
        **show_skill(package.skill),
        "fields": dict(package.skill.fields),
        "content": package.content,
        "files": files,
        "contract": package.skill.contract.model_dump(mode="json") if package.skill.contract else None,
    }


async def update_skill(session: Session, name: str, *, enabled: bool) -> dict[str, Any]:
    """Switch a skill on or off, for every run that begins from now on.

    Raises:
        NotFound: there is no such skill.
    """
    return show_skill(await session.harness.skills.switch(USER, name, enabled=enabled))


async def reload_skills(session: Session) -> dict[str, Any]:
    """Read all folders again. Changes are noticed by themselves, except on some network file systems."""
    return show_skills(await session.harness.skills.reload(USER))


def show_skills(found: SkillSet, *, enabled_only: bool = False) -> dict[str, Any]:
    """Skills in the shape of the HTTP API."""
    shown = found.enabled if enabled_only else found.skills.values()
    refused = [{"category": each.category, "path": each.path, "reason": each.reason} for each in found.refused]
    return {"skills": [show_skill(skill) for skill in shown], "refused": refused}


def show_skill(skill: Skill) -> dict[str, Any]:
    """A skill in the shape of the HTTP API."""
    return {
        "name": skill.name,
        "description": skill.description,
        "license": skill.license,
        "category": skill.category,
        "enabled": skill.enabled,
        "editable": skill.editable,
        "location": skill.location,
        "allowed_tools": None if skill.allowed_tools is None else list(skill.allowed_tools),
    }
