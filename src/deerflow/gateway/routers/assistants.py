"""/assistants: the lead agent and the custom agents, as the LangGraph API calls them"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Response
from pydantic import BaseModel, ConfigDict, Field

from deerflow.config.agents import AgentModelSettings, CustomAgent
from deerflow.domain.errors import Conflict, InvalidRequest, NotFound
from deerflow.domain.ids import new_id
from deerflow.domain.principal import Principal
from deerflow.domain.runs import AgentSpec, ReasoningEffort
from deerflow.gateway.dependencies import TheHarness, Who
from deerflow.gateway.examples import shown_as
from deerflow.gateway.run_requests import LEAD_AGENT, RunSettings
from deerflow.harness import Harness

router = APIRouter(prefix="/assistants", tags=["assistants"])

LEAD = CustomAgent(LEAD_AGENT)


class AssistantContext(BaseModel):
    """What an assistant changes about the lead agent: the settings of a custom agent, by the names runs use."""

    model_config = ConfigDict(extra="forbid")

    model_name: str | None = None
    thinking_enabled: bool | None = None
    reasoning_effort: ReasoningEffort | None = None
    tool_groups: tuple[str, ...] | None = None
    skills: tuple[str, ...] | None = None
    model_settings: AgentModelSettings | None = None
    soul: str | None = None

    @classmethod
    def of(cls, agent: CustomAgent) -> "AssistantContext":
        own = agent.config.model_dump(exclude={"description", "model"}, exclude_defaults=True)
        named = {"model_name": agent.config.model, "soul": agent.soul or None}
        return cls.model_validate({**own, **{key: value for key, value in named.items() if value is not None}})

    def applied_to(self, agent: CustomAgent) -> CustomAgent:
        """`agent` with what is given here."""
        given = {key: getattr(self, key) for key in self.model_fields_set}
        soul = given.pop("soul", None)
        if "model_name" in given:
            given["model"] = given.pop("model_name")
        return replace(agent, config=agent.config.model_copy(update=given), soul=agent.soul if soul is None else soul)


class AssistantConfig(BaseModel):
    """LangGraph's own way to pass settings."""

    configurable: AssistantContext = AssistantContext()


class ChangeAssistant(BaseModel):
    """Body of a change of an assistant; what is left out stays as it is."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra=shown_as({"description": "Counts.", "context": {"soul": "You count."}})
    )

    graph_id: str = LEAD_AGENT
    name: str | None = None
    description: str | None = None
    config: AssistantConfig = AssistantConfig()
    context: AssistantContext = AssistantContext()
    metadata: dict[str, object] = {}

    def applied_to(self, agent: CustomAgent) -> CustomAgent:
        """`agent` with what is given here.

        Raises:
            InvalidRequest: something cannot be kept.
            NotFound: there is no such graph.
        """
        if self.graph_id != LEAD_AGENT:
            raise NotFound(f"no graph {self.graph_id!r}; there is {LEAD_AGENT!r}")
        if self.metadata:
            raise InvalidRequest("an assistant is an agent in a folder of its own, which has no place for metadata")
        if self.name not in (None, agent.name):
            raise InvalidRequest(f"the assistant {agent.name!r} cannot be called {self.name!r}: its name is its id")
        changed = self.context.applied_to(self.config.configurable.applied_to(agent))
        if self.description is None:
            return changed
        return replace(changed, config=changed.config.model_copy(update={"description": self.description}))


class CreateAssistant(ChangeAssistant):
    """Body of a request for an assistant."""

    model_config = ConfigDict(json_schema_extra=shown_as({"name": "counter", "context": {"soul": "You count."}}))

    assistant_id: str | None = None
    if_exists: Literal["raise", "do_nothing"] = "raise"


class CountAssistants(BaseModel):
    """Body of a count."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=shown_as({"graph_id": LEAD_AGENT}))

    graph_id: str | None = None
    name: str | None = None
    metadata: dict[str, object] = {}

    def fits(self, agent: CustomAgent) -> bool:
        """Whether an assistant is looked for."""
        is_named = self.name is None or self.name.lower() in agent.name.lower()
        return is_named and self.graph_id in (None, LEAD_AGENT) and not self.metadata


class SearchAssistants(CountAssistants):
    """Body of a search."""

    model_config = ConfigDict(json_schema_extra=shown_as({"graph_id": LEAD_AGENT, "limit": 10}))

    limit: Annotated[int, Field(ge=1, le=1000)] = 10
    offset: Annotated[int, Field(ge=0)] = 0
    sort_by: Literal["assistant_id", "name", "graph_id", "created_at", "updated_at"] = "name"
    sort_order: Literal["asc", "desc"] = "asc"


class ChooseVersion(BaseModel):
    """Body of a request to go back to a version."""

    model_config = ConfigDict(json_schema_extra=shown_as({"version": 1}))

    version: int


class Assistant(BaseModel):
    """An agent, as the LangGraph API shows it."""

    assistant_id: str
    graph_id: str = LEAD_AGENT
    name: str
    description: str | None
    config: dict[str, object]
    context: dict[str, object]
    metadata: dict[str, object]
    version: int = 1
    created_at: datetime | None = None
    updated_at: datetime | None = None

    @classmethod
    def of(cls, agent: CustomAgent) -> "Assistant":
        context = AssistantContext.of(agent).model_dump(mode="json", exclude_none=True)
        return cls(
            assistant_id=agent.name,
            name=agent.name,
            description=agent.config.description or None,
            config={"configurable": context} if context else {},
            context=context,
            metadata={"created_by": "system"} if agent is LEAD else {},
        )


class GraphSchemas(BaseModel):
    """What a graph takes, gives and holds."""

    graph_id: str = LEAD_AGENT
    input_schema: dict[str, Any]
    output_schema: dict[str, Any]
    state_schema: dict[str, Any]
    config_schema: dict[str, Any]
    context_schema: dict[str, Any]


@router.post("/search")
async def search_assistants(
    body: SearchAssistants, harness: TheHarness, who: Who, response: Response
) -> list[Assistant]:
    """The lead agent and the custom agents."""
    found = await list_agents(harness, who, body)
    response.headers["X-Pagination-Total"] = str(len(found))
    ordered = found[::-1] if body.sort_order == "desc" else found
    return [Assistant.of(agent) for agent in ordered[body.offset : body.offset + body.limit]]


@router.post("/count")
async def count_assistants(body: CountAssistants, harness: TheHarness, who: Who) -> int:
    """How many assistants there are of that kind."""
    return len(await list_agents(harness, who, body))


@router.post("")
async def create_assistant(body: CreateAssistant, harness: TheHarness, who: Who) -> Assistant:
    """Make a custom agent."""
    name = body.assistant_id or body.name or new_id()
    if name == LEAD_AGENT:
        raise Conflict(f"there is already an assistant {name!r}")
    agent = body.applied_to(CustomAgent(name))
    try:
        await asyncio.to_thread(harness.custom_agents.create, who.user_id, agent)
    except Conflict:
        if body.if_exists == "raise":
            raise
        agent = await find_agent(harness, who, name)
    return Assistant.of(agent)


@router.get("/{assistant_id}")
async def get_assistant(assistant_id: str, harness: TheHarness, who: Who) -> Assistant:
    """One assistant."""
    return Assistant.of(await find_agent(harness, who, assistant_id))


@router.patch("/{assistant_id}")
async def update_assistant(assistant_id: str, body: ChangeAssistant, harness: TheHarness, who: Who) -> Assistant:
    """Change a custom agent."""
    changed = body.applied_to(await custom_agent(harness, who, assistant_id))
    await asyncio.to_thread(harness.custom_agents.update, who.user_id, changed)
    return Assistant.of(changed)


@router.delete("/{assistant_id}", status_code=204)
async def delete_assistant(assistant_id: str, harness: TheHarness, who: Who, delete_threads: bool = False) -> None:
    """Remove a custom agent."""
    if delete_threads:
        raise InvalidRequest("threads do not belong to an assistant: delete them one by one")
    agent = await custom_agent(harness, who, assistant_id)
    await harness.delete_agent(who.user_id, agent.name)


@router.get("/{assistant_id}/graph")
async def get_graph(assistant_id: str, harness: TheHarness, who: Who, xray: bool | int = False) -> dict[str, Any]:
    """The steps of an agent and how one leads to another."""
    spec = await spec_of(harness, who, assistant_id)
    return await asyncio.to_thread(harness.agents.drawing, spec, xray=xray)


@router.get("/{assistant_id}/schemas")
async def get_schemas(assistant_id: str, harness: TheHarness, who: Who) -> GraphSchemas:
    """What an agent takes, gives and holds."""
    spec = await spec_of(harness, who, assistant_id)
    found = await asyncio.to_thread(harness.agents.schemas, spec)
    settings = RunSettings.model_json_schema()
    return GraphSchemas.model_validate({**found, "config_schema": settings, "context_schema": settings})


@router.get("/{assistant_id}/subgraphs")
async def get_subgraphs(assistant_id: str, harness: TheHarness, who: Who) -> dict[str, object]:
    """The graphs inside an agent's graph: there is none."""
    await find_agent(harness, who, assistant_id)
    return {}


@router.post("/{assistant_id}/versions")
async def list_versions(assistant_id: str, harness: TheHarness, who: Who) -> list[Assistant]:
    """The versions of an assistant: its files as they are."""
    return [Assistant.of(await find_agent(harness, who, assistant_id))]


@router.post("/{assistant_id}/latest")
async def choose_version(assistant_id: str, body: ChooseVersion, harness: TheHarness, who: Who) -> Assistant:
    """Go back to a version: there is only one."""
    if body.version != 1:
        raise NotFound(f"no version {body.version} of the assistant {assistant_id!r}: earlier ones are not kept")
    return Assistant.of(await find_agent(harness, who, assistant_id))


async def list_agents(harness: Harness, who: Principal, wanted: CountAssistants) -> Sequence[CustomAgent]:
    """The agents that are looked for: the lead agent first, the others by name."""
    custom = await asyncio.to_thread(harness.custom_agents.list, who.user_id)
    return [agent for agent in (LEAD, *custom) if wanted.fits(agent)]


async def find_agent(harness: Harness, who: Principal, assistant_id: str) -> CustomAgent:
    """The agent, or `NotFound`."""
    if assistant_id == LEAD_AGENT:
        return LEAD
    return await asyncio.to_thread(harness.custom_agents.load, who.user_id, assistant_id)


async def custom_agent(harness: Harness, who: Principal, assistant_id: str) -> CustomAgent:
    """The agent, if it is one that can be changed.

    Raises:
        Conflict: it is the lead agent.
    """
    agent = await find_agent(harness, who, assistant_id)
    if agent is LEAD:
        raise Conflict("the lead agent cannot be changed here: make an assistant of your own")
    return agent


async def spec_of(harness: Harness, who: Principal, assistant_id: str) -> AgentSpec:
    """What the agent's graph is built from."""
    agent = await find_agent(harness, who, assistant_id)
    return AgentSpec() if agent is LEAD else AgentSpec(agent_name=agent.name, owner=who.user_id)
