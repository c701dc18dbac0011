"""Interfaces between the run engine and the composition root."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Protocol

from deerflow.domain.context import RunContext
from deerflow.domain.runs import RunRecord, RunStatus
from deerflow.domain.threads import DiscardedHistory
from deerflow.persistence.queries.events import WriteFunction
from deerflow.persistence.queries.transactions import RunFinish
from deerflow.runtime.journal.journal import RunLog
from deerflow.runtime.runs.job import Job, ResolvedSettings

if TYPE_CHECKING:
    from langgraph.types import Interrupt


class RunHooks(Protocol):
    """Operations that the engine calls and the composition root implements."""

    async def check_quota(self, owner: str) -> int | None:
        """Check that a person may begin a run; return the maximum number of threads with an active run.

        Raises:
            QuotaExceeded: The tokens or the money of the day are spent, or the files take too much space.
        """
        ...

    async def resolve_settings(self, owner: str) -> ResolvedSettings:
        """Return the settings for a run of `owner` that begins now."""
        ...

    def open_context(self, job: Job, log: RunLog) -> AbstractAsyncContextManager[RunContext]:
        """Open the context of a run; leaving it releases the sandbox."""
        ...

    async def check_state(self, thread_id: str) -> None:
        """Raise `StateTooNew` if the thread was written by a newer version of this program."""
        ...

    async def pending_interrupts(self, thread_id: str) -> "Sequence[Interrupt]":
        """Return the interrupts of the thread's paused run."""
        ...

    async def roll_back(self, run: RunRecord) -> None:
        """Restore the state and files of the thread to what they were before the run."""
        ...

    def on_finish(self, job: Job, left: DiscardedHistory | None) -> Sequence[WriteFunction[None]]:
        """Return the changes to commit, in this order, in the transaction that ends the run."""
        ...

    async def after_run(self, job: Job, status: RunStatus) -> None:
        """Do the background work that follows an ended run, such as generating a title."""
        ...

    def redact(self, text: str) -> str:
        """Return `text` without secrets of the configuration."""
        ...


class Worker(Protocol):
    """Executes runs."""

    async def load(self) -> object:
        """Import what runs need, unless that has been done."""
        ...

    async def execute(self, job: Job, log: RunLog) -> tuple[RunStatus, RunFinish]:
        """Execute a run to its end. Cancelling the awaiting task cancels the run.

        Raises:
            RunLost: another process has taken over the run and will end it.
        """
        ...
