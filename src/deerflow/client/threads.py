"""Threads: found and looked into."""

from collections.abc import Collection
from pathlib import PurePosixPath
from typing import Any

import orjson
from pydantic_core import to_jsonable_python

from deerflow.client.faces import Session
from deerflow.domain.files import USER_DATA, FolderEntry
from deerflow.domain.principal import LOCAL_USER
from deerflow.domain.threads import ThreadRecord
from deerflow.runtime.threads import StateView
from deerflow.sandbox.folders import look_into

HISTORY = 100


async def list_threads(session: Session, limit: int = 10) -> list[dict[str, Any]]:
    """Threads, latest activity first."""
    return [show_thread(thread) for thread in await session.harness.threads.search(LOCAL_USER, limit, 0)]


async def get_thread(session: Session, thread_id: str) -> dict[str, Any]:
    """A thread with its checkpoints, newest first.

    Raises:
        NotFound: there is no such thread.
    """
    threads = session.harness.threads
    thread = show_thread(await threads.get(thread_id, LOCAL_USER))
    thread["interrupts"] = orjson.loads(await threads.questions(thread_id, LOCAL_USER))
    history = await threads.history(thread_id, LOCAL_USER, HISTORY)
    return {**thread, "checkpoints": [show_checkpoint(state) for state in history]}


async def rename_thread(session: Session, thread_id: str, title: str | None) -> dict[str, Any]:
    """Call a thread what you like, whatever the agent calls it; None leaves that to the agent again.

    Raises:
        NotFound: there is no such thread.
    """
    return show_thread(await session.harness.threads.update(thread_id, LOCAL_USER, {"title": title}))


async def delete_thread(session: Session, thread_id: str, *, stop_runs: bool = False) -> None:
    """Remove a thread with all that belongs to it: what was said, states, files and processes.

    Args:
        thread_id: The thread.
        stop_runs: Stop its runs first, instead of refusing while one is under way.

    Raises:
        NotFound: there is no such thread.
        Conflict: a run is under way.
    """
    await session.harness.threads.delete(thread_id, LOCAL_USER, stop_runs=stop_runs)


async def delete_threads(
    session: Session, thread_ids: Collection[str], *, stop_runs: bool = False
) -> dict[str, list[Any]]:
    """Remove several threads: which are `deleted`, which will be in a moment (`unfinished`), which `failed` and why."""
    outcome = await session.harness.threads.delete_several(thread_ids, LOCAL_USER, stop_runs=stop_runs)
    failed = [
        {"thread_id": each.thread_id, "error": type(each.problem).__name__, "detail": str(each.problem)}
        for each in outcome.failed
    ]
    return {"deleted": list(outcome.deleted), "unfinished": list(outcome.unfinished), "failed": failed}


async def list_files(session: Session, thread_id: str, path: str = USER_DATA) -> dict[str, Any]:
    """What is in a folder of a thread; its three folders, unless one is named.

    Raises:
        NotFound: there is no such thread.
        FileProblem: there is no such folder.
    """
    thread = await session.harness.threads.get(thread_id, LOCAL_USER)
    folder = await look_into(session.harness.files_of(thread), path)
    return {
        "path": folder.path,
        "entries": [show_entry(each) for each in folder.entries],
        "is_truncated": folder.is_truncated,
    }


def show_entry(entry: FolderEntry) -> dict[str, Any]:
    """A file or folder in the shape of the HTTP API."""
    return {
        "name": PurePosixPath(entry.path).name,
        "path": entry.path,
        "kind": "folder" if entry.is_folder else "file",
        "size": entry.size,
        "modified_at": to_jsonable_python(entry.modified_at),
    }


def show_thread(thread: ThreadRecord) -> dict[str, Any]:
    """A thread in the shape of the HTTP API."""
    return {
        "thread_id": thread.thread_id,
        "status": thread.status,
        "metadata": dict(thread.metadata),
        "config": {},
        "values": {} if thread.title is None else {"title": thread.title},
        "interrupts": {},
        "error": None,
        "waits_for": thread.waits_for,
        "created_at": to_jsonable_python(thread.created_at),
        "updated_at": to_jsonable_python(thread.updated_at),
        "state_updated_at": to_jsonable_python(thread.updated_at),
    }


def show_checkpoint(state: StateView) -> dict[str, Any]:
    """What a thread held after one step."""
    return {
        "checkpoint_id": state.checkpoint_id,
        "parent_checkpoint_id": state.parent_checkpoint_id,
        "ts": state.created_at,
        "metadata": orjson.loads(state.metadata),
        "values": orjson.loads(state.values),
    }
