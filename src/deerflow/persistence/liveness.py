"""Which processes are alive. On one machine a lock tells, which the system releases when its holder dies; on several,
a lease in the database, which its holder lets expire."""

import fcntl
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from deerflow.domain.errors import StorageUnavailable
from deerflow.domain.ids import new_id
from deerflow.persistence.database import Database
from deerflow.persistence.processes import drop_lease, leases, renew_lease


class Liveness(Protocol):
    """Knows who is alive, and says so of this process."""

    @property
    def lease_s(self) -> float:
        """For how long a process may be silent."""

    async def renew(self) -> None:
        """Say once more that this process is alive."""

    async def dead_among(self, processes: Collection[str]) -> Collection[str]:
        """Those of the processes that are gone."""

    async def until_next_expiry(self) -> float:
        """After how many seconds it is worth asking again who is dead."""

    async def bury(self, process: str) -> None:
        """Clear away what a dead process left, once its runs have been taken over."""


@dataclass(frozen=True, slots=True)
class Locks:
    """For processes on the same files: a lock is surer than any clock, also after the machine has slept.

    It dies with its process only: one that is frozen keeps its runs, so nothing it writes when it thaws is too late.
    """

    folder: Path
    lease_s: float

    async def renew(self) -> None:
        """The lock is held anyway."""

    async def dead_among(self, processes: Collection[str]) -> Collection[str]:
        return [name for name in processes if not is_locked(self.folder, name)]

    async def until_next_expiry(self) -> float:
        return self.lease_s

    async def bury(self, process: str) -> None:
        (self.folder / process).unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Leases:
    """For processes on one database: whoever has no lease is dead. On this machine a lock tells even sooner."""

    database: Database
    folder: Path
    process: str
    lease_s: float

    async def renew(self) -> None:
        await self.database.write(partial(renew_lease, process=self.process, seconds=self.lease_s))

    async def dead_among(self, processes: Collection[str]) -> Collection[str]:
        left = await self.database.read(leases)
        return [name for name in processes if left.get(name, 0) <= 0 or is_locked(self.folder, name) is False]

    async def until_next_expiry(self) -> float:
        left = await self.database.read(leases)
        return min(
            (seconds for name, seconds in left.items() if name != self.process and seconds > 0), default=self.lease_s
        )

    async def bury(self, process: str) -> None:
        (self.folder / process).unlink(missing_ok=True)
        await self.database.write(partial(drop_lease, process=process))


@asynccontextmanager
async def leased(database: Database, folder: Path, process: str, lease_s: float) -> AsyncIterator[Leases]:
    """A lease that is given back in the end, so that others need not wait for it to expire."""
    held = Leases(database, folder, process, lease_s)
    await held.renew()
    try:
        yield held
    finally:
        with suppress(StorageUnavailable):  # then it expires
            await database.write(partial(drop_lease, process=process))


@contextmanager
def sign_of_life(folder: Path) -> Iterator[str]:
    """The name under which this process is known to be alive."""
    folder.mkdir(parents=True, exist_ok=True)
    name = new_id()
    file = folder / name
    with file.open("w") as mark:
        fcntl.flock(mark, fcntl.LOCK_EX)
        yield name
    file.unlink(missing_ok=True)


def is_locked(folder: Path, name: str) -> bool | None:
    """Whether the process of that name holds its lock; None when there is none on this machine."""
    try:
        with (folder / name).open() as mark:
            fcntl.flock(mark, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return None
    except BlockingIOError:
        return True
    return False
