"""A run: one request to an agent, from acceptance to its one final status."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Literal


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


ReasoningEffort = Literal["none", "minimal", "low", "medium", "high", "xhigh"]


@dataclass(frozen=True, slots=True)
class AgentSpec:
    """Which agent answers; equal specs share one compiled graph. `thinking_enabled` None: if the model can."""

    model_name: str | None = None
    thinking_enabled: bool | None = None
    reasoning_effort: ReasoningEffort | None = None


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What a caller asks for."""

    thread_id: str
    messages: Sequence[Mapping[str, object]]
    agent: AgentSpec = AgentSpec()
    assistant_id: str = "lead_agent"
    on_disconnect: DisconnectMode = DisconnectMode.CANCEL
    create_thread: bool = True
    recursion_limit: int | None = None
    metadata: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RunRecord:
    """What is known of a run."""

    run_id: str
    thread_id: str
    owner: str
    assistant_id: str
    status: RunStatus
    on_disconnect: DisconnectMode
    metadata: Mapping[str, object]
    error: str | None
    created_at: datetime
    updated_at: datetime
