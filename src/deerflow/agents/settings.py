"""The parts of the configuration that agents are built from."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from deerflow.agents.middlewares.guardrail_facts import Reach
from deerflow.config.acp_agents import AcpAgentConfig
from deerflow.config.guardrails import GuardrailsConfig
from deerflow.config.llm_call import LlmCallConfig
from deerflow.config.loop_detection import LoopDetectionConfig
from deerflow.config.memory import MemoryConfig
from deerflow.config.models import ModelConfig
from deerflow.config.policy import PolicyConfig
from deerflow.config.read_before_write import ReadBeforeWriteConfig
from deerflow.config.skill_evolution import SkillEvolutionConfig
from deerflow.config.skills import SkillsConfig
from deerflow.config.subagents import SubagentsConfig
from deerflow.config.summarization import SummarizationConfig
from deerflow.config.title import TitleConfig
from deerflow.config.tool_output import ToolOutputConfig
from deerflow.config.tool_search import ToolSearchConfig
from deerflow.config.tools import ToolConfig
from deerflow.subagents.kinds import SubagentConfig


@dataclass(frozen=True, slots=True)
class ChainSettings:
    """What the middlewares of the chain can be told."""

    llm_call: LlmCallConfig = LlmCallConfig()
    loop_detection: LoopDetectionConfig = LoopDetectionConfig()
    summarization: SummarizationConfig = SummarizationConfig()
    guardrails: GuardrailsConfig = GuardrailsConfig()
    policy: PolicyConfig = PolicyConfig()
    reach: Reach = Reach()
    tool_output: ToolOutputConfig = ToolOutputConfig()
    read_before_write: ReadBeforeWriteConfig = ReadBeforeWriteConfig()
    title: TitleConfig = TitleConfig()


@dataclass(frozen=True, slots=True)
class Computer:
    """What agents can do with their sandboxes."""

    runs_commands: bool
    is_isolated: bool = True
    network: str = "none"
    has_toolbox: bool = True


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """Equal settings make equal agents, so that built ones can be kept."""

    models: tuple[ModelConfig, ...]
    tools: tuple[ToolConfig, ...] = ()
    tool_search: ToolSearchConfig = ToolSearchConfig()
    chain: ChainSettings = ChainSettings()
    computer: Computer | None = None
    """None: agents have no sandbox, and no tools for one."""
    subagents: SubagentsConfig = SubagentsConfig()
    acp_agents: Mapping[str, AcpAgentConfig] = field(default_factory=dict)
    skills: SkillsConfig = SkillsConfig()
    skill_evolution: SkillEvolutionConfig = SkillEvolutionConfig()
    memory: MemoryConfig = MemoryConfig(enabled=False)
    filed_kinds: tuple[SubagentConfig, ...] = ()
    """The kinds of subagents that files describe."""
