"""Deletes threads with all that belongs to them, and finishes what an earlier process has begun."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial

from deerflow.domain.errors import Conflict, DeerFlowError, NotFound
from deerflow.domain.principal import Principal
from deerflow.domain.runs import RunRecord, RunStatus
from deerflow.persistence import deletions as rows
from deerflow.persistence.database import Database
from deerflow.persistence.deletions import Deletion
from deerflow.persistence.liveness import Liveness
from deerflow.persistence.outside import unfinished_of

logger = logging.getLogger(__name__)

ANSWER_S = 10.0
"""So long does whoever deletes wait for the last byte to go; the rest goes without them."""
CLOSE_S = 5.0
STOPS = 5
"""How often runs are stopped that have come meanwhile, before somebody is told that the thread is busy."""

Forget = Callable[[str, str], Awaitable[None]]
"""(thread, user) → nothing of one kind is left of a thread that nobody sees any more."""


@dataclass(frozen=True, slots=True)
class Belongings:
    """What a thread has besides its rows, and how all of it is forgotten."""

    forget: Sequence[Forget]
    """Each may be called again for the same thread."""
    scrub: Callable[[], Awaitable[bool]]
    """Have no file remember what was deleted; False: later."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A thread that could not be deleted, and why."""

    thread_id: str
    problem: DeerFlowError


@dataclass(frozen=True, slots=True)
class Deleted:
    """What became of a wish to delete several threads."""

    deleted: Sequence[str] = ()
    unfinished: Sequence[str] = ()
    """Nobody sees them any more, and the rest of them goes without anybody waiting for it."""
    failed: Sequence[Failure] = ()


class Deletions:
    """A thread is gone for everybody at once; that it is to go is written down first, so that nothing is left of it."""

    def __init__(
        self,
        database: Database,
        belongings: Belongings,
        stop: Callable[[RunRecord, Principal], Awaitable[None]],
        liveness: Liveness,
        process: str,
    ) -> None:
        """`stop` ends a run and waits for that; `process` is who we are."""
        self._database = database
        self._belongings = belongings
        self._stop = stop
        self._liveness = liveness
        self._process = process
        self._under_way: set[str] = set()
        self._tasks: set[asyncio.Task[bool]] = set()
        self._finishing = asyncio.Lock()

    async def delete(self, thread_id: str, who: Principal, *, stop_runs: bool = False) -> bool:
        """Delete a thread; False when nobody sees it any more, but something of it will only go later.

        Raises:
            NotFound: there is none, or it is somebody else's.
            Conflict: a run is under way, and is not to be stopped.
        """
        return await self._clear([await self._begin(thread_id, who, stop_runs)])

    async def delete_several(self, thread_ids: Collection[str], who: Principal, *, stop_runs: bool = False) -> Deleted:
        """Delete threads. One that cannot be deleted keeps none of the others."""
        marks, failed = [], []
        for thread_id in dict.fromkeys(thread_ids):
            try:
                marks.append(await self._begin(thread_id, who, stop_runs))
            except DeerFlowError as problem:
                failed.append(Failure(thread_id, problem))
        is_done = await self._clear(marks)
        gone = [mark.thread_id for mark in marks]
        return Deleted(gone if is_done else [], [] if is_done else gone, failed)

    async def delete_leftovers(self, thread_id: str, who: Principal) -> None:
        """Delete a thread, or what somebody has just put into one that was deleted meanwhile."""
        try:
            await self.delete(thread_id, who)
        except NotFound:
            for forget in self._belongings.forget:
                await forget(thread_id, who.user_id)
            await self._belongings.scrub()

    async def finish(self) -> bool:
        """Finish what was begun here or in a process that is gone; whether nothing of that kind is left."""
        async with self._finishing:
            found = await self._database.read(rows.unfinished_deletions)
            dead = await self._liveness.dead_among({mark.process for mark in found if mark.process != self._process})
            marks = [await self._claim(mark) for mark in found if mark.process in dead]
            again = [mark for mark in found if mark.process == self._process and mark.thread_id not in self._under_way]
            return await self._clear([*again, *filter(None, marks)])

    async def aclose(self) -> None:
        """Let deletions under way end, for a while; the next process finishes the rest."""
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
        """Stop the thread's runs: first those that wait, or the next would begin."""
        query = partial(unfinished_of, owner=who.user_id, thread_id=thread_id)
        for _ in range(STOPS):
            under_way = await self._database.read(query)
            if not under_way:
                return
            for run in sorted(under_way, key=lambda each: each.status is RunStatus.RUNNING):
                try:
                    await self._stop(run, who)
                except Conflict:
                    continue  # it has ended meanwhile, or whoever deletes is told that it has not

    async def _claim(self, mark: Deletion) -> Deletion | None:
        return await self._database.write(partial(rows.claim_deletion, mark=mark, process=self._process))

    async def _clear(self, marks: Sequence[Deletion]) -> bool:
        """Forget these threads, also when whoever asked for it no longer waits; whether all is gone in time."""
        if not marks:
            return True
        self._under_way.update(mark.thread_id for mark in marks)
        task = asyncio.create_task(self._forget_all(marks), name="delete threads")
        self._tasks.add(task)
        task.add_done_callback(partial(self._end, marks))
        done, _ = await asyncio.wait({task}, timeout=ANSWER_S)
        return bool(done) and task.exception() is None and task.result()

    async def _forget_all(self, marks: Sequence[Deletion]) -> bool:
        for mark in marks:
            while await self._database.write(partial(rows.drop_events, mark=mark)):
                pass
            await self._database.write(partial(rows.drop_thread, mark=mark))
            for forget in self._belongings.forget:
                await forget(mark.thread_id, mark.owner)
        if not await self._belongings.scrub():
            logger.warning("%d deleted threads have left bytes in files that are in use; they go later", len(marks))
            return False
        gone = [mark.thread_id for mark in marks]
        await self._database.write(partial(rows.end_deletions, thread_ids=gone))
        return True

    def _end(self, marks: Sequence[Deletion], task: asyncio.Task[bool]) -> None:
        self._tasks.discard(task)
        self._under_way.difference_update(mark.thread_id for mark in marks)
        if not task.cancelled() and (problem := task.exception()) is not None:
            logger.error("what was left of %d deleted threads could not be removed", len(marks), exc_info=problem)
