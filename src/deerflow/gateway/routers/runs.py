"""/runs and /threads/{thread_id}/runs"""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Literal

import orjson
from fastapi import APIRouter, Header, Query
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, computed_field
from starlette.responses import Response, StreamingResponse

from deerflow.domain.errors import Conflict, InvalidRequest, NotFound
from deerflow.domain.ids import new_id
from deerflow.domain.principal import Principal
from deerflow.domain.runs import CancelAction, DisconnectMode, RunRecord, RunStatus, StreamMode
from deerflow.gateway.dependencies import TheHarness, Who
from deerflow.gateway.examples import RUN, THREAD, shown_as
from deerflow.gateway.run_requests import Modes, StartRun, StartRunInBatch
from deerflow.gateway.sse import event_stream, parse_last_event_id, run_location
from deerflow.harness import Harness
from deerflow.runtime.changes import INTERRUPT

router = APIRouter(tags=["runs"])

MODES = TypeAdapter(Modes)
LastEventId = Annotated[str | None, Header()]
IdempotencyKey = Annotated[str | None, Header(min_length=1, max_length=255)]
AskedModes = Annotated[list[str], Query(alias="stream_mode")]


class Run(BaseModel):
    """A run, as the API shows it."""

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

    @computed_field  # type: ignore[prop-decorator]
    @property
    def total_tokens(self) -> int:
        return self.total_input_tokens + self.total_output_tokens

    @classmethod
    def of(cls, run: RunRecord) -> "Run":
        return cls.model_validate(run, from_attributes=True)


class CancelRuns(BaseModel):
    """Which runs are to be stopped: those of a thread by their ids, or all with a status."""

    model_config = ConfigDict(json_schema_extra=shown_as({"thread_id": THREAD, "run_ids": [RUN]}))

    thread_id: str | None = None
    run_ids: list[str] | None = None
    status: Literal["pending", "running", "all"] | None = None


@router.post("/threads/{thread_id}/runs/stream")
async def stream_run(
    thread_id: str, body: StartRun, harness: TheHarness, who: Who, idempotency_key: IdempotencyKey = None
) -> StreamingResponse:
    """Start a run and follow it to its end."""
    run = await begin(harness, thread_id, body, who, idempotency_key)
    stops = run.on_disconnect is DisconnectMode.CANCEL
    return event_stream(harness.runs, run, body.stream_mode, stop_when_left=stops)


@router.post("/threads/{thread_id}/runs")
async def start_run(
    thread_id: str,
    body: StartRun,
    harness: TheHarness,
    who: Who,
    response: Response,
    idempotency_key: IdempotencyKey = None,
) -> Run:
    """Start a run and leave it to itself."""
    run = await begin(harness, thread_id, body, who, idempotency_key)
    response.headers["Content-Location"] = run_location(run)
    return Run.of(run)


@router.post("/threads/{thread_id}/runs/wait")
async def wait_for_run(
    thread_id: str, body: StartRun, harness: TheHarness, who: Who, idempotency_key: IdempotencyKey = None
) -> Response:
    """Start a run and answer with the thread's state when it has ended."""
    run = await begin(harness, thread_id, body, who, idempotency_key)
    return await join_run(thread_id, run.run_id, harness, who)


@router.post("/runs/stream")
async def stream_run_in_new_thread(body: StartRun, harness: TheHarness, who: Who) -> StreamingResponse:
    """Start a run in a thread of its own and follow it to its end."""
    return await stream_run(own_thread(body), body, harness, who)


@router.post("/runs/wait")
async def wait_for_run_in_new_thread(body: StartRun, harness: TheHarness, who: Who) -> Response:
    """Start a run in a thread of its own and answer with its state when it has ended."""
    return await wait_for_run(own_thread(body), body, harness, who)


@router.post("/runs")
async def start_run_in_new_thread(body: StartRun, harness: TheHarness, who: Who, response: Response) -> Run:
    """Start a run in a thread of its own and leave it to itself."""
    return await start_run(own_thread(body), body, harness, who, response)


@router.post("/runs/batch")
async def start_runs(body: list[StartRunInBatch], harness: TheHarness, who: Who) -> list[Run]:
    """Start several runs, each in a thread of its own."""
    return [Run.of(await begin(harness, own_thread(each), each, who)) for each in body]


@router.post("/runs/cancel", status_code=204)
async def cancel_runs(
    body: CancelRuns, harness: TheHarness, who: Who, action: CancelAction = CancelAction.INTERRUPT
) -> None:
    """Stop several runs."""
    runs = [run for run in await runs_to_cancel(body, harness, who) if not run.status.is_final]
    if not runs:
        raise NotFound("none of these runs is under way")
    for run in runs:
        await cancel_quietly(harness, run, who, action)


@router.get("/threads/{thread_id}/runs")
async def list_runs(
    thread_id: str,
    harness: TheHarness,
    who: Who,
    limit: Annotated[int, Query(ge=1, le=1000)] = 10,
    offset: Annotated[int, Query(ge=0)] = 0,
    status: RunStatus | None = None,
) -> list[Run]:
    """The thread's runs, newest first."""
    await harness.threads.get(thread_id, who)
    return [Run.of(run) for run in await harness.runs.list_by_thread(thread_id, who, limit, offset, status)]


@router.get("/threads/{thread_id}/runs/{run_id}")
async def get_run(thread_id: str, run_id: str, harness: TheHarness, who: Who) -> Run:
    """One run."""
    return Run.of(await harness.runs.get(thread_id, run_id, who))


@router.get("/threads/{thread_id}/runs/{run_id}/stream")
async def follow_run(
    thread_id: str,
    run_id: str,
    harness: TheHarness,
    who: Who,
    modes: AskedModes = [],  # noqa: B006  # FastAPI copies it
    last_event_id: LastEventId = None,
    cancel_on_disconnect: bool = False,
) -> StreamingResponse:
    """Follow a run from its beginning, or from where the reader left off, as it was asked to be told."""
    run = await harness.runs.get(thread_id, run_id, who)
    after = parse_last_event_id(last_event_id)
    wanted = read_modes(modes) or await harness.runs.modes_of(run)
    return event_stream(harness.runs, run, wanted, after=after, stop_when_left=cancel_on_disconnect)


@router.get("/threads/{thread_id}/runs/{run_id}/join")
async def join_run(thread_id: str, run_id: str, harness: TheHarness, who: Who) -> Response:
    """The thread's state once the run has ended."""
    run = await harness.runs.join(thread_id, run_id, who)
    place = run_location(run)
    headers = {"Content-Location": place, "Location": f"{place}/join"}
    return Response(await outcome(harness, run, who), media_type="application/json", headers=headers)


@router.post("/threads/{thread_id}/runs/{run_id}/cancel", status_code=202)
async def cancel_run(
    thread_id: str,
    run_id: str,
    harness: TheHarness,
    who: Who,
    wait: bool = False,
    action: CancelAction = CancelAction.INTERRUPT,
) -> Response:
    """Stop a run: what it has said is kept, or undone with `action=rollback`. `wait` for the state it leaves."""
    await harness.runs.cancel(thread_id, run_id, who, action)
    if wait:
        return await join_run(thread_id, run_id, harness, who)
    run = Run.of(await harness.runs.get(thread_id, run_id, who))
    return Response(run.model_dump_json(), status_code=202, media_type="application/json")


@router.delete("/threads/{thread_id}/runs/{run_id}", status_code=204)
async def delete_run(thread_id: str, run_id: str, harness: TheHarness, who: Who) -> None:
    """Remove an ended run and its events; what it said stays in the thread."""
    await harness.runs.delete(thread_id, run_id, who)


async def begin(harness: Harness, thread_id: str, body: StartRun, who: Principal, key: str | None = None) -> RunRecord:
    """Start a run, if there is what it is to begin with."""
    request = await body.to_request(harness, thread_id, who, key)
    if request.goes_on and not await harness.threads.can_go_on(thread_id, who, request.checkpoint_id):
        raise InvalidRequest("input is missing: send {'messages': [...]}, for nothing waits to go on in this thread")
    if request.checkpoint_id is not None:
        await harness.threads.state(thread_id, who, request.checkpoint_id)
    return await harness.runs.create_or_reject(request, who)


def own_thread(body: StartRun) -> str:
    """The thread of a run that is given none."""
    return body.config.configurable.thread_id or new_id()


def read_modes(given: Sequence[str]) -> Sequence[StreamMode]:
    """The modes in a query: one by one, with commas between them, or as a JSON list.

    Raises:
        InvalidRequest: one is unknown.
    """
    words = [word for each in given for word in each.strip("[]").replace('"', "").split(",") if word]
    try:
        return MODES.validate_python(words)
    except ValidationError as problem:
        raise InvalidRequest(f"stream_mode: {problem.errors()[0]['msg'].lower()}") from problem


async def outcome(harness: Harness, run: RunRecord, who: Principal) -> bytes:
    """What came of a run: the thread's state with the questions that wait in it, or what went wrong."""
    if run.error is not None:
        return b'{"__error__":%s}' % await error_of(harness, run)
    state = await harness.threads.state(run.thread_id, who)
    if state.interrupts == b"[]":
        return state.values
    return orjson.dumps({**orjson.loads(state.values), INTERRUPT: orjson.Fragment(state.interrupts)})


async def error_of(harness: Harness, run: RunRecord) -> bytes:
    """The last thing a failed run said."""
    events = [event async for group in harness.runs.listen(run) for event in group if event.event == "error"]
    return events[-1].data if events else orjson.dumps({"error": "RunFailed", "message": run.error})


async def runs_to_cancel(body: CancelRuns, harness: Harness, who: Principal) -> Sequence[RunRecord]:
    """The runs that are meant.

    Raises:
        InvalidRequest: both ways of naming them were used, or neither.
    """
    by_id = body.thread_id is not None and body.run_ids is not None
    if by_id == (body.status is not None):
        raise InvalidRequest("name the runs by thread_id and run_ids, or by their status")
    if body.thread_id is not None and body.run_ids is not None:
        known = await harness.runs.list_by_thread(body.thread_id, who, limit=1000)
        return [run for run in known if run.run_id in body.run_ids]
    statuses = ("pending", "running") if body.status == "all" else (body.status,)
    return [run for run in await harness.threads.unfinished_runs(who) if run.status in statuses]


async def cancel_quietly(harness: Harness, run: RunRecord, who: Principal, action: CancelAction) -> None:
    """Stop a run, unless it has ended meanwhile."""
    try:
        await harness.runs.cancel(run.thread_id, run.run_id, who, action)
    except Conflict:
        return
