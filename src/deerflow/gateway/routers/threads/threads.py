"""Threads: /threads."""

import asyncio
from datetime import datetime
from typing import Annotated, Literal

import orjson
from fastapi import APIRouter, Header, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response, StreamingResponse

from deerflow.domain.errors import InvalidRequest, StateTooNew
from deerflow.domain.identity import Principal
from deerflow.domain.threads import ThreadFilter, ThreadOrder, ThreadRecord, ThreadStatus, WaitReason
from deerflow.gateway.dependencies import CurrentUser, HarnessDep, ThreadOwner, ThreadReader
from deerflow.gateway.examples import CHECKPOINT, with_examples
from deerflow.gateway.schemas.runs import Checkpoint
from deerflow.gateway.sse import MAX_DIGITS, STREAM_HEADERS, EventStreamResponse, ThreadFollower, ThreadStreamMode
from deerflow.harness import Harness
from deerflow.runtime.threads.states import StateView

router = APIRouter(prefix="/threads", tags=["threads"])

JSON = "application/json"


class Thread(BaseModel):
    """Thread. In lists, `values` contains only the title; the rest is at `/state`."""

    thread_id: str
    status: ThreadStatus
    metadata: dict[str, object]
    config: dict[str, object] = {}
    values: dict[str, object]
    interrupts: dict[str, object] = {}
    error: None = None
    waits_for: WaitReason | None = None
    """Pending input of the user: an answer to a question, or an approval."""
    project_id: str | None = None
    """Project that the thread is in."""
    created_at: datetime
    updated_at: datetime
    state_updated_at: datetime

    @classmethod
    def from_domain(cls, thread: ThreadRecord) -> "Thread":
        return cls(
            thread_id=thread.thread_id,
            status=thread.status,
            metadata=dict(thread.metadata),
            values={} if thread.title is None else {"title": thread.title},
            waits_for=thread.waits_for,
            project_id=thread.project_id,
            created_at=thread.created_at,
            updated_at=thread.updated_at,
            state_updated_at=thread.updated_at,
        )


class CreateThread(BaseModel):
    """Body of a request for a new thread."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=with_examples({"metadata": {"topic": "herons"}}))

    thread_id: str | None = None
    metadata: dict[str, object] = {}
    if_exists: Literal["raise", "do_nothing"] = "raise"


class CountThreads(BaseModel):
    """Body of a count."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=with_examples({"status": "idle"}))

    metadata: dict[str, object] = {}
    ids: list[str] | None = None
    status: ThreadStatus | None = None
    has_messages: bool | None = None
    project_id: Annotated[str | None, Field(max_length=64)] = None
    """Project of the threads; an empty text finds threads without one."""

    def to_filter(self) -> ThreadFilter:
        """Return the filter of the domain."""
        return ThreadFilter(
            self.metadata, self.ids, self.status, has_messages=self.has_messages, project_id=self.project_id
        )


class CopyThread(BaseModel):
    """Body of a copy; optional."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"example": {"checkpoint_id": None}})

    checkpoint_id: str | None = None
    title: Annotated[str | None, Field(min_length=1, max_length=500)] = None
    temporary: bool = False
    """Temporary copy without files, for a side question."""


class SearchThreads(CountThreads):
    """Body of a search."""

    model_config = ConfigDict(json_schema_extra=with_examples({"metadata": {"topic": "herons"}, "limit": 10}))

    limit: Annotated[int, Field(ge=1, le=1000)] = 100
    offset: Annotated[int, Field(ge=0)] = 0
    sort_by: ThreadOrder = "updated_at"
    sort_order: Literal["asc", "desc"] = "desc"

    def to_filter(self) -> ThreadFilter:
        """Return the filter of the domain."""
        is_ascending = self.sort_order == "asc"
        order = self.sort_by, is_ascending
        return ThreadFilter(self.metadata, self.ids, self.status, *order, self.has_messages, self.project_id)


class LookedBackAt(BaseModel):
    """Checkpoint in a `config` of LangGraph."""

    configurable: Checkpoint


class ReadHistory(BaseModel):
    """Body of a request for the history."""

    model_config = ConfigDict(json_schema_extra=with_examples({"limit": 5}))

    limit: Annotated[int, Field(ge=1, le=1000)] = 10
    before: str | LookedBackAt | Checkpoint | None = None
    metadata: dict[str, object] = {}
    checkpoint: Checkpoint | None = None

    def before_id(self) -> str | None:
        """Return the id of the checkpoint to start before."""
        before = self.before.configurable if isinstance(self.before, LookedBackAt) else self.before
        return before.checkpoint_id if isinstance(before, Checkpoint) else before


class UpdateThread(BaseModel):
    """Body of an update."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=with_examples({"metadata": {"pinned": True}}))

    metadata: dict[str, object]


class UpdateState(BaseModel):
    """Body of a state update."""

    model_config = ConfigDict(
        json_schema_extra=with_examples({"values": {"messages": [{"type": "human", "content": "One more thing."}]}})
    )

    values: dict[str, object] | None = None
    as_node: str | None = None
    checkpoint_id: str | None = None
    checkpoint: Checkpoint | None = None


class StateAt(BaseModel):
    """Body of a request for the state at a checkpoint."""

    model_config = ConfigDict(json_schema_extra=with_examples({"checkpoint": {"checkpoint_id": CHECKPOINT}}))

    checkpoint: Checkpoint
    subgraphs: bool = False


class MadeCheckpoint(BaseModel):
    """New checkpoint."""

    checkpoint: dict[str, str]
    configurable: dict[str, str]
    checkpoint_id: str


@router.post("")
async def create_thread(body: CreateThread, harness: HarnessDep, user: CurrentUser) -> Thread:
    """Create a thread."""
    may_exist = body.if_exists == "do_nothing"
    return Thread.from_domain(await harness.threads.create(user, body.thread_id, body.metadata, may_exist=may_exist))


@router.post("/search")
async def search_threads(
    body: SearchThreads, harness: HarnessDep, user: CurrentUser, response: Response
) -> list[Thread]:
    """Search threads, latest activity first."""
    wanted = body.to_filter()
    found = await harness.threads.search(user, body.limit, body.offset, wanted)
    is_all = body.offset == 0 and len(found) < body.limit
    response.headers["X-Pagination-Total"] = str(len(found) if is_all else await harness.threads.count(user, wanted))
    return [Thread.from_domain(thread) for thread in found]


@router.post("/count")
async def count_threads(body: CountThreads, harness: HarnessDep, user: CurrentUser) -> int:
    """Count threads."""
    return await harness.threads.count(user, body.to_filter())


@router.get("/{thread_id}", response_model=Thread)
async def get_thread(thread_id: str, harness: HarnessDep, user: ThreadReader) -> Response:
    """Get a thread with its current values and the interrupts of a paused run."""
    thread = Thread.from_domain(await harness.threads.get(thread_id, user))
    shown = thread.model_dump(mode="json", exclude={"values", "interrupts"})
    asked = await harness.threads.questions(thread_id, user) if thread.status == "interrupted" else b"{}"
    try:
        values = (await harness.threads.state(thread_id, user)).values
    except StateTooNew:
        values = b"{}"
    return Response(await asyncio.to_thread(encode_thread, shown, asked, values, thread.values), media_type=JSON)


def encode_thread(shown: dict[str, object], asked: bytes, values: bytes, titled: dict[str, object]) -> bytes:
    """Return a thread as JSON, whose `values` are those of its state with the title that lists show."""
    own = orjson.loads(values)
    return orjson.dumps({**shown, "values": {**own, **titled}, "interrupts": orjson.Fragment(asked)})


@router.patch("/{thread_id}")
async def update_thread(thread_id: str, body: UpdateThread, harness: HarnessDep, user: ThreadOwner) -> Thread:
    """Update the metadata of a thread."""
    return Thread.from_domain(await harness.threads.update(thread_id, user, body.metadata))


@router.post("/{thread_id}/copy")
async def copy_thread(thread_id: str, harness: HarnessDep, user: ThreadOwner, body: CopyThread | None = None) -> Thread:
    """Copy a thread with its current state, or that of a checkpoint, and its current files."""
    wanted = body or CopyThread()
    copy = harness.threads.copy
    made = await copy(thread_id, user, wanted.checkpoint_id, title=wanted.title, is_temporary=wanted.temporary)
    return Thread.from_domain(made)


@router.get("/{thread_id}/state")
async def get_state(thread_id: str, harness: HarnessDep, user: ThreadReader) -> Response:
    """Get the current state of a thread."""
    return await respond_state(harness, thread_id, user, None)


@router.get("/{thread_id}/state/{checkpoint_id}")
async def get_state_at(thread_id: str, checkpoint_id: str, harness: HarnessDep, user: ThreadReader) -> Response:
    """Get the state of a thread at a checkpoint."""
    return await respond_state(harness, thread_id, user, checkpoint_id)


@router.post("/{thread_id}/state/checkpoint")
async def read_state_at(thread_id: str, body: StateAt, harness: HarnessDep, user: ThreadReader) -> Response:
    """Get the state of a thread at a checkpoint."""
    return await respond_state(harness, thread_id, user, body.checkpoint.checkpoint_id)


@router.post("/{thread_id}/state")
async def update_state(thread_id: str, body: UpdateState, harness: HarnessDep, user: ThreadOwner) -> MadeCheckpoint:
    """Update the state of a thread as if a node had done so."""
    at = body.checkpoint_id or (body.checkpoint.checkpoint_id if body.checkpoint else None)
    made = await harness.threads.update_state(thread_id, user, body.values or {}, body.as_node, at)
    checkpoint = {"thread_id": thread_id, "checkpoint_ns": "", "checkpoint_id": made}
    return MadeCheckpoint(checkpoint=checkpoint, configurable=checkpoint, checkpoint_id=made)


@router.get("/{thread_id}/messages")
async def get_messages(thread_id: str, harness: HarnessDep, user: ThreadReader) -> Response:
    """Get all messages of a thread, including those no longer in the agent's context."""
    return Response(await harness.threads.messages(thread_id, user), media_type=JSON)


@router.get("/{thread_id}/history")
async def get_history(
    thread_id: str,
    harness: HarnessDep,
    user: ThreadReader,
    limit: Annotated[int, Query(ge=1, le=1000)] = 10,
    before: str | None = None,
) -> Response:
    """List the states of a thread after each step, newest first."""
    return await read_history(thread_id, ReadHistory(limit=limit, before=before), harness, user)


@router.post("/{thread_id}/history")
async def read_history(thread_id: str, body: ReadHistory, harness: HarnessDep, user: ThreadReader) -> Response:
    """List the states of a thread after each step, newest first."""
    upto = body.checkpoint.checkpoint_id if body.checkpoint else None
    states = await harness.threads.history(thread_id, user, body.limit, body.before_id(), body.metadata, upto)
    shown = b",".join(encode_state(thread_id, state) for state in states)
    return Response(b"[%s]" % shown, media_type=JSON)


@router.get("/{thread_id}/stream")
async def follow_thread(
    thread_id: str,
    harness: HarnessDep,
    user: ThreadReader,
    stream_mode: ThreadStreamMode = "run_modes",
    last_event_id: Annotated[str | None, Header()] = None,
) -> StreamingResponse:
    """Stream the events of active and queued runs of a thread, and of later runs, until the client disconnects.

    With `Last-Event-ID`, the stream continues after that event, including runs that have ended since.
    """
    await harness.threads.get(thread_id, user)
    run_id, after = parse_thread_event_id(last_event_id)
    begun = await harness.runs.get(thread_id, run_id, user) if run_id else None
    follower = ThreadFollower(harness, thread_id, user, stream_mode)
    return EventStreamResponse(follower.follow(begun, after), media_type="text/event-stream", headers=STREAM_HEADERS)


def parse_thread_event_id(value: str | None) -> tuple[str | None, int]:
    """Parse the run id and event number in the `Last-Event-ID` header of a thread stream.

    Raises:
        InvalidRequest: it is invalid.
    """
    if not value or value == "-":
        return None, 0
    run_id, _, seq = value.rpartition(".")
    if not run_id or not seq.isdecimal() or len(seq) > MAX_DIGITS:
        raise InvalidRequest(f"Last-Event-ID must be a run id and the number of an event, not {value[:100]!r}")
    return run_id, int(seq)


async def respond_state(harness: Harness, thread_id: str, user: Principal, checkpoint_id: str | None) -> Response:
    """Return the state of a thread at a checkpoint, or the current state."""
    state = await harness.threads.state(thread_id, user, checkpoint_id)
    return Response(encode_state(thread_id, state), media_type=JSON)


def encode_state(thread_id: str, state: StateView) -> bytes:
    """Return a state in the shape of the LangGraph API, without parsing values that are JSON already."""
    return orjson.dumps(
        {
            "values": orjson.Fragment(state.values),
            "next": state.next,
            "tasks": orjson.Fragment(state.tasks),
            "interrupts": orjson.Fragment(state.interrupts),
            "metadata": orjson.Fragment(state.metadata),
            "checkpoint": format_checkpoint(thread_id, state.checkpoint_id),
            "parent_checkpoint": format_checkpoint(thread_id, state.parent_checkpoint_id),
            "checkpoint_id": state.checkpoint_id,
            "parent_checkpoint_id": state.parent_checkpoint_id,
            "created_at": state.created_at,
        }
    )


def format_checkpoint(thread_id: str, checkpoint_id: str | None) -> dict[str, str] | None:
    """Return a checkpoint with its thread, or None."""
    return {"thread_id": thread_id, "checkpoint_ns": "", "checkpoint_id": checkpoint_id} if checkpoint_id else None
