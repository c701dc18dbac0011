"""`subagents:` — to whom the lead agent can give work, and how much of it is done at once."""

import re
from collections.abc import Mapping

from pydantic import Field, field_validator

from deerflow.config.reading.problems import KeyPath
from deerflow.config.section import Section, refusal

NEVER_FOR_SUBAGENTS = ("task", "task_batch", "ask_clarification", "present_files", "update_agent")
KIND_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
KIND_NAME_RULE = "a kind of subagent is called by 1 to 64 letters, digits, '-' and '_'"


class SubagentOverride(Section):
    """What is different for one kind of subagent; what is left out stays as it is."""

    model: str | None = Field(default=None, description='The model that answers, or "inherit".')
    max_turns: int | None = Field(default=None, ge=1, le=500, description="How often its model may be asked.")
    timeout_seconds: float | None = Field(default=None, gt=0, description="After how many seconds it is ended.")
    skills: tuple[str, ...] | None = Field(
        default=None, strict=False, description="The skills it knows; those of the lead agent by default."
    )


class CustomSubagent(Section):
    """A kind of subagent of your own."""

    description: str = Field(min_length=1, description="When the lead agent should give it work.")
    system_prompt: str = Field(min_length=1, description="What it is told about itself.")
    tools: tuple[str, ...] | None = Field(
        default=None, strict=False, description="The only tools it has; those of the lead agent by default."
    )
    disallowed_tools: tuple[str, ...] = Field(
        default=NEVER_FOR_SUBAGENTS, strict=False, description="Tools it does not have."
    )
    model: str = Field(default="inherit", description='The model that answers; "inherit": that of the lead agent.')
    max_turns: int = Field(default=50, ge=1, le=500, description="How often its model may be asked.")
    timeout_seconds: float | None = Field(default=None, gt=0, description="After how many seconds it is ended.")
    skills: tuple[str, ...] | None = Field(
        default=None,
        strict=False,
        description="The skills it knows; those of the lead agent by default, none when empty.",
    )


class SubagentsConfig(Section):
    """The subagents there are, and their limits."""

    enabled: bool = Field(default=True, description="Whether a request may let the agent give work to others.")
    timeout_seconds: float = Field(default=900.0, gt=0, description="After how many seconds a subagent is ended.")
    max_turns: int | None = Field(
        default=None, ge=1, le=500, description="How often the model of a built-in kind may be asked."
    )
    max_concurrent: int = Field(default=16, ge=1, le=1000, description="How many work at once in this server.")
    max_concurrent_per_user: int = Field(default=8, ge=1, le=1000, description="How many work at once for one user.")
    agents: Mapping[str, SubagentOverride] = Field(
        default_factory=dict, description="Other settings for single kinds, by their names."
    )
    custom_agents: Mapping[str, CustomSubagent] = Field(
        default_factory=dict, description="Kinds of your own, by their names."
    )

    @field_validator("custom_agents")
    @classmethod
    def _names_can_be_said(cls, kinds: Mapping[str, CustomSubagent]) -> Mapping[str, CustomSubagent]:
        """Models choose kinds by their names, and read them in a list."""
        wrong: dict[KeyPath, str] = {(name,): KIND_NAME_RULE for name in kinds if not KIND_NAME.fullmatch(name)}
        if wrong:
            raise refusal(cls.__name__, wrong)
        return kinds
