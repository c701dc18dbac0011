"""Pool of agents: one graph per spec and version of the settings."""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from langgraph.checkpoint.base import BaseCheckpointSaver

from deerflow.agents.custom_agents import CustomAgents
from deerflow.agents.spec import BOOTSTRAP_SKILL, AgentGraph, AgentPlan, AgentSettings, ChainSettings
from deerflow.config.sections.agents import CustomAgent
from deerflow.config.sections.models import ModelConfig, PricingConfig
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import AgentSpec
from deerflow.domain.skills import SkillMetadata
from deerflow.mcp.status import ToolOffer
from deerflow.models.detection import KeyStatus, get_key_status
from deerflow.models.factory import ModelCatalog
from deerflow.skills.catalog import filter_skills
from deerflow.skills.format import Skill, SkillSet
from deerflow.skills.index import SkillIndex

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from deerflow.agents.lead_agent.agent import LeadAgent
    from deerflow.agents.tool_cards import PolicyCard, ToolCard
    from deerflow.models.demo.scripts import StarterPrompt
    from deerflow.subagents.execution import Subagent

logger = logging.getLogger(__name__)

DEFAULT_USER = LOCAL_USER.user_id
NO_VARIABLES: Mapping[str, str] = MappingProxyType({})
MAX_KEPT = 100
"""Maximum number of cached graphs of one generation."""
MAX_GENERATIONS = 8
"""Versions of the settings whose graphs are kept: runs in progress may still use an older one, and users who have saved
models have settings of their own."""

Key = TypeVar("Key")
Built = TypeVar("Built")


@dataclass(frozen=True, slots=True)
class LeadAgentKey:
    """Cache key of a lead agent, besides the settings."""

    spec: AgentSpec
    custom: CustomAgent | None
    skills: tuple[SkillMetadata, ...]
    mcp: ToolOffer = ToolOffer()


class McpToolSource(Protocol):
    """Source of the tools of MCP servers."""

    def offer(self, user_id: str) -> ToolOffer:
        """Return the tools for a user without blocking."""
        ...


@dataclass(frozen=True, slots=True)
class ModelCard:
    """Public description of a model."""

    name: str
    model: str
    display_name: str
    description: str | None
    supports_thinking: bool
    supports_reasoning_effort: bool
    supports_vision: bool
    scripted: bool
    key: KeyStatus


@dataclass(slots=True)
class Generation:
    """Models, graphs and subagents built from one version of the settings."""

    settings: AgentSettings
    catalog: ModelCatalog = field(init=False)
    graphs: dict[LeadAgentKey, AgentGraph] = field(default_factory=dict)
    subagents: "dict[tuple[LeadAgentKey, str], Subagent | None]" = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.catalog = ModelCatalog(self.settings.models)


class AgentPool:
    """Builds agents on demand; equal specs share one graph."""

    def __init__(
        self,
        settings: Callable[[str], AgentSettings],
        checkpointer: BaseCheckpointSaver[str],
        custom_agents: CustomAgents,
        plan: AgentPlan,
        skills: SkillIndex,
        environment: Mapping[str, str] = NO_VARIABLES,
        mcp: McpToolSource | None = None,
    ) -> None:
        """`settings` is called with the user before every use, so that changes apply to the next run.

        `environment` is where classes of `use:` may find their keys.
        """
        self._ask = settings
        self._generations = [Generation(settings(DEFAULT_USER))]
        self._changing = Lock()
        self._checkpointer = checkpointer
        self._custom_agents = custom_agents
        self.plan = plan
        self._skills = skills
        self._environment = environment
        self._mcp = mcp

    @cached_property
    def state_graph(self) -> AgentGraph:
        """Graph that only reads and repairs state. Imports and builds on first use, so it blocks."""
        from deerflow.agents.factory import build_state_graph

        return build_state_graph(self._checkpointer)

    @property
    def catalog(self) -> ModelCatalog:
        """Models of the current settings for the local user."""
        return self._generation().catalog

    def current_settings(self, user_id: str = DEFAULT_USER) -> AgentSettings:
        """Return the settings in effect now for a user. A run keeps them until it ends."""
        return self._generation(user_id=user_id).settings

    def get_cached_graph(
        self, spec: AgentSpec, user_id: str = DEFAULT_USER, settings: AgentSettings | None = None
    ) -> "AgentGraph | None":
        """Return the graph for `spec` if it is cached. Checks a few file stamps only, so it does not block."""
        generation, found = self._generation(settings, user_id), self._skills.get_cached(user_id)
        return None if found is None else generation.graphs.get(self._key(spec, found, user_id))

    def get_graph(
        self, spec: AgentSpec, user_id: str = DEFAULT_USER, settings: AgentSettings | None = None
    ) -> AgentGraph:
        """Return the graph for `spec` with the skills of a user. Builds it if it is not cached, so it blocks."""
        generation = self._generation(settings, user_id)
        key = self._key(spec, self._skills.read(user_id), user_id)
        if key not in generation.graphs:
            add_bounded(generation.graphs, key, self._agent(key, generation).build(self._checkpointer))
        return generation.graphs[key]

    def build_part(self, spec: AgentSpec, user_id: str) -> AgentGraph:
        """Build the graph for `spec` as a part of another graph, which keeps the state. Blocks."""
        generation = self._generation(user_id=user_id)
        return self._agent(self._key(spec, self._skills.read(user_id), user_id), generation).build(None)

    def get_cached_subagent(
        self, spec: AgentSpec, subagent_type: str, user_id: str = DEFAULT_USER, settings: AgentSettings | None = None
    ) -> "Subagent | None":
        """Return the subagent of a type if it is cached. Does not block."""
        generation, found = self._generation(settings, user_id), self._skills.get_cached(user_id)
        return None if found is None else generation.subagents.get((self._key(spec, found, user_id), subagent_type))

    def get_subagent(
        self, spec: AgentSpec, subagent_type: str, user_id: str = DEFAULT_USER, settings: AgentSettings | None = None
    ) -> "Subagent | None":
        """Return the subagent of a type for the agent of `spec`, or None if the type is unknown. Blocks."""
        generation = self._generation(settings, user_id)
        key = self._key(spec, self._skills.read(user_id), user_id)
        if (key, subagent_type) not in generation.subagents:
            add_bounded(
                generation.subagents, (key, subagent_type), self._agent(key, generation).build_subagent(subagent_type)
            )
        return generation.subagents[key, subagent_type]

    def tool_cards(self, user_id: str) -> "tuple[ToolCard, ...]":
        """Return the tools of the lead agent for a user. Blocks."""
        from deerflow.agents.tool_cards import tool_cards

        generation = self._generation(user_id=user_id)
        key = self._key(AgentSpec(subagent_enabled=True), self._skills.read(user_id), user_id)
        settings = generation.settings
        return tool_cards(self._agent(key, generation).tool_set(), settings.chain.reach, settings.tools)

    def chain_settings(self) -> ChainSettings:
        """Return the current settings of the middleware chain. Blocks."""
        return self._generation().settings.chain

    def policy_card(self) -> "PolicyCard":
        """Return the approval policy. Blocks."""
        from deerflow.agents.tool_cards import policy_card

        return policy_card(self._generation().settings.chain)

    def pinned(self, settings: AgentSettings) -> "PinnedAgents":
        """Return the subagents of a run that began with `settings`."""
        return PinnedAgents(self, settings)

    async def skills_for(self, spec: AgentSpec, user_id: str) -> Sequence[Skill]:
        """Return the skills of an agent for a user."""
        return select_skills(spec, self._custom_agent(spec), await self._skills.load(user_id))

    def _key(self, spec: AgentSpec, found: SkillSet, user_id: str) -> "LeadAgentKey":
        custom = self._custom_agent(spec)
        cards = tuple(skill.metadata for skill in select_skills(spec, custom, found))
        return LeadAgentKey(spec, custom, cards, self._mcp.offer(user_id) if self._mcp else ToolOffer())

    def _agent(self, key: "LeadAgentKey", generation: "Generation") -> "LeadAgent":
        # Imported on first use: it loads every middleware, and a server can start without them.
        from deerflow.agents.lead_agent.agent import LeadAgent

        return LeadAgent(
            key.spec,
            generation.settings,
            generation.catalog,
            self._custom_agents,
            key.custom,
            self.plan,
            key.skills,
            key.mcp.tools,
        )

    def _custom_agent(self, spec: AgentSpec) -> CustomAgent | None:
        if not spec.agent_name or not spec.owner or spec.is_bootstrap:
            return None
        return self._custom_agents.load(spec.owner, spec.agent_name)

    def drawing(self, spec: AgentSpec, *, xray: bool | int = False) -> dict[str, Any]:
        """Return the graph of an agent in LangGraph's JSON format."""
        drawn = self.get_graph(spec).get_graph(xray=xray).to_json()
        named = [
            {**node, "data": {"name": node["data"]["name"]}} if "data" in node else node for node in drawn["nodes"]
        ]
        return {**drawn, "nodes": named}

    def schemas(self, spec: AgentSpec) -> dict[str, dict[str, Any]]:
        """Return the input, output and state schemas of an agent."""
        graph = self.get_graph(spec)
        taken, given = graph.get_input_jsonschema(), graph.get_output_jsonschema()
        return {"input_schema": taken, "output_schema": given, "state_schema": given}

    async def title_model(self, spec: AgentSpec, settings: AgentSettings, name: str | None) -> "BaseChatModel | None":
        """Return the model that writes titles: the named one, or that of the run.

        None for a model with `writes_titles = False`, such as one that only plays scripts, unless it is named.
        """
        catalog = self._generation(settings).catalog
        if spec.agent_name is None and catalog.is_built(name or spec.model_name):
            return self._title_model(catalog, spec, name)
        # The first use of a model may import its vendor's library, and custom agents are files.
        return await asyncio.to_thread(self._title_model, catalog, spec, name)

    def _title_model(self, catalog: ModelCatalog, spec: AgentSpec, name: str | None) -> "BaseChatModel | None":
        if name is not None:
            return catalog.create(name)
        model = self.plan.model
        if model is None:
            custom = self._custom_agent(spec)
            entry = catalog.resolve(spec.model_name or (custom.config.model if custom else None))
            model = catalog.create(entry.name, thinking_enabled=False)
        return model if getattr(model, "writes_titles", True) else None

    def side_model(self, name: str | None, user_id: str = DEFAULT_USER) -> "BaseChatModel":
        """Return the model for calls outside of runs: the named one, the default, or the model that replaces all."""
        return self.plan.model or self._generation(user_id=user_id).catalog.create(name)

    def prices(self, user_id: str = DEFAULT_USER) -> Mapping[str, PricingConfig]:
        """Return the prices by model name, for the models of a user."""
        models = self._generation(user_id=user_id).catalog.models
        return {model.name: model.pricing for model in models if model.pricing is not None}

    def window(self, name: str, user_id: str = DEFAULT_USER) -> int | None:
        """Return the context window of a model, if known."""
        models = self._generation(user_id=user_id).catalog.models
        return next((model.context_window for model in models if model.name == name), None)

    def model_cards(self, user_id: str = DEFAULT_USER) -> list[ModelCard]:
        """Return the models of a user, the default first."""
        return [
            create_model_card(model, self._environment) for model in self._generation(user_id=user_id).catalog.models
        ]

    def model_card(self, name: str, user_id: str = DEFAULT_USER) -> ModelCard:
        """Return one model of a user, or raise `NotFound`."""
        return create_model_card(self._generation(user_id=user_id).catalog.find(name), self._environment)

    def _generation(self, settings: AgentSettings | None = None, user_id: str = DEFAULT_USER) -> "Generation":
        """Return what was built from `settings`, or from the current ones of a user."""
        wanted = self._ask(user_id) if settings is None else settings
        if (known := self._find_generation(wanted)) is not None:
            return known
        with self._changing:  # threads may notice a change at the same time
            if (known := self._find_generation(wanted)) is not None:
                return known
            # Runs in progress keep theirs; models close their connections when nothing refers to them.
            generation = Generation(wanted)
            self._generations = [generation, *self._generations[: MAX_GENERATIONS - 1]]
        logger.info("agent cache cleared: settings changed; models: %s", ", ".join(each.name for each in wanted.models))
        return generation

    def _find_generation(self, settings: AgentSettings) -> "Generation | None":
        for generation in self._generations:
            if generation.settings is settings or generation.settings == settings:
                return generation
        return None

    def starters(self, skills: Collection[str]) -> "list[StarterPrompt]":
        """Return example requests for an agent with `skills`. Imports on first use, so it blocks."""
        from deerflow.models.demo.scripts import list_starters
        from deerflow.tools.assembly import list_default_tool_names

        computer = self._generation().settings.computer
        names = list_default_tool_names(
            has_computer=computer is not None, allow_bash=computer is not None and computer.runs_commands
        )
        return list_starters(["write_todos", *names], skills)

    async def aclose(self) -> None:
        """Close the connections of all models."""
        for generation in self._generations:
            await generation.catalog.aclose()


@dataclass(frozen=True, slots=True)
class PinnedAgents:
    """Subagents built from the settings that a run began with."""

    pool: AgentPool
    settings: AgentSettings

    def get_cached_subagent(self, spec: AgentSpec, subagent_type: str, user_id: str) -> "Subagent | None":
        """Return the subagent of a type if it is cached. Does not block."""
        return self.pool.get_cached_subagent(spec, subagent_type, user_id, self.settings)

    def get_subagent(self, spec: AgentSpec, subagent_type: str, user_id: str) -> "Subagent | None":
        """Return the subagent of a type, or None if the type is unknown. Blocks."""
        return self.pool.get_subagent(spec, subagent_type, user_id, self.settings)


def select_skills(spec: AgentSpec, custom: CustomAgent | None, found: SkillSet) -> tuple[Skill, ...]:
    """Return the skills of a user that an agent may use."""
    limits = (spec.available_skills, custom.config.skills if custom else None)
    return filter_skills(found, *limits, (BOOTSTRAP_SKILL,) if spec.is_bootstrap else None)


def add_bounded(kept: dict[Key, Built], key: Key, built: Built) -> None:
    """Add an item to a cache; the oldest is evicted when it is full, because every change of a skill adds items."""
    kept[key] = built
    while len(kept) > MAX_KEPT:
        kept.pop(next(iter(kept)))


def create_model_card(model: ModelConfig, environment: Mapping[str, str]) -> ModelCard:
    """Return the public description of `model`."""
    return ModelCard(
        name=model.name,
        model=model.model,
        display_name=model.display_name or model.name,
        description=model.description,
        supports_thinking=model.supports_thinking,
        supports_reasoning_effort=model.supports_reasoning_effort,
        supports_vision=model.supports_vision,
        scripted=is_scripted(model),
        key=get_key_status(model, environment),
    )


def is_scripted(model: ModelConfig) -> bool:
    """Return whether the model only plays scripts, which the page shows."""
    return model.use.startswith("deerflow.models.demo:")
