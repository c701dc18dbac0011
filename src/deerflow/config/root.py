"""The whole of `config.yaml`."""

from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import Field, field_validator

from deerflow.config.acp_agents import AcpAgentConfig
from deerflow.config.budget import BudgetConfig
from deerflow.config.database import DatabaseConfig
from deerflow.config.gateway import GatewayConfig
from deerflow.config.guardrails import GuardrailsConfig
from deerflow.config.input_polish import InputPolishConfig
from deerflow.config.llm_call import LlmCallConfig
from deerflow.config.logging import LoggingConfig
from deerflow.config.loop_detection import LoopDetectionConfig
from deerflow.config.memory import MemoryConfig
from deerflow.config.models import ModelConfig
from deerflow.config.read_before_write import ReadBeforeWriteConfig
from deerflow.config.reading.problems import KeyPath
from deerflow.config.retention import RetentionConfig
from deerflow.config.runs import RunsConfig
from deerflow.config.sandbox import SandboxConfig
from deerflow.config.section import Section, objection, refusal
from deerflow.config.server import ServerConfig
from deerflow.config.sharing import SharingConfig
from deerflow.config.skill_evolution import SkillEvolutionConfig
from deerflow.config.skill_scan import SkillScanConfig
from deerflow.config.skills import SkillsConfig
from deerflow.config.stream_bridge import StreamBridgeConfig
from deerflow.config.subagents import SubagentsConfig
from deerflow.config.suggestions import SuggestionsConfig
from deerflow.config.summarization import SummarizationConfig
from deerflow.config.title import TitleConfig
from deerflow.config.tool_output import ToolOutputConfig
from deerflow.config.tool_search import ToolSearchConfig
from deerflow.config.tools import WEB_TOOLS, ToolConfig, ToolGroupConfig
from deerflow.config.uploads import UploadsConfig

CONFIG_VERSION = 1


class Config(Section):
    """Everything a user may set, one field per key of `config.yaml`."""

    config_version: int = Field(
        default=CONFIG_VERSION, ge=0, description="Which edition of this file format was followed."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(default="info", description="How much is logged.")
    logging: LoggingConfig = Field(default=LoggingConfig(), description="How the log is written.")
    # Strictness would refuse the list that YAML gives for a tuple; the entries themselves stay strict.
    models: tuple[ModelConfig, ...] = Field(
        default=(), strict=False, description="The chat models; the first is the default."
    )
    database: DatabaseConfig = Field(
        default=DatabaseConfig(), description="Where threads, runs and their events are kept."
    )
    stream_bridge: StreamBridgeConfig = Field(
        default=StreamBridgeConfig(), description="How the readers of a run learn that there is more to read."
    )
    server: ServerConfig = Field(default=ServerConfig(), description="Where the web page and the API are served.")
    gateway: GatewayConfig = Field(
        default=GatewayConfig(), description="What requests may look like, and who may send them."
    )
    retention: RetentionConfig = Field(default=RetentionConfig(), description="How long threads are kept.")
    sharing: SharingConfig = Field(default=SharingConfig(), description="Whether threads can be read by others.")
    runs: RunsConfig = Field(default=RunsConfig(), description="How far one run may go.")
    budget: BudgetConfig = Field(default=BudgetConfig(), description="What the models of one run may take.")
    sandbox: SandboxConfig = Field(default=SandboxConfig(), description="The computer of an agent.")
    uploads: UploadsConfig = Field(default=UploadsConfig(), description="Which files people may give to a thread.")
    title: TitleConfig = Field(default=TitleConfig(), description="How a thread gets its name.")
    suggestions: SuggestionsConfig = Field(
        default=SuggestionsConfig(), description="Follow-up questions that are offered after an answer."
    )
    input_polish: InputPolishConfig = Field(
        default=InputPolishConfig(), description="Better words for what somebody is about to ask."
    )
    memory: MemoryConfig = Field(
        default=MemoryConfig(), description="What agents remember of the people they work for."
    )
    tool_groups: tuple[ToolGroupConfig, ...] = Field(
        default=(), strict=False, description="Groups of tools that custom agents can be limited to."
    )
    tools: tuple[ToolConfig, ...] = Field(
        default=WEB_TOOLS, strict=False, description="What the agent can use besides its built-in tools."
    )
    tool_search: ToolSearchConfig = Field(
        default=ToolSearchConfig(), description="When tools of MCP servers are known by their names alone."
    )
    llm_call: LlmCallConfig = Field(default=LlmCallConfig(), description="How patiently a model is asked again.")
    loop_detection: LoopDetectionConfig = Field(
        default=LoopDetectionConfig(), description="When a model that repeats itself is stopped."
    )
    summarization: SummarizationConfig = Field(
        default=SummarizationConfig(), description="When a long conversation is shortened for the model."
    )
    subagents: SubagentsConfig = Field(
        default=SubagentsConfig(), description="To whom an agent can give work, and how much of it is done at once."
    )
    acp_agents: Mapping[str, AcpAgentConfig] = Field(
        default_factory=dict, description="Agents of others that an agent can give work to, by their names."
    )
    skills: SkillsConfig = Field(default=SkillsConfig(), description="What agents can read up on.")
    skill_scan: SkillScanConfig = Field(
        default=SkillScanConfig(), description="Rules by which skills are looked at before they are taken in."
    )
    skill_evolution: SkillEvolutionConfig = Field(
        default=SkillEvolutionConfig(), description="Whether agents may make and change skills, and who reviews that."
    )
    tool_output: ToolOutputConfig = Field(
        default=ToolOutputConfig(), description="How much of a tool's result the model sees at once."
    )
    read_before_write: ReadBeforeWriteConfig = Field(
        default=ReadBeforeWriteConfig(), description="Whether a file must be read before it is changed."
    )
    guardrails: GuardrailsConfig = Field(
        default=GuardrailsConfig(), description="Who is asked before a tool is called."
    )

    def settled_at_start(self) -> dict[str, object]:
        """The settings that are looked at once, when the server starts, by their keys."""
        sections = {name: value for name, value in self if isinstance(value, Section) and value.needs_restart}
        return {"log_level": self.log_level, **sections}

    @field_validator("config_version")
    @classmethod
    def _is_not_from_the_future(cls, version: int) -> int:
        if version > CONFIG_VERSION:
            known = f"this DeerFlow knows configuration versions up to {CONFIG_VERSION}"
            raise objection(f"{known}; upgrade it, or write {CONFIG_VERSION}")
        return version

    @field_validator("models")
    @classmethod
    def _names_are_unique(cls, models: Sequence[ModelConfig]) -> Sequence[ModelConfig]:
        names = [model.name for model in models]
        repeated: dict[KeyPath, str] = {
            (index, "name"): f"models[{first}] has the same name; names must be unique"
            for index, name in enumerate(names)
            if (first := names.index(name)) < index
        }
        if repeated:
            raise refusal(cls.__name__, repeated)
        return models
