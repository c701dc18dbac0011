"""Deletion of threads and their resources, including deletions that an earlier process began."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial

from deerflow.domain.errors import Conflict, DeerFlowError, NotFound
from deerflow.domain.identity import Principal
from deerflow.domain.runs import RunRecord, RunStatus
from deerflow.persistence.engine.database import Database
from deerflow.persistence.engine.liveness import Liveness
from deerflow.persistence.queries import deletions as rows
from deerflow.persistence.queries.deletions import Deletion
from deerflow.persistence.queries.transactions import list_unfinished_by_owner

logger = logging.getLogger(__name__)

ANSWER_S = 10.0
"""Maximum time that a deletion waits for its resources; the rest is deleted in the background."""
CLOSE_S = 5.0
PAUSE_RATIO = 4.0
"""Length of the pause after a step, while others use the database, in lengths of the step."""
STOPS = 5
"""Number of times that new runs are cancelled before the deletion fails because the thread is busy."""

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
        belongings: ThreadResources,
        stop: Callable[[RunRecord, Principal], Awaitable[None]],
        liveness: Liveness,
        process: str,
    ) -> None:
        """`stop` cancels a run and waits for its end; `process` is the name of this process."""
        self._database = database
        self._belongings = belongings
        self._stop = stop
        self._liveness = liveness
        self._process = process
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
        self, thread_ids: Collection[str], who: Principal, *, stop_runs: bool = False
    ) -> DeletionResult:
        """Delete threads. A failure does not affect the others."""
        marks, failed = [], []
        for thread_id in dict.fromkeys(thread_ids):
            try:
                marks.append(await self._begin(thread_id, who, stop_runs))
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
            for forget in self._belongings.forget:
                await forget(thread_id, who.user_id)
            await self._belongings.scrub()

    async def finish(self) -> bool:
        """Finish deletions begun here or in a dead process. Return whether none is left."""
        async with self._finishing:
            found = await self._database.read(rows.list_unfinished_deletions)
            dead = await self._liveness.find_dead({mark.process for mark in found if mark.process != self._process})
            marks = [await self._claim(mark) for mark in found if mark.process in dead]
            again = [mark for mark in found if mark.process == self._process and mark.thread_id not in self._active]
            return await self._clear([*again, *filter(None, marks)])

    async def aclose(self) -> None:
        """Wait for active deletions for a while; the next process finishes the rest."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=CLOSE_S)
        for task in self._tasks:
            task.cancel()

    async def _begin(self, thread_id: str, who: Principal, stop_runs: bool) -> Deletion:
        if stop_runs:
            await self._stop_all(thread_id, who)
        change = partial(rows.begin_deletion, thread_id=thread_id, owner=who.user_id, process=self._process)
        mark = await self._database.write(change)
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
                    continue  # it has ended meanwhile, or whoever deletes is told that it has not

    async def _claim(self, mark: Deletion) -> Deletion | None:
        return await self._database.write(partial(rows.claim_deletion, mark=mark, process=self._process))

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
                await repeat_in_background(step, self._belongings.is_busy)
            await self._database.write(partial(rows.delete_thread, mark=mark))
            for forget in self._belongings.forget:
                await forget(mark.thread_id, mark.owner)
        gone = [mark.thread_id for mark in marks]
        if not await self._belongings.scrub():
            logger.warning("%d deleted threads have left bytes in files that are in use; they go later", len(marks))
            await self._database.write(partial(rows.postpone_purge, thread_ids=gone, process=self._process))
            return False
        await self._database.write(partial(rows.finish_deletions, thread_ids=gone))
        return True

    def _end(self, marks: Sequence[Deletion], task: asyncio.Task[bool]) -> None:
        self._tasks.discard(task)
        self._active.difference_update(mark.thread_id for mark in marks)
        if not task.cancelled() and (problem := task.exception()) is not None:
            logger.error("what was left of %d deleted threads could not be removed", len(marks), exc_info=problem)
