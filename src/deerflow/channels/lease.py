"""Lease of a channel: one process at a time receives its messages, also among several machines."""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from deerflow.config.load import LoadedConfig
from deerflow.domain.errors import StorageUnavailable
from deerflow.persistence.engine.database import Database
from deerflow.persistence.engine.liveness import is_locked
from deerflow.persistence.queries import channels as rows
from deerflow.persistence.queries.channels import FREE, ChannelLeaseRow
from deerflow.runtime.background import run_unless_unavailable, wait_for_event

MAX_LEASE_S = 9.0
RENEWALS_PER_LEASE = 6
"""A holder disconnects when two renewals have failed, which leaves it most of the lease for disconnecting."""
POLL_S = 2.0
LOCKS = Path("channels") / "processes"
"""Folder with the locks of processes, below the state directory."""

LeaseEnd = Literal["lost", "restart"]


@dataclass(slots=True)
class ChannelLease:
    """Lease of one channel for one process.

    A process that shares the files of the holder knows from a lock that it is alive. Others watch the number of
    renewals with their own clock; those of machines differ. The holder stops long before they may take over.
    """

    database: Database
    name: str
    process: str
    folder: Path
    """Folder with the locks of the processes on this machine."""
    is_shared: bool
    """True if processes on other machines may use the database."""
    lease_s: float = MAX_LEASE_S
    clock: Callable[[], float] = time.monotonic
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when there is a state to be stored, or an order to look for."""
    _seen: ChannelLeaseRow | None = None
    _seen_at: float = 0.0
    _restarts: int = 0
    _stored: Mapping[str, Any] = field(default_factory=dict)
    _held_until: float = 0.0

    async def acquire(self) -> Mapping[str, Any]:
        """Wait until no other process holds the lease, take it, and return the last state."""
        while (taken := await run_unless_unavailable(self._try_to_take)) is None:
            await wait_for_event(asyncio.Event(), self.poll_s)
        return taken

    @property
    def poll_s(self) -> float:
        """Time between two looks at the lease."""
        return min(POLL_S, self.lease_s / RENEWALS_PER_LEASE)

    async def keep(self, get_state: Callable[[], Mapping[str, Any]], on_look: Callable[[], None]) -> LeaseEnd:
        """Renew the lease until it is lost, or a restart is asked for. `on_look` is called after each renewal."""
        while True:
            await wait_for_event(self.wake, self.poll_s)
            self.wake.clear()
            began = self.clock()
            try:
                async with asyncio.timeout(max(0.0, self._held_until - began) if self.is_shared else None):
                    restarts = await self._renew(get_state())
            except TimeoutError:
                return "lost"
            except StorageUnavailable:
                if self.is_shared and self.clock() >= self._held_until:
                    return "lost"
                continue
            if restarts is None:
                return "lost"
            self._hold_from(began)
            if restarts != self._restarts:
                self._restarts = restarts
                return "restart"
            on_look()

    async def release(self, state: Mapping[str, Any]) -> None:
        """Free the lease, if this process holds it."""
        free = partial(rows.free_lease, name=self.name, process=self.process, state=state)
        await run_unless_unavailable(lambda: self.database.write(free))

    async def _try_to_take(self) -> Mapping[str, Any] | None:
        row = await self.database.read(partial(rows.find_lease, name=self.name))
        if row is None:
            await self.database.write(partial(rows.create_lease, name=self.name))
            return None
        if self._seen is None or (row.process, row.renewals) != (self._seen.process, self._seen.renewals):
            self._seen, self._seen_at = row, self.clock()
        if not self._is_free(row):
            return None
        began = self.clock()
        if not await self.database.write(partial(rows.take_lease, seen=row, process=self.process)):
            return None
        self._hold_from(began)
        self._restarts, self._stored = row.restarts, row.state
        return row.state

    def _is_free(self, row: ChannelLeaseRow) -> bool:
        if row.process in (FREE, self.process):
            return True
        is_alive_here = is_locked(self.folder, row.process)
        if is_alive_here is None and self.is_shared:  # a process of another machine
            return self.clock() - self._seen_at >= self.lease_s
        return not is_alive_here

    def _hold_from(self, began: float) -> None:
        self._held_until = began + 2 * self.lease_s / RENEWALS_PER_LEASE

    async def _renew(self, state: Mapping[str, Any]) -> int | None:
        """Return the number of restarts, None if the lease is lost."""
        if not self.is_shared and state == self._stored:  # the lock shows that this process lives
            row = await self.database.look_up(partial(rows.find_lease, name=self.name))
            return row.restarts if row is not None and row.process == self.process else None
        renew = partial(rows.renew_lease, name=self.name, process=self.process, state=state)
        restarts = await self.database.write(renew)
        self._stored = state
        return restarts


def is_alive(row: ChannelLeaseRow, folder: Path, age_s: float, *, is_shared: bool) -> bool:
    """Return whether the process that holds a lease lives: by its lock here, or by the age of its renewal."""
    if row.process == FREE:
        return False
    is_alive_here = is_locked(folder, row.process)
    if is_alive_here is None and is_shared:  # a process of another machine
        return age_s < 2 * MAX_LEASE_S
    return bool(is_alive_here)


def is_database_shared(loaded: LoadedConfig) -> bool:
    """Return whether processes on other machines may use the database."""
    return not isinstance(loaded.config.database.get_location(loaded.home), Path)
