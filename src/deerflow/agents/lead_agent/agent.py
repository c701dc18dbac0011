"""Lead agent: model, tools, chain and prompt for one spec."""

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool
from langgraph.checkpoint.base import BaseCheckpointSaver

from deerflow.acp.tools import ACP_GROUP, create_acp_tool
from deerflow.agent_support.tools import make_text_only
from deerflow.agents.chain import ChainInputs, build_chain
from deerflow.agents.factory import assemble_agent, select_tools
from deerflow.agents.features import RuntimeFeatures
from deerflow.agents.lead_agent.prompt import (
    DelegationInfo,
    PromptParts,
    SubagentSummary,
    apply_prompt_template,
    subagent_prompt,
)
from deerflow.agents.ordering import place_middlewares
from deerflow.agents.spec import AgentGraph, AgentPlan, AgentSettings
from deerflow.config.sections.agents import CustomAgent, CustomAgentConfig
from deerflow.config.sections.models import ModelConfig
from deerflow.domain.runs import AgentSpec
from deerflow.domain.skills import SkillMetadata
from deerflow.domain.subagents import TASK
from deerflow.domain.tools import MCP_SOURCE, SERVER
from deerflow.memory.tools import MEMORY_ADD, build_memory_tools
from deerflow.models.factory import ModelCatalog
from deerflow.projects.tools import build_knowledge_tool
from deerflow.sandbox.tools import read_file
from deerflow.skills.tools import SKILL_MANAGE, describe_skill, skill_manage
from deerflow.subagents.execution import Subagent
from deerflow.subagents.executor import max_concurrent_tasks
from deerflow.subagents.tools import build_task_batch_tool, build_task_tool
from deerflow.subagents.types import (
    BASH,
    INHERIT,
    SubagentConfig,
    resolve_types,
    warn_about_unknown_overrides,
    warn_about_unknown_tools,
)
from deerflow.tools.assembly import (
    HOST_BASH_GROUP,
    ToolSet,
    as_tool,
    get_available_tools,
    is_enabled,
    list_preferences,
    sandbox_tools,
)
from deerflow.tools.builtins import AgentStore, build_setup_agent_tool, build_update_agent_tool
from deerflow.tools.citations.tool import verify_citations
from deerflow.tools.deferred import DeferredTools, defer_tools

logger = logging.getLogger(__name__)

SKILLS_SHARE = 10
"""Of what a model can read, so much is for the descriptions of skills: a tenth."""

GRAPH_NAME = "lead_agent"
READ_FILE, DESCRIBE_SKILL, WEB_FETCH = "read_file", "describe_skill", "web_fetch"


@dataclass(frozen=True, slots=True)
class LeadAgent:
    """Builder of one lead agent and its subagents."""

    spec: AgentSpec
    settings: AgentSettings
    catalog: ModelCatalog
    store: AgentStore
    custom: CustomAgent | None = None
    plan: AgentPlan = AgentPlan()
    skills: tuple[SkillMetadata, ...] = ()
    mcp: tuple[BaseTool, ...] = ()
    """The tools of MCP servers."""

    def build(self, checkpointer: BaseCheckpointSaver[str] | None) -> AgentGraph:
        """Build the graph with state in `checkpointer`; None for a part of another graph, which keeps the state."""
        entry = self._model_entry()
        features = self.plan.features or self._features(entry)
        tools = self._tools(features, evolves=self.settings.skill_evolution.enabled)
        tools, deferred = defer_tools(tools, self.settings.tool_search)
        chain = build_chain(self._chain_inputs(features, tools, entry, deferred))
        return assemble_agent(
            self._model(entry),
            tools.tools,
            place_middlewares(chain, self.plan.extra_middleware),
            apply_prompt_template(self._prompt_parts(tools, deferred)),
            None,
            checkpointer,
            GRAPH_NAME,
        ).with_config(metadata=self._metadata(entry))

    def tool_set(self) -> ToolSet:
        """Return all tools of the agent, including deferred ones."""
        features = self.plan.features or self._features(self._model_entry())
        return self._tools(features, evolves=self.settings.skill_evolution.enabled)

    def build_subagent(self, name: str) -> Subagent | None:
        """Build a subagent of the given type; it has no persistent state."""
        kind = self._kinds.get(name)
        if kind is None:
            return None
        entry = self._model_entry() if kind.model == INHERIT else self.catalog.resolve(kind.model)
        # It thinks by working; what thinks for long is the one that gives it work.
        model = self.plan.model or self.catalog.create(entry.name, thinking_enabled=False)
        features = replace(self.plan.features or self._features(entry), subagent=False, memory=False)
        lent = self._tools(features)
        warn_about_unknown_tools(kind, lent.names)
        # There is no user to approve its calls, so it has no tool that needs approval.
        tools = ToolSet(
            tuple(
                tool
                for tool in lent.tools
                if is_available_to_subagent(kind, tool.name) and tool.name not in lent.needs_approval
            )
        )
        tools, deferred = defer_tools(tools, self.settings.tool_search)
        known = [skill for skill in self.skills if kind.skills is None or skill.name in kind.skills]
        inputs = replace(
            self._chain_inputs(features, tools, entry, deferred), skills=frozenset(skill.name for skill in known)
        )
        chain = build_chain(inputs, for_subagent=True)
        prompt = subagent_prompt(
            kind.system_prompt,
            PromptParts(
                has_files=READ_FILE in tools.names,
                computer=self.settings.computer if "bash" in tools.names else None,
                skills=tuple(known) if READ_FILE in tools.names else (),
                names_only=DESCRIBE_SKILL in tools.names,
                deferred_tools=deferred_tool_names(deferred),
                tool_hints=tool_hints(tools),
            ),
        )
        graph = assemble_agent(model, tools.tools, chain, prompt, None, None, f"{GRAPH_NAME}.{kind.name}")
        return Subagent(kind, graph, entry.name, entry.pricing)

    @property
    def _kinds(self) -> Mapping[str, SubagentConfig]:
        if not self.settings.subagents.enabled:
            return {}
        settings = self.settings
        return resolve_types(
            settings.subagents, self.plan.subagents, settings.filed_kinds, runs_commands=self._lends_commands
        )

    @property
    def _lends_commands(self) -> bool:
        """Return whether subagents can run commands: the agent can, and commands need no approval."""
        groups, allow = self._own.tool_groups, self._runs_commands
        own = [entry for entry in self.settings.tools if entry.name == BASH.name and is_enabled(entry, groups, allow)]
        is_there = allow and (bool(own) or groups is None or HOST_BASH_GROUP in groups)
        return is_there and all(entry.approval != "always" for entry in own)

    @property
    def _own(self) -> CustomAgentConfig:
        return self.custom.config if self.custom else CustomAgentConfig()

    def _model_entry(self) -> ModelConfig:
        return self.catalog.resolve(self.spec.model_name or self._own.model)

    def _model(self, entry: ModelConfig) -> BaseChatModel:
        if self.plan.model is not None:
            return self.plan.model
        wanted = self.spec.thinking_enabled if self.spec.thinking_enabled is not None else self._own.thinking_enabled
        model = self.catalog.create(
            entry.name,
            thinking_enabled=entry.supports_thinking if wanted is None else wanted,
            reasoning_effort=self.spec.reasoning_effort or self._own.reasoning_effort,
        )
        changes = self._own.model_settings.model_dump(exclude_none=True)
        return model.model_copy(update=changes) if changes else model

    def _features(self, entry: ModelConfig) -> RuntimeFeatures:
        chain = self.settings.chain
        return RuntimeFeatures(
            memory=self.settings.memory.enabled and not self.spec.is_bootstrap,
            summarization=True,  # also if disabled: a thread can have a summary
            subagent=self.spec.subagent_enabled,
            vision=entry.supports_vision,
            auto_title=chain.title.enabled,
            guardrail=chain.guardrails.enabled,
            loop_detection=chain.loop_detection.enabled,
            todo=self.spec.is_plan_mode,
            tool_output=chain.tool_output.enabled,
            read_before_write=chain.read_before_write.enabled,
        )

    def _tools(self, features: RuntimeFeatures, *, evolves: bool = False) -> ToolSet:
        has_computer = self._has_computer(features)
        if self.spec.is_bootstrap:
            reading = [as_tool(read_file)] if self.skills and has_computer else []
            return ToolSet((build_setup_agent_tool(self.store), *reading))
        own: list[BaseTool] = [build_update_agent_tool(self.store)] if self.custom else []
        if has_computer and self._skills_are_many:
            own.append(as_tool(describe_skill))
        if evolves:
            own.append(as_tool(skill_manage))
        if features.memory is True:
            own += build_memory_tools(can_write=self.settings.memory.mode == "tool")
        groups, allow_bash = self._own.tool_groups, self._runs_commands
        if any(entry.name == WEB_FETCH and is_enabled(entry, groups, allow_bash) for entry in self.settings.tools):
            own.append(as_tool(verify_citations))
        if self.spec.searches_knowledge:
            own.append(build_knowledge_tool())
        if features.subagent and (kinds := self._kinds):
            warn_about_unknown_overrides(self.settings.subagents, kinds)
            own += [build_task_tool(tuple(kinds)), build_task_batch_tool(tuple(kinds))]
        computer = sandbox_tools(groups, allow_bash=allow_bash) if has_computer else ()
        return get_available_tools(
            self.settings.tools,
            groups=groups,
            builtin=[*computer, *select_tools(features), *own],
            mcp=[
                tool if features.vision else make_text_only(tool)
                for tool in self.mcp
                if belongs_to_groups(tool, groups)
            ],
            acp=self._other_agents(groups),
            allow_bash=allow_bash,
        )

    def _other_agents(self, groups: Collection[str] | None) -> Sequence[BaseTool]:
        """Return the tool for external ACP agents, if any; in tool groups it belongs to `acp`."""
        agents = self.settings.acp_agents
        return [create_acp_tool(agents)] if agents and (groups is None or ACP_GROUP in groups) else ()

    @property
    def _skills_are_many(self) -> bool:
        """Return whether the descriptions of all skills would take too much of the context window."""
        given, entry = self.plan.model, self._model_entry()
        window = (given.profile or {}).get("max_input_tokens") if given is not None else entry.context_window
        room = window // SKILLS_SHARE if window else None
        return len(self.skills) > self.settings.skills.index_limit or (
            room is not None and sum(map(estimate_card_tokens, self.skills)) > room
        )

    @property
    def _runs_commands(self) -> bool:
        return self.settings.computer is not None and self.settings.computer.runs_commands

    def _has_computer(self, features: RuntimeFeatures) -> bool:
        return self.settings.computer is not None and bool(features.sandbox)

    def _chain_inputs(
        self, features: RuntimeFeatures, tools: ToolSet, entry: ModelConfig, deferred: DeferredTools | None
    ) -> ChainInputs:
        writer = self.settings.chain.summarization.model_name
        return ChainInputs(
            features,
            self.settings.chain,
            fallbacks=[self.catalog.create(name) for name in entry.fallback],
            summary_model=self.catalog.create(writer) if writer else None,
            needs_approval=tools.needs_approval,
            max_concurrent_subagents=self.spec.max_concurrent_subagents,
            deferred=deferred,
        )

    def _prompt_parts(self, given: ToolSet, deferred: DeferredTools | None) -> PromptParts:
        tools = given.names
        return PromptParts(
            computer=self.settings.computer if "bash" in tools else None,
            name=self.custom.title if self.custom else PromptParts().name,
            new_agent=self.spec.agent_name if self.spec.is_bootstrap else None,
            soul=self.custom.soul if self.custom else "",
            updates_itself=self.custom is not None,
            is_bootstrap=self.spec.is_bootstrap,
            skills=self.skills if READ_FILE in tools else (),
            names_only=DESCRIBE_SKILL in tools,
            evolves_skills=SKILL_MANAGE in tools,
            remembers=MEMORY_ADD in tools,
            deferred_tools=deferred_tool_names(deferred),
            tool_hints=tool_hints(given),
            delegation=self._delegation() if TASK in tools else None,
        )

    def _delegation(self) -> DelegationInfo:
        kinds = tuple(SubagentSummary(kind.name, kind.description) for kind in self._kinds.values())
        return DelegationInfo(kinds, max_concurrent_tasks(self.spec))

    def _metadata(self, entry: ModelConfig) -> dict[str, Any]:
        """Return the metadata for traces."""
        return {
            "agent_name": self.spec.agent_name or "default",
            "model_name": entry.name,
            "thinking_enabled": self.spec.thinking_enabled,
            "reasoning_effort": self.spec.reasoning_effort,
            "is_plan_mode": self.spec.is_plan_mode,
            "subagent_enabled": self.spec.subagent_enabled,
        }


def deferred_tool_names(deferred: DeferredTools | None) -> Mapping[str, Sequence[str]]:
    """Return the names of deferred tools for the prompt."""
    return deferred.by_server if deferred is not None else {}


def tool_hints(tools: ToolSet) -> Mapping[str, Sequence[str]]:
    """Return the hints of preferred tools for the prompt, most important first."""
    return {each.subject: each.keywords for each in list_preferences(tools.tools)}


def belongs_to_groups(tool: BaseTool, groups: Collection[str] | None) -> bool:
    """Return whether an MCP tool belongs to one of the groups: `mcp` covers all servers, `mcp:<name>` one."""
    server = (tool.metadata or {}).get(SERVER)
    return groups is None or MCP_SOURCE in groups or f"{MCP_SOURCE}:{server}" in groups


def is_available_to_subagent(kind: SubagentConfig, tool: str) -> bool:
    """Return whether a subagent gets a tool of the lead agent; with skills it can also describe them."""
    return kind.allows(READ_FILE if tool == DESCRIBE_SKILL else tool)


def estimate_card_tokens(skill: SkillMetadata) -> int:
    """Return the approximate number of prompt tokens for a skill."""
    return (len(skill.name) + len(skill.description) + len(skill.location)) // 4 + 20
