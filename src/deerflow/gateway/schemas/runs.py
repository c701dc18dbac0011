"""Body of a run request, as in the LangGraph API."""

from collections.abc import Mapping
from dataclasses import asdict
from decimal import Decimal
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from deerflow.config.sections.agents import AGENT_ADDRESS
from deerflow.domain.errors import InvalidRequest
from deerflow.domain.identity import Principal
from deerflow.domain.runs import (
    AgentSpec,
    DisconnectMode,
    MultitaskStrategy,
    NodeNames,
    ReasoningEffort,
    Resume,
    RunRequest,
    StateCommand,
    StreamMode,
)
from deerflow.domain.usage import SpendingLimit
from deerflow.gateway.examples import with_examples

LEAD_AGENT = "lead_agent"
NO_EFFECT = Field(description="Accepted for LangGraph clients; has no effect.")


def as_list(given: object) -> object:
    """Return a list; a single value becomes a list of one."""
    return given if isinstance(given, list) else [given]


def refuse_events(given: object) -> object:
    """Reject the stream mode that is not supported, and name alternatives."""
    if given == "events" or (isinstance(given, list) and "events" in given):
        raise ValueError("'events' is not supported; use 'messages-tuple', 'updates' and 'tasks' instead")
    return given


Modes = Annotated[list[StreamMode], BeforeValidator(as_list), BeforeValidator(refuse_events)]
Steps = Annotated[list[str], BeforeValidator(as_list)]


class RunInput(BaseModel):
    """Messages that the run adds to the thread."""

    messages: list[dict[str, object]]


class RunCommand(BaseModel):
    """Command that resumes a paused run, or updates the state and goes to a node."""

    model_config = ConfigDict(extra="forbid")

    resume: object = None
    update: dict[str, object] | None = None
    goto: Steps | None = None


class RunBudget(BaseModel):
    """Spending limit of a run; the limit of the server applies as well."""

    model_config = ConfigDict(extra="forbid")

    max_tokens: Annotated[int | None, Field(ge=1000, le=10**12)] = None
    max_cost: Annotated[Decimal | None, Field(gt=0, max_digits=12, decimal_places=6)] = None

    def to_limit(self) -> SpendingLimit | None:
        """Return the limit of the domain, or None if no limit is set."""
        limit = SpendingLimit(self.max_tokens, self.max_cost)
        return limit if limit.is_set else None


class RunSettings(BaseModel):
    """Agent of a run. Unknown keys are ignored, as in the LangGraph API."""

    model_name: str | None = None
    model: str | None = None
    thinking_enabled: bool | None = None
    reasoning_effort: ReasoningEffort | None = None
    is_plan_mode: bool = False
    subagent_enabled: bool = False
    max_concurrent_subagents: Annotated[int, Field(ge=1, le=4)] = 3
    agent_name: Annotated[str | None, Field(pattern=AGENT_ADDRESS)] = None
    is_bootstrap: bool = False
    budget: RunBudget = RunBudget()

    def to_spec(self, user: Principal) -> AgentSpec:
        """Return the agent of these settings; a custom agent belongs to `user`."""
        return AgentSpec(
            model_name=self.model_name or self.model,
            thinking_enabled=self.thinking_enabled,
            reasoning_effort=self.reasoning_effort,
            is_plan_mode=self.is_plan_mode,
            subagent_enabled=self.subagent_enabled,
            max_concurrent_subagents=self.max_concurrent_subagents,
            agent_name=self.agent_name,
            is_bootstrap=self.is_bootstrap,
            owner=user.user_id if self.agent_name else None,
        )


class Configurable(RunSettings):
    """Settings as `configurable` of LangGraph, which may also contain the thread of a run without one."""

    thread_id: str | None = None


class GraphConfig(BaseModel):
    """Settings as the `config` of LangGraph."""

    recursion_limit: Annotated[int | None, Field(ge=1, le=1000)] = None
    configurable: Configurable = Configurable()


class Checkpoint(BaseModel):
    """Checkpoint of a thread."""

    checkpoint_id: str | None = None
    checkpoint_ns: Literal[""] | None = None
    thread_id: str | None = None


class StartRun(BaseModel):
    """Body of a run request."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra=with_examples(
            {"input": {"messages": [{"type": "human", "content": "Hello"}]}, "stream_mode": ["messages-tuple"]}
        ),
    )

    assistant_id: str = LEAD_AGENT
    input: RunInput | None = None
    command: RunCommand | None = None
    context: RunSettings = RunSettings()
    config: GraphConfig = GraphConfig()
    metadata: dict[str, object] = {}
    checkpoint_id: str | None = None
    checkpoint: Checkpoint | None = None
    interrupt_before: NodeNames = []
    interrupt_after: NodeNames = []
    stream_mode: Modes = ["values"]
    stream_resumable: Annotated[bool | None, NO_EFFECT] = None
    stream_subgraphs: bool = False
    durability: Annotated[Literal["sync", "async", "exit"] | None, NO_EFFECT] = None
    checkpoint_during: Annotated[bool | None, NO_EFFECT] = None
    on_disconnect: DisconnectMode = DisconnectMode.CANCEL
    on_completion: Annotated[Literal["keep"] | None, NO_EFFECT] = None
    multitask_strategy: MultitaskStrategy = MultitaskStrategy.REJECT
    if_not_exists: Literal["create", "reject"] = "create"

    def merge_settings(self) -> RunSettings:
        """Return the settings of the run; `context` overrides `config.configurable`."""
        given = {name: getattr(self.context, name) for name in self.context.model_fields_set}
        return self.config.configurable.model_copy(update=given)

    def to_request(
        self, thread_id: str, settings: RunSettings, user: Principal, idempotency_key: str | None = None
    ) -> RunRequest:
        """Return the run request of the domain.

        Raises:
            InvalidRequest: it has both input and command, or an invalid command.
        """
        command = self.command
        checkpoint = self.checkpoint_id or (self.checkpoint.checkpoint_id if self.checkpoint else None)
        if self.input is not None and command is not None:
            raise InvalidRequest("input and command are mutually exclusive")
        return RunRequest(
            thread_id=thread_id,
            messages=self.input.messages if self.input else (),
            resume=Resume(command.resume) if command and "resume" in command.model_fields_set else None,
            command=to_command(command) if command else None,
            goes_on=self.input is None and command is None,
            checkpoint_id=checkpoint,
            interrupt_before=self.interrupt_before,
            interrupt_after=self.interrupt_after,
            stream_modes=self.stream_mode,
            stream_subgraphs=self.stream_subgraphs,
            agent=settings.to_spec(user),
            budget=settings.budget.to_limit(),
            assistant_id=self.assistant_id,
            on_disconnect=self.on_disconnect,
            multitask_strategy=self.multitask_strategy,
            idempotency_key=idempotency_key,
            create_thread=self.if_not_exists == "create",
            recursion_limit=self.config.recursion_limit,
            metadata=self.metadata,
        )


class StartRunInBatch(StartRun):
    """One of several run requests. The JavaScript client also sends its own names of some fields."""

    model_config = ConfigDict(extra="ignore")


class RunKwargs(BaseModel):
    """Request of a run, with the names of the LangGraph API."""

    input: dict[str, object] | None
    command: dict[str, object] | None
    config: dict[str, object]
    context: dict[str, object]
    stream_mode: list[StreamMode]
    interrupt_before: list[str] | Literal["*"]
    interrupt_after: list[str] | Literal["*"]
    subgraphs: bool
    webhook: None = None
    feedback_keys: None = None
    temporary: bool = False

    @classmethod
    def from_domain(cls, request: RunRequest) -> "RunKwargs":
        configurable = {"thread_id": request.thread_id, "checkpoint_id": request.checkpoint_id}
        config = {"configurable": drop_none(configurable), "recursion_limit": request.recursion_limit}
        agent = {key: value for key, value in asdict(request.agent).items() if key != "owner"}
        budget = drop_none(request.budget.to_stored()) if request.budget else None
        return cls(
            input={"messages": list(request.messages)} if request.messages else None,
            command=format_command(request),
            config=drop_none(config),
            context=drop_none({**agent, "budget": budget}),
            stream_mode=list(request.stream_modes),
            interrupt_before=as_names(request.interrupt_before),
            interrupt_after=as_names(request.interrupt_after),
            subgraphs=request.stream_subgraphs,
        )


def format_command(request: RunRequest) -> dict[str, object] | None:
    """Return the command of a request, or None if it has messages."""
    if request.resume is not None:
        return {"resume": request.resume.answer}
    if request.command is not None:
        return {"update": dict(request.command.update), "goto": list(request.command.goto)}
    return None


def as_names(nodes: NodeNames) -> list[str] | Literal["*"]:
    """Return node names as a list; `*` means all."""
    return "*" if nodes == "*" else list(nodes)


def drop_none(fields: Mapping[str, object]) -> dict[str, object]:
    """Return the fields that are set."""
    return {key: value for key, value in fields.items() if value is not None}


def to_command(command: RunCommand) -> StateCommand | None:
    """Return the state update and the next nodes of a command; None if it resumes a run.

    Raises:
        InvalidRequest: it has both, or neither.
    """
    changes = command.update is not None or command.goto is not None
    if changes == ("resume" in command.model_fields_set):
        raise InvalidRequest("a command needs either resume, or update and goto")
    if changes and not command.update and not command.goto:
        raise InvalidRequest("the command changes nothing: update and goto are empty")
    return StateCommand(command.update or {}, command.goto or []) if changes else None
