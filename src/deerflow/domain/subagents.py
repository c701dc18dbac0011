"""A piece of work that an agent gives to another."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable

TaskStatus = Literal["completed", "failed", "cancelled", "timed_out", "capped"]


@dataclass(frozen=True, slots=True)
class TaskOrder:
    """What is to be done, and by what kind of subagent."""

    task_id: str
    description: str
    prompt: str
    kind: str
    max_turns: int | None = None
    """Fewer turns than the kind may take; None: as many."""


@dataclass(frozen=True, slots=True)
class TaskUsage:
    """What the models of a task have read and written, in tokens."""

    input_tokens: int = 0
    output_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """How a task ended."""

    status: TaskStatus
    result: str = ""
    """The answer, or as much of one as there was."""
    error: str | None = None
    stop_reason: str | None = None
    """What capped it."""
    model_name: str | None = None
    usage: TaskUsage = TaskUsage()
    duration_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Inherited:
    """What a subagent finds in its state when it begins."""

    state: Mapping[str, object] = field(default_factory=dict)


@runtime_checkable  # LangChain validates the run context with isinstance
class Subagents(Protocol):
    """Those to whom the agent of one run may give work."""

    async def carry_out(self, order: TaskOrder, inherited: Inherited) -> TaskOutcome:
        """Have a task done, when its turn comes. Cancelling the task that awaits this ends all that was started.

        Raises:
            InvalidRequest: There is no such kind of subagent.
        """
        ...
