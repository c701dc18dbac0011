"""A custom agent: its `config.yaml`, its soul, and the names it can have."""

import re
from dataclasses import dataclass

from pydantic import Field

from deerflow.config.section import Section
from deerflow.domain.errors import InvalidRequest
from deerflow.domain.runs import ReasoningEffort

AGENT_NAME = re.compile(r"[A-Za-z0-9-]{1,64}")


class AgentModelSettings(Section):
    """What an agent changes about its model."""

    temperature: float | None = Field(default=None, ge=0, le=2, description="How freely the model chooses its words.")
    max_tokens: int | None = Field(default=None, gt=0, description="How long an answer may be.")


class CustomAgentConfig(Section):
    """The `config.yaml` of a custom agent."""

    description: str = Field(default="", description="What the agent is for, in one line.")
    model: str | None = Field(default=None, description="The model it answers with; the default model when absent.")
    # Strictness would refuse the list that YAML gives for a tuple; the entries themselves stay strict.
    tool_groups: tuple[str, ...] | None = Field(
        default=None, strict=False, description="The groups of tools it may use; all when absent."
    )
    skills: tuple[str, ...] | None = Field(
        default=None, strict=False, description="The skills it knows; all enabled ones when absent, none when empty."
    )
    model_settings: AgentModelSettings = Field(
        default=AgentModelSettings(), description="What it changes about its model."
    )
    thinking_enabled: bool | None = Field(
        default=None, description="Whether it thinks unless a request says otherwise."
    )
    reasoning_effort: ReasoningEffort | None = Field(
        default=None, description="How hard it thinks unless a request says otherwise."
    )


@dataclass(frozen=True, slots=True)
class CustomAgent:
    """An agent somebody made: what it may use, and in `soul` who it is."""

    name: str
    config: CustomAgentConfig = CustomAgentConfig()
    soul: str = ""


def check_agent_name(name: str) -> str:
    """Return `name`, or raise `InvalidRequest` when it could not be the name of a folder everywhere."""
    if not AGENT_NAME.fullmatch(name):
        raise InvalidRequest(f"an agent's name is 1 to 64 letters, digits or '-', not {name!r}")
    return name
