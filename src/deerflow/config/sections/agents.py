"""Sections for agents: custom agents, subagents, external ACP agents, summarization and skills."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator
from pydantic.types import JsonValue

from deerflow.config.loader.document import KeyPath
from deerflow.config.sections.base import Section, make_error, make_validation_error
from deerflow.domain.errors import InvalidRequest
from deerflow.domain.identity import SharedThing
from deerflow.domain.runs import ReasoningEffort

AGENT_NAME = re.compile(r"[A-Za-z0-9-]{1,64}")
AGENT_ADDRESS = r"^[A-Za-z0-9-]+(@[A-Za-z0-9_-]{1,64})?$"
"""Name of an agent; that of another person is followed by `@` and the id of its owner."""
MAX_STARTERS = 6
MAX_STARTER_CHARS = 500


class AgentModelSettings(Section):
    """Model parameters of a custom agent."""

    temperature: float | None = Field(default=None, ge=0, le=2, description="Sampling temperature.")
    max_tokens: int | None = Field(default=None, gt=0, description="Maximum tokens of an answer.")


class CustomAgentConfig(Section):
    """The `config.yaml` of a custom agent."""

    description: str = Field(default="", description="Short description of the agent.")
    model: str | None = Field(default=None, description="Model name; default: the default model.")
    # Strict mode would reject the list that YAML gives for a tuple; the entries themselves stay strict.
    tool_groups: tuple[str, ...] | None = Field(
        default=None, strict=False, description="Tool groups it may use; default: all."
    )
    skills: tuple[str, ...] | None = Field(
        default=None, strict=False, description="Skills it may use; default: all enabled skills, empty: none."
    )
    model_settings: AgentModelSettings = Field(default=AgentModelSettings(), description="Model parameters.")
    thinking_enabled: bool | None = Field(default=None, description="Default of `thinking_enabled` for requests.")
    reasoning_effort: ReasoningEffort | None = Field(
        default=None, description="Default of `reasoning_effort` for requests."
    )
    starters: tuple[Annotated[str, Field(min_length=1, max_length=MAX_STARTER_CHARS)], ...] = Field(
        default=(), strict=False, max_length=MAX_STARTERS, description="Example messages on its start page."
    )


@dataclass(frozen=True, slots=True)
class CustomAgent:
    """A custom agent; `soul` is its persona."""

    name: str
    config: CustomAgentConfig = CustomAgentConfig()
    soul: str = ""
    metadata: Mapping[str, JsonValue] = field(default_factory=dict, compare=False)
    """Data of clients of the LangGraph API; it does not change the agent."""
    share: SharedThing | None = field(default=None, compare=False)
    """Owner and access, if it is shared by another person; the name is an address then."""

    @property
    def title(self) -> str:
        """Name that its owner has given it."""
        return self.share.name if self.share else self.name


def check_agent_name(name: str) -> str:
    """Return `name`, or raise `InvalidRequest` when it is not a valid folder name on all platforms."""
    if not AGENT_NAME.fullmatch(name):
        raise InvalidRequest(f"an agent name is 1 to 64 letters, digits or '-', not {name!r}")
    return name


LEAD_AGENT_ONLY_TOOLS = ("task", "task_batch", "ask_clarification", "present_files", "update_agent")
SUBAGENT_TYPE_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
SUBAGENT_TYPE_NAME_RULE = "a subagent type name is 1 to 64 letters, digits, '-' or '_'"


class SubagentOverride(Section):
    """Settings that override those of one subagent type; absent ones are kept."""

    model: str | None = Field(default=None, description='Model name, or "inherit".')
    max_turns: int | None = Field(default=None, ge=1, le=500, description="Maximum number of model calls.")
    timeout_seconds: float | None = Field(default=None, gt=0, description="Timeout in seconds.")
    skills: tuple[str, ...] | None = Field(
        default=None, strict=False, description="Skills it may use; default: those of the lead agent."
    )


class CustomSubagent(Section):
    """A custom subagent type."""

    description: str = Field(min_length=1, description="When the lead agent should delegate to it.")
    system_prompt: str = Field(min_length=1, description="System prompt.")
    tools: tuple[str, ...] | None = Field(
        default=None, strict=False, description="Allowed tools; default: those of the lead agent."
    )
    disallowed_tools: tuple[str, ...] = Field(
        default=LEAD_AGENT_ONLY_TOOLS, strict=False, description="Disallowed tools."
    )
    model: str = Field(default="inherit", description='Model name; "inherit": that of the lead agent.')
    max_turns: int = Field(default=50, ge=1, le=500, description="Maximum number of model calls.")
    timeout_seconds: float | None = Field(default=None, gt=0, description="Timeout in seconds.")
    skills: tuple[str, ...] | None = Field(
        default=None,
        strict=False,
        description="Skills it may use; default: those of the lead agent, empty: none.",
    )


class SubagentsConfig(Section):
    """Subagent types and limits."""

    enabled: bool = Field(default=True, description="Allow delegation to subagents when a request enables it.")
    timeout_seconds: float = Field(default=900.0, gt=0, description="Subagent timeout in seconds.")
    max_turns: int | None = Field(
        default=None, ge=1, le=500, description="Maximum number of model calls of a built-in type."
    )
    max_concurrent: int = Field(
        default=16, ge=1, le=1000, description="Maximum number of concurrent subagents in this server."
    )
    max_concurrent_per_user: int = Field(
        default=8, ge=1, le=1000, description="Maximum number of concurrent subagents per user."
    )
    agents: Mapping[str, SubagentOverride] = Field(
        default_factory=dict, description="Overrides for single types, by name."
    )
    custom_agents: Mapping[str, CustomSubagent] = Field(default_factory=dict, description="Custom types, by name.")

    @field_validator("custom_agents")
    @classmethod
    def _check_type_names(cls, types: Mapping[str, CustomSubagent]) -> Mapping[str, CustomSubagent]:
        """Reject names that a model could not write as a tool argument."""
        wrong: dict[KeyPath, str] = {
            (name,): SUBAGENT_TYPE_NAME_RULE for name in types if not SUBAGENT_TYPE_NAME.fullmatch(name)
        }
        if wrong:
            raise make_validation_error(cls.__name__, wrong)
        return types


class AcpAgentConfig(Section):
    """An external agent that speaks the Agent Client Protocol on stdin and stdout."""

    command: str = Field(min_length=1, description="Program to start, by name or path.")
    args: tuple[str, ...] = Field(default=(), strict=False, description="Arguments of the program.")
    env: Mapping[str, str] = Field(
        default_factory=dict,
        description="Environment variables of the program; no others are set. `$NAME` is a variable of the server.",
    )
    description: str = Field(min_length=1, description="Description for the lead agent.")
    model: str | None = Field(default=None, description="Model to use, if the agent supports selecting one.")
    auto_approve_permissions: bool = Field(
        default=False, description="Grant its permission requests without asking a user."
    )
    timeout_seconds: float = Field(default=1800.0, gt=0, description="Timeout in seconds.")
    network: bool = Field(
        default=False, description="Allow access to the server's network; most agents need it to reach their model."
    )
    paths: tuple[str, ...] = Field(default=(), strict=False, description="Host files and folders that it can read.")
    mcp_servers: tuple[str, ...] | None = Field(
        default=None, strict=False, description="MCP servers passed to it; null: all enabled ones."
    )


class ContextSize(Section):
    """A conversation size in tokens, messages, or as a fraction of the context window."""

    type: Literal["tokens", "messages", "fraction"] = Field(description="Unit.")
    value: float = Field(gt=0, strict=False, description="Number; for `fraction` between 0 and 1.")

    @model_validator(mode="after")
    def _check_value(self) -> Self:
        if self.type == "fraction" and self.value > 1:
            raise make_error("a fraction must be at most 1, for instance 0.8")
        if self.type != "fraction" and self.value != int(self.value):
            raise make_error(f"the number of {self.type} must be a whole number")
        return self


class SummarizationConfig(Section):
    """Summarization of long conversations."""

    enabled: bool = Field(
        default=True, description="Summarize automatically. Threads can be summarized on request in any case."
    )
    model_name: str | None = Field(
        default=None, description="Model that writes the summary; null: the model of the run."
    )
    trigger: tuple[ContextSize, ...] = Field(
        default=(ContextSize(type="fraction", value=0.8), ContextSize(type="messages", value=300)),
        strict=False,
        min_length=1,
        description="Sizes at which a conversation is summarized; any of them is sufficient.",
    )
    keep: ContextSize = Field(
        default=ContextSize(type="messages", value=20), description="Part of the end that is kept unchanged."
    )
    trim_tokens_to_summarize: int = Field(
        default=16_000, ge=500, description="Maximum tokens passed to the summarizing model."
    )
    summary_prompt: str | None = Field(default=None, min_length=1, description="Prompt for the summary.")

    @field_validator("trigger", mode="before")
    @classmethod
    def _to_sequence(cls, trigger: object) -> object:
        return [trigger] if isinstance(trigger, Mapping) else trigger

    @model_validator(mode="after")
    def _check_keep(self) -> Self:
        if any(size.type == self.keep.type and self.keep.value >= size.value for size in self.trigger):
            raise make_error(f"`keep` must be below the trigger of the same type, not {self.keep.value:g}")
        return self


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
