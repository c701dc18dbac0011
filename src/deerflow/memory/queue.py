"""Learns from conversations after they have become quiet, beside everything else and from one process to the next."""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from uuid import uuid4

from deerflow.domain.budget import Budget, BudgetSpent
from deerflow.domain.errors import ConfigError, DeerFlowError, InvalidRequest, StorageUnavailable
from deerflow.domain.learning import Lesson, Payer
from deerflow.domain.memory import Edit, MemoryScope, MemoryState
from deerflow.domain.search import SaidMessage
from deerflow.memory.filtering import worth_learning
from deerflow.memory.ledger import check_made
from deerflow.memory.memories import Memories
from deerflow.memory.revision import Revision, Rules, Update
from deerflow.memory.signals import signs_in
from deerflow.memory.updater import MemoryUpdater, ModelSilent
from deerflow.persistence import memory_pending as rows
from deerflow.persistence.memory import read_state

logger = logging.getLogger(__name__)

LOOK_S = 300.0
"""So often at least: another process may have died and left something."""
AGAIN_S = 60.0
LEASE = timedelta(seconds=60)
RENEW_S = 20.0
MOST_ATTEMPTS = 5


class LessonQueue:
    """What is yet to be learned, in the database; and who learns it."""

    def __init__(
        self,
        memories: Memories,
        updater: MemoryUpdater,
        is_on: Callable[[], bool],
        open_budget: Callable[[Lesson], Budget | None],
        clock: Callable[[], datetime] = partial(datetime.now, UTC),
    ) -> None:
        """`is_on`: whether there is anybody to learn, as the configuration is now; `open_budget`: what pays for it."""
        self._ledger = memories.ledger
        self._database = memories.ledger.database
        self._settings = memories.settings
        self._updater = updater
        self._is_on = is_on
        self._open_budget = open_budget
        self._clock = clock
        self._look = asyncio.Event()

    def lesson_of(
        self, scope: MemoryScope, thread_id: str, said: Iterable[SaidMessage], steps: Collection[str], payer: Payer
    ) -> tuple[Lesson, timedelta] | None:
        """What may be learned from what a run said, and how long to wait for quiet; `steps` are no final answers."""
        messages = worth_learning(said, steps) if self._is_on() else ()
        if not any(message.role == "human" for message in messages):
            return None
        wait = timedelta(seconds=self._settings().debounce_seconds)
        due_at = self._clock() + wait
        return Lesson(scope, thread_id, messages, signs_in(messages), due_at, payer=payer), wait

    def look(self) -> None:
        """Have it be seen that there is more to learn."""
        self._look.set()

    async def learn_now(self, scope: MemoryScope) -> int:
        """Learn what waits for a memory without waiting for quiet; from how many threads."""
        done: list[str] = []
        claim = partial(rows.claim_waiting, scope=scope, lease=LEASE)
        while lesson := await self._database.write(partial(claim, now=self._clock(), claim=uuid4().hex, done=done)):
            await self._learn(lesson)
            done.append(lesson.thread_id)
        return len(done)

    async def work(self) -> None:
        """Learn whatever is due, then wait until something is."""
        while True:
            try:
                wait_s = await self._learn_next()
            except StorageUnavailable as problem:
                logger.error("%s", problem)
                wait_s = AGAIN_S
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._look.wait()
            self._look.clear()

    async def _learn_next(self) -> float:
        """Learn what has waited longest; how many seconds there is nothing to do then."""
        if not self._is_on():
            return LOOK_S
        due = await self._database.read(rows.next_lesson_at)
        if due is None or (wait_s := (due - self._clock()).total_seconds()) > 0:
            return LOOK_S if due is None else min(LOOK_S, wait_s)
        claim = partial(rows.claim_lesson, now=self._clock(), claim=uuid4().hex, lease=LEASE)
        lesson = await self._database.write(claim)
        if lesson is not None:
            await self._learn(lesson)
        return 0.0

    async def _learn(self, lesson: Lesson) -> None:
        budget = self._open_budget(lesson)
        keeping = asyncio.create_task(self._keep(lesson), name="lease of a lesson")
        try:
            lesson = self._updater.as_much_as_fits(lesson, budget)
            state = await self._database.read(partial(read_state, scope=lesson.scope))
            update = await self._updater.understand(lesson, state, self._clock(), budget)
        except ModelSilent as problem:
            await self._try_later(settled(lesson, budget), str(problem))
        except (BudgetSpent, ConfigError) as problem:
            await self._leave_unpaid(settled(lesson, budget), problem)
        except asyncio.CancelledError:
            lesson = settled(lesson, budget)
            back = partial(rows.give_back_lesson, lesson=lesson, due_at=lesson.due_at, attempts=lesson.attempts - 1)
            with suppress(StorageUnavailable):  # then the lease ends by itself
                await self._database.write(back)
            raise
        else:
            await self._finish(settled(lesson, budget), update)
        finally:
            keeping.cancel()
            await asyncio.wait({keeping})

    async def _keep(self, lesson: Lesson) -> None:
        """Have others know that somebody is at it."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(RENEW_S):
                    await asyncio.Event().wait()
            with suppress(StorageUnavailable):
                until = self._clock() + LEASE
                await self._database.write(partial(rows.renew_lesson, lesson=lesson, until=until))

    async def _try_later(self, lesson: Lesson, reason: str) -> None:
        if lesson.attempts >= MOST_ATTEMPTS:
            logger.warning("nothing is remembered of thread %s: %s", lesson.thread_id, reason)
            await self._finish(lesson, None)
            return
        due = self._clock() + timedelta(seconds=AGAIN_S * 2 ** (lesson.attempts - 1))
        again = partial(rows.give_back_lesson, lesson=lesson, due_at=due, attempts=lesson.attempts)
        await self._database.write(again)

    async def _leave_unpaid(self, lesson: Lesson, problem: DeerFlowError) -> None:
        level = logging.WARNING if isinstance(problem, ConfigError) else logging.INFO
        logger.log(level, "thread %s is learned from after its next run: %s", lesson.thread_id, problem)
        await self._database.write(partial(rows.leave_unpaid, lesson=lesson))

    async def _finish(self, lesson: Lesson, update: Update | None) -> None:
        settings, now = self._settings(), self._clock()
        rules = Rules(settings.fact_confidence_threshold, settings.max_facts)

        def edits(state: MemoryState) -> list[Edit]:
            # By what is known now: a person may have changed it while the model was thinking.
            revision = Revision(state, lesson.thread_id, lesson.messages, rules, now)
            return revision.edits(update) if update is not None else []

        finish = partial(rows.finish_lesson, lesson=lesson, now=now)
        try:
            changes = await self._database.write(partial(finish, edits=partial(check_made, edits)))
        except InvalidRequest as problem:
            logger.warning("nothing is remembered of thread %s: %s", lesson.thread_id, problem)
            changes = await self._database.write(partial(finish, edits=nothing_new))
        if changes:
            await self._tell(lesson.scope)
            logger.info("learned from thread %s: %d changes", lesson.thread_id, len(changes))

    async def _tell(self, scope: MemoryScope) -> None:
        """Have whoever keeps memories besides the ledger know."""
        if self._ledger.keep is not None:
            await self._ledger.keep(scope, await self._ledger.state(scope))


def settled(lesson: Lesson, budget: Budget | None) -> Lesson:
    """A lesson with what its payer has left."""
    if budget is None or lesson.payer is None:
        return lesson
    return replace(lesson, payer=replace(lesson.payer, limit=budget.rest()))


def nothing_new(state: MemoryState) -> list[Edit]:
    """What is known stays as it is."""
    return []
