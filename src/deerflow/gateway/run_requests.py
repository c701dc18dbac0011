"""The body of a run request, in the words of the LangGraph API."""

import asyncio
from decimal import Decimal
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from deerflow.domain.budget import SpendingLimit
from deerflow.domain.errors import InvalidRequest
from deerflow.domain.principal import Principal
from deerflow.domain.runs import (
    AgentSpec,
    Command,
    DisconnectMode,
    MultitaskStrategy,
    Nodes,
    ReasoningEffort,
    Resume,
    RunRequest,
    StreamMode,
)
from deerflow.gateway.examples import shown_as
from deerflow.harness import Harness

LEAD_AGENT = "lead_agent"


def as_list(given: object) -> object:
    """What may be one thing or a list of them, as a list."""
    return given if isinstance(given, list) else [given]


def refuse_events(given: object) -> object:
    """Say what to ask for in place of the one mode that is not offered."""
    if given == "events" or (isinstance(given, list) and "events" in given):
        raise ValueError("'events' are not offered; 'messages-tuple', 'updates' and 'tasks' together tell the same")
    return given


Modes = Annotated[list[StreamMode], BeforeValidator(as_list), BeforeValidator(refuse_events)]
Steps = Annotated[list[str], BeforeValidator(as_list)]


class RunInput(BaseModel):
    """What the run adds to the thread."""

    messages: list[dict[str, object]]


class RunCommand(BaseModel):
    """How a thread goes on: with the answer to the question of a paused run, or with a change and a step to take."""

    model_config = ConfigDict(extra="forbid")

    resume: object = None
    update: dict[str, object] | None = None
    goto: Steps | None = None


class RunBudget(BaseModel):
    """What a run may take of its models, if less than the server allows."""

    model_config = ConfigDict(extra="forbid")

    max_tokens: Annotated[int | None, Field(ge=1000, le=10**12)] = None
    max_cost: Annotated[Decimal | None, Field(gt=0, max_digits=12, decimal_places=6)] = None

    def to_limit(self) -> SpendingLimit | None:
        """The limit in the words of the domain; None when none is asked for."""
        limit = SpendingLimit(self.max_tokens, self.max_cost)
        return limit if limit.is_set else None


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
    budget: RunBudget = RunBudget()

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


class Configurable(RunSettings):
    """LangGraph's own place for settings, which may also name the thread of a run that is given none."""

    thread_id: str | None = None


class GraphConfig(BaseModel):
    """LangGraph's own way to pass settings."""

    recursion_limit: Annotated[int | None, Field(ge=1, le=1000)] = None
    configurable: Configurable = Configurable()


class Checkpoint(BaseModel):
    """A state a thread was in."""

    checkpoint_id: str | None = None
    checkpoint_ns: Literal[""] | None = None
    thread_id: str | None = None


class StartRun(BaseModel):
    """Body of a run request."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra=shown_as(
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
    interrupt_before: Nodes = []
    interrupt_after: Nodes = []
    stream_mode: Modes = ["values"]
    stream_resumable: bool | None = None
    stream_subgraphs: bool = False
    durability: Literal["sync", "async", "exit"] | None = None
    checkpoint_during: bool | None = None
    on_disconnect: DisconnectMode = DisconnectMode.CANCEL
    on_completion: Literal["keep"] | None = None
    multitask_strategy: MultitaskStrategy = MultitaskStrategy.REJECT
    if_not_exists: Literal["create", "reject"] = "create"

    async def to_request(
        self, harness: Harness, thread_id: str, who: Principal, idempotency_key: str | None = None
    ) -> RunRequest:
        """The request in the words of the domain.

        Raises:
            InvalidRequest: it asks for several things at once.
            NotFound: there is no such assistant.
        """
        command = self.command
        checkpoint = self.checkpoint_id or (self.checkpoint.checkpoint_id if self.checkpoint else None)
        if self.input is not None and command is not None:
            raise InvalidRequest("input and command exclude each other")
        settings = await self._settings(harness, who)
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
            agent=settings.to_spec(who),
            budget=settings.budget.to_limit(),
            assistant_id=self.assistant_id,
            on_disconnect=self.on_disconnect,
            multitask_strategy=self.multitask_strategy,
            idempotency_key=idempotency_key,
            create_thread=self.if_not_exists == "create",
            recursion_limit=self.config.recursion_limit,
            metadata=self.metadata,
        )

    async def _settings(self, harness: Harness, who: Principal) -> RunSettings:
        """Which agent is wanted: the context wins over the configuration, an assistant's name is its agent's."""
        given = {name: getattr(self.context, name) for name in self.context.model_fields_set}
        settings = self.config.configurable.model_copy(update=given)
        if self.assistant_id == LEAD_AGENT or settings.agent_name is not None:
            return settings
        agent = await asyncio.to_thread(harness.custom_agents.load, who.user_id, self.assistant_id)
        return settings.model_copy(update={"agent_name": agent.name})


class StartRunInBatch(StartRun):
    """One of several run requests. The JavaScript client also sends its own names for some of the fields."""

    model_config = ConfigDict(extra="ignore")


def to_command(command: RunCommand) -> Command | None:
    """The change and the steps a command asks for; None when it is an answer.

    Raises:
        InvalidRequest: it is both, or neither.
    """
    changes = command.update is not None or command.goto is not None
    if changes == ("resume" in command.model_fields_set):
        raise InvalidRequest("a command is either an answer (resume), or a change and a step (update, goto)")
    return Command(command.update or {}, command.goto or []) if changes else None
