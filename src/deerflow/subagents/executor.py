"""Carries out tasks: each in an agent of its own, when its turn comes, ended with the run it belongs to."""

import asyncio
import contextvars
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

from deerflow.domain.context import RunContext
from deerflow.domain.errors import InvalidRequest
from deerflow.domain.runs import AgentSpec
from deerflow.domain.subagents import BatchOrder, Inherited, ItemOutcome, Keep, TaskJournal, TaskOrder, TaskOutcome
from deerflow.subagents.batch import Batch
from deerflow.subagents.turns import FairTurns
from deerflow.subagents.work import Work, Worker

MIN_AT_ONCE, MAX_AT_ONCE = 1, 4
T = TypeVar("T")


class Staff(Protocol):
    """Finds the subagent for a task. Building one may load a vendor's library, so it blocks."""

    def ready_worker(self, spec: AgentSpec, kind: str, user_id: str) -> Worker | None: ...
    def worker_for(self, spec: AgentSpec, kind: str, user_id: str) -> Worker | None: ...


@dataclass(frozen=True, slots=True)
class SubagentExecutor:
    """Has tasks done for all runs of this process."""

    staff: Staff
    turns: FairTurns

    def for_run(self, context: RunContext, spec: AgentSpec, journal: TaskJournal) -> "RunSubagents":
        """Those who work for one run, on its files and in its sandbox; `journal` is its log."""
        return RunSubagents(self, context, spec, journal, asyncio.Semaphore(at_once(spec)))


@dataclass(frozen=True, slots=True)
class RunSubagents:
    """Those to whom the agent of one run may give work."""

    executor: SubagentExecutor
    context: RunContext
    spec: AgentSpec
    journal: TaskJournal
    at_once: asyncio.Semaphore

    async def carry_out(self, order: TaskOrder, inherited: Inherited) -> TaskOutcome:
        """Have a task done, when its turn comes; one that a dead process had begun, only if that does no harm."""
        if (done := self.journal.ended(order.task_id)) is not None:
            return done
        work = Work(order, await self._worker(order.kind), self.journal.tell)
        begun = self.journal.begun_in(order.task_id)
        if begun:
            return work.give_up(begun)
        return await apart(self._when_its_turn_comes(work, inherited))

    async def carry_out_batch(self, order: BatchOrder, inherited: Inherited, keep: Keep) -> Sequence[ItemOutcome]:
        """Have the same done for every item, but for those that a dead process had done."""
        worker = await self._worker(order.kind)

        async def do(item: TaskOrder) -> TaskOutcome:
            work = Work(item, worker, lambda event: None)
            begun = self.journal.begun_in(item.task_id)
            if begun:
                return work.give_up(begun)
            async with self.executor.turns.turn(self.context.user_id, lambda ahead: None):
                return await work.do(self._context_for(item), inherited)

        return await apart(Batch(order, self.journal, do, worker.model_name, keep).carry_out())

    async def _when_its_turn_comes(self, work: Work, inherited: Inherited) -> TaskOutcome:
        try:
            if self.at_once.locked():
                work.report("task_queued", ahead=None)
            async with self.at_once, self.executor.turns.turn(self.context.user_id, work.report_queue):
                return await work.do(self._context_for(work.order), inherited)
        except asyncio.CancelledError:
            work.report("task_cancelled", error="the run was stopped")
            raise

    def _context_for(self, order: TaskOrder) -> RunContext:
        """What a subagent may use: all that the run may, but its calls are written down as those of the task."""
        ledger = self.context.ledger
        return replace(self.context, ledger=ledger.of_task(order.task_id)) if ledger is not None else self.context

    async def _worker(self, kind: str) -> Worker:
        staff, wanted = self.executor.staff, (self.spec, kind, self.context.user_id)
        worker = staff.ready_worker(*wanted) or await asyncio.to_thread(staff.worker_for, *wanted)
        if worker is None:
            raise InvalidRequest(f"there is no subagent of the kind {kind!r}")
        return worker


def at_once(spec: AgentSpec) -> int:
    """How many may work at once for one run."""
    return min(max(spec.max_concurrent_subagents, MIN_AT_ONCE), MAX_AT_ONCE)


async def apart(work: Coroutine[Any, Any, T]) -> T:
    """Await `work` in a context of its own: the graph of the lead agent would take it for a part of itself."""
    return await asyncio.create_task(work, context=contextvars.Context())
