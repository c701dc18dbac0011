"""Work that an agent delegates to subagents and to external ACP agents."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal, Protocol, runtime_checkable

from deerflow.domain.usage import TokenCounts

TASK, TASK_BATCH = "task", "task_batch"

TaskStatus = Literal["completed", "failed", "cancelled", "timed_out", "capped", "interrupted"]
ItemStatus = TaskStatus | Literal["skipped"]
LOOP_CAPPED = "loop_capped"
"""The stop reason of an answer that was ended by loop detection."""


@dataclass(frozen=True, slots=True)
class TaskRequest:
    """A task for a subagent."""

    task_id: str
    description: str
    prompt: str
    subagent_type: str
    max_turns: int | None = None
    """A lower limit than that of the subagent type; None for the same."""


@dataclass(frozen=True, slots=True)
class TaskCost:
    """An amount of money."""

    amount: Decimal
    currency: str


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """The outcome of a task."""

    status: TaskStatus
    result: str = ""
    """The answer, possibly partial."""
    error: str | None = None
    stop_reason: str | None = None
    """The limit that ended it."""
    model_name: str | None = None
    usage: TokenCounts = TokenCounts()
    cost: TaskCost | None = None
    """None when the price is unknown."""
    duration_s: float = 0.0


@dataclass(frozen=True, slots=True)
class InheritedState:
    """The initial state of a subagent."""

    state: Mapping[str, object] = field(default_factory=dict)
    callbacks: object | None = None
    """The callback manager with the tracers of the run, so that a subagent is part of its trace."""


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """A task that is run once for each of many items."""

    task_id: str
    description: str
    prompt: str
    """The prompt template; `{item}`, or the name of an item's field in braces, is replaced."""
    subagent_type: str
    items: Sequence[object]
    concurrency: int = 8
    retries: int = 1
    """The number of retries of a failed item."""
    max_turns: int | None = None


@dataclass(frozen=True, slots=True)
class ItemOutcome:
    """The outcome of one item of a batch; every item has exactly one."""

    index: int
    digest: str
    """A hash of type and prompt, so that an outcome is never reused for another item."""
    status: ItemStatus
    result: str = ""
    error: str | None = None
    attempts: int = 1
    tokens: int = 0


CancelHandler = Callable[[Sequence[ItemOutcome]], Awaitable[None]]
"""Receives the outcomes so far of a batch that is cancelled."""


def make_item_task_id(batch: str, index: int) -> str:
    """Return the task id of an item of a batch."""
    return f"{batch}/{index}"


class TaskJournal(Protocol):
    """The tasks in the log of a run."""

    def emit(self, event: Mapping[str, object]) -> None:
        """Append an event for readers."""
        ...

    def find_started_tools(self, task_id: str) -> Sequence[str]:
        """Return the tools with side effects that a task had started when its process died."""
        ...

    def find_outcome(self, task_id: str) -> TaskOutcome | None:
        """Return the outcome of a task that ended before its process died; None when it had not ended."""
        ...

    def find_items(self, batch: str) -> Mapping[int, ItemOutcome]:
        """Return the outcomes recorded for items of a batch before its process died."""
        ...

    def record_item(self, batch: str, outcome: ItemOutcome) -> None:
        """Record the outcome of an item."""
        ...


@runtime_checkable  # LangChain validates the run context with isinstance
class Subagents(Protocol):
    """The subagents that the agent of one run can delegate to."""

    async def execute(self, request: TaskRequest, inherited: InheritedState) -> TaskOutcome:
        """Run a task and return its outcome. Cancelling the awaiting task cancels everything it has started.

        Raises:
            InvalidRequest: The subagent type does not exist.
        """
        ...

    async def execute_batch(
        self, request: BatchRequest, inherited: InheritedState, on_cancel: CancelHandler
    ) -> Sequence[ItemOutcome]:
        """Run a task for every item and return the outcomes in the order of the items.

        On cancellation, `on_cancel` receives the outcomes so far.

        Raises:
            InvalidRequest: The subagent type does not exist.
        """
        ...


@dataclass(frozen=True, slots=True)
class AcpRequest:
    """A prompt for an external ACP agent."""

    call_id: str
    agent: str
    prompt: str
    can_ask: bool = True
    """True if a user can answer permission requests."""
    on_progress: Callable[[str], None] = field(default=lambda text: None, compare=False)
    """Receives progress texts."""


@dataclass(frozen=True, slots=True)
class PermissionRequest:
    """An action of an external agent that needs the user's approval."""

    title: str
    kind: str = "other"
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AcpResult:
    """The answer of an external agent and its stop reason."""

    text: str
    stop_reason: str


class AcpTurn(Protocol):
    """A prompt turn of an external agent; it keeps waiting for a permission while its run is paused."""

    @property
    def answered(self) -> tuple[PermissionRequest, ...]:
        """Return the permission requests that were answered so far."""
        ...

    async def wait(self) -> AcpResult | PermissionRequest:
        """Wait for the result or the next permission request and return it.

        Raises:
            AcpProblem: The turn failed; the text says why.
        """
        ...

    def answer(self, *, is_allowed: bool) -> None:
        """Allow or deny the permission request that `wait` returned."""
        ...

    async def cancel(self) -> None:
        """Cancel the turn and end the agent's process."""
        ...


@runtime_checkable  # LangChain validates the run context with isinstance
class AcpAgents(Protocol):
    """The external agents that a run can delegate to."""

    async def begin(self, request: AcpRequest) -> AcpTurn:
        """Start a prompt turn, or return the one that waited while its run was paused.

        Raises:
            AcpProblem: The agent does not exist or cannot be started; the text says why.
        """
        ...
