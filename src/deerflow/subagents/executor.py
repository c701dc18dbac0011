"""Executor for subagent tasks: fair scheduling, concurrency limits, and cancellation with the run."""

import asyncio
import contextvars
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

from deerflow.domain.context import RunContext
from deerflow.domain.errors import InvalidRequest
from deerflow.domain.runs import AgentSpec
from deerflow.domain.subagents import (
    BatchRequest,
    CancelHandler,
    InheritedState,
    ItemOutcome,
    TaskJournal,
    TaskOutcome,
    TaskRequest,
)
from deerflow.subagents.batch import BatchExecution
from deerflow.subagents.execution import Subagent, TaskExecution


@dataclass(frozen=True, slots=True)
class ConcurrencyLimits:
    """Maximum number of tasks that run at the same time."""

    total: int
    per_user: int


class FairScheduler:
    """Scheduler that admits tasks up to the limits and serves waiting users round-robin."""

    def __init__(self, limits: Callable[[], ConcurrencyLimits]) -> None:
        """Store `limits`, which is called on every arrival and release because it may change."""
        self._limits = limits
        self._active: Counter[str] = Counter()
        self._queues: dict[str, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def slot(self, user: str, on_queued: Callable[[int], None]) -> AsyncIterator[None]:
        """Hold a slot for `user`. If it must wait, call `on_queued` with the number of tasks ahead."""
        ahead = sum(map(len, self._queues.values()))
        admitted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queues.setdefault(user, deque()).append(admitted)
        self._admit()
        if not admitted.done():
            on_queued(ahead)
        try:
            await admitted
            yield
        finally:
            self._release(user, admitted)

    def _release(self, user: str, admitted: "asyncio.Future[None]") -> None:
        # A task may be admitted and cancelled in the same moment, so only the future tells if it holds a slot.
        if admitted.done() and not admitted.cancelled():
            self._active[user] -= 1
            self._active += Counter()  # drops users without active tasks
        elif user in self._queues:
            self._queues[user].remove(admitted)
            if not self._queues[user]:
                del self._queues[user]
        self._admit()

    def _admit(self) -> None:
        limits = self._limits()
        while self._active.total() < limits.total:
            user = next((each for each in self._queues if self._active[each] < limits.per_user), None)
            if user is None:
                return
            queue = self._queues.pop(user)
            self._active[user] += 1
            queue.popleft().set_result(None)
            if queue:  # reinsert at the end, so that the other users are served first
                self._queues[user] = queue


MIN_CONCURRENCY, MAX_CONCURRENCY = 1, 4
T = TypeVar("T")


class SubagentFactory(Protocol):
    """Provider of subagents. Building one may load a vendor's library, so `get_subagent` blocks."""

    def get_cached_subagent(self, spec: AgentSpec, subagent_type: str, user_id: str) -> Subagent | None: ...
    def get_subagent(self, spec: AgentSpec, subagent_type: str, user_id: str) -> Subagent | None: ...


@dataclass(frozen=True, slots=True)
class SubagentExecutor:
    """Executor shared by all runs of this process."""

    scheduler: FairScheduler

    def for_run(
        self, context: RunContext, spec: AgentSpec, journal: TaskJournal, factory: SubagentFactory
    ) -> "RunSubagents":
        """Return the subagents of one run. They share its files and sandbox; `journal` is its event log."""
        return RunSubagents(self, context, spec, journal, factory, asyncio.Semaphore(max_concurrent_tasks(spec)))


@dataclass(frozen=True, slots=True)
class RunSubagents:
    """Subagents available to the agent of one run."""

    executor: SubagentExecutor
    context: RunContext
    spec: AgentSpec
    journal: TaskJournal
    factory: SubagentFactory
    semaphore: asyncio.Semaphore

    async def execute(self, order: TaskRequest, inherited: InheritedState) -> TaskOutcome:
        """Execute a task when a slot is free. A task started by a dead process is repeated only if that is safe."""
        if (done := self.journal.find_outcome(order.task_id)) is not None:
            return done
        execution = TaskExecution(order, await self._get_subagent(order.subagent_type), self.journal.emit)
        if used_tools := self.journal.find_started_tools(order.task_id):
            return execution.interrupt(used_tools)
        return await in_new_context(self._execute_in_slot(execution, inherited))

    async def execute_batch(
        self, order: BatchRequest, inherited: InheritedState, keep: CancelHandler
    ) -> Sequence[ItemOutcome]:
        """Execute a batch, except for items that a dead process had already completed."""
        subagent = await self._get_subagent(order.subagent_type)

        async def execute_item(item: TaskRequest) -> TaskOutcome:
            execution = TaskExecution(item, subagent, lambda event: None)
            if used_tools := self.journal.find_started_tools(item.task_id):
                return execution.interrupt(used_tools)
            async with self.executor.scheduler.slot(self.context.user_id, lambda ahead: None):
                return await execution.run(self._context_for(item), inherited)

        batch = BatchExecution(order, self.journal, execute_item, subagent.model_name, keep)
        return await in_new_context(batch.execute())

    async def _execute_in_slot(self, execution: TaskExecution, inherited: InheritedState) -> TaskOutcome:
        try:
            if self.semaphore.locked():
                execution.report("task_queued", ahead=None)
            async with self.semaphore, self.executor.scheduler.slot(self.context.user_id, execution.report_queued):
                return await execution.run(self._context_for(execution.order), inherited)
        except asyncio.CancelledError:
            execution.report("task_cancelled", error="the run was stopped")
            raise

    def _context_for(self, order: TaskRequest) -> RunContext:
        """Return the context of the run, with tool calls recorded under the task, which is its own conversation."""
        ledger, prefixes = self.context.ledger, self.context.prefixes
        return replace(
            self.context,
            ledger=ledger.for_task(order.task_id) if ledger is not None else None,
            prefixes=prefixes.for_task() if prefixes is not None else None,
        )

    async def _get_subagent(self, subagent_type: str) -> Subagent:
        factory, key = self.factory, (self.spec, subagent_type, self.context.user_id)
        subagent = factory.get_cached_subagent(*key) or await asyncio.to_thread(factory.get_subagent, *key)
        if subagent is None:
            raise InvalidRequest(f"no subagent type {subagent_type!r}")
        return subagent


def max_concurrent_tasks(spec: AgentSpec) -> int:
    """Return the maximum number of concurrent tasks of one run."""
    return min(max(spec.max_concurrent_subagents, MIN_CONCURRENCY), MAX_CONCURRENCY)


async def in_new_context(work: Coroutine[Any, Any, T]) -> T:
    """Await `work` in an empty context, or LangGraph would treat it as a part of the lead agent's graph."""
    return await asyncio.create_task(work, context=contextvars.Context())
