"""Executor for subagent tasks and batches: fair scheduling, concurrency limits, and cancellation with the run."""

import asyncio
import contextvars
import hashlib
import json
import re
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

from deerflow.config.sections.base import Settings
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
    make_item_task_id,
)
from deerflow.subagents.execution import Subagent, TaskExecution

PLACEHOLDER = re.compile(r"\{([^{}\n]{1,100})\}")
"""A placeholder of a template. Column names of real tables contain blanks and dots."""
ITEM = "item"
RETRYABLE_STATUSES = ("failed", "timed_out")
OUT_OF_BUDGET = "token_capped"
PROGRESS_INTERVAL_S = 0.5
"""Minimum time between two progress events."""
MAX_RESULT_CHARS = 20_000
"""Maximum length of a stored result."""
MAX_PROMPT_CHARS = 1_000_000
"""Maximum length of a rendered prompt. Items and templates multiply, so the limit is checked before rendering."""
SAVE_TIMEOUT_S = 1.0
"""Time limit for saving the results of a cancelled batch."""

ExecuteTask = Callable[[TaskRequest], Awaitable[TaskOutcome]]


@dataclass(slots=True)
class BatchExecution:
    """Execution of one batch."""

    order: BatchRequest
    journal: TaskJournal
    execute_task: ExecuteTask
    model_name: str
    save: CancelHandler
    outcomes: dict[int, ItemOutcome] = field(default_factory=dict)
    budget_error: str | None = None
    """Reason why no more items are started: the budget is exhausted."""
    reported_at: float = 0.0

    async def execute(self) -> Sequence[ItemOutcome]:
        """Execute the remaining items and return the outcomes of all items, in their order."""
        order, count = self.order, len(self.order.items)
        known = self.journal.find_items(order.task_id)
        if known:  # thousands of prompts may be compared
            self.outcomes = await asyncio.to_thread(self._select_matching, known)
        self._report("batch_started", concurrency=order.concurrency, resumed=len(self.outcomes))
        remaining = iter([index for index in range(count) if index not in self.outcomes])
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(order.concurrency):
                    group.create_task(self._execute_items(remaining))
        except asyncio.CancelledError:
            self._report("batch_cancelled")
            # Cancelling must be fast, but results that were paid for are saved.
            with suppress(TimeoutError):
                async with asyncio.timeout(SAVE_TIMEOUT_S):
                    await self.save([self.outcomes[index] for index in sorted(self.outcomes)])
            raise
        self._report("batch_completed")
        return [self.outcomes[index] for index in range(count)]

    def _select_matching(self, known: Mapping[int, ItemOutcome]) -> dict[int, ItemOutcome]:
        """Return the recorded outcomes of items that are still the same."""
        count = len(self.order.items)
        return {index: done for index, done in known.items() if index < count and self._matches(index, done)}

    def _matches(self, index: int, done: ItemOutcome) -> bool:
        """Return True if a recorded outcome belongs to the current prompt of the item."""
        try:
            return done.digest == task_digest(self.order.subagent_type, self._render(index))
        except InvalidRequest:
            return False

    def _render(self, index: int) -> str:
        """Return the prompt of an item. Rendered on demand: thousands of prompts may be large."""
        return render_prompt(self.order.prompt, self.order.items[index])

    async def _execute_items(self, remaining: Iterator[int]) -> None:
        for index in remaining:
            try:
                outcome = await self._execute_item(index, self._render(index))
            except InvalidRequest as error:
                outcome = ItemOutcome(index, "", "failed", error=str(error), attempts=0)
            self.outcomes[index] = outcome
            self.journal.record_item(self.order.task_id, outcome)
            if time.monotonic() - self.reported_at >= PROGRESS_INTERVAL_S:
                self._report("batch_progress")

    async def _execute_item(self, index: int, prompt: str) -> ItemOutcome:
        """Execute an item, with retries, and return its outcome."""
        order, tokens, attempt = self.order, 0, 0
        digest = task_digest(order.subagent_type, prompt)
        item = TaskRequest(
            make_item_task_id(order.task_id, index), order.description, prompt, order.subagent_type, order.max_turns
        )
        while True:
            if self.budget_error is not None:
                return ItemOutcome(index, digest, "skipped", error=self.budget_error, attempts=attempt, tokens=tokens)
            attempt += 1
            outcome = await self.execute_task(item)
            tokens += outcome.usage.total_tokens
            if outcome.stop_reason == OUT_OF_BUDGET:
                self.budget_error = outcome.error
            elif outcome.status in RETRYABLE_STATUSES and attempt <= order.retries:
                continue
            result = truncate_result(outcome.result)
            return ItemOutcome(index, digest, outcome.status, result, outcome.error, attempt, tokens)

    def _report(self, event: str, **more: object) -> None:
        self.reported_at = time.monotonic()
        counts = Counter(outcome.status for outcome in self.outcomes.values())
        self.journal.emit(
            {
                "type": event,
                "task_id": self.order.task_id,
                "description": self.order.description,
                "subagent_type": self.order.subagent_type,
                "model_name": self.model_name,
                "total": len(self.order.items),
                "done": len(self.outcomes),
                "outcomes": dict(counts),
                "usage": {"total_tokens": sum(outcome.tokens for outcome in self.outcomes.values())},
                **more,
            }
        )


def task_digest(subagent_type: str, prompt: str) -> str:
    """Return the SHA-256 digest that identifies a task by its subagent type and prompt."""
    return hashlib.sha256(f"{subagent_type}\n{prompt}".encode("utf-8", "replace")).hexdigest()


def truncate_result(result: str) -> str:
    """Return `result`, cut to the maximum length with a note of the missing characters."""
    rest = len(result) - MAX_RESULT_CHARS
    return result if rest <= 0 else f"{result[:MAX_RESULT_CHARS]}\n[… {rest} more characters]"


def render_prompt(template: str, item: object) -> str:
    """Return the template filled in with `item`, which is appended if there is no placeholder for it.

    Raises:
        InvalidRequest: The prompt would exceed the maximum length.
    """
    values = {**item, ITEM: item} if isinstance(item, Mapping) else {ITEM: item}
    placeholders = [match[1] for match in PLACEHOLDER.finditer(template) if match[1] in values]
    texts = {name: to_text(values[name]) for name in placeholders or [ITEM]}
    if len(template) + sum(len(texts[name]) for name in placeholders or [ITEM]) > MAX_PROMPT_CHARS:
        raise InvalidRequest(f"with the item the prompt has more than {MAX_PROMPT_CHARS:,} characters")
    if not placeholders:
        return f"{template}\n\n{texts[ITEM]}"
    return PLACEHOLDER.sub(lambda match: texts.get(match[1], match[0]), template)


def to_text(value: object) -> str:
    """Return a string as it is, and any other value as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


@dataclass(frozen=True, slots=True)
class ConcurrencyLimits:
    """Maximum number of tasks that run at the same time."""

    total: int
    per_user: int


class FairScheduler:
    """Scheduler that admits tasks up to the limits and serves waiting users round-robin."""

    def __init__(self, limits: Settings[ConcurrencyLimits]) -> None:
        """Store `limits`, which are read on every arrival and release because they may change."""
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
        limits = self._limits.current
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
        factory, key = self.factory, (self.spec, subagent_type, self.context.owner)
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
