"""A run: one request to an agent, from acceptance to its one final status."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal


class RunStatus(StrEnum):
    """Where a run stands."""

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
    """What becomes of a run when the request that started it goes away."""

    CANCEL = "cancel"
    CONTINUE = "continue"


class CancelAction(StrEnum):
    """What becomes of what a stopped run has done."""

    INTERRUPT = "interrupt"
    ROLLBACK = "rollback"


class MultitaskStrategy(StrEnum):
    """What becomes of a request for a thread that has a run under way."""

    REJECT = "reject"
    """It is refused."""
    INTERRUPT = "interrupt"
    """The run is stopped, what it has said is kept, and the new one begins."""
    ROLLBACK = "rollback"
    """The run is undone, and the new one begins."""
    ENQUEUE = "enqueue"
    """The new run waits for its turn."""
    STEER = "steer"
    """Its messages join the run before the model is next asked; too late, it waits for its turn."""

    @property
    def stops(self) -> CancelAction | None:
        """How the run under way is stopped; None when it is not."""
        return CancelAction(self) if self in (MultitaskStrategy.INTERRUPT, MultitaskStrategy.ROLLBACK) else None


StreamMode = Literal[
    "values", "updates", "messages", "messages-tuple", "custom", "checkpoints", "tasks", "debug", "changes"
]
DearMode = Literal["updates", "checkpoints", "tasks", "debug"]
DEAR_MODES: tuple[DearMode, ...] = ("updates", "checkpoints", "tasks", "debug")
"""What a run tells only when it was asked to: each repeats much of what the others say."""

ReasoningEffort = Literal["none", "minimal", "low", "medium", "high", "xhigh"]


@dataclass(frozen=True, slots=True)
class AgentSpec:
    """Which agent answers; equal specs share one compiled graph. None: as the agent or the model has it."""

    model_name: str | None = None
    thinking_enabled: bool | None = None
    reasoning_effort: ReasoningEffort | None = None
    is_plan_mode: bool = False
    subagent_enabled: bool = False
    max_concurrent_subagents: int = 3
    agent_name: str | None = None
    is_bootstrap: bool = False
    owner: str | None = None
    """Whose custom agent it is; None when it is not a custom one."""
    available_skills: tuple[str, ...] | None = None
    """The only skills it may use; None: all it has."""

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> "AgentSpec":
        """A spec from what JSON made of it."""
        skills = fields.get("available_skills")
        return cls(**{**fields, "available_skills": None if skills is None else tuple(skills)})


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What a caller asks for."""

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
    """In place of messages: the answer to what a paused run asked."""
    command: "Command | None" = None
    """In place of messages: what is to be changed and where to go on."""
    goes_on: bool = False
    """In place of messages: go on where the thread stands."""
    checkpoint_id: str | None = None
    """Where to begin, if not where the thread stands: what came after it is left behind."""
    interrupt_before: "Nodes" = ()
    interrupt_after: "Nodes" = ()
    stream_modes: Sequence[StreamMode] = ("values",)
    """What readers see who do not say what they want."""
    stream_subgraphs: bool = False
    idempotency_key: str | None = None
    """Of two requests with one key, the second is the first."""


@dataclass(frozen=True, slots=True)
class Resume:
    """What a person answered to a question that paused a run."""

    answer: object


@dataclass(frozen=True, slots=True)
class Command:
    """A change of the thread's state, and the steps to take next."""

    update: Mapping[str, object] = field(default_factory=dict)
    goto: Sequence[str] = ()


Nodes = Literal["*"] | Sequence[str]
"""Steps of a graph by their names, or all."""


@dataclass(frozen=True, slots=True)
class RunRecord:
    """What is known of a run."""

    run_id: str
    thread_id: str
    owner: str
    assistant_id: str
    status: RunStatus
    on_disconnect: DisconnectMode
    multitask_strategy: MultitaskStrategy
    process: str
    """Who carries it out."""
    attempt: int
    """How often it was begun: once, and once more each time its process died."""
    metadata: Mapping[str, object]
    error: str | None
    created_at: datetime
    updated_at: datetime
    input_tokens: int = 0
    """What its model calls have taken; known when it has ended."""
    output_tokens: int = 0
