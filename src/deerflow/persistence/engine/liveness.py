"""Detection of dead processes.

On one machine by file locks, which the system releases when a process dies; on several machines by leases in the
database, which each process watches with a clock of its own that cannot be set.
"""

import time
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Protocol

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    cast,
    delete,
    func,
    insert,
    literal,
    select,
    type_coerce,
    update,
)

from deerflow.config.loader.files import acquire_lock
from deerflow.domain.errors import StorageUnavailable
from deerflow.domain.identity import new_id
from deerflow.persistence.engine.database import Database
from deerflow.persistence.tables import processes, to_stored

MICROS_PER_SECOND = 1_000_000
STALE_LEASE_S = 3600


def renew_lease(connection: Connection, process: str, seconds: float) -> None:
    """Extend the lease of a process to `seconds` from now."""
    until = {
        "lease_expires_at": type_coerce(
            current_time(connection) + int(seconds * MICROS_PER_SECOND), processes.c.lease_expires_at.type
        )
    }
    if connection.execute(update(processes).where(processes.c.process == process).values(until)).rowcount == 0:
        connection.execute(insert(processes).values(process=process, **until))


def drop_leases(connection: Connection, names: Collection[str]) -> None:
    """Delete the leases of processes."""
    connection.execute(delete(processes).where(processes.c.process.in_(names)))


def read_leases(connection: Connection) -> Mapping[str, int]:
    """Return the end of each process's lease. It changes with every renewal, which is all that can be relied on."""
    query = select(processes.c.process, type_coerce(processes.c.lease_expires_at, BigInteger))
    return {row[0]: row[1] for row in connection.execute(query)}


def current_time(connection: Connection) -> ColumnElement[int]:
    """Return the time in microseconds by the clock of the database, because clocks of machines differ."""
    if connection.dialect.name == "sqlite":
        return literal(to_stored(datetime.now(UTC)), BigInteger)
    return cast(func.extract("epoch", func.clock_timestamp()) * MICROS_PER_SECOND, BigInteger)


class Liveness(Protocol):
    """Detector of dead processes that also signals that this process is alive."""

    @property
    def lease_s(self) -> float:
        """Return how many seconds a process may miss its renewal."""

    async def renew(self) -> None:
        """Signal that this process is alive."""

    async def find_dead(self, processes: Collection[str]) -> Collection[str]:
        """Return those of `processes` that are dead."""

    async def seconds_until_expiry(self) -> float:
        """Return the seconds until the next lease may expire."""

    async def remove_process(self, process: str) -> None:
        """Remove the lock and lease of a dead process, after its runs were taken over."""


@dataclass(frozen=True, slots=True)
class LockLiveness:
    """Liveness by file locks, for processes that share a file system.

    A lock is released only when its process ends, regardless of clocks and suspends. A frozen process keeps its runs,
    so its later writes are still valid.
    """

    folder: Path
    lease_s: float

    async def renew(self) -> None:
        """Do nothing: the lock is held as long as the process lives."""

    async def find_dead(self, processes: Collection[str]) -> Collection[str]:
        return [name for name in processes if not is_locked(self.folder, name)]

    async def seconds_until_expiry(self) -> float:
        return self.lease_s

    async def remove_process(self, process: str) -> None:
        (self.folder / process).unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class WatchedLease:
    """Lease of another process, and when it was first seen with this end."""

    until: int
    seen_at: float


@dataclass(frozen=True, slots=True)
class LeaseLiveness:
    """Liveness by leases, for processes that share a database. On one machine a released lock is noticed sooner.

    A process is dead if its lease was not renewed for `lease_s` while this process watched. The clock of the database
    is not asked: it may be set back by a year, and then no lease would expire.
    """

    database: Database
    folder: Path
    process: str
    lease_s: float
    clock: Callable[[], float] = time.monotonic
    watched: dict[str, WatchedLease] = field(default_factory=dict)

    async def renew(self) -> None:
        await self.database.write(partial(renew_lease, process=self.process, seconds=self.lease_s))

    async def find_dead(self, processes: Collection[str]) -> Collection[str]:
        ages = await self._watch()
        return [name for name in processes if self._is_over(ages.get(name)) or is_locked(self.folder, name) is False]

    async def seconds_until_expiry(self) -> float:
        ages = await self._watch()
        left = (self.lease_s - age for age in ages.values())
        return min((seconds for seconds in left if seconds > 0), default=self.lease_s)

    async def remove_process(self, process: str) -> None:
        (self.folder / process).unlink(missing_ok=True)
        await self.database.write(partial(drop_leases, names=[process]))

    async def _watch(self) -> Mapping[str, float]:
        """Return for how many seconds the leases of other processes have been seen without a renewal."""
        now, leases = self.clock(), await self.database.read(read_leases)
        for name in self.watched.keys() - leases.keys():
            del self.watched[name]
        for name, until in leases.items():
            if name not in self.watched or self.watched[name].until != until:
                self.watched[name] = WatchedLease(until, now)
        ages = {name: now - lease.seen_at for name, lease in self.watched.items() if name != self.process}
        if stale := [name for name, age in ages.items() if age > STALE_LEASE_S]:  # of processes without runs
            await self.database.write(partial(drop_leases, names=stale))
        return ages

    def _is_over(self, age: float | None) -> bool:
        return age is None or age >= self.lease_s


@asynccontextmanager
async def hold_lease(
    database: Database, folder: Path, process: str, lease_s: float, clock: Callable[[], float] = time.monotonic
) -> AsyncIterator[LeaseLiveness]:
    """Hold a lease and delete it at the end, so that other processes need not wait for it to expire."""
    held = LeaseLiveness(database, folder, process, lease_s, clock)
    await held.renew()
    try:
        yield held
    finally:
        with suppress(StorageUnavailable):  # then it expires
            await database.write(partial(drop_leases, names=[process]))


@contextmanager
def hold_process_lock(folder: Path) -> Iterator[str]:
    """Hold a file lock for this process; yield the name of the process."""
    folder.mkdir(parents=True, exist_ok=True)
    name = new_id()
    file = folder / name
    with file.open("w") as mark:
        acquire_lock(mark)
        yield name
    file.unlink(missing_ok=True)


def is_any_locked(folder: Path) -> bool:
    """Return whether a process holds its lock in `folder`."""
    return folder.is_dir() and any(is_locked(folder, file.name) for file in folder.iterdir())


def is_locked(folder: Path, name: str) -> bool | None:
    """Return whether the process of that name holds its lock, None when it has no lock file on this machine."""
    try:
        with (folder / name).open() as mark:
            acquire_lock(mark, shared=True, wait=False)
    except FileNotFoundError:
        return None
    except BlockingIOError:
        return True
    return False
