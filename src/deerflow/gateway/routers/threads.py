"""/threads"""

from datetime import datetime
from typing import Annotated, Literal

import orjson
from fastapi import APIRouter
from pydantic import BaseModel, Field
from starlette.responses import Response

from deerflow.domain.threads import ThreadRecord, ThreadStatus
from deerflow.gateway.dependencies import TheHarness, Who
from deerflow.runtime.threads import StateView

router = APIRouter(prefix="/threads", tags=["threads"])


class Thread(BaseModel):
    """A thread, as the API shows it."""

    thread_id: str
    status: ThreadStatus
    metadata: dict[str, object]
    values: dict[str, object]
    interrupts: dict[str, object] = {}
    created_at: datetime
    updated_at: datetime

    @classmethod
    def of(cls, thread: ThreadRecord) -> "Thread":
        return cls(
            thread_id=thread.thread_id,
            status=thread.status,
            metadata=dict(thread.metadata),
            values={} if thread.title is None else {"title": thread.title},
            created_at=thread.created_at,
            updated_at=thread.updated_at,
        )


class CreateThread(BaseModel):
    """Body of a request for a thread."""

    thread_id: str | None = None
    metadata: dict[str, object] = {}
    if_exists: Literal["raise", "do_nothing"] = "raise"


class SearchThreads(BaseModel):
    """Body of a search."""

    limit: Annotated[int, Field(ge=1, le=1000)] = 100
    offset: Annotated[int, Field(ge=0)] = 0


class ReadHistory(BaseModel):
    """Body of a look back."""

    limit: Annotated[int, Field(ge=1, le=100)] = 10


class UpdateThread(BaseModel):
    """Body of a change."""

    metadata: dict[str, object]


@router.post("")
async def create_thread(body: CreateThread, harness: TheHarness, who: Who) -> Thread:
    """Begin a thread."""
    may_exist = body.if_exists == "do_nothing"
    return Thread.of(await harness.threads.create(who, body.thread_id, body.metadata, may_exist=may_exist))


@router.post("/search")
async def search_threads(body: SearchThreads, harness: TheHarness, who: Who) -> list[Thread]:
    """Threads, latest activity first."""
    return [Thread.of(thread) for thread in await harness.threads.search(who, body.limit, body.offset)]


@router.get("/{thread_id}")
async def get_thread(thread_id: str, harness: TheHarness, who: Who) -> Thread:
    """One thread."""
    return Thread.of(await harness.threads.get(thread_id, who))


@router.patch("/{thread_id}")
async def update_thread(thread_id: str, body: UpdateThread, harness: TheHarness, who: Who) -> Thread:
    """Add to a thread's metadata."""
    return Thread.of(await harness.threads.update(thread_id, who, body.metadata))


@router.delete("/{thread_id}", status_code=204)
async def delete_thread(thread_id: str, harness: TheHarness, who: Who) -> None:
    """Remove a thread and all that belongs to it."""
    await harness.threads.delete(thread_id, who)


@router.get("/{thread_id}/state")
async def get_state(thread_id: str, harness: TheHarness, who: Who) -> Response:
    """What the thread holds now."""
    thread = await harness.threads.get(thread_id, who)
    state = await harness.threads.state(thread_id, who)
    return Response(show_state(thread, state), media_type="application/json")


@router.get("/{thread_id}/messages")
async def get_messages(thread_id: str, harness: TheHarness, who: Who) -> Response:
    """Everything said in the thread, also what the agent no longer has in view."""
    return Response(await harness.threads.messages(thread_id, who), media_type="application/json")


@router.post("/{thread_id}/history")
async def get_history(thread_id: str, body: ReadHistory, harness: TheHarness, who: Who) -> Response:
    """What the thread held after each step, newest first."""
    thread = await harness.threads.get(thread_id, who)
    states = await harness.threads.history(thread_id, who, body.limit)
    shown = b",".join(show_state(thread, state) for state in states)
    return Response(b"[%s]" % shown, media_type="application/json")


def show_state(thread: ThreadRecord, state: StateView) -> bytes:
    """The state in the shape of the LangGraph API, without parsing what is JSON already."""
    checkpoint = {"thread_id": thread.thread_id, "checkpoint_ns": "", "checkpoint_id": state.checkpoint_id}
    parent = {**checkpoint, "checkpoint_id": state.parent_checkpoint_id} if state.parent_checkpoint_id else None
    return orjson.dumps(
        {
            "values": orjson.Fragment(state.values),
            "next": state.next,
            "tasks": [],
            "interrupts": orjson.Fragment(state.interrupts),
            "metadata": orjson.Fragment(state.metadata),
            "checkpoint": checkpoint,
            "parent_checkpoint": parent,
            "created_at": state.created_at,
        }
    )
