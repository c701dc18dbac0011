"""Background extraction of facts from conversations after a debounce. The queue is in the database."""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from uuid import uuid4

from deerflow.domain.errors import ConfigError, DeerFlowError, InvalidRequest, StorageUnavailable
from deerflow.domain.memory import BilledRun, MemoryEdit, MemoryScope, MemoryState, PendingExtraction
from deerflow.domain.threads import SearchableMessage
from deerflow.domain.usage import BudgetSpent, ModelBudget
from deerflow.memory.extraction import ExtractionRules, MemoryRevision, MemoryUpdate
from deerflow.memory.ledger import check_edits
from deerflow.memory.queries import pending as rows
from deerflow.memory.queries.facts import read_state
from deerflow.memory.service import MemoryService
from deerflow.memory.signals import detect_feedback, select_messages
from deerflow.memory.updater import ExtractionUnavailable, MemoryUpdater

logger = logging.getLogger(__name__)

POLL_S = 300.0
"""Maximum time between polls: a dead process may have left an extraction."""
MIN_PAUSE_S = 0.25
"""Minimum time between two looks at the queue: many runs may end within it."""
RETRY_S = 60.0
CLAIM_LEASE = timedelta(seconds=60)
RENEW_S = 20.0
MAX_ATTEMPTS = 5


class ExtractionQueue:
    """Queue of pending extractions in the database, and its worker."""

    def __init__(
        self,
        memories: MemoryService,
        updater: MemoryUpdater,
        is_enabled: Callable[[], bool],
        open_budget: Callable[[PendingExtraction], ModelBudget | None],
        clock: Callable[[], datetime] = partial(datetime.now, UTC),
    ) -> None:
        """`is_enabled`: whether memory is on and a model is configured; `open_budget`: the budget of an extraction."""
        self._ledger = memories.ledger
        self._database = memories.ledger.database
        self._settings = memories.settings
        self._updater = updater
        self._is_enabled = is_enabled
        self._open_budget = open_budget
        self._clock = clock
        self._wakeup = asyncio.Event()

    def build_extraction(
        self,
        scope: MemoryScope,
        thread_id: str,
        messages: Iterable[SearchableMessage],
        steps: Collection[str],
        payer: BilledRun,
    ) -> tuple[PendingExtraction, timedelta] | None:
        """Return the extraction from a run's messages and its debounce, None if there is nothing to extract.

        `steps` are ids of replies that are not final answers.
        """
        selected = select_messages(messages, steps) if self._is_enabled() else ()
        if not any(message.role == "human" for message in selected):
            return None
        wait = timedelta(seconds=self._settings.current.debounce_seconds)
        due_at = self._clock() + wait
        return PendingExtraction(scope, thread_id, selected, detect_feedback(selected), due_at, payer=payer), wait

    def wake(self) -> None:
        """Wake the worker: there may be more to extract."""
        self._wakeup.set()

    async def run(self) -> None:
        """Process due extractions for ever."""
        while True:
            looked_at = time.monotonic()
            try:
                wait_s = await self._extract_next()
            except StorageUnavailable as problem:
                logger.error("%s", problem)
                wait_s = RETRY_S
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._wakeup.wait()
                    await asyncio.sleep(looked_at + MIN_PAUSE_S - time.monotonic())
            self._wakeup.clear()

    async def _extract_next(self) -> float:
        """Process the oldest due extraction; return the seconds until the next one."""
        if not self._is_enabled():
            return POLL_S
        now = self._clock()
        latest = rows.LatestTimes(
            first=now + timedelta(seconds=self._settings.current.debounce_seconds),
            retry=now + timedelta(seconds=RETRY_S * 2 ** (MAX_ATTEMPTS - 1)),
            claim=now + CLAIM_LEASE,
        )
        due, is_late = await self._database.read(partial(rows.find_schedule, latest=latest))
        if is_late:  # the clock was set back
            due = await self._database.write(partial(rows.limit_waits, latest=latest))
        if due is None or (wait_s := (due - now).total_seconds()) > 0:
            return POLL_S if due is None else min(POLL_S, wait_s)
        claim = partial(rows.claim_due, now=self._clock(), claim=uuid4().hex, lease=CLAIM_LEASE)
        extraction = await self._database.write(claim)
        if extraction is not None:
            await self.extract(extraction)
        return 0.0

    async def extract(self, extraction: PendingExtraction) -> None:
        """Process a claimed extraction, and release or remove it."""
        budget = self._open_budget(extraction)
        renewal = asyncio.create_task(self._renew_claim(extraction), name="renew extraction claim")
        try:
            extraction = self._updater.fit(extraction, budget)
            state = await self._database.read(partial(read_state, scope=extraction.scope))
            update = await self._updater.extract(extraction, state, self._clock(), budget)
        except ExtractionUnavailable as problem:
            await self._retry_later(with_remaining_budget(extraction, budget), str(problem))
        except (BudgetSpent, ConfigError) as problem:
            await self._suspend(with_remaining_budget(extraction, budget), problem)
        except asyncio.CancelledError:
            extraction = with_remaining_budget(extraction, budget)
            release = partial(
                rows.release_claim, extraction=extraction, due_at=extraction.due_at, attempts=extraction.attempts - 1
            )
            with suppress(StorageUnavailable):  # then the claim expires
                await self._database.write(release)
            raise
        else:
            await self._finish(with_remaining_budget(extraction, budget), update)
        finally:
            renewal.cancel()
            await asyncio.wait({renewal})

    async def _renew_claim(self, extraction: PendingExtraction) -> None:
        """Renew the claim on an extraction until cancelled."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(RENEW_S):
                    await asyncio.Event().wait()
            with suppress(StorageUnavailable):
                until = self._clock() + CLAIM_LEASE
                await self._database.write(partial(rows.renew_claim, extraction=extraction, until=until))

    async def _retry_later(self, extraction: PendingExtraction, reason: str) -> None:
        if extraction.attempts >= MAX_ATTEMPTS:
            logger.warning("no memory extracted from thread %s: %s", extraction.thread_id, reason)
            await self._finish(extraction, None)
            return
        due = self._clock() + timedelta(seconds=RETRY_S * 2 ** (extraction.attempts - 1))
        again = partial(rows.release_claim, extraction=extraction, due_at=due, attempts=extraction.attempts)
        await self._database.write(again)

    async def _suspend(self, extraction: PendingExtraction, problem: DeerFlowError) -> None:
        level = logging.WARNING if isinstance(problem, ConfigError) else logging.INFO
        logger.log(level, "memory extraction of thread %s postponed to its next run: %s", extraction.thread_id, problem)
        await self._database.write(partial(rows.suspend_extraction, extraction=extraction))

    async def _finish(self, extraction: PendingExtraction, update: MemoryUpdate | None) -> None:
        settings, now = self._settings.current, self._clock()
        rules = ExtractionRules(settings.fact_confidence_threshold, settings.max_facts)

        def edits(state: MemoryState) -> list[MemoryEdit]:
            # Based on the current state: the user may have edited it while the model was thinking.
            revision = MemoryRevision(state, extraction.thread_id, extraction.messages, rules, now)
            return revision.build_edits(update) if update is not None else []

        finish = partial(rows.finish_extraction, extraction=extraction, now=now)
        try:
            changes = await self._database.write(partial(finish, edits=partial(check_edits, edits)))
        except InvalidRequest as problem:
            logger.warning("no memory extracted from thread %s: %s", extraction.thread_id, problem)
            changes = await self._database.write(partial(finish, edits=build_no_edits))
        if changes:
            await self._notify(extraction.scope)
            logger.info("memory extracted from thread %s: %d changes", extraction.thread_id, len(changes))

    async def _notify(self, scope: MemoryScope) -> None:
        """Save the memory to the external storage, if there is one."""
        if self._ledger.on_change is not None:
            await self._ledger.on_change(scope, await self._ledger.read_state(scope))


def with_remaining_budget(extraction: PendingExtraction, budget: ModelBudget | None) -> PendingExtraction:
    """Return the extraction with the remaining budget of the run that pays for it."""
    if budget is None or extraction.payer is None:
        return extraction
    return replace(extraction, payer=replace(extraction.payer, limit=budget.get_remaining()))


def build_no_edits(state: MemoryState) -> list[MemoryEdit]:
    """Return no edits."""
    return []
