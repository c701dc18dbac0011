"""A run: one request to an agent, from acceptance to its final status."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Literal

from deerflow.domain.usage import SpendingLimit


class RunStatus(StrEnum):
    """The status of a run."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCESS = "success"
    ERROR = "error"
    TIMEOUT = "timeout"
    INTERRUPTED = "interrupted"

    @property
    def is_final(self) -> bool:
        return self not in (RunStatus.PENDING, RunStatus.RUNNING)


class DisconnectMode(StrEnum):
    """The action taken when the request that started a run is disconnected."""

    CANCEL = "cancel"
    CONTINUE = "continue"


class CancelAction(StrEnum):
    """The action taken with the work of a cancelled run."""

    INTERRUPT = "interrupt"
    ROLLBACK = "rollback"


class MultitaskStrategy(StrEnum):
    """The action taken on a request for a thread that already has an active run."""

    REJECT = "reject"
    """The request is rejected."""
    INTERRUPT = "interrupt"
    """The active run is cancelled, its messages are kept, and the new run starts."""
    ROLLBACK = "rollback"
    """The active run is undone, and the new run starts."""
    ENQUEUE = "enqueue"
    """The new run is queued."""
    STEER = "steer"
    """The messages join the active run before its next model call; if it ends first, the new run is queued."""

    @property
    def cancel_action(self) -> CancelAction | None:
        """Return how the active run is cancelled; None when it is not."""
        return CancelAction(self) if self in (MultitaskStrategy.INTERRUPT, MultitaskStrategy.ROLLBACK) else None


StreamMode = Literal[
    "values", "updates", "messages", "messages-tuple", "custom", "checkpoints", "tasks", "debug", "changes"
]
OptInStreamMode = Literal["updates", "checkpoints", "tasks", "debug"]
OPT_IN_STREAM_MODES: tuple[OptInStreamMode, ...] = ("updates", "checkpoints", "tasks", "debug")
"""Stream modes that are recorded only on request: each repeats much of the others' content."""

ReasoningEffort = Literal["none", "minimal", "low", "medium", "high", "xhigh"]


@dataclass(frozen=True, slots=True)
class AgentSpec:
    """The agent that answers; equal specs share one compiled graph. None means the default of the agent or model."""

    model_name: str | None = None
    thinking_enabled: bool | None = None
    reasoning_effort: ReasoningEffort | None = None
    is_plan_mode: bool = False
    subagent_enabled: bool = False
    max_concurrent_subagents: int = 3
    agent_name: str | None = None
    is_bootstrap: bool = False
    owner: str | None = None
    """The owner of the custom agent; None when it is not a custom agent."""
    available_skills: tuple[str, ...] | None = None
    """The skills it may use; None for all."""
    searches_knowledge: bool = False
    """True if it has the tool `search_knowledge`. Set for each run by the project of its thread."""

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> "AgentSpec":
        """Return a spec from its JSON form."""
        skills = fields.get("available_skills")
        return cls(**{**fields, "available_skills": None if skills is None else tuple(skills)})


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A request to run an agent."""

    thread_id: str
    messages: Sequence[Mapping[str, object]] = ()
    agent: AgentSpec = AgentSpec()
    assistant_id: str = "lead_agent"
    on_disconnect: DisconnectMode = DisconnectMode.CANCEL
    multitask_strategy: MultitaskStrategy = MultitaskStrategy.REJECT
    create_thread: bool = True
    recursion_limit: int | None = None
    metadata: Mapping[str, object] = field(default_factory=dict)
    resume: "Resume | None" = None
    """Instead of messages: the answer to the interrupt of a paused run."""
    command: "StateCommand | None" = None
    """Instead of messages: a state update and the nodes to run next."""
    goes_on: bool = False
    """Instead of messages: continue from the thread's current state."""
    checkpoint_id: str | None = None
    """The checkpoint to start from; None for the latest. Later checkpoints are discarded."""
    interrupt_before: "NodeNames" = ()
    interrupt_after: "NodeNames" = ()
    stream_modes: Sequence[StreamMode] = ("values",)
    """The default stream modes of readers."""
    stream_subgraphs: bool = False
    idempotency_key: str | None = None
    """A second request with the same key returns the first run."""
    budget: SpendingLimit | None = None
    """The run's own spending limit; it can only lower that of the server."""


@dataclass(frozen=True, slots=True)
class Resume:
    """The user's answer to the interrupt that paused a run."""

    answer: object


@dataclass(frozen=True, slots=True)
class StateCommand:
    """An update of the thread's state and the nodes to run next."""

    update: Mapping[str, object] = field(default_factory=dict)
    goto: Sequence[str] = ()


NodeNames = Literal["*"] | Sequence[str]
"""Names of graph nodes, or `*` for all."""


@dataclass(frozen=True, slots=True)
class RunRecord:
    """The stored record of a run."""

    run_id: str
    thread_id: str
    owner: str
    assistant_id: str
    status: RunStatus
    on_disconnect: DisconnectMode
    multitask_strategy: MultitaskStrategy
    process: str
    """The id of the process that executes it."""
    attempt: int
    """The number of starts: one, plus one each time its process died."""
    metadata: Mapping[str, object]
    error: str | None
    created_at: datetime
    updated_at: datetime
    input_tokens: int = 0
    """Token usage of the run's model calls; set when the run has ended."""
    output_tokens: int = 0
    started_by: str | None = None
    """The person who started it, if they are not the owner: the thread is shared with them."""

    @property
    def actor(self) -> str:
        """The person who started the run: its costs, models, logins and approvals are theirs."""
        return self.started_by or self.owner


Rating = Literal[-1, 1]


@dataclass(frozen=True, slots=True)
class RunFeedback:
    """A user's rating of a run or of one of its messages."""

    feedback_id: str
    owner: str
    thread_id: str
    run_id: str
    message_id: str | None
    rating: Rating
    comment: str | None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class RunFeedbackStats:
    """The number of positive and negative ratings."""

    total: int
    positive: int
    negative: int


EventName = Literal[
    "metadata",
    "messages",
    "changes",
    "custom",
    "updates",
    "checkpoints",
    "tasks",
    "debug",
    "subgraph",
    "error",
    "end",
    "tool_intent",
    "tool_outcome",
    "steered",
    "usage",
    "budget",
    "batch_item",
]

EVENT_DESCRIPTIONS: Mapping[EventName, str] = MappingProxyType(
    {
        "metadata": "First event of a run: run id and thread id.",
        "messages": "Chunk of a message, with its metadata.",
        "changes": "Changes of the thread state: new, changed and removed messages, and other values.",
        "custom": "Custom event of a tool or middleware, such as command output or task progress.",
        "updates": "State updates of a step, as LangGraph streams them in mode `updates`.",
        "checkpoints": "Checkpoint of a step, as LangGraph streams it in mode `checkpoints`.",
        "tasks": "Start or result of a step, as LangGraph streams it in mode `tasks`.",
        "debug": "Debug information, as LangGraph streams it in mode `debug`.",
        "subgraph": "Event of a subgraph, with its namespace.",
        "error": "Name and message of the error that ended the run.",
        "end": "Last event of a run; it occurs exactly once.",
        "tool_intent": "A tool call is about to be executed.",
        "tool_outcome": "Result of a tool call.",
        "steered": "Steering messages that the run has accepted.",
        "usage": "Token usage of a model call, and the prefix that its request shares with the one before.",
        "budget": "Reservation or settlement of a model call in the budget of the run.",
        "batch_item": "Outcome of an item of a batch.",
    }
)
"""Description of every event, for the generated reference."""

ROLLED_BACK, GIVEN_UP, TIMED_OUT, DAMAGED = "RolledBack", "RunGivenUp", "RunTimeout", "RunDamaged"
RUN_ERRORS: Mapping[str, str] = MappingProxyType(
    {
        ROLLED_BACK: "The run was cancelled and its changes were rolled back.",
        GIVEN_UP: "The server died several times during the run, so the run was ended.",
        TIMED_OUT: "The run took longer than `runs.timeout_seconds` and was stopped.",
        DAMAGED: "The record of the run is damaged, so the run cannot be resumed.",
        "GraphRecursionError": "The run reached its `recursion_limit`.",
    }
)
"""Errors that occur only in the `error` event of a run, with their descriptions."""

FINAL_EVENT: EventName = "end"
"""The last event of every run's log; it occurs exactly once."""


@dataclass(frozen=True, slots=True)
class RunEvent:
    """An entry of a run's log. `seq` counts from 1 without gaps; `data` is JSON."""

    seq: int
    event: EventName
    data: bytes
