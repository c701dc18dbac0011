"""Assistants of the LangGraph API: the lead agent and the custom agents."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Response
from pydantic import BaseModel, ConfigDict, Field
from pydantic.types import JsonValue

from deerflow.config.sections.agents import AgentModelSettings, CustomAgent
from deerflow.domain.errors import Conflict, InvalidRequest, NotFound
from deerflow.domain.identity import Principal, new_id
from deerflow.domain.runs import AgentSpec, ReasoningEffort
from deerflow.gateway.dependencies import CurrentUser, HarnessDep, refresh_shares
from deerflow.gateway.examples import with_examples
from deerflow.gateway.schemas.runs import LEAD_AGENT, RunSettings
from deerflow.harness import Harness

router = APIRouter(prefix="/assistants", tags=["assistants"], dependencies=[Depends(refresh_shares)])

LEAD = CustomAgent(LEAD_AGENT)


class AssistantContext(BaseModel):
    """Settings of a custom agent, with the names that runs use."""

    model_config = ConfigDict(extra="forbid")

    model_name: str | None = None
    thinking_enabled: bool | None = None
    reasoning_effort: ReasoningEffort | None = None
    tool_groups: tuple[str, ...] | None = None
    skills: tuple[str, ...] | None = None
    model_settings: AgentModelSettings | None = None
    soul: str | None = None

    @classmethod
    def from_domain(cls, agent: CustomAgent) -> "AssistantContext":
        own = agent.config.model_dump(exclude={"description", "model"}, exclude_defaults=True)
        named = {"model_name": agent.config.model, "soul": agent.soul or None}
        return cls.model_validate({**own, **{key: value for key, value in named.items() if value is not None}})

    def apply_to(self, agent: CustomAgent) -> CustomAgent:
        """Return `agent` with these settings."""
        given = {key: getattr(self, key) for key in self.model_fields_set}
        soul = given.pop("soul", None)
        if "model_name" in given:
            given["model"] = given.pop("model_name")
        return replace(agent, config=agent.config.model_copy(update=given), soul=agent.soul if soul is None else soul)


class AssistantConfig(BaseModel):
    """Settings as the `config` of LangGraph."""

    configurable: AssistantContext = AssistantContext()


class ChangeAssistant(BaseModel):
    """Fields of an assistant to update; omitted fields are kept."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra=with_examples({"description": "Counts.", "context": {"soul": "You count."}})
    )

    graph_id: str = LEAD_AGENT
    name: str | None = None
    description: str | None = None
    config: AssistantConfig = AssistantConfig()
    context: AssistantContext = AssistantContext()
    metadata: dict[str, JsonValue] = {}
    """Metadata to add to that of the assistant; a null removes an entry."""

    def apply_to(self, agent: CustomAgent) -> CustomAgent:
        """Return `agent` with these fields.

        Raises:
            InvalidRequest: a field is not supported.
            NotFound: the graph does not exist.
        """
        if self.graph_id != LEAD_AGENT:
            raise NotFound(f"graph {self.graph_id!r} not found; use {LEAD_AGENT!r}")
        if self.name not in (None, agent.name):
            raise InvalidRequest(f"assistant {agent.name!r} cannot be renamed to {self.name!r}: its name is its id")
        changed = self.context.apply_to(self.config.configurable.apply_to(agent))
        merged = {**changed.metadata, **self.metadata}
        changed = replace(changed, metadata={key: value for key, value in merged.items() if value is not None})
        if self.description is None:
            return changed
        return replace(changed, config=changed.config.model_copy(update={"description": self.description}))


class CreateAssistant(ChangeAssistant):
    """Body of a request for a new assistant."""

    model_config = ConfigDict(json_schema_extra=with_examples({"name": "counter", "context": {"soul": "You count."}}))

    assistant_id: str | None = None
    if_exists: Literal["raise", "do_nothing"] = "raise"


class CountAssistants(BaseModel):
    """Body of a count."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=with_examples({"graph_id": LEAD_AGENT}))

    graph_id: str | None = None
    name: str | None = None
    metadata: dict[str, object] = {}

    def matches(self, agent: CustomAgent) -> bool:
        """Return whether an assistant matches the filter."""
        is_named = self.name is None or self.name.lower() in agent.name.lower()
        own = get_metadata(agent)
        is_labelled = all(key in own and own[key] == value for key, value in self.metadata.items())
        return is_named and is_labelled and self.graph_id in (None, LEAD_AGENT)


class SearchAssistants(CountAssistants):
    """Body of a search."""

    model_config = ConfigDict(json_schema_extra=with_examples({"graph_id": LEAD_AGENT, "limit": 10}))

    limit: Annotated[int, Field(ge=1, le=1000)] = 10
    offset: Annotated[int, Field(ge=0)] = 0
    sort_by: Literal["assistant_id", "name", "graph_id", "created_at", "updated_at"] = "name"
    sort_order: Literal["asc", "desc"] = "asc"


class ChooseVersion(BaseModel):
    """Version to restore."""

    model_config = ConfigDict(json_schema_extra=with_examples({"version": 1}))

    version: int


class Assistant(BaseModel):
    """Agent as an assistant of the LangGraph API."""

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
    def from_domain(cls, agent: CustomAgent) -> "Assistant":
        context = AssistantContext.from_domain(agent).model_dump(mode="json", exclude_none=True)
        return cls(
            assistant_id=agent.name,
            name=agent.name,
            description=agent.config.description or None,
            config={"configurable": context} if context else {},
            context=context,
            metadata=get_metadata(agent),
        )


def get_metadata(agent: CustomAgent) -> dict[str, object]:
    """Return the metadata of an assistant."""
    return {"created_by": "system"} if agent is LEAD else dict(agent.metadata)


class GraphSchemas(BaseModel):
    """JSON schemas of a graph."""

    graph_id: str = LEAD_AGENT
    input_schema: dict[str, Any]
    output_schema: dict[str, Any]
    state_schema: dict[str, Any]
    config_schema: dict[str, Any]
    context_schema: dict[str, Any]


@router.post("/search")
async def search_assistants(
    body: SearchAssistants, harness: HarnessDep, user: CurrentUser, response: Response
) -> list[Assistant]:
    """Search the lead agent and the custom agents."""
    found = await list_agents(harness, user, body)
    response.headers["X-Pagination-Total"] = str(len(found))
    ordered = found[::-1] if body.sort_order == "desc" else found
    return [Assistant.from_domain(agent) for agent in ordered[body.offset : body.offset + body.limit]]


@router.post("/count")
async def count_assistants(body: CountAssistants, harness: HarnessDep, user: CurrentUser) -> int:
    """Count assistants."""
    return len(await list_agents(harness, user, body))


@router.post("")
async def create_assistant(body: CreateAssistant, harness: HarnessDep, user: CurrentUser) -> Assistant:
    """Create a custom agent."""
    name = body.assistant_id or body.name or new_id()
    if name == LEAD_AGENT:
        raise Conflict(f"assistant {name!r} already exists")
    agent = body.apply_to(CustomAgent(name))
    try:
        await asyncio.to_thread(harness.core.custom_agents.create, user.user_id, agent)
    except Conflict:
        if body.if_exists == "raise":
            raise
        agent = await find_agent(harness, user, name)
    return Assistant.from_domain(agent)


@router.get("/{assistant_id}")
async def get_assistant(assistant_id: str, harness: HarnessDep, user: CurrentUser) -> Assistant:
    """Get an assistant."""
    return Assistant.from_domain(await find_agent(harness, user, assistant_id))


@router.patch("/{assistant_id}")
async def update_assistant(
    assistant_id: str, body: ChangeAssistant, harness: HarnessDep, user: CurrentUser
) -> Assistant:
    """Update a custom agent."""
    changed = body.apply_to(await find_custom_agent(harness, user, assistant_id))
    await asyncio.to_thread(harness.core.custom_agents.update, user.user_id, changed)
    return Assistant.from_domain(changed)


@router.delete("/{assistant_id}", status_code=204)
async def delete_assistant(
    assistant_id: str, harness: HarnessDep, user: CurrentUser, delete_threads: bool = False
) -> None:
    """Delete a custom agent."""
    if delete_threads:
        raise InvalidRequest("delete_threads is not supported; threads do not belong to an assistant")
    agent = await find_custom_agent(harness, user, assistant_id)
    await harness.delete_agent(user.user_id, agent.name)


@router.get("/{assistant_id}/graph")
async def get_graph(
    assistant_id: str, harness: HarnessDep, user: CurrentUser, xray: bool | int = False
) -> dict[str, Any]:
    """Get the nodes and edges of an agent's graph."""
    spec = await get_spec(harness, user, assistant_id)
    return await asyncio.to_thread(harness.core.agents.drawing, spec, xray=xray)


@router.get("/{assistant_id}/schemas")
async def get_schemas(assistant_id: str, harness: HarnessDep, user: CurrentUser) -> GraphSchemas:
    """Get the input, output and state schemas of an agent."""
    spec = await get_spec(harness, user, assistant_id)
    found = await asyncio.to_thread(harness.core.agents.schemas, spec)
    settings = RunSettings.model_json_schema()
    return GraphSchemas.model_validate({**found, "config_schema": settings, "context_schema": settings})


@router.get("/{assistant_id}/subgraphs")
async def get_subgraphs(assistant_id: str, harness: HarnessDep, user: CurrentUser) -> dict[str, object]:
    """Get the subgraphs of an agent; there are none."""
    await find_agent(harness, user, assistant_id)
    return {}


@router.post("/{assistant_id}/versions")
async def list_versions(assistant_id: str, harness: HarnessDep, user: CurrentUser) -> list[Assistant]:
    """List the versions of an assistant; there is only the current one."""
    return [Assistant.from_domain(await find_agent(harness, user, assistant_id))]


@router.post("/{assistant_id}/latest")
async def choose_version(assistant_id: str, body: ChooseVersion, harness: HarnessDep, user: CurrentUser) -> Assistant:
    """Restore a version; there is only the current one."""
    if body.version != 1:
        raise NotFound(f"version {body.version} of assistant {assistant_id!r} not found; earlier versions are not kept")
    return Assistant.from_domain(await find_agent(harness, user, assistant_id))


async def list_agents(harness: Harness, user: Principal, wanted: CountAssistants) -> Sequence[CustomAgent]:
    """Return the matching agents: the lead agent first, the others by name."""
    custom = await asyncio.to_thread(harness.core.custom_agents.list, user.user_id)
    return [agent for agent in (LEAD, *custom) if wanted.matches(agent)]


async def find_agent(harness: Harness, user: Principal, assistant_id: str) -> CustomAgent:
    """Return an agent, or raise `NotFound`."""
    if assistant_id == LEAD_AGENT:
        return LEAD
    return await asyncio.to_thread(harness.core.custom_agents.load, user.user_id, assistant_id)


async def find_custom_agent(harness: Harness, user: Principal, assistant_id: str) -> CustomAgent:
    """Return a custom agent.

    Raises:
        Conflict: it is the lead agent.
    """
    agent = await find_agent(harness, user, assistant_id)
    if agent is LEAD:
        raise Conflict("the lead agent cannot be changed; create an assistant")
    return agent


async def get_spec(harness: Harness, user: Principal, assistant_id: str) -> AgentSpec:
    """Return the specification from which the agent's graph is built."""
    agent = await find_agent(harness, user, assistant_id)
    return AgentSpec() if agent is LEAD else AgentSpec(agent_name=agent.name, owner=user.user_id)
