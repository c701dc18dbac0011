"""The root section: all of `config.yaml`."""

from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import Field, field_validator

from deerflow.config.loader.document import KeyPath
from deerflow.config.sections.agents import (
    AcpAgentConfig,
    SkillEvolutionConfig,
    SkillScanConfig,
    SkillsConfig,
    SubagentsConfig,
    SummarizationConfig,
)
from deerflow.config.sections.base import Section, make_error, make_validation_error
from deerflow.config.sections.channels import ChannelsConfig
from deerflow.config.sections.guardrails import GuardrailsConfig
from deerflow.config.sections.memory import KnowledgeConfig, MemoryConfig, ProjectsConfig
from deerflow.config.sections.models import ModelConfig
from deerflow.config.sections.runs import (
    BudgetConfig,
    InputPolishConfig,
    LlmCallConfig,
    LoopDetectionConfig,
    RetentionConfig,
    RunsConfig,
    SuggestionsConfig,
    TitleConfig,
)
from deerflow.config.sections.sandbox import SandboxConfig
from deerflow.config.sections.server import GatewayConfig, LoggingConfig, ServerConfig, SharingConfig, UsersConfig
from deerflow.config.sections.storage import DatabaseConfig, StreamBridgeConfig, UploadsConfig
from deerflow.config.sections.tools import (
    DEFAULT_TOOLS,
    ReadBeforeWriteConfig,
    ToolConfig,
    ToolGroupConfig,
    ToolOutputConfig,
    ToolSearchConfig,
)

CONFIG_VERSION = 1
PUBLIC_VERSION = 10
"""Versions from this one on are those of the public DeerFlow. Its older versions are recognized by their keys."""
PUBLIC_KEYS = frozenset(
    {
        "agent_storage", "agents_api", "checkpointer", "circuit_breaker", "database.backend", "dedupe_storage",
        "extensions", "logging.enhance", "max_recursion_limit", "mcp_tasks", "memory.backend_config",
        "memory.manager_class", "plugins", "run_events", "run_ownership", "safety_finish_reason",
        "sandbox.ownership", "skills.container_path", "skills.deferred_discovery", "token_budget", "token_usage",
        "tool_progress", "uploads.auto_convert_documents",
    }
)  # fmt: skip
"""Keys that only the public DeerFlow has."""
EARLY_PROVIDERS = ("src.sandbox.local:", "src.community.aio_sandbox:")
"""Sandbox providers of early versions of the public DeerFlow; every file of theirs names one."""


class Config(Section):
    """All settings, one field per top-level key of `config.yaml`."""

    config_version: int = Field(default=CONFIG_VERSION, ge=0, description="Config schema version.")
    log_level: Literal["debug", "info", "warning", "error"] = Field(default="info", description="Log level.")
    logging: LoggingConfig = Field(default=LoggingConfig(), description="Log format.")
    # Strict mode would reject the list that YAML gives for a tuple; the entries themselves stay strict.
    models: tuple[ModelConfig, ...] = Field(
        default=(), strict=False, description="Chat models; the first is the default."
    )
    database: DatabaseConfig = Field(default=DatabaseConfig(), description="Database for threads, runs and events.")
    stream_bridge: StreamBridgeConfig = Field(
        default=StreamBridgeConfig(), description="Notification of stream readers."
    )
    server: ServerConfig = Field(default=ServerConfig(), description="Listen address of the web page and the API.")
    gateway: GatewayConfig = Field(default=GatewayConfig(), description="Request limits and allowed origins.")
    users: UsersConfig = Field(default=UsersConfig(), description="Accounts, sessions and cookies.")
    retention: RetentionConfig = Field(default=RetentionConfig(), description="Retention of threads.")
    sharing: SharingConfig = Field(default=SharingConfig(), description="Public share links.")
    runs: RunsConfig = Field(default=RunsConfig(), description="Run limits.")
    budget: BudgetConfig = Field(default=BudgetConfig(), description="Spending limit of each run.")
    sandbox: SandboxConfig = Field(default=SandboxConfig(), description="Sandbox of an agent.")
    uploads: UploadsConfig = Field(default=UploadsConfig(), description="Upload limits.")
    title: TitleConfig = Field(default=TitleConfig(), description="Thread titles.")
    suggestions: SuggestionsConfig = Field(default=SuggestionsConfig(), description="Suggested follow-up questions.")
    input_polish: InputPolishConfig = Field(
        default=InputPolishConfig(), description="Rewriting of the user's prompt before it is sent."
    )
    memory: MemoryConfig = Field(default=MemoryConfig(), description="Long-term memory.")
    projects: ProjectsConfig = Field(default=ProjectsConfig(), description="Projects.")
    knowledge: KnowledgeConfig = Field(default=KnowledgeConfig(), description="Search in the files of projects.")
    tool_groups: tuple[ToolGroupConfig, ...] = Field(
        default=(), strict=False, description="Deprecated and ignored; set `group` in the entries of `tools`."
    )
    tools: tuple[ToolConfig, ...] = Field(
        default=DEFAULT_TOOLS, strict=False, description="Tools in addition to the built-in ones."
    )
    tool_search: ToolSearchConfig = Field(default=ToolSearchConfig(), description="Deferred loading of MCP tools.")
    llm_call: LlmCallConfig = Field(default=LlmCallConfig(), description="Retry policy for model calls.")
    loop_detection: LoopDetectionConfig = Field(
        default=LoopDetectionConfig(), description="Detection of repeated replies and tool calls."
    )
    summarization: SummarizationConfig = Field(
        default=SummarizationConfig(), description="Summarization of long conversations."
    )
    subagents: SubagentsConfig = Field(default=SubagentsConfig(), description="Subagent types and limits.")
    acp_agents: Mapping[str, AcpAgentConfig] = Field(default_factory=dict, description="External ACP agents by name.")
    skills: SkillsConfig = Field(default=SkillsConfig(), description="Skills.")
    skill_scan: SkillScanConfig = Field(
        default=SkillScanConfig(), description="Security scan of skills before installation."
    )
    skill_evolution: SkillEvolutionConfig = Field(
        default=SkillEvolutionConfig(), description="Creation of skills by agents, and its review."
    )
    tool_output: ToolOutputConfig = Field(
        default=ToolOutputConfig(), description="Limits of tool results shown to the model."
    )
    read_before_write: ReadBeforeWriteConfig = Field(
        default=ReadBeforeWriteConfig(), description="Require that a file is read before it is changed."
    )
    channels: ChannelsConfig = Field(default=ChannelsConfig(), description="Chat apps in which people use the agent.")
    guardrails: GuardrailsConfig = Field(default=GuardrailsConfig(), description="Checks before a tool is called.")

    def get_restart_settings(self) -> dict[str, object]:
        """Return the settings that are read only when the server starts, by key."""
        sections = {name: value for name, value in self if isinstance(value, Section) and value.needs_restart}
        return {"log_level": self.log_level, **sections}

    @field_validator("config_version")
    @classmethod
    def _check_version(cls, version: int) -> int:
        if version > CONFIG_VERSION:
            known = f"this version of DeerFlow supports config versions up to {CONFIG_VERSION}"
            raise make_error(f"{known}; upgrade it, or write {CONFIG_VERSION}")
        return version

    @field_validator("models")
    @classmethod
    def _check_unique_names(cls, models: Sequence[ModelConfig]) -> Sequence[ModelConfig]:
        names = [model.name for model in models]
        repeated: dict[KeyPath, str] = {
            (index, "name"): f"models[{first}] has the same name; names must be unique"
            for index, name in enumerate(names)
            if (first := names.index(name)) < index
        }
        if repeated:
            raise make_validation_error(cls.__name__, repeated)
        return models


def is_public_config(settings: Mapping[str, object]) -> bool:
    """Return True if these are settings of the public DeerFlow, which has another format."""
    version = settings.get("config_version")
    if isinstance(version, int) and version >= PUBLIC_VERSION:
        return True
    sandbox = settings.get("sandbox")
    if isinstance(sandbox, Mapping) and str(sandbox.get("use")).startswith(EARLY_PROVIDERS):
        return True
    sections = [(key, value) for key, value in settings.items() if isinstance(value, Mapping)]
    nested = {f"{key}.{name}" for key, value in sections for name in value}
    return not PUBLIC_KEYS.isdisjoint(nested | settings.keys())
