"""Heartbeat of a process: renews its lease, applies requests of other processes and resumes runs of dead ones."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import TypeVar

from deerflow.persistence.engine.database import Database
from deerflow.persistence.engine.liveness import Liveness
from deerflow.persistence.queries.runs import read_run_controls
from deerflow.runtime.background import log_task_exception, run_unless_unavailable, wait_for_event
from deerflow.runtime.runs.manager import RunManager
from deerflow.runtime.runs.recovery import claim_abandoned_runs
from deerflow.runtime.stream_bridge.local import StreamBridge

logger = logging.getLogger(__name__)

T = TypeVar("T")
RENEWALS_PER_LEASE = 3
"""A lease survives one failed and one late renewal."""


class ProcessMonitor:
    """Background upkeep of one process among several that share a database."""

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
        """Resume the runs of dead processes."""
        jobs = await claim_abandoned_runs(self._database, self._process, self._liveness, self._runs.resolve_settings)
        for job in jobs:
            self._runs.begin(job)
        if jobs:  # a cancellation may be pending
            await self._check_runs()

    async def renew(self) -> None:
        """Renew the lease of this process and check its active runs."""
        await self._liveness.renew()
        await self._check_runs()

    async def keep_renewing(self) -> None:
        """Renew in time, and at once when another process wakes this one."""
        while True:
            if await wait_for_event(self._bridge.woken, self._liveness.lease_s / RENEWALS_PER_LEASE):
                self._bridge.woken.clear()
                self._look.set()
            await run_unless_unavailable(self.renew)

    async def keep_recovering(self) -> None:
        """Recover when the lease of another process may have expired, and when this process is woken."""
        while True:
            seconds = await run_unless_unavailable(self._liveness.seconds_until_expiry)
            least = self._liveness.lease_s / RENEWALS_PER_LEASE / 10
            await wait_for_event(self._look, max(least, seconds or 0))
            self._look.clear()
            await run_unless_unavailable(self.recover)

    async def _check_runs(self) -> None:
        held = self._runs.active_runs()
        if not held:
            return
        orders = await self._database.read(partial(read_run_controls, run_ids=[run.run_id for run in held]))
        for run in held:
            order = orders.get(run.run_id)
            if order is None or order.attempt != run.attempt:
                logger.warning("run %s was taken over by another process", run.run_id)
                self._runs.abandon(run.run_id)
            elif order.stop is not None:
                self._runs.request_stop(run.run_id, order.stop)
        self._runs.check_steering()


@asynccontextmanager
async def monitor_process(watch: ProcessMonitor) -> AsyncIterator[None]:
    """Recover once, then renew and recover in the background."""
    await watch.recover()
    tasks = [asyncio.create_task(work(), name=work.__name__) for work in (watch.keep_renewing, watch.keep_recovering)]
    for task in tasks:
        task.add_done_callback(log_task_exception)
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
