"""Deletes threads in which nothing has happened for longer than the configuration keeps them."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import groupby

from deerflow.config.retention import RetentionConfig
from deerflow.domain.principal import Principal
from deerflow.persistence import deletions as rows
from deerflow.persistence.database import Database
from deerflow.runtime.deletion import Deletions

BATCH = 50


def now() -> datetime:
    """The time it is."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Retention:
    """Threads that are pinned (`metadata.pinned` is true) or have a run under way are kept."""

    database: Database
    deletions: Deletions
    settings: Callable[[], RetentionConfig]
    clock: Callable[[], datetime] = now

    async def sweep(self) -> int:
        """Delete what is too old; how many threads that were."""
        days = self.settings().days
        if days is None:
            return 0
        count, before = 0, self.clock() - timedelta(days=days)
        while found := await self.database.read(partial(rows.expired_threads, before=before, limit=BATCH)):
            done = 0
            for owner, mine in groupby(sorted(found, key=lambda each: each[1]), key=lambda each: each[1]):
                outcome = await self.deletions.delete_several([each[0] for each in mine], Principal(owner))
                done += len(outcome.deleted) + len(outcome.unfinished)
            count += done
            if not done:  # they are busy again
                break
        return count

    async def until_next(self) -> float | None:
        """After how many seconds the next thread will be too old; None when none will."""
        days = self.settings().days
        if days is None:
            return None
        expiry = await self.database.read(partial(rows.next_expiry, age=timedelta(days=days)))
        return None if expiry is None else max(0.0, (expiry - self.clock()).total_seconds())
