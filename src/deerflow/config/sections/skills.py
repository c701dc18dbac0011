"""`skills:`, `skill_scan:` and `skill_evolution:`."""

from typing import ClassVar

from pydantic import Field

from deerflow.config.sections.base import Section


class SkillsConfig(Section):
    """Location and limits of skills."""

    needs_restart: ClassVar[bool] = True

    path: str | None = Field(
        default=None,
        min_length=1,
        description="Folder whose `public` subfolder replaces the built-in skills.",
    )
    index_limit: int = Field(
        default=60,
        ge=0,
        description="Above this number the prompt lists only names; `describe_skill` returns the rest.",
    )
    require_contract: bool = Field(
        default=False,
        description="Deny network, variables and writable folders to skills without a skill.toml.",
    )


class SkillScanConfig(Section):
    """Rules that reject malicious skills."""

    enabled: bool = Field(default=True, description="Scan skills before installation.")


class SkillEvolutionConfig(Section):
    """Creation of skills by agents."""

    enabled: bool = Field(default=False, description="Allow agents to create and change custom skills.")
    moderation_model_name: str | None = Field(
        default=None, description="Model that reviews created and installed skills; null: the default model."
    )
    security_fail_closed: bool = Field(
        default=True,
        description="Reject skills without scripts when the review fails; those with scripts are always rejected.",
    )
    timeout_seconds: float = Field(default=60, gt=0, le=600, strict=False, description="Review timeout in seconds.")
