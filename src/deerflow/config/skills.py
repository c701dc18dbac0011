"""`skills`: what agents can read up on."""

from typing import ClassVar

from pydantic import Field

from deerflow.config.section import Section


class SkillsConfig(Section):
    """Folders of knowledge that agents read when they need them."""

    needs_restart: ClassVar[bool] = True

    path: str | None = Field(
        default=None,
        min_length=1,
        description="A folder whose `public` folder holds the skills of everybody, in place of the built-in ones.",
    )
    index_limit: int = Field(
        default=60,
        ge=0,
        description="With more skills than this, the prompt tells their names only and `describe_skill` the rest.",
    )
    require_contract: bool = Field(
        default=False,
        description="Whether a skill without a skill.toml has no host, no variable and no folder while it is active.",
    )
