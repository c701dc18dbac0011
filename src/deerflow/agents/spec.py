"""Agent settings, specs and graphs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from langchain_core.runnables import RunnableConfig

from deerflow.agents.features import RuntimeFeatures
from deerflow.config.sections.agents import (
    AcpAgentConfig,
    SkillEvolutionConfig,
    SkillsConfig,
    SubagentsConfig,
    SummarizationConfig,
)
from deerflow.config.sections.guardrails import GuardrailsConfig, PolicyConfig
from deerflow.config.sections.memory import MemoryConfig
from deerflow.config.sections.models import ModelConfig
from deerflow.config.sections.runs import LlmCallConfig, LoopDetectionConfig, TitleConfig
from deerflow.config.sections.tools import ReadBeforeWriteConfig, ToolConfig, ToolOutputConfig, ToolSearchConfig
from deerflow.domain.runs import AgentSpec
from deerflow.guardrails.call_context import EgressCapability
from deerflow.subagents.types import SubagentConfig

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langgraph.graph.state import CompiledStateGraph

    from deerflow.agents.ordering import AnyMiddleware
    from deerflow.domain.context import RunContext

AgentGraph: TypeAlias = "CompiledStateGraph[Any, RunContext, Any, Any]"

BOOTSTRAP_SKILL = "bootstrap"
"""The one skill of an agent that makes agents."""


@dataclass(frozen=True, slots=True)
class AgentPlan:
    """Overrides of an embedding program for all agents."""

    model: "BaseChatModel | None" = None
    features: RuntimeFeatures | None = None
    extra_middleware: "Sequence[AnyMiddleware]" = ()
    subagents: Sequence[SubagentConfig] = ()


def read_spec(config: RunnableConfig) -> AgentSpec:
    """Return the spec in LangGraph's `configurable` and `context`; the latter takes precedence."""
    context = cast(Mapping[str, Any], config.get("context") or {})
    asked = {**config.get("configurable", {}), **context}
    named = {**asked, "model_name": asked.get("model_name") or asked.get("model"), "owner": asked.get("user_id")}
    known = {each.name: named[each.name] for each in fields(AgentSpec) if named.get(each.name) is not None}
    return AgentSpec.from_json(known)


@dataclass(frozen=True, slots=True)
class ChainSettings:
    """Settings of the middleware chain."""

    llm_call: LlmCallConfig = LlmCallConfig()
    loop_detection: LoopDetectionConfig = LoopDetectionConfig()
    summarization: SummarizationConfig = SummarizationConfig()
    guardrails: GuardrailsConfig = GuardrailsConfig()
    policy: PolicyConfig = PolicyConfig()
    reach: EgressCapability = EgressCapability()
    tool_output: ToolOutputConfig = ToolOutputConfig()
    read_before_write: ReadBeforeWriteConfig = ReadBeforeWriteConfig()
    title: TitleConfig = TitleConfig()


@dataclass(frozen=True, slots=True)
class SandboxCapabilities:
    """Capabilities of the sandbox."""

    runs_commands: bool
    is_isolated: bool = True
    network: str = "none"
    has_toolbox: bool = True


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """Settings that agents are built from. Equal settings build equal agents, so graphs can be cached."""

    models: tuple[ModelConfig, ...]
    tools: tuple[ToolConfig, ...] = ()
    tool_search: ToolSearchConfig = ToolSearchConfig()
    chain: ChainSettings = ChainSettings()
    computer: SandboxCapabilities | None = None
    """None: agents have no sandbox, and no tools for one."""
    subagents: SubagentsConfig = SubagentsConfig()
    acp_agents: Mapping[str, AcpAgentConfig] = field(default_factory=dict)
    skills: SkillsConfig = SkillsConfig()
    skill_evolution: SkillEvolutionConfig = SkillEvolutionConfig()
    memory: MemoryConfig = MemoryConfig(enabled=False)
    filed_kinds: tuple[SubagentConfig, ...] = ()
    """The kinds of subagents that files describe."""
