"""Memory of the user and of custom agents."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Body, Depends, Query
from starlette.responses import Response

from deerflow.config.sections.agents import check_agent_name
from deerflow.domain.identity import split_address
from deerflow.domain.memory import Category, MemoryScope, MemoryState, SummaryKey
from deerflow.domain.projects import project_scope
from deerflow.gateway.dependencies import CurrentUser, HarnessDep
from deerflow.gateway.schemas.memory import (
    DOCUMENT_EXAMPLE,
    ChangeFact,
    FoundFacts,
    HistoryPage,
    MemoryDocument,
    MemorySettings,
    MemoryStatus,
    NewFact,
    PendingThread,
    SwitchMemory,
    TakeBack,
    WhyKnown,
    WriteSummary,
)
from deerflow.memory.document import to_document, to_utc
from deerflow.memory.service import FactChange
from deerflow.persistence.queries.audit import AuditEvent
from deerflow.services.audit import audited

router = APIRouter(prefix="/memory", tags=["memory"])


async def get_scope(
    harness: HarnessDep,
    user: CurrentUser,
    agent: Annotated[str | None, Query(max_length=129, description="Memory of this custom agent.")] = None,
    project: Annotated[str | None, Query(max_length=64, description="Memory of this project.")] = None,
) -> MemoryScope:
    """Return the requested memory: that of the user, of one of their agents, or of a project."""
    if project is not None:
        return project_scope(user.user_id, (await harness.resources.projects.get(project, user)).project_id)
    if agent is not None and split_address(agent, user.user_id)[0] != user.user_id:
        check_agent_name(agent.partition("@")[0])  # the person's own memory, which stays when the agent is gone
    elif agent is not None:
        agent = split_address(agent, user.user_id)[1]
        await asyncio.to_thread(harness.core.custom_agents.load, user.user_id, check_agent_name(agent))
    return MemoryScope(user.user_id, agent)


Scope = Annotated[MemoryScope, Depends(get_scope)]
Revision = Annotated[
    int | None, Query(ge=0, le=2**62, description="Return 409 if the memory has changed since this revision.")
]
KeepHistory = Annotated[bool, Query(description="Keep the history, so that it can be undone.")]


@router.get("", response_model=MemoryDocument, summary="Get the memory")
async def get_memory(
    harness: HarnessDep,
    scope: Scope,
    as_of: Annotated[datetime | None, Query(description="Return the memory as of this time.")] = None,
) -> Response:
    """Get the memory as one document; with `as_of`, as of that time, without content erased since."""
    return await respond(await harness.resources.memory.read(scope, to_utc(as_of) if as_of else None))


@router.post("/reload", response_model=MemoryDocument, summary="Reload the memory")
async def reload_memory(harness: HarnessDep, scope: Scope) -> Response:
    """Apply manual edits in `memory.storage_class`, if that is not the database, and get the memory."""
    return await respond(await harness.resources.memory.reload(scope))


@router.delete("", response_model=MemoryDocument, summary="Erase the memory")
async def clear_memory(harness: HarnessDep, scope: Scope, keep_history: KeepHistory = False) -> Response:
    """Permanently erase the memory with its history. Earlier messages are not extracted again."""
    memory = harness.resources.memory
    details = {"agent": scope.agent} if scope.agent else {}
    event = AuditEvent("data.memory_deleted", scope.owner, scope.owner, details=details)
    await replace(memory, ledger=audited(memory.ledger, event)).clear(scope, keep_history=keep_history)
    return await respond_current(harness, scope)


@router.get("/config", summary="Get the memory settings")
async def get_memory_config(harness: HarnessDep, scope: Scope) -> MemorySettings:
    """Get the settings of the server, and whether the user has enabled memory."""
    memory = harness.resources.memory
    return MemorySettings.from_domain(memory.settings.current, is_on=await memory.is_enabled(scope))


@router.put("/config", summary="Enable or disable memory")
async def switch_memory(body: SwitchMemory, harness: HarnessDep, scope: Scope) -> MemorySettings:
    """Enable or disable extraction and injection; stored memory is kept."""
    await harness.resources.memory.set_enabled(scope, is_on=body.switched_on)
    return await get_memory_config(harness, scope)


@router.get("/status", response_model=MemoryStatus, summary="Get settings, memory and pending extractions")
async def get_memory_status(harness: HarnessDep, scope: Scope) -> Response:
    """Get the settings, the memory and the threads with pending extractions."""
    memory = harness.resources.memory
    settings = await get_memory_config(harness, scope)
    pending = [PendingThread.from_domain(each).model_dump(mode="json") for each in await memory.list_pending(scope)]
    data = build_document(await memory.read(scope))
    return await asyncio.to_thread(json_response, {"config": settings.model_dump(), "data": data, "pending": pending})


@router.post("/facts", response_model=MemoryDocument, summary="Create a fact")
async def create_fact(body: NewFact, harness: HarnessDep, scope: Scope, revision: Revision = None) -> Response:
    """Create a fact; 409 if it exists already."""
    await harness.resources.memory.add_fact(scope, body.content, body.category, body.confidence, revision)
    return await respond_current(harness, scope)


@router.patch("/facts/{fact_id}", response_model=MemoryDocument, summary="Update a fact")
async def change_fact(
    fact_id: str, body: ChangeFact, harness: HarnessDep, scope: Scope, revision: Revision = None
) -> Response:
    """Update the given fields; the source of the fact is kept."""
    change = FactChange(body.content, body.category, body.confidence)
    await harness.resources.memory.change_fact(scope, fact_id, change, revision)
    return await respond_current(harness, scope)


@router.delete("/facts/{fact_id}", response_model=MemoryDocument, summary="Erase a fact")
async def delete_fact(fact_id: str, harness: HarnessDep, scope: Scope, keep_history: KeepHistory = False) -> Response:
    """Permanently erase a fact with its history; with `keep_history`, delete it so that this can be undone."""
    await harness.resources.memory.delete_fact(scope, fact_id, keep_history=keep_history)
    return await respond_current(harness, scope)


@router.get("/facts/{fact_id}/why", summary="Get the source of a fact")
async def why_known(fact_id: str, harness: HarnessDep, scope: Scope) -> WhyKnown:
    """Get the source thread, message and quote of a fact, its changes and the facts it replaced."""
    return WhyKnown.from_domain(await harness.resources.memory.explain(scope, fact_id))


@router.put("/summaries/{key}", response_model=MemoryDocument, summary="Replace a summary")
async def write_summary(
    key: SummaryKey, body: WriteSummary, harness: HarnessDep, scope: Scope, revision: Revision = None
) -> Response:
    """Replace a summary; an empty text deletes it. This can be undone."""
    await harness.resources.memory.write_summary(scope, key, body.summary, revision)
    return await respond_current(harness, scope)


@router.delete("/threads/{thread_id}", response_model=MemoryDocument, summary="Erase the memory of a thread")
async def erase_thread(thread_id: str, harness: HarnessDep, user: CurrentUser, scope: Scope) -> Response:
    """Erase all memory extracted from a thread; facts that it replaced become valid again."""
    await harness.threads.get(thread_id, user)
    await harness.resources.memory.erase_thread(scope, thread_id)
    return await respond_current(harness, scope)


@router.get("/search", summary="Search facts")
async def search_memory(
    harness: HarnessDep,
    scope: Scope,
    q: Annotated[str, Query(min_length=1, max_length=500, openapi_examples={"words": {"value": "tea in the morning"}})],
    limit: Annotated[int, Query(ge=1, le=100)] = 10,
    category: Category | None = None,
) -> FoundFacts:
    """Search facts that contain any of the words of `q`, in any script, best match first."""
    return FoundFacts.from_domain(await harness.resources.memory.search(scope, q, limit, category))


@router.get("/history", summary="List the changes of the memory")
async def get_history(
    harness: HarnessDep,
    scope: Scope,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    before: Annotated[int | None, Query(ge=0, le=2**62, description="Continue from this `next_before`.")] = None,
    fact_id: Annotated[str | None, Query(max_length=64, description="Only changes of this fact.")] = None,
) -> HistoryPage:
    """List the changes, newest first, with author and previous values."""
    found = await harness.resources.memory.read_history(scope, limit, before, fact_id)
    return HistoryPage.from_domain(found, found[-1].seq if len(found) == limit else None)


@router.post("/undo", response_model=MemoryDocument, summary="Undo a change")
async def undo_change(body: TakeBack, harness: HarnessDep, scope: Scope) -> Response:
    """Undo a change or a `group` of changes; 409 if the same fact or summary was changed again since."""
    await harness.resources.memory.undo(scope, body.which())
    return await respond_current(harness, scope)


@router.get("/export", summary="Export the memory", responses={200: {"content": {"application/json": {}}}})
async def export_memory(harness: HarnessDep, scope: Scope) -> Response:
    """Export the document as `memory.json`, for an import here or elsewhere."""
    document = to_document(await harness.resources.memory.read(scope))
    headers = {"content-disposition": 'attachment; filename="memory.json"'}
    return await asyncio.to_thread(json_response, document, headers)


@router.post("/import", response_model=MemoryDocument, summary="Import a memory")
async def import_memory(
    body: Annotated[dict[str, Any], Body(examples=[DOCUMENT_EXAMPLE])],
    harness: HarnessDep,
    scope: Scope,
    revision: Revision = None,
) -> Response:
    """Replace the memory by a `memory.json`. This is one change and can be undone."""
    await harness.resources.memory.import_document(scope, body, revision)
    return await respond_current(harness, scope)


async def respond_current(harness: HarnessDep, scope: MemoryScope) -> Response:
    """Return the memory after a change."""
    return await respond(await harness.resources.memory.ledger.read_state(scope))


async def respond(state: MemoryState) -> Response:
    """Return the memory as a response; a large document is not serialized on the event loop."""
    return await asyncio.to_thread(lambda: json_response(build_document(state)))


def build_document(state: MemoryState) -> dict[str, Any]:
    """Return the document with its revision."""
    return {**to_document(state), "revision": state.seq}


def json_response(document: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Response:
    """Return a document as a JSON response."""
    return Response(orjson.dumps(document), media_type="application/json", headers=dict(headers or {}))
