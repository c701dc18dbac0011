"""The agents of the moment: one graph per spec, kept until the settings change."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from langchain_core.language_models import BaseChatModel
from langgraph.checkpoint.base import BaseCheckpointSaver

from deerflow.agents.custom_agents import CustomAgents
from deerflow.agents.factory import AgentGraph
from deerflow.agents.lead_agent.agent import AgentPlan, LeadAgent, build_state_graph
from deerflow.agents.settings import AgentSettings
from deerflow.config.agents import CustomAgent
from deerflow.config.models import ModelConfig, PricingConfig
from deerflow.domain.runs import AgentSpec
from deerflow.models.demo.scripts import Starter, starters
from deerflow.models.factory import ModelCatalog
from deerflow.models.keys import KeyStatus, key_status
from deerflow.subagents.executor import Worker
from deerflow.tools.tools import default_names

logger = logging.getLogger(__name__)

NO_VARIABLES: Mapping[str, str] = MappingProxyType({})


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
        environment: Mapping[str, str] = NO_VARIABLES,
    ) -> None:
        """`settings` is asked before every use, so that an edit of the configuration counts for the next run.

        `environment` is where classes of others may find their keys.
        """
        self._ask = settings
        self._settings = settings()
        self._checkpointer = checkpointer
        self._custom_agents = custom_agents
        self._plan = plan
        self._environment = environment
        self._catalog = ModelCatalog(self._settings.models)
        self._graphs: dict[tuple[AgentSpec, CustomAgent | None], AgentGraph] = {}
        self._workers: dict[tuple[AgentSpec, CustomAgent | None, str], Worker | None] = {}
        self.state_graph = build_state_graph(checkpointer)

    @property
    def catalog(self) -> ModelCatalog:
        """The models of the moment."""
        self._look_at_settings()
        return self._catalog

    def ready_graph(self, spec: AgentSpec) -> AgentGraph | None:
        """The graph for `spec` if it was built before. Costs a few looks at files, so it may be asked anywhere."""
        self._look_at_settings()
        return self._graphs.get((spec, self._custom_agent(spec)))

    def graph_for(self, spec: AgentSpec) -> AgentGraph:
        """The graph for `spec`. The first time this loads a vendor's library and builds for long, so it blocks."""
        self._look_at_settings()
        custom = self._custom_agent(spec)
        if (spec, custom) not in self._graphs:
            self._graphs[spec, custom] = self._agent(spec, custom).build(self._checkpointer)
        return self._graphs[spec, custom]

    def worker_for(self, spec: AgentSpec, kind: str) -> Worker | None:
        """The subagent of a kind that works for the agent of `spec`; None when there is no such kind. Blocks."""
        self._look_at_settings()
        custom = self._custom_agent(spec)
        if (spec, custom, kind) not in self._workers:
            self._workers[spec, custom, kind] = self._agent(spec, custom).build_subagent(kind)
        return self._workers[spec, custom, kind]

    def _agent(self, spec: AgentSpec, custom: CustomAgent | None) -> LeadAgent:
        return LeadAgent(spec, self._settings, self._catalog, self._custom_agents, custom, self._plan)

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
        return self._plan.model or self.catalog.create(name)

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

    def starters(self) -> list[Starter]:
        """Requests that show what the agent can do."""
        computer = self._settings.computer
        names = default_names(
            has_computer=computer is not None, allow_bash=computer is not None and computer.runs_commands
        )
        return starters(["write_todos", *names])

    async def aclose(self) -> None:
        """Close the connections of the models."""
        await self._catalog.aclose()


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
