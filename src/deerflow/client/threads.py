"""Threads, their public share links, and suggestions for the next prompt."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import orjson
from pydantic_core import to_jsonable_python

from deerflow.client.session import (
    HarnessSession,
    RemoteRequest,
    RemoteSession,
    Resource,
    quote_segment,
    remotely,
    route,
    sync_and_async,
)
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import Rating, RunFeedback
from deerflow.domain.threads import ShareLink, ThreadRecord
from deerflow.runtime.threads.states import StateView
from deerflow.services.export import ExportFormat

MAX_CHECKPOINTS = 100
MESSAGES_PER_PAGE = 100


@route("POST /threads/search")
async def list_threads(session: HarnessSession, limit: int = 10) -> list[dict[str, Any]]:
    """Return threads, latest activity first."""
    return [serialize_thread(thread) for thread in await session.harness.threads.search(LOCAL_USER, limit, 0)]


async def get_remote_thread(session: RemoteSession, thread_id: str) -> dict[str, Any]:
    """Return a thread of a server with its checkpoints."""
    place = f"/threads/{quote_segment('', thread_id)}"
    thread: dict[str, Any] = orjson.loads((await session.send(RemoteRequest("GET", place))).content)
    history = await session.send(RemoteRequest("POST", f"{place}/history", body={"limit": MAX_CHECKPOINTS}))
    return {**thread, "checkpoints": [convert_checkpoint(each) for each in orjson.loads(history.content)]}


@remotely(get_remote_thread)
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


async def rename_remote_thread(session: RemoteSession, thread_id: str, title: str | None) -> dict[str, Any]:
    """Rename a thread of a server."""
    place, body = f"/threads/{quote_segment('', thread_id)}", {"metadata": {"title": title}}
    thread: dict[str, Any] = orjson.loads((await session.send(RemoteRequest("PATCH", place, body=body))).content)
    return thread


@remotely(rename_remote_thread)
async def rename_thread(session: HarnessSession, thread_id: str, title: str | None) -> dict[str, Any]:
    """Set the title of a thread; with None the title is generated again.

    Raises:
        NotFound: the thread does not exist.
    """
    return serialize_thread(await session.harness.threads.update(thread_id, LOCAL_USER, {"title": title}))


@route("DELETE /threads/{thread_id}")
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


@route("POST /threads/delete", names={"thread_ids": "ids"})
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


@route("GET /search", names={"query": "q"})
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


@route("GET /threads/{thread_id}/export", is_json=False)
async def export_thread(session: HarnessSession, thread_id: str, format: ExportFormat = "markdown") -> bytes:
    """Return a thread as one file, in `markdown` or `json`.

    Raises:
        NotFound: the thread does not exist.
    """
    export = await session.harness.resources.exporter.export(thread_id, LOCAL_USER, format)
    return b"".join([chunk async for chunk in export.content])


@route("POST /threads/{thread_id}/shares")
async def create_share(session: HarnessSession, thread_id: str, expires_in_days: int | None = None) -> dict[str, Any]:
    """Create a public link to the messages up to now; its `token` is returned only once.

    Raises:
        NotFound: the thread does not exist.
        Conflict: sharing is disabled.
    """
    created = await session.harness.resources.sharing.create(thread_id, LOCAL_USER, expires_in_days)
    return {**serialize_share(created.share), "token": created.token, "path": f"/share/{created.token}"}


@route("GET /threads/{thread_id}/shares")
async def list_shares(session: HarnessSession, thread_id: str) -> list[dict[str, Any]]:
    """Return the share links of a thread, newest first, expired links included.

    Raises:
        NotFound: the thread does not exist.
    """
    return [serialize_share(share) for share in await session.harness.resources.sharing.list(thread_id, LOCAL_USER)]


@route("DELETE /threads/{thread_id}/shares/{share_id}")
async def revoke_share(session: HarnessSession, thread_id: str, share_id: str) -> None:
    """Revoke a share link.

    Raises:
        NotFound: the link does not exist.
    """
    await session.harness.resources.sharing.revoke(thread_id, share_id, LOCAL_USER)


async def read_remote_share(session: RemoteSession, token: str) -> dict[str, Any]:
    """Return the shared thread of a link on a server."""
    place, before = f"/shared/{quote_segment('', token)}", None
    messages: list[dict[str, Any]] = []
    shared: dict[str, Any] = orjson.loads((await session.send(RemoteRequest("GET", place))).content)
    while before is not None or not messages:
        query = {"limit": MESSAGES_PER_PAGE, "before": before}
        page = orjson.loads((await session.send(RemoteRequest("GET", f"{place}/messages", query))).content)
        messages, before = page["data"] + messages, page["before"]
        if before is None:
            break
    return {**shared, "messages": messages}


@remotely(read_remote_share)
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


@route("POST /threads/{thread_id}/suggestions")
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


@route("POST /input-polish")
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


@route("PUT /threads/{thread_id}/runs/{run_id}/feedback")
async def put_feedback(
    session: HarnessSession,
    thread_id: str,
    run_id: str,
    rating: Rating,
    comment: str | None = None,
    message_id: str | None = None,
) -> dict[str, Any]:
    """Rate a run, or one of its messages, with 1 or -1; a second rating replaces the first.

    Raises:
        NotFound: the run does not exist.
    """
    feedback = session.harness.resources.feedback
    return serialize_feedback(await feedback.put(thread_id, run_id, LOCAL_USER, rating, comment, message_id))


@route("GET /threads/{thread_id}/runs/{run_id}/feedback")
async def list_feedback(session: HarnessSession, thread_id: str, run_id: str) -> list[dict[str, Any]]:
    """Return the feedback on a run, oldest first.

    Raises:
        NotFound: the run does not exist.
    """
    found = await session.harness.resources.feedback.list(thread_id, run_id, LOCAL_USER)
    return [serialize_feedback(given) for given in found]


@route("GET /threads/{thread_id}/runs/{run_id}/feedback/stats")
async def get_feedback_stats(session: HarnessSession, thread_id: str, run_id: str) -> dict[str, int]:
    """Return the number of positive and negative ratings of a run.

    Raises:
        NotFound: the run does not exist.
    """
    return asdict(await session.harness.resources.feedback.stats(thread_id, run_id, LOCAL_USER))


async def delete_remote_feedback(
    session: RemoteSession, thread_id: str, run_id: str, feedback_id: str | None = None
) -> None:
    """Delete feedback on a run of a server."""
    place = f"/threads/{quote_segment('', thread_id)}/runs/{quote_segment('', run_id)}/feedback"
    which = "" if feedback_id is None else f"/{quote_segment('', feedback_id)}"
    await session.send(RemoteRequest("DELETE", f"{place}{which}"))


@remotely(delete_remote_feedback)
async def delete_feedback(session: HarnessSession, thread_id: str, run_id: str, feedback_id: str | None = None) -> None:
    """Delete one of your feedback entries on a run, or all of them.

    Raises:
        NotFound: the run does not exist, or has no such feedback.
    """
    await session.harness.resources.feedback.delete(thread_id, run_id, LOCAL_USER, feedback_id)


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


class FeedbackClient(Resource):
    """Ratings of runs and messages."""

    put, aput = sync_and_async(put_feedback)
    list, alist = sync_and_async(list_feedback)
    get_stats, aget_stats = sync_and_async(get_feedback_stats)
    delete, adelete = sync_and_async(delete_feedback)


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


def convert_checkpoint(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return a state of the HTTP API in the shape of `serialize_checkpoint`."""
    parent = state.get("parent_checkpoint") or {}
    return {
        "checkpoint_id": state["checkpoint"]["checkpoint_id"],
        "parent_checkpoint_id": parent.get("checkpoint_id"),
        "ts": state["created_at"],
        "metadata": state["metadata"],
        "values": state["values"],
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


def serialize_feedback(given: RunFeedback) -> dict[str, Any]:
    """Return feedback in the shape of the HTTP API."""
    fields: dict[str, Any] = to_jsonable_python(asdict(given))
    fields.pop("owner")
    return fields
