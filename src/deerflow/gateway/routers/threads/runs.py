"""Runs: /runs and /threads/{thread_id}/runs, with the event log of a run."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Literal, get_args

import orjson
from fastapi import APIRouter, Header, Query
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, computed_field
from starlette.responses import Response, StreamingResponse

from deerflow.domain.errors import Conflict, DeerFlowError, InvalidRequest, NotFound, ReadOnlyAccess
from deerflow.domain.identity import Principal, new_id
from deerflow.domain.runs import CancelAction, DisconnectMode, EventName, RunRecord, RunRequest, RunStatus, StreamMode
from deerflow.gateway.dependencies import (
    READ_ONLY,
    CurrentUser,
    HarnessDep,
    SharedAccess,
    ThreadOwner,
    ThreadReader,
    ThreadWriter,
)
from deerflow.gateway.examples import RUN, THREAD, with_examples
from deerflow.gateway.schemas.runs import LEAD_AGENT, Modes, RunKwargs, RunSettings, StartRun, StartRunInBatch
from deerflow.gateway.sse import event_stream, parse_last_event_id, run_location
from deerflow.harness import Harness
from deerflow.runtime.journal.state_diff import INTERRUPT

router = APIRouter(tags=["runs"])

MODES = TypeAdapter(Modes)
LastEventId = Annotated[str | None, Header()]
IdempotencyKey = Annotated[str | None, Header(min_length=1, max_length=255)]
StreamModes = Annotated[list[str], Query(alias="stream_mode")]


class Run(BaseModel):
    """Run of a thread."""

    run_id: str
    thread_id: str
    assistant_id: str
    status: str
    metadata: dict[str, object]
    multitask_strategy: str
    error: str | None
    created_at: datetime
    updated_at: datetime
    total_input_tokens: int = Field(validation_alias="input_tokens")
    total_output_tokens: int = Field(validation_alias="output_tokens")
    kwargs: RunKwargs | None = None
    """Request of the run."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def total_tokens(self) -> int:
        return self.total_input_tokens + self.total_output_tokens

    @classmethod
    def from_domain(cls, run: RunRecord, request: RunRequest | None) -> "Run":
        shown = cls.model_validate(run, from_attributes=True)
        return shown.model_copy(update={"kwargs": RunKwargs.from_domain(request) if request else None})


RUN_FIELDS = (*Run.model_fields, *Run.model_computed_fields)


class CancelRuns(BaseModel):
    """Runs to cancel: those of a thread by their ids, or all with a status."""

    model_config = ConfigDict(json_schema_extra=with_examples({"thread_id": THREAD, "run_ids": [RUN]}))

    thread_id: str | None = None
    run_ids: list[str] | None = None
    status: Literal["pending", "running", "all"] | None = None


@router.post("/threads/{thread_id}/runs/stream")
async def stream_run(
    thread_id: str,
    body: StartRun,
    harness: HarnessDep,
    user: ThreadWriter,
    actor: CurrentUser,
    idempotency_key: IdempotencyKey = None,
) -> StreamingResponse:
    """Start a run and stream its events."""
    run = await begin_run(harness, thread_id, body, user, actor, idempotency_key)
    stops = run.on_disconnect is DisconnectMode.CANCEL
    return event_stream(harness.runs, run, body.stream_mode, cancel_on_disconnect=stops)


@router.post("/threads/{thread_id}/runs")
async def start_run(
    thread_id: str,
    body: StartRun,
    harness: HarnessDep,
    user: ThreadWriter,
    actor: CurrentUser,
    response: Response,
    idempotency_key: IdempotencyKey = None,
) -> Run:
    """Start a run in the background."""
    run = await begin_run(harness, thread_id, body, user, actor, idempotency_key)
    response.headers["Content-Location"] = run_location(run)
    return (await describe_runs(harness, user, [run]))[0]


@router.post("/threads/{thread_id}/runs/wait")
async def wait_for_run(
    thread_id: str,
    body: StartRun,
    harness: HarnessDep,
    user: ThreadWriter,
    actor: CurrentUser,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Start a run and return the thread state when it has ended."""
    run = await begin_run(harness, thread_id, body, user, actor, idempotency_key)
    return await join_run(thread_id, run.run_id, harness, user)


@router.post("/runs/stream")
async def stream_run_in_new_thread(body: StartRun, harness: HarnessDep, user: CurrentUser) -> StreamingResponse:
    """Start a run in a new thread and stream its events."""
    return await stream_run(choose_thread(body), body, harness, user, user)


@router.post("/runs/wait")
async def wait_for_run_in_new_thread(body: StartRun, harness: HarnessDep, user: CurrentUser) -> Response:
    """Start a run in a new thread and return the thread state when it has ended."""
    return await wait_for_run(choose_thread(body), body, harness, user, user)


@router.post("/runs")
async def start_run_in_new_thread(body: StartRun, harness: HarnessDep, user: CurrentUser, response: Response) -> Run:
    """Start a run in a new thread, in the background."""
    return await start_run(choose_thread(body), body, harness, user, user, response)


@router.post("/runs/batch")
async def start_runs(body: list[StartRunInBatch], harness: HarnessDep, user: CurrentUser) -> list[Run]:
    """Start several runs, each in a new thread; all of them or none."""
    requests = [await prepare_run(harness, choose_thread(each), each, user, user) for each in body]
    started: list[RunRecord] = []
    try:
        for request in requests:
            started.append(await harness.runs.create_or_reject(request, user))
    except DeerFlowError:
        for run in started:
            await cancel_if_active(harness, run, user, CancelAction.ROLLBACK)
        raise
    return await describe_runs(harness, user, started)


@router.post("/runs/cancel", status_code=204)
async def cancel_runs(
    body: CancelRuns, harness: HarnessDep, user: CurrentUser, action: CancelAction = CancelAction.INTERRUPT
) -> None:
    """Cancel several runs."""
    runs = [run for run in await find_runs_to_cancel(body, harness, user) if not run.status.is_final]
    if not runs:
        raise NotFound("no active runs match")
    for run in runs:
        await cancel_if_active(harness, run, user, action)


@router.get("/threads/{thread_id}/runs", response_model=list[Run])
async def list_runs(
    thread_id: str,
    harness: HarnessDep,
    user: ThreadReader,
    limit: Annotated[int, Query(ge=1, le=1000)] = 10,
    offset: Annotated[int, Query(ge=0)] = 0,
    status: RunStatus | None = None,
    select: Annotated[list[str], Query()] = [],  # noqa: B006  # FastAPI copies it
) -> list[Run] | Response:
    """List the runs of a thread, newest first; with `select`, only these fields."""
    if unknown := [name for name in select if name not in RUN_FIELDS]:
        raise InvalidRequest(f"select: unknown field {unknown[0][:100]!r}; known are {', '.join(RUN_FIELDS)}")
    await harness.threads.get(thread_id, user)
    found = await harness.runs.list_by_thread(thread_id, user, limit, offset, status)
    if not select:
        return await describe_runs(harness, user, found)
    plain = [Run.from_domain(run, None) for run in found]
    runs = await describe_runs(harness, user, found) if "kwargs" in select else plain
    shown = [run.model_dump(mode="json", include=set(select)) for run in runs]
    return Response(orjson.dumps(shown), media_type="application/json")


@router.get("/threads/{thread_id}/runs/{run_id}")
async def get_run(thread_id: str, run_id: str, harness: HarnessDep, user: ThreadReader) -> Run:
    """Get a run."""
    return (await describe_runs(harness, user, [await harness.runs.get(thread_id, run_id, user)]))[0]


@router.get("/threads/{thread_id}/runs/{run_id}/stream")
async def follow_run(
    thread_id: str,
    run_id: str,
    harness: HarnessDep,
    user: ThreadReader,
    shared: SharedAccess,
    modes: StreamModes = [],  # noqa: B006  # FastAPI copies it
    last_event_id: LastEventId = None,
    cancel_on_disconnect: bool = False,
) -> StreamingResponse:
    """Stream the events of a run from its start, or after `Last-Event-ID`, in the requested stream modes."""
    if cancel_on_disconnect and shared is not None and shared.access != "write":
        raise ReadOnlyAccess(READ_ONLY)
    run = await harness.runs.get(thread_id, run_id, user)
    after = parse_last_event_id(last_event_id)
    wanted = parse_modes(modes) or await harness.runs.modes_of(run)
    return event_stream(harness.runs, run, wanted, after=after, cancel_on_disconnect=cancel_on_disconnect)


@router.get("/threads/{thread_id}/runs/{run_id}/join")
async def join_run(thread_id: str, run_id: str, harness: HarnessDep, user: ThreadReader) -> Response:
    """Wait for the end of a run and return the thread state."""
    run = await harness.runs.join(thread_id, run_id, user)
    place = run_location(run)
    headers = {"Content-Location": place, "Location": f"{place}/join"}
    return Response(await encode_outcome(harness, run, user), media_type="application/json", headers=headers)


@router.post("/threads/{thread_id}/runs/{run_id}/cancel", status_code=202)
async def cancel_run(
    thread_id: str,
    run_id: str,
    harness: HarnessDep,
    user: ThreadWriter,
    wait: bool = False,
    action: CancelAction = CancelAction.INTERRUPT,
) -> Response:
    """Cancel a run: its output is kept, or removed with `action=rollback`. With `wait`, return the thread state."""
    await harness.runs.cancel(thread_id, run_id, user, action)
    if wait:
        return await join_run(thread_id, run_id, harness, user)
    run = Run.from_domain(await harness.runs.get(thread_id, run_id, user), None)
    return Response(run.model_dump_json(), status_code=202, media_type="application/json")


@router.delete("/threads/{thread_id}/runs/{run_id}", status_code=204)
async def delete_run(thread_id: str, run_id: str, harness: HarnessDep, user: ThreadOwner) -> None:
    """Delete an ended run and its events; its messages stay in the thread."""
    await harness.runs.delete(thread_id, run_id, user)


async def describe_runs(harness: Harness, user: Principal, runs: Sequence[RunRecord]) -> list[Run]:
    """Return runs with their requests."""
    requests = await harness.timeline.requests(user, runs)
    return [Run.from_domain(run, requests.get(run.run_id)) for run in runs]


async def begin_run(
    harness: Harness, thread_id: str, body: StartRun, user: Principal, actor: Principal, key: str | None = None
) -> RunRecord:
    """Start a run of `actor` in a thread of `user`, if it has an input or the thread has a next step."""
    request = await prepare_run(harness, thread_id, body, user, actor, key)
    return await harness.runs.create_or_reject(request, user, actor)


async def prepare_run(
    harness: Harness, thread_id: str, body: StartRun, user: Principal, actor: Principal, key: str | None = None
) -> RunRequest:
    """Return the checked request of a run.

    Raises:
        InvalidRequest: It has no input and the thread has no next step, or its input is invalid.
        NotFound: The assistant or checkpoint does not exist.
    """
    request = body.to_request(thread_id, await resolve_settings(harness, body, actor), actor, key)
    if request.goes_on and not await harness.threads.has_next_step(thread_id, user, request.checkpoint_id):
        raise InvalidRequest("input is missing: send {'messages': [...]}; this thread has no next step to resume")
    if request.checkpoint_id is not None:
        await harness.threads.state(thread_id, user, request.checkpoint_id)
    harness.runs.check_request(request)
    return request


async def resolve_settings(harness: Harness, body: StartRun, user: Principal) -> RunSettings:
    """Return the settings of a run; an assistant id names a custom agent.

    Raises:
        NotFound: the assistant does not exist.
    """
    settings = body.merge_settings()
    name = settings.agent_name or body.assistant_id
    if name == LEAD_AGENT or (settings.agent_name is not None and "@" not in name):
        return settings
    return settings.model_copy(update={"agent_name": (await harness.load_agent(user.user_id, name)).name})


def choose_thread(body: StartRun) -> str:
    """Return the thread of a run request without one."""
    return body.config.configurable.thread_id or new_id()


def parse_modes(given: Sequence[str]) -> Sequence[StreamMode]:
    """Parse stream modes in a query: repeated, separated by commas, or as a JSON list.

    Raises:
        InvalidRequest: a mode is unknown.
    """
    words = [word for each in given for word in each.strip("[]").replace('"', "").split(",") if word]
    try:
        return MODES.validate_python(words)
    except ValidationError as problem:
        raise InvalidRequest(f"stream_mode: {problem.errors()[0]['msg'].lower()}") from problem


async def encode_outcome(harness: Harness, run: RunRecord, user: Principal) -> bytes:
    """Return the thread state with its interrupts, or the error of a run, as JSON."""
    if run.error is not None:
        return b'{"__error__":%s}' % await encode_error(harness, run)
    state = await harness.threads.state(run.thread_id, user)
    if state.interrupts == b"[]":
        return state.values
    return orjson.dumps({**orjson.loads(state.values), INTERRUPT: orjson.Fragment(state.interrupts)})


async def encode_error(harness: Harness, run: RunRecord) -> bytes:
    """Return the error of a failed run as JSON."""
    events = [event async for group in harness.runs.listen(run) for event in group if event.event == "error"]
    return events[-1].data if events else orjson.dumps({"error": "RunFailed", "message": run.error})


async def find_runs_to_cancel(body: CancelRuns, harness: Harness, user: Principal) -> Sequence[RunRecord]:
    """Return the selected runs.

    Raises:
        InvalidRequest: both ways of selection are used, or neither.
    """
    by_id = body.thread_id is not None and body.run_ids is not None
    if by_id == (body.status is not None):
        raise InvalidRequest("select runs either by thread_id and run_ids, or by status")
    if body.thread_id is not None and body.run_ids is not None:
        known = await harness.runs.list_by_thread(body.thread_id, user, limit=1000)
        return [run for run in known if run.run_id in body.run_ids]
    statuses = ("pending", "running") if body.status == "all" else (body.status,)
    return [run for run in await harness.threads.unfinished_runs(user) if run.status in statuses]


async def cancel_if_active(harness: Harness, run: RunRecord, user: Principal, action: CancelAction) -> None:
    """Cancel a run, unless it has ended meanwhile."""
    try:
        await harness.runs.cancel(run.thread_id, run.run_id, user, action)
    except Conflict:
        return


events_router = APIRouter(tags=["runs"])

EVENT_NAMES: Sequence[EventName] = get_args(EventName)


@events_router.get("/threads/{thread_id}/runs/{run_id}/events")
async def read_events(
    thread_id: str,
    run_id: str,
    harness: HarnessDep,
    user: ThreadReader,
    after_seq: Annotated[int, Query(ge=0)] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 500,
    event_types: Annotated[list[str], Query()] = [],  # noqa: B006  # FastAPI copies it
) -> Response:
    """List the logged events of a run with times; continue with `after_seq={next_after_seq}` while `has_more`."""
    names = parse_event_names(event_types)
    run = await harness.runs.get(thread_id, run_id, user)
    found = await harness.timeline.page(run, after_seq, limit + 1, names)
    page = found[:limit]
    data = [
        {
            "seq": logged.event.seq,
            "event": logged.event.event,
            "data": orjson.Fragment(logged.event.data),
            "created_at": logged.created_at,
        }
        for logged in page
    ]
    next_after_seq = page[-1].event.seq if page else after_seq
    body = orjson.dumps({"data": data, "has_more": len(found) > limit, "next_after_seq": next_after_seq})
    return Response(body, media_type="application/json")


def parse_event_names(asked: Sequence[str]) -> list[EventName]:
    """Parse `event_types`, which may be repeated or contain several names separated by commas.

    Raises:
        InvalidRequest: a name is unknown.
    """
    names = [name.strip() for each in asked for name in each.split(",") if name.strip()]
    unknown = [name for name in names if name not in EVENT_NAMES]
    if unknown:
        raise InvalidRequest(f"event_types: unknown event {unknown[0]!r}; known are {', '.join(EVENT_NAMES)}")
    return [name for name in EVENT_NAMES if name in names]
