"""The agents of the moment: one graph per spec, kept until the settings change."""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from langchain_core.language_models import BaseChatModel
from langgraph.checkpoint.base import BaseCheckpointSaver

from deerflow.agents.custom_agents import CustomAgents
from deerflow.agents.graph import AgentGraph, build_state_graph
from deerflow.agents.plan import BOOTSTRAP_SKILL, AgentPlan
from deerflow.agents.settings import AgentSettings
from deerflow.config.agents import CustomAgent
from deerflow.config.imports import load_object
from deerflow.config.models import ModelConfig, PricingConfig
from deerflow.domain.principal import LOCAL_USER
from deerflow.domain.runs import AgentSpec
from deerflow.domain.skills import SkillCard
from deerflow.mcp.offer import Offer
from deerflow.models.factory import ModelCatalog
from deerflow.models.keys import KeyStatus, key_status
from deerflow.skills.chosen import choose
from deerflow.skills.index import SkillIndex
from deerflow.skills.skill import Skill, SkillSet
from deerflow.subagents.work import Worker

if TYPE_CHECKING:
    from deerflow.agents.lead_agent.agent import LeadAgent
    from deerflow.agents.middlewares.guardrail_facts import Reach
    from deerflow.agents.settings import ChainSettings
    from deerflow.agents.tool_cards import PolicyCard, ToolCard
    from deerflow.models.demo.scripts import Starter
    from deerflow.tools.tools import ToolSet

logger = logging.getLogger(__name__)

NOBODYS = LOCAL_USER.user_id
TOOL_CARDS = "deerflow.agents.tool_cards"
NO_VARIABLES: Mapping[str, str] = MappingProxyType({})
MAX_KEPT = 100
"""Graphs that are kept at most; one that is needed again is built anew."""

Key = TypeVar("Key")
Built = TypeVar("Built")


@dataclass(frozen=True, slots=True)
class LeadAgentKey:
    """What tells one lead agent from another, besides the settings."""

    spec: AgentSpec
    custom: CustomAgent | None
    skills: tuple[SkillCard, ...]
    mcp: Offer = Offer()


class McpOffers(Protocol):
    """Knows what MCP servers offer."""

    def offer(self, user_id: str) -> Offer:
        """The tools for somebody, at once."""
        ...


@dataclass(frozen=True, slots=True)
class ModelCard:
    """What anybody may know of a model."""

    name: str
    model: str
    display_name: str
    description: str | None
    supports_thinking: bool
    supports_reasoning_effort: bool
    supports_vision: bool
    scripted: bool
    key: KeyStatus


class AgentPool:
    """Builds agents when they are first asked for; equal specs share one graph."""

    def __init__(
        self,
        settings: Callable[[], AgentSettings],
        checkpointer: BaseCheckpointSaver[str],
        custom_agents: CustomAgents,
        plan: AgentPlan,
        skills: SkillIndex,
        environment: Mapping[str, str] = NO_VARIABLES,
        mcp: McpOffers | None = None,
    ) -> None:
        """`settings` is asked before every use, so that an edit of the configuration counts for the next run.

        `environment` is where classes of others may find their keys.
        """
        self._ask = settings
        self._settings = settings()
        self._checkpointer = checkpointer
        self._custom_agents = custom_agents
        self.plan = plan
        self._skills = skills
        self._environment = environment
        self._mcp = mcp
        self._catalog = ModelCatalog(self._settings.models)
        self._graphs: dict[LeadAgentKey, AgentGraph] = {}
        self._workers: dict[tuple[LeadAgentKey, str], Worker | None] = {}
        self.state_graph = build_state_graph(checkpointer)

    @property
    def catalog(self) -> ModelCatalog:
        """The models of the moment."""
        self._look_at_settings()
        return self._catalog

    def ready_graph(self, spec: AgentSpec, user_id: str = NOBODYS) -> AgentGraph | None:
        """The graph for `spec` if it was built before. Costs a few looks at files, so it may be asked anywhere."""
        self._look_at_settings()
        found = self._skills.ready(user_id)
        return None if found is None else self._graphs.get(self._key(spec, found, user_id))

    def graph_for(self, spec: AgentSpec, user_id: str = NOBODYS) -> AgentGraph:
        """The graph for `spec` with the skills of somebody. The first time this builds for long, so it blocks."""
        self._look_at_settings()
        key = self._key(spec, self._skills.current(user_id), user_id)
        if key not in self._graphs:
            keep(self._graphs, key, self._agent(key).build(self._checkpointer))
        return self._graphs[key]

    def ready_worker(self, spec: AgentSpec, kind: str, user_id: str = NOBODYS) -> Worker | None:
        """The subagent of a kind if it was built before; as cheap as `ready_graph`."""
        self._look_at_settings()
        found = self._skills.ready(user_id)
        return None if found is None else self._workers.get((self._key(spec, found, user_id), kind))

    def worker_for(self, spec: AgentSpec, kind: str, user_id: str = NOBODYS) -> Worker | None:
        """The subagent of a kind that works for the agent of `spec`; None when there is no such kind. Blocks."""
        self._look_at_settings()
        key = self._key(spec, self._skills.current(user_id), user_id)
        if (key, kind) not in self._workers:
            keep(self._workers, (key, kind), self._agent(key).build_subagent(kind))
        return self._workers[key, kind]

    def tool_cards(self, user_id: str) -> "tuple[ToolCard, ...]":
        """The tools of the lead agent when it works for somebody. Blocks."""
        self._look_at_settings()
        key = self._key(AgentSpec(subagent_enabled=True), self._skills.current(user_id), user_id)
        show = cast("Callable[[ToolSet, Reach], tuple[ToolCard, ...]]", load_object(f"{TOOL_CARDS}:tool_cards"))
        return show(self._agent(key).tool_set(), self._settings.chain.reach)

    def policy_card(self) -> "PolicyCard":
        """What is asked before tools are used. Blocks."""
        self._look_at_settings()
        show = cast("Callable[[ChainSettings], PolicyCard]", load_object(f"{TOOL_CARDS}:policy_card"))
        return show(self._settings.chain)

    async def skills_for(self, spec: AgentSpec, user_id: str) -> Sequence[Skill]:
        """The skills that an agent may use when it works for somebody."""
        return chosen_for(spec, self._custom_agent(spec), await self._skills.load(user_id))

    def _key(self, spec: AgentSpec, found: SkillSet, user_id: str) -> "LeadAgentKey":
        custom = self._custom_agent(spec)
        cards = tuple(skill.card for skill in chosen_for(spec, custom, found))
        return LeadAgentKey(spec, custom, cards, self._mcp.offer(user_id) if self._mcp else Offer())

    def _agent(self, key: "LeadAgentKey") -> "LeadAgent":
        # Loaded when it is used: every middleware comes with it, and the server can be there before the first run.
        make = cast("type[LeadAgent]", load_object("deerflow.agents.lead_agent.agent:LeadAgent"))
        return make(
            key.spec,
            self._settings,
            self._catalog,
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
        """The steps of an agent and how one leads to another, as LangGraph draws them."""
        drawn = self.graph_for(spec).get_graph(xray=xray).to_json()
        named = [
            {**node, "data": {"name": node["data"]["name"]}} if "data" in node else node for node in drawn["nodes"]
        ]
        return {**drawn, "nodes": named}

    def schemas(self, spec: AgentSpec) -> dict[str, dict[str, Any]]:
        """What an agent's graph takes, gives and holds, as JSON schemas."""
        graph = self.graph_for(spec)
        taken, given = graph.get_input_jsonschema(), graph.get_output_jsonschema()
        return {"input_schema": taken, "output_schema": given, "state_schema": given}

    def catalog_model(self, name: str) -> BaseChatModel:
        """The model of that name, for work beside a run."""
        return self.catalog.create(name)

    def side_model(self, name: str | None) -> BaseChatModel:
        """Who answers small questions beside a run: the model of that name, the default, or who stands for all."""
        return self.plan.model or self.catalog.create(name)

    def prices(self) -> Mapping[str, PricingConfig]:
        """What tokens cost, by the names of the models."""
        return {model.name: model.pricing for model in self.catalog.models if model.pricing is not None}

    def window(self, name: str) -> int | None:
        """How many tokens the model of that name reads at most, if that is known."""
        return next((model.context_window for model in self.catalog.models if model.name == name), None)

    def model_cards(self) -> list[ModelCard]:
        """The models there are, the default first."""
        return [to_card(model, self._environment) for model in self.catalog.models]

    def model_card(self, name: str) -> ModelCard:
        """One model, or `NotFound`."""
        return to_card(self.catalog.find(name), self._environment)

    def _look_at_settings(self) -> None:
        settings = self._ask()
        if settings != self._settings:
            # Runs under way keep what they have; models close their connections when nobody holds them.
            self._settings, self._graphs, self._workers = settings, {}, {}
            self._catalog = ModelCatalog(settings.models)
            logger.info("agents are built anew; models: %s", ", ".join(model.name for model in settings.models))

    def starters(self, skills: Collection[str]) -> "list[Starter]":
        """Requests that show what an agent with `skills` can do. The first time this loads, so it blocks."""
        computer = self._settings.computer
        name_tools = cast("Callable[..., tuple[str, ...]]", load_object("deerflow.tools.tools:default_names"))
        names = name_tools(
            has_computer=computer is not None, allow_bash=computer is not None and computer.runs_commands
        )
        show = cast("Callable[..., list[Starter]]", load_object("deerflow.models.demo.scripts:starters"))
        return show(["write_todos", *names], skills)

    async def aclose(self) -> None:
        """Close the connections of the models."""
        await self._catalog.aclose()


def chosen_for(spec: AgentSpec, custom: CustomAgent | None, found: SkillSet) -> tuple[Skill, ...]:
    """The skills of somebody that an agent may use."""
    limits = (spec.available_skills, custom.config.skills if custom else None)
    return choose(found, *limits, (BOOTSTRAP_SKILL,) if spec.is_bootstrap else None)


def keep(kept: dict[Key, Built], key: Key, built: Built) -> None:
    """Keep what was built; the oldest goes when there is too much, for every change of a skill makes new ones."""
    kept[key] = built
    while len(kept) > MAX_KEPT:
        kept.pop(next(iter(kept)))


def to_card(model: ModelConfig, environment: Mapping[str, str]) -> ModelCard:
    """What anybody may know of `model`."""
    return ModelCard(
        name=model.name,
        model=model.model,
        display_name=model.display_name or model.name,
        description=model.description,
        supports_thinking=model.supports_thinking,
        supports_reasoning_effort=model.supports_reasoning_effort,
        supports_vision=model.supports_vision,
        scripted=is_scripted(model),
        key=key_status(model, environment),
    )


def is_scripted(model: ModelConfig) -> bool:
    """Whether the model only plays scripts, which people must be told."""
    return model.use.startswith("deerflow.models.demo:")
