"""Long-term memory of the user."""

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any

import orjson
from pydantic_core import to_jsonable_python

from deerflow.client.session import (
    HarnessSession,
    RemoteRequest,
    RemoteSession,
    Resource,
    remotely,
    route,
    sync_and_async,
)
from deerflow.domain.errors import NotFound
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.memory import (
    Category,
    Fact,
    MemoryChange,
    MemoryItem,
    MemoryScope,
    MemoryState,
    Summary,
    SummaryKey,
)
from deerflow.memory.document import format_time, to_document, to_fact_entry, to_utc
from deerflow.memory.service import FactChange

CONFIG_FIELDS = ("enabled", "mode", "debounce_seconds", "max_facts", "fact_confidence_threshold", "injection_enabled")
Document = dict[str, Any]


@route("GET /memory")
async def get_memory(session: HarnessSession, as_of: datetime | None = None, *, agent: str | None = None) -> Document:
    """Return the memory as one document; with `as_of`, as of that time, without content erased since.

    `agent` is a custom agent with a memory of its own; by default, here and below, the agent of this client.
    """
    moment = to_utc(as_of) if as_of else None
    return serialize_state(await session.harness.resources.memory.read(get_scope(session, agent), moment))


@route("POST /memory/reload")
async def reload_memory(session: HarnessSession, *, agent: str | None = None) -> Document:
    """Apply manual edits of the stored memory and return the document."""
    return serialize_state(await session.harness.resources.memory.reload(get_scope(session, agent)))


@route("GET /memory/export")
async def export_memory(session: HarnessSession, *, agent: str | None = None) -> Document:
    """Return the document alone, for a `memory.json`."""
    return to_document(await session.harness.resources.memory.read(get_scope(session, agent)))


@route("POST /memory/import", body="document")
async def import_memory(session: HarnessSession, document: Mapping[str, Any], *, agent: str | None = None) -> Document:
    """Replace the memory by a document. This is one change and can be undone.

    Raises:
        InvalidRequest: the document is invalid.
    """
    scope = get_scope(session, agent)
    await session.harness.resources.memory.import_document(scope, document)
    return await read_document(session, scope)


@route("DELETE /memory")
async def clear_memory(session: HarnessSession, *, keep_history: bool = False, agent: str | None = None) -> Document:
    """Erase the memory permanently; with `keep_history`, in a way that can be undone."""
    scope = get_scope(session, agent)
    await session.harness.resources.memory.clear(scope, keep_history=keep_history)
    return await read_document(session, scope)


@route("POST /memory/facts")
async def create_memory_fact(
    session: HarnessSession,
    content: str,
    category: Category = "context",
    confidence: float = 0.5,
    *,
    agent: str | None = None,
) -> Document:
    """Add a fact and return the document.

    Raises:
        InvalidRequest: the fact is invalid.
        Conflict: the fact exists already.
    """
    scope = get_scope(session, agent)
    await session.harness.resources.memory.add_fact(scope, content, category, confidence)
    return await read_document(session, scope)


@route("PATCH /memory/facts/{fact_id}")
async def update_memory_fact(
    session: HarnessSession,
    fact_id: str,
    content: str | None = None,
    category: Category | None = None,
    confidence: float | None = None,
    *,
    agent: str | None = None,
) -> Document:
    """Update the given fields of a fact and return the document.

    Raises:
        NotFound: the fact does not exist.
        InvalidRequest: the new content is invalid.
        Conflict: another fact has the same content.
    """
    scope = get_scope(session, agent)
    await session.harness.resources.memory.change_fact(scope, fact_id, FactChange(content, category, confidence))
    return await read_document(session, scope)


@route("PUT /memory/summaries/{key}")
async def write_memory_summary(
    session: HarnessSession, key: SummaryKey, summary: str, *, agent: str | None = None
) -> Document:
    """Replace a summary and return the document; an empty text deletes it. This can be undone.

    Raises:
        InvalidRequest: the summary is too long.
    """
    scope = get_scope(session, agent)
    await session.harness.resources.memory.write_summary(scope, key, summary)
    return await read_document(session, scope)


@route("DELETE /memory/facts/{fact_id}")
async def delete_memory_fact(
    session: HarnessSession, fact_id: str, *, keep_history: bool = False, agent: str | None = None
) -> Document:
    """Erase a fact permanently; with `keep_history`, in a way that can be undone.

    Raises:
        NotFound: the fact does not exist.
    """
    scope = get_scope(session, agent)
    await session.harness.resources.memory.delete_fact(scope, fact_id, keep_history=keep_history)
    return await read_document(session, scope)


@route("DELETE /memory/threads/{thread_id}")
async def erase_thread_memory(session: HarnessSession, thread_id: str, *, agent: str | None = None) -> Document:
    """Erase all memory that was extracted from a thread, and return the document.

    Raises:
        NotFound: the thread does not exist.
    """
    scope = get_scope(session, agent)
    await session.harness.threads.get(thread_id, LOCAL_USER)
    await session.harness.resources.memory.erase_thread(scope, thread_id)
    return await read_document(session, scope)


@route("GET /memory/search", names={"query": "q"})
async def search_memory(
    session: HarnessSession, query: str, limit: int = 10, category: Category | None = None, *, agent: str | None = None
) -> dict[str, Any]:
    """Return the facts that contain any of the words, best match first."""
    hits = await session.harness.resources.memory.search(get_scope(session, agent), query, limit, category)
    return {"facts": [{**serialize_fact(hit.fact), "score": hit.score} for hit in hits]}


@route("GET /memory/history")
async def get_memory_history(
    session: HarnessSession,
    limit: int = 50,
    before: int | None = None,
    fact_id: str | None = None,
    *,
    agent: str | None = None,
) -> dict[str, Any]:
    """Return the changes of the memory, newest first; `next_before` is the cursor of the next page."""
    found = await session.harness.resources.memory.read_history(get_scope(session, agent), limit, before, fact_id)
    return {
        "changes": [serialize_change(change) for change in found],
        "next_before": found[-1].seq if len(found) == limit else None,
    }


async def undo_remote_change(session: RemoteSession, change_or_group: str, *, agent: str | None = None) -> Document:
    """Undo a change or a group of changes on a server."""
    query = {"agent": agent}
    try:
        answer = await session.send(RemoteRequest("POST", "/memory/undo", query, {"change_id": change_or_group}))
    except NotFound:
        answer = await session.send(RemoteRequest("POST", "/memory/undo", query, {"group": change_or_group}))
    document: Document = orjson.loads(answer.content)
    return document


@remotely(undo_remote_change)
async def undo_memory_change(session: HarnessSession, change_or_group: str, *, agent: str | None = None) -> Document:
    """Undo a change or a group of changes, and return the document.

    Raises:
        NotFound: the change does not exist.
        Conflict: the same fact or summary was changed again since.
    """
    scope = get_scope(session, agent)
    await session.harness.resources.memory.undo(scope, change_or_group)
    return await read_document(session, scope)


@route("GET /memory/facts/{fact_id}/why")
async def explain_memory_fact(session: HarnessSession, fact_id: str, *, agent: str | None = None) -> dict[str, Any]:
    """Return a fact with its source, its changes and the facts it replaced.

    Raises:
        NotFound: no fact of that id ever existed.
    """
    why = await session.harness.resources.memory.explain(get_scope(session, agent), fact_id)
    changes = [serialize_change(change) for change in why.changes]
    return {
        "fact": serialize_fact(why.fact),
        "changes": changes,
        "superseded": [serialize_fact(fact) for fact in why.superseded],
    }


@route("GET /memory/config")
async def get_memory_config(session: HarnessSession, *, agent: str | None = None) -> dict[str, Any]:
    """Return the memory settings, and whether the user has enabled memory."""
    memory = session.harness.resources.memory
    settings = memory.settings.current
    more = {"max_injection_tokens": settings.max_injection_tokens, "forget_with_thread": settings.forget_with_thread}
    shown = {name: getattr(settings, name) for name in CONFIG_FIELDS}
    return {**shown, **more, "switched_on": await memory.is_enabled(get_scope(session, agent))}


@route("PUT /memory/config")
async def switch_memory(session: HarnessSession, switched_on: bool, *, agent: str | None = None) -> dict[str, Any]:
    """Enable or disable memory extraction and injection; stored memory is kept. Return the settings."""
    await session.harness.resources.memory.set_enabled(get_scope(session, agent), is_on=switched_on)
    return await get_memory_config(session, agent=agent)


@route("GET /memory/status")
async def get_memory_status(session: HarnessSession, *, agent: str | None = None) -> dict[str, Any]:
    """Return the settings, the document, and the threads with pending extractions."""
    waiting = await session.harness.resources.memory.list_pending(get_scope(session, agent))
    return {
        "config": await get_memory_config(session, agent=agent),
        "data": await get_memory(session, agent=agent),
        "pending": to_jsonable_python(waiting),
    }


class MemoryClient(Resource):
    """Long-term memory of the user; `agent` names a custom agent with a memory of its own."""

    get, aget = sync_and_async(get_memory)
    reload, areload = sync_and_async(reload_memory)
    export, aexport = sync_and_async(export_memory)
    import_, aimport = sync_and_async(import_memory)
    clear, aclear = sync_and_async(clear_memory)
    search, asearch = sync_and_async(search_memory)
    create_fact, acreate_fact = sync_and_async(create_memory_fact)
    update_fact, aupdate_fact = sync_and_async(update_memory_fact)
    delete_fact, adelete_fact = sync_and_async(delete_memory_fact)
    explain_fact, aexplain_fact = sync_and_async(explain_memory_fact)
    update_summary, aupdate_summary = sync_and_async(write_memory_summary)
    erase_thread, aerase_thread = sync_and_async(erase_thread_memory)
    get_history, aget_history = sync_and_async(get_memory_history)
    undo, aundo = sync_and_async(undo_memory_change)
    get_config, aget_config = sync_and_async(get_memory_config)
    set_enabled, aset_enabled = sync_and_async(switch_memory)
    get_status, aget_status = sync_and_async(get_memory_status)


def get_scope(session: HarnessSession, agent: str | None) -> MemoryScope:
    """Return the scope of the user, or of the user and an agent."""
    return MemoryScope(LOCAL_USER.user_id, agent or session.agent.agent_name)


async def read_document(session: HarnessSession, scope: MemoryScope) -> Document:
    """Return the document after a change."""
    return serialize_state(await session.harness.resources.memory.ledger.read_state(scope))


def serialize_state(state: MemoryState) -> Document:
    """Return the memory in the shape of the HTTP API."""
    return {**to_document(state), "revision": state.seq}


def serialize_fact(fact: Fact) -> dict[str, Any]:
    """Return a fact with its source and validity."""
    more = {"learnedIn": fact.source, "validFrom": fact.valid_from, "validTo": fact.valid_to}
    shown: dict[str, Any] = to_jsonable_python({**more, "supersedes": fact.supersedes})
    return {"sourceError": None, **to_fact_entry(fact), **shown}


def serialize_change(change: MemoryChange) -> dict[str, Any]:
    """Return a change in the shape of the HTTP API."""
    fields = asdict(change) | {"before": serialize_value(change.before), "after": serialize_value(change.after)}
    shown: dict[str, Any] = to_jsonable_python(fields)
    return shown


def serialize_value(known: MemoryItem | None) -> dict[str, Any] | None:
    """Return a fact or a summary in the shape of the HTTP API."""
    if isinstance(known, Summary):
        return {"summary": known.summary, "updatedAt": format_time(known.updated_at)}
    return serialize_fact(known) if known else None
