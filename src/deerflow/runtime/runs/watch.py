"""Keeps a process's runs its own, has it do what others ask of it, and goes on with the runs of those that are gone."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import TypeVar

from deerflow.domain.errors import StorageUnavailable
from deerflow.persistence.database import Database
from deerflow.persistence.liveness import Liveness
from deerflow.persistence.runs import read_orders
from deerflow.runtime.runs.manager import RunManager
from deerflow.runtime.runs.recovery import take_over
from deerflow.runtime.stream_bridge.bridge import StreamBridge
from deerflow.runtime.waiting import happens_within, tell_of_failure

logger = logging.getLogger(__name__)

T = TypeVar("T")
RENEWALS_PER_LEASE = 3
"""So that a lease outlives a renewal that failed, and another that was late."""


class Watch:
    """The upkeep of one process among several."""

    def __init__(
        self, database: Database, bridge: StreamBridge, runs: RunManager, liveness: Liveness, process: str
    ) -> None:
        self._database = database
        self._bridge = bridge
        self._runs = runs
        self._liveness = liveness
        self._process = process
        self._look = asyncio.Event()

    async def recover(self) -> None:
        """Go on with what dead processes left behind."""
        jobs = await take_over(self._database, self._process, self._liveness)
        for job in jobs:
            self._runs.begin(job)
        if jobs:  # somebody may have wanted them stopped
            await self._look_after_runs()

    async def renew(self) -> None:
        """Stay alive for others, and look after the runs under way."""
        await self._liveness.renew()
        await self._look_after_runs()

    async def keep_renewing(self) -> None:
        """Renew in time, and at once when somebody tells us to look."""
        while True:
            if await happens_within(self._bridge.told, self._liveness.lease_s / RENEWALS_PER_LEASE):
                self._bridge.told.clear()
                self._look.set()
            await going_on(self.renew)

    async def keep_recovering(self) -> None:
        """Recover whenever the lease of another process may have expired, and when we are told to look."""
        while True:
            seconds = await going_on(self._liveness.until_next_expiry)
            least = self._liveness.lease_s / RENEWALS_PER_LEASE / 10
            await happens_within(self._look, max(least, seconds or 0))
            self._look.clear()
            await going_on(self.recover)

    async def _look_after_runs(self) -> None:
        held = self._runs.under_way()
        if not held:
            return
        orders = await self._database.read(partial(read_orders, run_ids=[run.run_id for run in held]))
        for run in held:
            order = orders.get(run.run_id)
            if order is None or order.attempt != run.attempt:
                logger.warning("run %s was taken over by another process", run.run_id)
                self._runs.abandon(run.run_id)
            elif order.stop is not None:
                self._runs.request_stop(run.run_id, order.stop)
        self._runs.look_for_mail()


async def going_on(step: Callable[[], Awaitable[T]]) -> T | None:
    """What `step` leads to; None when the database cannot be used now."""
    try:
        return await step()
    except StorageUnavailable as problem:
        logger.error("%s", problem)
        return None


@asynccontextmanager
async def keeping_watch(watch: Watch) -> AsyncIterator[None]:
    """Go on with what was left behind before anything else, then keep at it."""
    await watch.recover()
    tasks = [asyncio.create_task(work(), name=work.__name__) for work in (watch.keep_renewing, watch.keep_recovering)]
    for task in tasks:
        task.add_done_callback(tell_of_failure)
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
