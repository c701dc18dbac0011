"""Threads: found and looked into."""

from typing import Any

import orjson
from pydantic_core import to_jsonable_python

from deerflow.client.faces import Session
from deerflow.domain.principal import LOCAL_USER
from deerflow.domain.threads import ThreadRecord
from deerflow.runtime.threads import StateView

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
