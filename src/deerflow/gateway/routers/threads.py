"""/threads"""

from collections.abc import AsyncIterator, Collection
from contextlib import aclosing
from datetime import datetime
from typing import Annotated, Literal

import orjson
from fastapi import APIRouter, Header, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response, StreamingResponse

from deerflow.domain.errors import InvalidRequest
from deerflow.domain.principal import Principal
from deerflow.domain.runs import RunRecord
from deerflow.domain.threads import ThreadFilter, ThreadOrder, ThreadRecord, ThreadStatus, WaitsFor
from deerflow.gateway.dependencies import TheHarness, Who
from deerflow.gateway.examples import CHECKPOINT, shown_as
from deerflow.gateway.run_requests import Checkpoint
from deerflow.gateway.sse import MOST_DIGITS, STREAM_HEADERS, encode
from deerflow.harness import Harness
from deerflow.runtime.threads import StateView

router = APIRouter(prefix="/threads", tags=["threads"])


class Thread(BaseModel):
    """A thread, as the API shows it. What it holds besides its title is at `/state`."""

    thread_id: str
    status: ThreadStatus
    metadata: dict[str, object]
    config: dict[str, object] = {}
    values: dict[str, object]
    interrupts: dict[str, object] = {}
    error: None = None
    waits_for: WaitsFor | None = None
    """What a person has to say before it goes on: an answer to a question, or a word before the agent acts."""
    created_at: datetime
    updated_at: datetime
    state_updated_at: datetime

    @classmethod
    def of(cls, thread: ThreadRecord) -> "Thread":
        return cls(
            thread_id=thread.thread_id,
            status=thread.status,
            metadata=dict(thread.metadata),
            values={} if thread.title is None else {"title": thread.title},
            waits_for=thread.waits_for,
            created_at=thread.created_at,
            updated_at=thread.updated_at,
            state_updated_at=thread.updated_at,
        )


class CreateThread(BaseModel):
    """Body of a request for a thread."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=shown_as({"metadata": {"topic": "herons"}}))

    thread_id: str | None = None
    metadata: dict[str, object] = {}
    if_exists: Literal["raise", "do_nothing"] = "raise"


class CountThreads(BaseModel):
    """Body of a count."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=shown_as({"status": "idle"}))

    metadata: dict[str, object] = {}
    ids: list[str] | None = None
    status: ThreadStatus | None = None

    def to_filter(self) -> ThreadFilter:
        """The wish in the words of the domain."""
        return ThreadFilter(self.metadata, self.ids, self.status)


class CopyThread(BaseModel):
    """Body of a copy, which may be left out."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"example": {"checkpoint_id": None}})

    checkpoint_id: str | None = None


class SearchThreads(CountThreads):
    """Body of a search."""

    model_config = ConfigDict(json_schema_extra=shown_as({"metadata": {"topic": "herons"}, "limit": 10}))

    limit: Annotated[int, Field(ge=1, le=1000)] = 100
    offset: Annotated[int, Field(ge=0)] = 0
    sort_by: ThreadOrder = "updated_at"
    sort_order: Literal["asc", "desc"] = "desc"

    def to_filter(self) -> ThreadFilter:
        """The wish in the words of the domain."""
        return ThreadFilter(self.metadata, self.ids, self.status, self.sort_by, self.sort_order == "asc")


class LookedBackAt(BaseModel):
    """A checkpoint as LangGraph's own configuration names it."""

    configurable: Checkpoint


class ReadHistory(BaseModel):
    """Body of a look back."""

    model_config = ConfigDict(json_schema_extra=shown_as({"limit": 5}))

    limit: Annotated[int, Field(ge=1, le=1000)] = 10
    before: str | LookedBackAt | Checkpoint | None = None
    metadata: dict[str, object] = {}
    checkpoint: Checkpoint | None = None

    def before_id(self) -> str | None:
        """The checkpoint to look back from."""
        before = self.before.configurable if isinstance(self.before, LookedBackAt) else self.before
        return before.checkpoint_id if isinstance(before, Checkpoint) else before


class UpdateThread(BaseModel):
    """Body of a change."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=shown_as({"metadata": {"pinned": True}}))

    metadata: dict[str, object]


class UpdateState(BaseModel):
    """Body of a change of what a thread holds."""

    model_config = ConfigDict(
        json_schema_extra=shown_as({"values": {"messages": [{"type": "human", "content": "One more thing."}]}})
    )

    values: dict[str, object] | None = None
    as_node: str | None = None
    checkpoint_id: str | None = None
    checkpoint: Checkpoint | None = None


class StateAt(BaseModel):
    """Body of a look at a checkpoint."""

    model_config = ConfigDict(json_schema_extra=shown_as({"checkpoint": {"checkpoint_id": CHECKPOINT}}))

    checkpoint: Checkpoint
    subgraphs: bool = False


class MadeCheckpoint(BaseModel):
    """A checkpoint somebody made."""

    checkpoint: dict[str, str]
    configurable: dict[str, str]
    checkpoint_id: str


@router.post("")
async def create_thread(body: CreateThread, harness: TheHarness, who: Who) -> Thread:
    """Begin a thread."""
    may_exist = body.if_exists == "do_nothing"
    return Thread.of(await harness.threads.create(who, body.thread_id, body.metadata, may_exist=may_exist))


@router.post("/search")
async def search_threads(body: SearchThreads, harness: TheHarness, who: Who, response: Response) -> list[Thread]:
    """Threads, latest activity first."""
    wanted = body.to_filter()
    found = await harness.threads.search(who, body.limit, body.offset, wanted)
    is_all = body.offset == 0 and len(found) < body.limit
    response.headers["X-Pagination-Total"] = str(len(found) if is_all else await harness.threads.count(who, wanted))
    return [Thread.of(thread) for thread in found]


@router.post("/count")
async def count_threads(body: CountThreads, harness: TheHarness, who: Who) -> int:
    """How many threads there are of that kind."""
    return await harness.threads.count(who, body.to_filter())


@router.get("/{thread_id}")
async def get_thread(thread_id: str, harness: TheHarness, who: Who) -> Thread:
    """One thread, and what a paused run asks in it."""
    thread = Thread.of(await harness.threads.get(thread_id, who))
    if thread.status != "interrupted":
        return thread
    asked = orjson.loads(await harness.threads.questions(thread_id, who))
    return thread.model_copy(update={"interrupts": asked})


@router.patch("/{thread_id}")
async def update_thread(thread_id: str, body: UpdateThread, harness: TheHarness, who: Who) -> Thread:
    """Add to a thread's metadata."""
    return Thread.of(await harness.threads.update(thread_id, who, body.metadata))


@router.post("/{thread_id}/copy")
async def copy_thread(thread_id: str, harness: TheHarness, who: Who, body: CopyThread | None = None) -> Thread:
    """Make a new thread that holds what this one does, or did at a checkpoint, with its files as they are now."""
    return Thread.of(await harness.threads.copy(thread_id, who, body.checkpoint_id if body else None))


@router.get("/{thread_id}/state")
async def get_state(thread_id: str, harness: TheHarness, who: Who) -> Response:
    """What the thread holds now."""
    return await state_at(harness, thread_id, who, None)


@router.get("/{thread_id}/state/{checkpoint_id}")
async def get_state_at(thread_id: str, checkpoint_id: str, harness: TheHarness, who: Who) -> Response:
    """What the thread held at a checkpoint."""
    return await state_at(harness, thread_id, who, checkpoint_id)


@router.post("/{thread_id}/state/checkpoint")
async def read_state_at(thread_id: str, body: StateAt, harness: TheHarness, who: Who) -> Response:
    """What the thread held at a checkpoint."""
    return await state_at(harness, thread_id, who, body.checkpoint.checkpoint_id)


@router.post("/{thread_id}/state")
async def update_state(thread_id: str, body: UpdateState, harness: TheHarness, who: Who) -> MadeCheckpoint:
    """Change what the thread holds, as if one of the agent's steps had."""
    at = body.checkpoint_id or (body.checkpoint.checkpoint_id if body.checkpoint else None)
    made = await harness.threads.update_state(thread_id, who, body.values or {}, body.as_node, at)
    checkpoint = {"thread_id": thread_id, "checkpoint_ns": "", "checkpoint_id": made}
    return MadeCheckpoint(checkpoint=checkpoint, configurable=checkpoint, checkpoint_id=made)


@router.get("/{thread_id}/messages")
async def get_messages(thread_id: str, harness: TheHarness, who: Who) -> Response:
    """Everything said in the thread, also what the agent no longer has in view."""
    return Response(await harness.threads.messages(thread_id, who), media_type="application/json")


@router.get("/{thread_id}/history")
async def get_history(
    thread_id: str,
    harness: TheHarness,
    who: Who,
    limit: Annotated[int, Query(ge=1, le=1000)] = 10,
    before: str | None = None,
) -> Response:
    """What the thread held after each step, newest first."""
    return await read_history(thread_id, ReadHistory(limit=limit, before=before), harness, who)


@router.post("/{thread_id}/history")
async def read_history(thread_id: str, body: ReadHistory, harness: TheHarness, who: Who) -> Response:
    """What the thread held after each step, newest first."""
    upto = body.checkpoint.checkpoint_id if body.checkpoint else None
    states = await harness.threads.history(thread_id, who, body.limit, body.before_id(), body.metadata, upto)
    shown = b",".join(show_state(thread_id, state) for state in states)
    return Response(b"[%s]" % shown, media_type="application/json")


@router.get("/{thread_id}/stream")
async def follow_thread(
    thread_id: str, harness: TheHarness, who: Who, last_event_id: Annotated[str | None, Header()] = None
) -> StreamingResponse:
    """Follow the runs of a thread that are under way or wait, one after the other, until none is left."""
    await harness.threads.get(thread_id, who)
    run_id, after = parse_thread_event_id(last_event_id)
    begun = [await harness.runs.get(thread_id, run_id, who)] if run_id else []
    frames = follow_runs(harness, thread_id, who, begun, after)
    return StreamingResponse(frames, media_type="text/event-stream", headers=STREAM_HEADERS)


async def follow_runs(
    harness: Harness, thread_id: str, who: Principal, waiting: list[RunRecord], after: int
) -> AsyncIterator[bytes]:
    """The frames of a thread's runs, beginning with the rest of those `waiting`. Ids name the run and the event."""
    seen: set[str] = set()
    while waiting or (waiting := await unseen_runs(harness, thread_id, who, seen)):
        run = waiting.pop(0)
        seen.add(run.run_id)
        modes = await harness.runs.modes_of(run)
        async with aclosing(encode(harness.runs, run, modes, after, mark=f"{run.run_id}.")) as pieces:
            async for piece in pieces:
                yield piece
        after = 0


async def unseen_runs(harness: Harness, thread_id: str, who: Principal, seen: Collection[str]) -> list[RunRecord]:
    """The runs under way or waiting that a reader does not know yet, oldest first."""
    return [run for run in await harness.threads.unfinished_runs(who, thread_id) if run.run_id not in seen]


def parse_thread_event_id(value: str | None) -> tuple[str | None, int]:
    """The run and the number in the `Last-Event-ID` header of somebody who follows a thread.

    Raises:
        InvalidRequest: it is not one of ours.
    """
    if not value or value == "-":
        return None, 0
    run_id, _, seq = value.rpartition(".")
    if not run_id or not seq.isdecimal() or len(seq) > MOST_DIGITS:
        raise InvalidRequest(f"Last-Event-ID is a run and the number of an event, not {value[:100]!r}")
    return run_id, int(seq)


async def state_at(harness: Harness, thread_id: str, who: Principal, checkpoint_id: str | None) -> Response:
    """What a thread held at a checkpoint, or holds now."""
    state = await harness.threads.state(thread_id, who, checkpoint_id)
    return Response(show_state(thread_id, state), media_type="application/json")


def show_state(thread_id: str, state: StateView) -> bytes:
    """The state in the shape of the LangGraph API, without parsing what is JSON already."""
    return orjson.dumps(
        {
            "values": orjson.Fragment(state.values),
            "next": state.next,
            "tasks": orjson.Fragment(state.tasks),
            "interrupts": orjson.Fragment(state.interrupts),
            "metadata": orjson.Fragment(state.metadata),
            "checkpoint": named(thread_id, state.checkpoint_id),
            "parent_checkpoint": named(thread_id, state.parent_checkpoint_id),
            "checkpoint_id": state.checkpoint_id,
            "parent_checkpoint_id": state.parent_checkpoint_id,
            "created_at": state.created_at,
        }
    )


def named(thread_id: str, checkpoint_id: str | None) -> dict[str, str] | None:
    """A checkpoint by its whole name."""
    return {"thread_id": thread_id, "checkpoint_ns": "", "checkpoint_id": checkpoint_id} if checkpoint_id else None
