"""/threads/{thread_id}/runs"""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Header, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response, StreamingResponse

from deerflow.domain.errors import InvalidRequest
from deerflow.domain.ids import new_id
from deerflow.domain.principal import Principal
from deerflow.domain.runs import (
    AgentSpec,
    CancelAction,
    DisconnectMode,
    MultitaskStrategy,
    ReasoningEffort,
    Resume,
    RunRecord,
    RunRequest,
    RunStatus,
)
from deerflow.gateway.dependencies import TheHarness, Who
from deerflow.gateway.sse import StreamMode, event_stream, parse_last_event_id, run_location

router = APIRouter(tags=["runs"])

LastEventId = Annotated[str | None, Header()]
IdempotencyKey = Annotated[str | None, Header(min_length=1, max_length=255)]
Modes = Annotated[list[StreamMode], Query(alias="stream_mode")]


class RunInput(BaseModel):
    """What the run adds to the thread."""

    messages: list[dict[str, object]]


class RunCommand(BaseModel):
    """How a paused run goes on: `resume` is the answer to its question."""

    resume: object


class RunSettings(BaseModel):
    """Which agent answers. Keys that mean nothing to it are passed over, as the LangGraph API does."""

    model_name: str | None = None
    model: str | None = None
    thinking_enabled: bool | None = None
    reasoning_effort: ReasoningEffort | None = None
    is_plan_mode: bool = False
    subagent_enabled: bool = False
    max_concurrent_subagents: Annotated[int, Field(ge=1, le=4)] = 3
    agent_name: Annotated[str | None, Field(pattern=r"^[A-Za-z0-9-]+$")] = None
    is_bootstrap: bool = False

    def to_spec(self, who: Principal) -> AgentSpec:
        """The agent these settings ask for; a custom one is looked for among those of `who`."""
        return AgentSpec(
            model_name=self.model_name or self.model,
            thinking_enabled=self.thinking_enabled,
            reasoning_effort=self.reasoning_effort,
            is_plan_mode=self.is_plan_mode,
            subagent_enabled=self.subagent_enabled,
            max_concurrent_subagents=self.max_concurrent_subagents,
            agent_name=self.agent_name,
            is_bootstrap=self.is_bootstrap,
            owner=who.user_id if self.agent_name else None,
        )


class GraphConfig(BaseModel):
    """LangGraph's own way to pass settings."""

    recursion_limit: Annotated[int | None, Field(ge=1, le=1000)] = None
    configurable: RunSettings = RunSettings()


class StartRun(BaseModel):
    """Body of a run request."""

    model_config = ConfigDict(extra="forbid")

    assistant_id: str = "lead_agent"
    input: RunInput | None = None
    command: RunCommand | None = None
    context: RunSettings = RunSettings()
    config: GraphConfig = GraphConfig()
    metadata: dict[str, object] = {}
    stream_mode: StreamMode | list[StreamMode] = "values"
    stream_resumable: bool | None = None
    stream_subgraphs: Literal[False] | None = False
    on_disconnect: DisconnectMode = DisconnectMode.CANCEL
    multitask_strategy: MultitaskStrategy = MultitaskStrategy.REJECT
    if_not_exists: Literal["create", "reject"] = "create"

    def modes(self) -> Sequence[StreamMode]:
        """The kinds of events wanted."""
        return self.stream_mode if isinstance(self.stream_mode, list) else [self.stream_mode]

    def to_request(self, thread_id: str, who: Principal, idempotency_key: str | None = None) -> RunRequest:
        """The request in the words of the domain."""
        if (self.input is None) == (self.command is None):
            raise InvalidRequest("input is missing: send {'messages': [...]}, or a command that resumes a paused run")
        settings = self.config.configurable.model_copy(update=self.context.model_dump(exclude_unset=True))
        return RunRequest(
            thread_id=thread_id,
            messages=self.input.messages if self.input else (),
            resume=Resume(self.command.resume) if self.command else None,
            agent=settings.to_spec(who),
            assistant_id=self.assistant_id,
            on_disconnect=self.on_disconnect,
            multitask_strategy=self.multitask_strategy,
            idempotency_key=idempotency_key,
            create_thread=self.if_not_exists == "create",
            recursion_limit=self.config.recursion_limit,
            metadata=self.metadata,
        )


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

    @classmethod
    def of(cls, run: RunRecord) -> "Run":
        return cls.model_validate(run, from_attributes=True)


@router.post("/threads/{thread_id}/runs/stream")
async def stream_run(
    thread_id: str, body: StartRun, harness: TheHarness, who: Who, idempotency_key: IdempotencyKey = None
) -> StreamingResponse:
    """Start a run and follow it to its end."""
    run = await harness.runs.create_or_reject(body.to_request(thread_id, who, idempotency_key), who)
    stops = run.on_disconnect is DisconnectMode.CANCEL
    return event_stream(harness.runs, run, body.modes(), stop_when_left=stops)


@router.post("/runs/stream")
async def stream_run_in_new_thread(body: StartRun, harness: TheHarness, who: Who) -> StreamingResponse:
    """Start a run in a thread of its own and follow it to its end."""
    return await stream_run(new_id(), body, harness, who)


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
    run = await harness.runs.create_or_reject(body.to_request(thread_id, who, idempotency_key), who)
    response.headers["Content-Location"] = run_location(run)
    return Run.of(run)


@router.post("/threads/{thread_id}/runs/wait")
async def wait_for_run(
    thread_id: str, body: StartRun, harness: TheHarness, who: Who, idempotency_key: IdempotencyKey = None
) -> Response:
    """Start a run and answer with the thread's state when it has ended."""
    run = await harness.runs.create_or_reject(body.to_request(thread_id, who, idempotency_key), who)
    return await join_run(thread_id, run.run_id, harness, who)


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
    modes: Modes = ["values", "messages-tuple", "custom"],  # noqa: B006  # FastAPI copies it
    last_event_id: LastEventId = None,
) -> StreamingResponse:
    """Follow a run from its beginning, or from where the reader left off."""
    run = await harness.runs.get(thread_id, run_id, who)
    return event_stream(harness.runs, run, modes, after=parse_last_event_id(last_event_id))


@router.get("/threads/{thread_id}/runs/{run_id}/join")
async def join_run(thread_id: str, run_id: str, harness: TheHarness, who: Who) -> Response:
    """The thread's state once the run has ended."""
    run = await harness.runs.join(thread_id, run_id, who)
    if run.error is not None:
        return Response(Run.of(run).model_dump_json(), media_type="application/json")
    state = await harness.threads.state(thread_id, who)
    return Response(state.values, media_type="application/json", headers={"Content-Location": run_location(run)})


@router.post("/threads/{thread_id}/runs/{run_id}/cancel", status_code=202)
async def cancel_run(
    thread_id: str, run_id: str, harness: TheHarness, who: Who, action: CancelAction = CancelAction.INTERRUPT
) -> Run:
    """Stop a run: what it has said is kept, or undone with `action=rollback`."""
    await harness.runs.cancel(thread_id, run_id, who, action)
    return Run.of(await harness.runs.get(thread_id, run_id, who))


@router.delete("/threads/{thread_id}/runs/{run_id}", status_code=204)
async def delete_run(thread_id: str, run_id: str, harness: TheHarness, who: Who) -> None:
    """Remove an ended run and its events; what it said stays in the thread."""
    await harness.runs.delete(thread_id, run_id, who)
