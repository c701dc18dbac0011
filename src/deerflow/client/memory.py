"""What is known about the user."""

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any

from pydantic_core import to_jsonable_python

from deerflow.client.faces import Session
from deerflow.domain.memory import Category, Change, Fact, Known, MemoryScope, MemoryState, Summary, SummaryKey
from deerflow.domain.principal import LOCAL_USER
from deerflow.memory.document import fact_entry, in_utc, stamp, to_document
from deerflow.memory.memories import FactChange

SHOWN = ("enabled", "mode", "debounce_seconds", "max_facts", "fact_confidence_threshold", "injection_enabled")
Document = dict[str, Any]


async def get_memory(session: Session, as_of: datetime | None = None, *, agent: str | None = None) -> Document:
    """All that is known, as one document; with `as_of`, as it was then, without what has been erased since.

    `agent` is a custom agent with a memory of its own: here and elsewhere, that of this client unless another is given.
    """
    moment = in_utc(as_of) if as_of else None
    return show(await session.harness.resources.memory.read(scope_of(session, agent), moment))


async def reload_memory(session: Session, *, agent: str | None = None) -> Document:
    """The same, after taking over what others have changed where it is kept."""
    return show(await session.harness.resources.memory.reload(scope_of(session, agent)))


async def export_memory(session: Session, *, agent: str | None = None) -> Document:
    """The document alone, for a `memory.json`."""
    return to_document(await session.harness.resources.memory.read(scope_of(session, agent)))


async def import_memory(session: Session, document: Mapping[str, Any], *, agent: str | None = None) -> Document:
    """Have memory be what a document says. It is one change, and can be undone.

    Raises:
        InvalidRequest: it is not the document of a memory.
    """
    scope = scope_of(session, agent)
    await session.harness.resources.memory.put_in(scope, document)
    return await now(session, scope)


async def clear_memory(session: Session, *, keep_history: bool = False, agent: str | None = None) -> Document:
    """Erase everything for good; with `keep_history`, take it away so that it can be undone."""
    scope = scope_of(session, agent)
    await session.harness.resources.memory.clear(scope, keep_history=keep_history)
    return await now(session, scope)


async def create_memory_fact(
    session: Session, content: str, category: Category = "context", confidence: float = 0.5, *, agent: str | None = None
) -> Document:
    """Write a fact down.

    Raises:
        InvalidRequest: it cannot be remembered.
        Conflict: it is known already.
    """
    scope = scope_of(session, agent)
    await session.harness.resources.memory.add_fact(scope, content, category, confidence)
    return await now(session, scope)


async def update_memory_fact(
    session: Session,
    fact_id: str,
    content: str | None = None,
    category: Category | None = None,
    confidence: float | None = None,
    *,
    agent: str | None = None,
) -> Document:
    """Change what is given of a fact.

    Raises:
        NotFound: there is none.
        InvalidRequest: it cannot be remembered so.
        Conflict: another fact says the same.
    """
    scope = scope_of(session, agent)
    await session.harness.resources.memory.change_fact(scope, fact_id, FactChange(content, category, confidence))
    return await now(session, scope)


async def write_memory_summary(
    session: Session, key: SummaryKey, summary: str, *, agent: str | None = None
) -> Document:
    """Have a summary say something else; nothing, and there is none. It can be undone.

    Raises:
        InvalidRequest: it is too long.
    """
    scope = scope_of(session, agent)
    await session.harness.resources.memory.write_summary(scope, key, summary)
    return await now(session, scope)


async def delete_memory_fact(
    session: Session, fact_id: str, *, keep_history: bool = False, agent: str | None = None
) -> Document:
    """Erase a fact for good; with `keep_history`, take it away so that it can be undone.

    Raises:
        NotFound: there is none.
    """
    scope = scope_of(session, agent)
    await session.harness.resources.memory.delete_fact(scope, fact_id, keep_history=keep_history)
    return await now(session, scope)


async def erase_thread_memory(session: Session, thread_id: str, *, agent: str | None = None) -> Document:
    """Erase what was learned in a thread, and all that was made of it.

    Raises:
        NotFound: there is no such thread.
    """
    scope = scope_of(session, agent)
    await session.harness.threads.get(thread_id, LOCAL_USER)
    await session.harness.resources.memory.erase_thread(scope, thread_id)
    return await now(session, scope)


async def search_memory(
    session: Session, query: str, limit: int = 10, category: Category | None = None, *, agent: str | None = None
) -> dict[str, Any]:
    """Facts with any of the words, the best first."""
    hits = await session.harness.resources.memory.search(scope_of(session, agent), query, limit, category)
    return {"facts": [{**details(hit.fact), "score": hit.score} for hit in hits]}


async def get_memory_history(
    session: Session,
    limit: int = 50,
    before: int | None = None,
    fact_id: str | None = None,
    *,
    agent: str | None = None,
) -> dict[str, Any]:
    """Every change, newest first; `next_before` is where to go on."""
    found = await session.harness.resources.memory.history(scope_of(session, agent), limit, before, fact_id)
    return {
        "changes": [told(change) for change in found],
        "next_before": found[-1].seq if len(found) == limit else None,
    }


async def undo_memory_change(session: Session, change_or_group: str, *, agent: str | None = None) -> Document:
    """Undo a change, or all of one group.

    Raises:
        NotFound: there is no such change.
        Conflict: what it changed has been changed again since.
    """
    scope = scope_of(session, agent)
    await session.harness.resources.memory.undo(scope, change_or_group)
    return await now(session, scope)


async def explain_memory_fact(session: Session, fact_id: str, *, agent: str | None = None) -> dict[str, Any]:
    """Where a fact comes from: its source, what happened to it, and what it took the place of.

    Raises:
        NotFound: there never was one.
    """
    why = await session.harness.resources.memory.why(scope_of(session, agent), fact_id)
    changes = [told(change) for change in why.changes]
    return {"fact": details(why.fact), "changes": changes, "superseded": [details(fact) for fact in why.superseded]}


async def get_memory_config(session: Session, *, agent: str | None = None) -> dict[str, Any]:
    """How memory works, and whether you have switched yours off."""
    memory = session.harness.resources.memory
    settings = memory.settings()
    more = {"max_injection_tokens": settings.max_injection_tokens, "forget_with_thread": settings.forget_with_thread}
    shown = {name: getattr(settings, name) for name in SHOWN}
    return {**shown, **more, "switched_on": await memory.is_on(scope_of(session, agent))}


async def switch_memory(session: Session, switched_on: bool, *, agent: str | None = None) -> dict[str, Any]:
    """Have nothing be remembered and nothing be told, or both again; what is known stays until it is erased."""
    await session.harness.resources.memory.switch(scope_of(session, agent), is_on=switched_on)
    return await get_memory_config(session, agent=agent)


async def get_memory_status(session: Session, *, agent: str | None = None) -> dict[str, Any]:
    """How memory works, what is known, and from which threads something is yet to be learned."""
    waiting = await session.harness.resources.memory.waiting(scope_of(session, agent))
    return {
        "config": await get_memory_config(session, agent=agent),
        "data": await get_memory(session, agent=agent),
        "pending": to_jsonable_python(waiting),
    }


def scope_of(session: Session, agent: str | None) -> MemoryScope:
    """The memory of the user, or of the user and an agent."""
    return MemoryScope(LOCAL_USER.user_id, agent or session.agent.agent_name)


async def now(session: Session, scope: MemoryScope) -> Document:
    """What is known after a change."""
    return show(await session.harness.resources.memory.ledger.state(scope))


def show(state: MemoryState) -> Document:
    """What is known, in the shape of the HTTP API."""
    return {**to_document(state), "revision": state.seq}


def details(fact: Fact) -> dict[str, Any]:
    """A fact with all that is kept of it."""
    more = {"learnedIn": fact.source, "validFrom": fact.valid_from, "validTo": fact.valid_to}
    shown: dict[str, Any] = to_jsonable_python({**more, "supersedes": fact.supersedes})
    return {"sourceError": None, **fact_entry(fact), **shown}


def told(change: Change) -> dict[str, Any]:
    """A change in the shape of the HTTP API."""
    fields = asdict(change) | {"before": held(change.before), "after": held(change.after)}
    shown: dict[str, Any] = to_jsonable_python(fields)
    return shown


def held(known: Known | None) -> dict[str, Any] | None:
    """A fact or a summary in the shape of the HTTP API."""
    if isinstance(known, Summary):
        return {"summary": known.summary, "updatedAt": stamp(known.updated_at)}
    return details(known) if known else None
