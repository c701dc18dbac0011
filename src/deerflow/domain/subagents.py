"""A piece of work that an agent gives to another."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal, Protocol, runtime_checkable

from deerflow.domain.usage import TokenCounts

TaskStatus = Literal["completed", "failed", "cancelled", "timed_out", "capped", "interrupted"]
ItemStatus = TaskStatus | Literal["skipped"]
LOOP_CAPPED = "loop_capped"
"""Why an answer ends, when whoever gave it went round in circles."""


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
class Cost:
    """An amount of money."""

    amount: Decimal
    currency: str


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
    usage: TokenCounts = TokenCounts()
    cost: Cost | None = None
    """None when nobody knows the price."""
    duration_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Inherited:
    """What a subagent finds in its state when it begins."""

    state: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BatchOrder:
    """The same to be done for each of many items."""

    task_id: str
    description: str
    prompt: str
    """What is to be done for one; `{item}`, or the name of a field of it in braces, stands for what differs."""
    kind: str
    items: Sequence[object]
    concurrency: int = 8
    retries: int = 1
    """How often an item that failed is tried again."""
    max_turns: int | None = None


@dataclass(frozen=True, slots=True)
class ItemOutcome:
    """How one item of a batch ended; every item has exactly one."""

    index: int
    digest: str
    """Of what was to be done, so that an outcome is never taken for that of another item."""
    status: ItemStatus
    result: str = ""
    error: str | None = None
    attempts: int = 1
    tokens: int = 0


Keep = Callable[[Sequence[ItemOutcome]], Awaitable[None]]
"""What is done with the outcomes of a batch that does not come to its end."""


def item_task(batch: str, index: int) -> str:
    """What an item of a batch is called as a task of its own."""
    return f"{batch}/{index}"


class TaskJournal(Protocol):
    """What the log of a run knows of its tasks, and is told of them."""

    def tell(self, event: Mapping[str, object]) -> None:
        """Tell readers something."""
        ...

    def begun_in(self, task_id: str) -> Sequence[str]:
        """The tools that a task had begun to use to change something, when its process died before it ended."""
        ...

    def ended(self, task_id: str) -> TaskOutcome | None:
        """How a task had ended when its process died before its result was taken; None when it had not."""
        ...

    def items_of(self, batch: str) -> Mapping[int, ItemOutcome]:
        """The outcomes that items of a batch had before its process died."""
        ...

    def note_item(self, batch: str, outcome: ItemOutcome) -> None:
        """Write down the outcome of an item."""
        ...


@runtime_checkable  # LangChain validates the run context with isinstance
class Subagents(Protocol):
    """Those to whom the agent of one run may give work."""

    async def carry_out(self, order: TaskOrder, inherited: Inherited) -> TaskOutcome:
        """Have a task done, when its turn comes. Cancelling the task that awaits this ends all that was started.

        Raises:
            InvalidRequest: There is no such kind of subagent.
        """
        ...

    async def carry_out_batch(self, order: BatchOrder, inherited: Inherited, keep: Keep) -> Sequence[ItemOutcome]:
        """Have the same done for every item; as many outcomes as items, in their order.

        When it is cancelled, `keep` is given those that there are by then.

        Raises:
            InvalidRequest: There is no such kind of subagent.
        """
        ...
