"""Deletion of threads and their resources: on request, after their retention, and if an earlier process began it."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import groupby
from typing import Literal

from deerflow.config.sections.base import Settings
from deerflow.config.sections.runs import RetentionConfig
from deerflow.domain.errors import Conflict, DeerFlowError, NotFound
from deerflow.domain.identity import Principal
from deerflow.domain.runs import RunRecord, RunStatus
from deerflow.persistence.engine.database import Database
from deerflow.persistence.engine.liveness import Liveness
from deerflow.persistence.queries import deletions as rows
from deerflow.persistence.queries.audit import AuditEvent, recorded
from deerflow.persistence.queries.deletions import Deletion
from deerflow.persistence.queries.transactions import list_unfinished_by_owner
from deerflow.runtime.background import log_task_exception, run_unless_unavailable, wait_for_event

logger = logging.getLogger(__name__)

ANSWER_S = 10.0
"""Maximum time that a deletion waits for its resources; the rest is deleted in the background."""
CLOSE_S = 5.0
PAUSE_RATIO = 4.0
"""Length of the pause after a step, while others use the database, in lengths of the step."""
STOPS = 5
"""Number of times that new runs are cancelled before the deletion fails because the thread is busy."""

DeletionCause = Literal["user", "retention", "account"]
"""The user, the end of the retention, or the deletion of the user, which has an entry in the audit log itself."""
Cleanup = Callable[[str, str], Awaitable[None]]
"""(thread, user) → nothing of one kind is left of a thread that nobody sees any more."""


@dataclass(frozen=True, slots=True)
class ThreadResources:
    """Resources of a thread besides its rows, and how to delete them."""

    forget: Sequence[Cleanup]
    """Each may be called again for the same thread."""
    scrub: Callable[[], Awaitable[bool]]
    """Removes deleted data from database files. Returns False if that is done later."""
    is_busy: Callable[[], bool] = lambda: False
    """Returns whether others use the database."""


@dataclass(frozen=True, slots=True)
class DeletionFailure:
    """Thread that could not be deleted, with the reason."""

    thread_id: str
    problem: DeerFlowError


@dataclass(frozen=True, slots=True)
class DeletionResult:
    """Result of deleting several threads."""

    deleted: Sequence[str] = ()
    unfinished: Sequence[str] = ()
    """Nobody sees them any more, and the rest of them goes without anybody waiting for it."""
    failed: Sequence[DeletionFailure] = ()


async def repeat_in_background(step: Callable[[], Awaitable[bool]], is_busy: Callable[[], bool]) -> None:
    """Repeat a step while it returns True. While others use the database, pause after each to leave them most time."""
    clock = asyncio.get_running_loop().time
    while True:
        began = clock()
        if not await step():
            return
        if is_busy():
            await asyncio.sleep((clock() - began) * PAUSE_RATIO)


class Deletions:
    """Deletes threads. A thread disappears at once; the deletion is recorded first, so that it is always finished."""

    def __init__(
        self,
        database: Database,
        resources: ThreadResources,
        stop: Callable[[RunRecord, Principal], Awaitable[None]],
        liveness: Liveness,
        process: str,
    ) -> None:
        """`stop` cancels a run and waits for its end; `process` is the name of this process."""
        self._database = database
        self._resources = resources
        self._stop = stop
        self.liveness = liveness
        self.process = process
        self._active: set[str] = set()
        self._tasks: set[asyncio.Task[bool]] = set()
        self._finishing = asyncio.Lock()

    async def delete(self, thread_id: str, who: Principal, *, stop_runs: bool = False) -> bool:
        """Delete a thread. Return False if it is hidden but some of its resources will be deleted later.

        Raises:
            NotFound: the thread does not exist or has another owner.
            Conflict: a run is active and is not to be cancelled.
        """
        return await self._clear([await self._begin(thread_id, who, stop_runs)])

    async def delete_several(
        self,
        thread_ids: Collection[str],
        who: Principal,
        *,
        stop_runs: bool = False,
        cause: DeletionCause = "user",
    ) -> DeletionResult:
        """Delete threads. A failure does not affect the others."""
        marks, failed = [], []
        for thread_id in dict.fromkeys(thread_ids):
            try:
                marks.append(await self._begin(thread_id, who, stop_runs, cause))
            except DeerFlowError as problem:
                failed.append(DeletionFailure(thread_id, problem))
        is_done = await self._clear(marks)
        gone = [mark.thread_id for mark in marks]
        return DeletionResult(gone if is_done else [], [] if is_done else gone, failed)

    async def delete_leftovers(self, thread_id: str, who: Principal) -> None:
        """Delete a thread, or resources that were added to it after its deletion."""
        try:
            await self.delete(thread_id, who)
        except NotFound:
            for forget in self._resources.forget:
                await forget(thread_id, who.user_id)
            await self._resources.scrub()

    async def scrub(self) -> bool:
        """Remove deleted data from database files. Return False if that is done later."""
        return await self._resources.scrub()

    async def finish(self) -> bool:
        """Finish deletions begun here or in a dead process. Return whether none is left."""
        async with self._finishing:
            found = await self._database.read(rows.list_unfinished_deletions)
            dead = await self.liveness.find_dead({mark.process for mark in found if mark.process != self.process})
            marks = [await self._claim(mark) for mark in found if mark.process in dead]
            again = [mark for mark in found if mark.process == self.process and mark.thread_id not in self._active]
            return await self._clear([*again, *filter(None, marks)])

    async def aclose(self) -> None:
        """Wait for active deletions for a while; the next process finishes the rest."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=CLOSE_S)
        for task in self._tasks:
            task.cancel()

    async def _begin(self, thread_id: str, who: Principal, stop_runs: bool, cause: DeletionCause = "user") -> Deletion:
        if stop_runs:
            await self._stop_all(thread_id, who)
        change = partial(rows.begin_deletion, thread_id=thread_id, owner=who.user_id, process=self.process)
        by = who.user_id if cause == "user" else None
        event = AuditEvent("data.thread_deleted", by, who.user_id, details={"thread": thread_id, "cause": cause})
        mark = await self._database.write(recorded(change, *([] if cause == "account" else [event])))
        logger.info("thread %s is deleted", thread_id)
        return mark

    async def _stop_all(self, thread_id: str, who: Principal) -> None:
        """Cancel the runs of a thread: pending ones first, or the next would start."""
        query = partial(list_unfinished_by_owner, owner=who.user_id, thread_id=thread_id)
        for _ in range(STOPS):
            active_runs = await self._database.read(query)
            if not active_runs:
                return
            for run in sorted(active_runs, key=lambda each: each.status is RunStatus.RUNNING):
                try:
                    await self._stop(run, who)
                except Conflict:
                    continue  # it has ended meanwhile, or the deletion fails because it has not

    async def _claim(self, mark: Deletion) -> Deletion | None:
        return await self._database.write(partial(rows.claim_deletion, mark=mark, process=self.process))

    async def _clear(self, marks: Sequence[Deletion]) -> bool:
        """Delete the resources even if the caller is gone. Return whether all of them were deleted in time."""
        if not marks:
            return True
        self._active.update(mark.thread_id for mark in marks)
        task = asyncio.create_task(self._forget_all(marks), name="delete threads")
        self._tasks.add(task)
        task.add_done_callback(partial(self._end, marks))
        done, _ = await asyncio.wait({task}, timeout=ANSWER_S)
        return bool(done) and task.exception() is None and task.result()

    async def _forget_all(self, marks: Sequence[Deletion]) -> bool:
        for mark in marks:
            for delete_some in (rows.delete_events, rows.delete_messages):
                step = partial(self._database.write, partial(delete_some, mark=mark))
                await repeat_in_background(step, self._resources.is_busy)
            await self._database.write(partial(rows.delete_thread, mark=mark))
            for forget in self._resources.forget:
                await forget(mark.thread_id, mark.owner)
        gone = [mark.thread_id for mark in marks]
        if not await self._resources.scrub():
            logger.warning("%d deleted threads have left bytes in files that are in use; they go later", len(marks))
            await self._database.write(partial(rows.postpone_purge, thread_ids=gone, process=self.process))
            return False
        await self._database.write(partial(rows.finish_deletions, thread_ids=gone))
        return True

    def _end(self, marks: Sequence[Deletion], task: asyncio.Task[bool]) -> None:
        self._tasks.discard(task)
        self._active.difference_update(mark.thread_id for mark in marks)
        if not task.cancelled() and (problem := task.exception()) is not None:
            logger.error("what was left of %d deleted threads could not be removed", len(marks), exc_info=problem)


BATCH = 50


def utc_now() -> datetime:
    """Return the current time."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Retention:
    """Retention of threads. Pinned threads (`metadata.pinned` is true) and threads with an active run are kept.

    Temporary threads (`metadata.temporary` is true) have a time of their own, and are not kept if pinned.
    """

    database: Database
    deletions: Deletions
    settings: Settings[RetentionConfig]
    clock: Callable[[], datetime] = utc_now

    async def sweep(self) -> int:
        """Delete expired threads. Return their number."""
        settings = self.settings.current
        count = await self._sweep(timedelta(hours=settings.temporary_hours), temporary=True)
        return count if settings.days is None else count + await self._sweep(timedelta(days=settings.days))

    async def _sweep(self, age: timedelta, *, temporary: bool = False) -> int:
        count, before = 0, self.clock() - age
        query = partial(rows.list_expired_threads, before=before, limit=BATCH, temporary=temporary)
        while found := await self.database.read(query):
            done = 0
            for owner, group in groupby(sorted(found, key=lambda each: each[1]), key=lambda each: each[1]):
                outcome = await self.deletions.delete_several(
                    [each[0] for each in group], Principal(owner), cause="retention"
                )
                done += len(outcome.deleted) + len(outcome.unfinished)
            count += done
            if not done:  # they are busy again
                break
        return count

    async def until_next(self) -> float | None:
        """Return the seconds until the next thread expires, or None."""
        settings = self.settings.current
        age = timedelta(hours=settings.temporary_hours)
        expiries = [await self.database.read(partial(rows.find_next_expiry, age=age, temporary=True))]
        if settings.days is not None:
            expiries.append(await self.database.read(partial(rows.find_next_expiry, age=timedelta(days=settings.days))))
        seconds = [max(0.0, (expiry - self.clock()).total_seconds()) for expiry in expiries if expiry is not None]
        return min(seconds, default=None)


AGAIN_S = 60.0
"""When what could not be deleted is tried again; threads do not expire by the second either."""
LOOK_S = 3600.0
"""Minimum frequency: the configuration may have changed."""

UpkeepStep = Callable[[], Awaitable[bool]]
"""Returns whether nothing is left to do."""


async def run_upkeep(
    deletions: Deletions, retention: Retention, look: asyncio.Event, also: Sequence[UpkeepStep] = ()
) -> None:
    """Finish deletions and sweep expired threads, then wait for the next reason to do so."""
    while True:
        is_done = all([await run_unless_unavailable(step) for step in (deletions.finish, *also)])
        await run_unless_unavailable(retention.sweep)
        seconds = await run_unless_unavailable(retention.until_next)
        await wait_for_event(look, AGAIN_S if not is_done else max(AGAIN_S, min(LOOK_S, seconds or LOOK_S)))
        look.clear()


@asynccontextmanager
async def upkeep_in_background(
    deletions: Deletions, retention: Retention, also: Sequence[UpkeepStep] = ()
) -> AsyncIterator[None]:
    """Run the upkeep in the background."""
    task = asyncio.create_task(run_upkeep(deletions, retention, asyncio.Event(), also), name="upkeep")
    task.add_done_callback(log_task_exception)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})
        await deletions.aclose()
