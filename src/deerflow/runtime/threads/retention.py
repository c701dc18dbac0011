"""Retention: deletes threads that were inactive for longer than configured."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import groupby

from deerflow.config.sections.base import Settings
from deerflow.config.sections.runs import RetentionConfig
from deerflow.domain.identity import Principal
from deerflow.persistence.engine.database import Database
from deerflow.persistence.queries import deletions as rows
from deerflow.runtime.background import log_task_exception, run_unless_unavailable, wait_for_event
from deerflow.runtime.threads.deletion import Deletions

BATCH = 50


def utc_now() -> datetime:
    """Return the current time."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Retention:
    """Retention of threads. Pinned threads (`metadata.pinned` is true) and threads with an active run are kept."""

    database: Database
    deletions: Deletions
    settings: Settings[RetentionConfig]
    clock: Callable[[], datetime] = utc_now

    async def sweep(self) -> int:
        """Delete expired threads. Return their number."""
        days = self.settings.current.days
        if days is None:
            return 0
        count, before = 0, self.clock() - timedelta(days=days)
        while found := await self.database.read(partial(rows.list_expired_threads, before=before, limit=BATCH)):
            done = 0
            for owner, mine in groupby(sorted(found, key=lambda each: each[1]), key=lambda each: each[1]):
                outcome = await self.deletions.delete_several([each[0] for each in mine], Principal(owner))
                done += len(outcome.deleted) + len(outcome.unfinished)
            count += done
            if not done:  # they are busy again
                break
        return count

    async def until_next(self) -> float | None:
        """Return the seconds until the next thread expires, or None."""
        days = self.settings.current.days
        if days is None:
            return None
        expiry = await self.database.read(partial(rows.find_next_expiry, age=timedelta(days=days)))
        return None if expiry is None else max(0.0, (expiry - self.clock()).total_seconds())


AGAIN_S = 60.0
"""When what could not be deleted is tried again; threads do not expire by the second either."""
LOOK_S = 3600.0
"""Minimum frequency: the configuration may have changed."""


async def run_upkeep(deletions: Deletions, retention: Retention, look: asyncio.Event) -> None:
    """Finish deletions and sweep expired threads, then wait for the next reason to do so."""
    while True:
        is_done = await run_unless_unavailable(deletions.finish)
        await run_unless_unavailable(retention.sweep)
        seconds = await run_unless_unavailable(retention.until_next)
        await wait_for_event(look, AGAIN_S if not is_done else max(AGAIN_S, min(LOOK_S, seconds or LOOK_S)))
        look.clear()


@asynccontextmanager
async def upkeep_in_background(deletions: Deletions, retention: Retention) -> AsyncIterator[None]:
    """Run the upkeep in the background."""
    task = asyncio.create_task(run_upkeep(deletions, retention, asyncio.Event()), name="upkeep")
    task.add_done_callback(log_task_exception)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})
        await deletions.aclose()
