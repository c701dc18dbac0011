"""/memory: what agents know about you"""

import asyncio
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Body, Depends, Query
from starlette.responses import Response

from deerflow.config.agents import check_agent_name
from deerflow.domain.memory import Category, MemoryScope, MemoryState, SummaryKey
from deerflow.gateway.dependencies import TheHarness, Who
from deerflow.gateway.memory_bodies import (
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
from deerflow.memory.document import in_utc, to_document
from deerflow.memory.memories import FactChange

router = APIRouter(prefix="/memory", tags=["memory"])


async def scope_of(
    harness: TheHarness,
    who: Who,
    agent: Annotated[str | None, Query(max_length=64, description="The custom agent whose memory is meant.")] = None,
) -> MemoryScope:
    """The memory that is asked for: yours, or that of one of your agents."""
    if agent is not None:
        await asyncio.to_thread(harness.custom_agents.load, who.user_id, check_agent_name(agent))
    return MemoryScope(who.user_id, agent)


Scope = Annotated[MemoryScope, Depends(scope_of)]
Revision = Annotated[
    int | None, Query(ge=0, le=2**62, description="Refuse with 409 when it has changed since this one.")
]
KeepHistory = Annotated[bool, Query(description="Only take it away, so that it can be undone, instead of erasing it.")]


@router.get("", response_model=MemoryDocument, summary="What is known about you")
async def get_memory(
    harness: TheHarness,
    scope: Scope,
    as_of: Annotated[datetime | None, Query(description="What was known at that moment instead.")] = None,
) -> Response:
    """The whole memory as one document; with `as_of`, as it was then, without what has been erased since."""
    return await shown(await harness.resources.memory.read(scope, in_utc(as_of) if as_of else None))


@router.post("/reload", response_model=MemoryDocument, summary="Read it again from where it is kept")
async def reload_memory(harness: TheHarness, scope: Scope) -> Response:
    """The same, after taking over what others have changed in `memory.storage_class`, if that is not the database."""
    return await shown(await harness.resources.memory.reload(scope))


@router.delete("", response_model=MemoryDocument, summary="Erase all that is known about you")
async def clear_memory(harness: TheHarness, scope: Scope, keep_history: KeepHistory = False) -> Response:
    """Erase everything for good, with its history. What was said before is not learned again."""
    await harness.resources.memory.clear(scope, keep_history=keep_history)
    return await shown_now(harness, scope)


@router.get("/config", summary="How memory is set")
async def get_memory_config(harness: TheHarness, scope: Scope) -> MemorySettings:
    """The settings of the server, and whether you have switched your memory off."""
    memory = harness.resources.memory
    return MemorySettings.of(memory.settings(), is_on=await memory.is_on(scope))


@router.put("/config", summary="Switch your memory off or on")
async def switch_memory(body: SwitchMemory, harness: TheHarness, scope: Scope) -> MemorySettings:
    """Have nothing be remembered and nothing be told, from now on; what is known stays until it is erased."""
    await harness.resources.memory.switch(scope, is_on=body.switched_on)
    return await get_memory_config(harness, scope)


@router.get("/status", response_model=MemoryStatus, summary="How memory is set, and what is known")
async def get_memory_status(harness: TheHarness, scope: Scope) -> Response:
    """Both at once, and from which threads something is yet to be learned."""
    memory = harness.resources.memory
    settings = await get_memory_config(harness, scope)
    pending = [PendingThread.of(each).model_dump(mode="json") for each in await memory.waiting(scope)]
    data = document_of(await memory.read(scope))
    return await asyncio.to_thread(as_json, {"config": settings.model_dump(), "data": data, "pending": pending})


@router.post("/facts", response_model=MemoryDocument, summary="Write a fact down")
async def create_fact(body: NewFact, harness: TheHarness, scope: Scope, revision: Revision = None) -> Response:
    """Add a fact; 409 when it is known already."""
    await harness.resources.memory.add_fact(scope, body.content, body.category, body.confidence, revision)
    return await shown_now(harness, scope)


@router.patch("/facts/{fact_id}", response_model=MemoryDocument, summary="Correct a fact")
async def change_fact(
    fact_id: str, body: ChangeFact, harness: TheHarness, scope: Scope, revision: Revision = None
) -> Response:
    """Change what is given; where the fact was learned stays known."""
    change = FactChange(body.content, body.category, body.confidence)
    await harness.resources.memory.change_fact(scope, fact_id, change, revision)
    return await shown_now(harness, scope)


@router.delete("/facts/{fact_id}", response_model=MemoryDocument, summary="Erase a fact")
async def delete_fact(fact_id: str, harness: TheHarness, scope: Scope, keep_history: KeepHistory = False) -> Response:
    """Erase a fact for good, with its history; or, with `keep_history`, take it away so that it can be undone."""
    await harness.resources.memory.delete_fact(scope, fact_id, keep_history=keep_history)
    return await shown_now(harness, scope)


@router.get("/facts/{fact_id}/why", summary="Where a fact comes from")
async def why_known(fact_id: str, harness: TheHarness, scope: Scope) -> WhyKnown:
    """The thread, message and words it was learned from, what happened to it, and what it took the place of."""
    return WhyKnown.of(await harness.resources.memory.why(scope, fact_id))


@router.put("/summaries/{key}", response_model=MemoryDocument, summary="Write a summary anew")
async def write_summary(
    key: SummaryKey, body: WriteSummary, harness: TheHarness, scope: Scope, revision: Revision = None
) -> Response:
    """Have a summary say something else, or nothing; that can be undone."""
    await harness.resources.memory.write_summary(scope, key, body.summary, revision)
    return await shown_now(harness, scope)


@router.delete("/threads/{thread_id}", response_model=MemoryDocument, summary="Erase what was learned in a thread")
async def erase_thread(thread_id: str, harness: TheHarness, who: Who, scope: Scope) -> Response:
    """Erase what was learned there, and all that was made of it; what was known before is known again."""
    await harness.threads.get(thread_id, who)
    await harness.resources.memory.erase_thread(scope, thread_id)
    return await shown_now(harness, scope)


@router.get("/search", summary="Find facts")
async def search_memory(
    harness: TheHarness,
    scope: Scope,
    q: Annotated[str, Query(min_length=1, max_length=500, openapi_examples={"words": {"value": "tea in the morning"}})],
    limit: Annotated[int, Query(ge=1, le=100)] = 10,
    category: Category | None = None,
) -> FoundFacts:
    """Facts with any of the words of `q`, in any script, the best first."""
    return FoundFacts.of(await harness.resources.memory.search(scope, q, limit, category))


@router.get("/history", summary="What happened to your memory")
async def get_history(
    harness: TheHarness,
    scope: Scope,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    before: Annotated[int | None, Query(ge=0, le=2**62, description="Go on from this `next_before`.")] = None,
    fact_id: Annotated[str | None, Query(max_length=64, description="Only what happened to this fact.")] = None,
) -> HistoryPage:
    """Every change, newest first: who made it, why, and what was there before."""
    found = await harness.resources.memory.history(scope, limit, before, fact_id)
    return HistoryPage.of(found, found[-1].seq if len(found) == limit else None)


@router.post("/undo", response_model=MemoryDocument, summary="Undo a change")
async def undo_change(body: TakeBack, harness: TheHarness, scope: Scope) -> Response:
    """Undo one change, or all of one `group`; 409 when what it changed has been changed again since."""
    await harness.resources.memory.undo(scope, body.which())
    return await shown_now(harness, scope)


@router.get("/export", summary="Your memory as a file", responses={200: {"content": {"application/json": {}}}})
async def export_memory(harness: TheHarness, scope: Scope) -> Response:
    """The document alone, as `memory.json`; it can be imported here or elsewhere."""
    document = to_document(await harness.resources.memory.read(scope))
    headers = {"content-disposition": 'attachment; filename="memory.json"'}
    return await asyncio.to_thread(as_json, document, headers)


@router.post("/import", response_model=MemoryDocument, summary="Have your memory be what a file says")
async def import_memory(
    body: Annotated[dict[str, Any], Body(examples=[DOCUMENT_EXAMPLE])],
    harness: TheHarness,
    scope: Scope,
    revision: Revision = None,
) -> Response:
    """Take over an existing `memory.json` in place of what is known. It is one change, and can be undone."""
    await harness.resources.memory.put_in(scope, body, revision)
    return await shown_now(harness, scope)


async def shown_now(harness: TheHarness, scope: MemoryScope) -> Response:
    """What is known after a change."""
    return await shown(await harness.resources.memory.ledger.state(scope))


async def shown(state: MemoryState) -> Response:
    """What is known; it may be much, so it is not written on the event loop."""
    return await asyncio.to_thread(lambda: as_json(document_of(state)))


def document_of(state: MemoryState) -> dict[str, Any]:
    """The document, and by which number a change can refer to it."""
    return {**to_document(state), "revision": state.seq}


def as_json(document: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Response:
    """A document as an answer."""
    return Response(orjson.dumps(document), media_type="application/json", headers=dict(headers or {}))
