"""Threads, their public share links, and suggestions for the next prompt."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import orjson
from pydantic_core import to_jsonable_python

from deerflow.client.session import HarnessSession, Resource, sync_and_async
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.threads import ShareLink, ThreadRecord
from deerflow.runtime.threads.states import StateView
from deerflow.services.export import ExportFormat

MAX_CHECKPOINTS = 100
MESSAGES_PER_PAGE = 100


async def list_threads(session: HarnessSession, limit: int = 10) -> list[dict[str, Any]]:
    """Return threads, latest activity first."""
    return [serialize_thread(thread) for thread in await session.harness.threads.search(LOCAL_USER, limit, 0)]


async def get_thread(session: HarnessSession, thread_id: str) -> dict[str, Any]:
    """Return a thread with its checkpoints, newest first.

    Raises:
        NotFound: the thread does not exist.
    """
    threads = session.harness.threads
    thread = serialize_thread(await threads.get(thread_id, LOCAL_USER))
    thread["interrupts"] = orjson.loads(await threads.questions(thread_id, LOCAL_USER))
    thread["values"] = {**orjson.loads((await threads.state(thread_id, LOCAL_USER)).values), **thread["values"]}
    history = await threads.history(thread_id, LOCAL_USER, MAX_CHECKPOINTS)
    return {**thread, "checkpoints": [serialize_checkpoint(state) for state in history]}


async def rename_thread(session: HarnessSession, thread_id: str, title: str | None) -> dict[str, Any]:
    """Set the title of a thread; with None the title is generated again.

    Raises:
        NotFound: the thread does not exist.
    """
    return serialize_thread(await session.harness.threads.update(thread_id, LOCAL_USER, {"title": title}))


async def delete_thread(session: HarnessSession, thread_id: str, *, stop_runs: bool = False) -> None:
    """Delete a thread with its messages, checkpoints, files and processes.

    Args:
        thread_id: The thread.
        stop_runs: Cancel its active runs first, instead of raising `Conflict`.

    Raises:
        NotFound: the thread does not exist.
        Conflict: a run is active.
    """
    await session.harness.threads.delete(thread_id, LOCAL_USER, stop_runs=stop_runs)


async def delete_threads(
    session: HarnessSession, thread_ids: Collection[str], *, stop_runs: bool = False
) -> dict[str, list[Any]]:
    """Delete several threads; return those `deleted`, those still being deleted (`unfinished`), and those `failed`."""
    outcome = await session.harness.threads.delete_several(thread_ids, LOCAL_USER, stop_runs=stop_runs)
    failed = [
        {"thread_id": each.thread_id, "error": type(each.problem).__name__, "detail": str(each.problem)}
        for each in outcome.failed
    ]
    return {"deleted": list(outcome.deleted), "unfinished": list(outcome.unfinished), "failed": failed}


async def search_threads(
    session: HarnessSession, query: str, limit: int = 20, cursor: str | None = None
) -> dict[str, Any]:
    """Search the messages of all threads for all words of `query`, best match first.

    Raises:
        InvalidRequest: the cursor is invalid.
    """
    page = await session.harness.resources.search.search(LOCAL_USER, query, limit, cursor)
    hits: list[dict[str, Any]] = to_jsonable_python([asdict(hit) for hit in page.hits])
    return {"hits": hits, "next_cursor": page.next_cursor}


async def export_thread(session: HarnessSession, thread_id: str, format: ExportFormat = "markdown") -> bytes:
    """Return a thread as one file, in `markdown` or `json`.

    Raises:
        NotFound: the thread does not exist.
    """
    export = await session.harness.resources.exporter.export(thread_id, LOCAL_USER, format)
    return b"".join([chunk async for chunk in export.content])


async def create_share(session: HarnessSession, thread_id: str, expires_in_days: int | None = None) -> dict[str, Any]:
    """Create a public link to the messages up to now; its `token` is returned only once.

    Raises:
        NotFound: the thread does not exist.
        Conflict: sharing is disabled.
    """
    created = await session.harness.resources.sharing.create(thread_id, LOCAL_USER, expires_in_days)
    return {**serialize_share(created.share), "token": created.token, "path": f"/share/{created.token}"}


async def list_shares(session: HarnessSession, thread_id: str) -> list[dict[str, Any]]:
    """Return the share links of a thread, newest first, expired links included.

    Raises:
        NotFound: the thread does not exist.
    """
    return [serialize_share(share) for share in await session.harness.resources.sharing.list(thread_id, LOCAL_USER)]


async def revoke_share(session: HarnessSession, thread_id: str, share_id: str) -> None:
    """Revoke a share link.

    Raises:
        NotFound: the link does not exist.
    """
    await session.harness.resources.sharing.revoke(thread_id, share_id, LOCAL_USER)


async def read_shared(session: HarnessSession, token: str) -> dict[str, Any]:
    """Return the `title`, `artifacts` and all `messages` of a shared thread, as the public page shows them.

    Raises:
        NotFound: the link does not exist, has expired or was revoked.
    """
    sharing = session.harness.resources.sharing
    shared = await sharing.open(token)
    page = await sharing.read_page(token, None, MESSAGES_PER_PAGE)
    pages = [page]
    while page.earlier is not None:
        page = await sharing.read_page(token, page.earlier, MESSAGES_PER_PAGE)
        pages.append(page)
    messages = [each for part in reversed(pages) for each in part.messages]
    return {
        "title": shared.title,
        "shared_at": to_jsonable_python(shared.share.created_at),
        "expires_at": to_jsonable_python(shared.share.expires_at),
        "artifacts": list(shared.artifacts),
        "messages": [{"message": message, "created_at": to_jsonable_python(at)} for message, at in messages],
    }


async def suggest_prompts(
    session: HarnessSession,
    thread_id: str,
    n: int = 3,
    *,
    messages: Sequence[Mapping[str, str]] | None = None,
    model_name: str | None = None,
) -> dict[str, Any]:
    """Return suggested follow-up questions; if there are none, `reason` says why.

    Raises:
        NotFound: the thread or model does not exist.
    """
    if model_name is not None:
        session.harness.core.agents.model_card(model_name)
    found = await session.harness.resources.suggestions.suggest(thread_id, LOCAL_USER, n, messages, model_name)
    return {"suggestions": list(found.suggestions), "reason": found.reason}


async def polish_prompt(
    session: HarnessSession, text: str, locale: str | None = None, thread_id: str | None = None
) -> dict[str, Any]:
    """Rewrite a prompt before it is sent; return it unchanged if that fails.

    Raises:
        InvalidRequest: the prompt is empty or too long.
        NotFound: the thread does not exist.
    """
    found = await session.harness.resources.input_polish.polish(text, LOCAL_USER, locale, thread_id)
    return {"rewritten_text": found.text, "changed": found.changed, "reason": found.reason}


class ThreadsClient(Resource):
    """Threads: conversations with their checkpoints."""

    list, alist = sync_and_async(list_threads)
    get, aget = sync_and_async(get_thread)
    rename, arename = sync_and_async(rename_thread)
    delete, adelete = sync_and_async(delete_thread)
    delete_many, adelete_many = sync_and_async(delete_threads)
    search, asearch = sync_and_async(search_threads)
    export, aexport = sync_and_async(export_thread)


class SharesClient(Resource):
    """Public share links of threads."""

    create, acreate = sync_and_async(create_share)
    list, alist = sync_and_async(list_shares)
    get, aget = sync_and_async(read_shared)
    revoke, arevoke = sync_and_async(revoke_share)


class PromptsClient(Resource):
    """Help with the next prompt."""

    suggest, asuggest = sync_and_async(suggest_prompts)
    polish, apolish = sync_and_async(polish_prompt)


def serialize_thread(thread: ThreadRecord) -> dict[str, Any]:
    """Return a thread in the shape of the HTTP API."""
    return {
        "thread_id": thread.thread_id,
        "status": thread.status,
        "metadata": dict(thread.metadata),
        "config": {},
        "values": {} if thread.title is None else {"title": thread.title},
        "interrupts": {},
        "error": None,
        "waits_for": thread.waits_for,
        "project_id": thread.project_id,
        "created_at": to_jsonable_python(thread.created_at),
        "updated_at": to_jsonable_python(thread.updated_at),
        "state_updated_at": to_jsonable_python(thread.updated_at),
    }


def serialize_checkpoint(state: StateView) -> dict[str, Any]:
    """Return the state of a thread after one step."""
    return {
        "checkpoint_id": state.checkpoint_id,
        "parent_checkpoint_id": state.parent_checkpoint_id,
        "ts": state.created_at,
        "metadata": orjson.loads(state.metadata),
        "values": orjson.loads(state.values),
    }


def serialize_share(share: ShareLink) -> dict[str, Any]:
    """Return a share link in the shape of the HTTP API."""
    return {
        "share_id": share.share_id,
        "thread_id": share.thread_id,
        "created_at": to_jsonable_python(share.created_at),
        "expires_at": to_jsonable_python(share.expires_at),
    }
