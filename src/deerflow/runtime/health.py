"""Health checks and metrics of a server."""

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from langgraph.checkpoint.base import BaseCheckpointSaver

from deerflow.domain.errors import DeerFlowError, SandboxError, StorageUnavailable
from deerflow.persistence.checkpoints import check_storage
from deerflow.persistence.engine.database import Database
from deerflow.persistence.queries.events import LoggedEvent
from deerflow.persistence.queries.runs import QueryFunction, T, check_writable, count_unfinished_runs
from deerflow.sandbox.sandbox_provider import SandboxProvider, SandboxReport
from deerflow.tracing.logs import Metrics

LIMIT_S = 5.0
MB = 2**20


@dataclass(frozen=True, slots=True)
class ComponentHealth:
    """Status of a component, with details."""

    works: bool
    detail: str


@dataclass(frozen=True, slots=True)
class HealthChecks:
    """Checks of the components that a server depends on."""

    database: Database
    checkpointer: BaseCheckpointSaver[str]
    sandboxes: SandboxProvider
    report: SandboxReport
    home: Path
    metrics: Metrics
    min_free_mb: float

    async def run(self) -> Mapping[str, ComponentHealth]:
        """Run all checks and return their results by component."""
        checks = {"database": self._database, "sandbox": self._sandbox, "disk": self._disk}
        found = await asyncio.gather(*(run_check(check) for check in checks.values()))
        return dict(zip(checks, found, strict=True))

    async def render_metrics(self) -> bytes:
        """Return the current metrics in Prometheus format."""
        for status, count in (await self.database.read(count_unfinished_runs)).items():
            self.metrics.runs_unfinished.labels(status).set(count)
        return await asyncio.to_thread(self.metrics.to_text)

    async def _database(self) -> str:
        await self.database.write(check_writable)
        await check_storage(self.checkpointer)
        return "written to and read from"

    async def _sandbox(self) -> str:
        if not self.report.runs_commands:
            raise SandboxError(f"{self.report.problem or self.report.detail}; {self.report.remedy or 'see the log'}")
        for part in await self.sandboxes.components():
            if part.state == "failed":
                raise SandboxError(f"{part.name}: {part.detail}")
        return self.report.detail

    async def _disk(self) -> str:
        free = (await asyncio.to_thread(shutil.disk_usage, self.home)).free / MB
        if free < self.min_free_mb:
            raise StorageUnavailable(
                f"{free:.0f} MB are free, less than gateway.min_free_disk_mb: {self.min_free_mb:g}"
            )
        return f"{free:.0f} MB are free"


async def run_check(check: Callable[[], Awaitable[str]]) -> ComponentHealth:
    """Return the result of a check, or the reason why it failed."""
    try:
        async with asyncio.timeout(LIMIT_S):
            return ComponentHealth(True, await check())
    except TimeoutError:
        return ComponentHealth(False, f"no answer within {LIMIT_S:g} s")
    except (DeerFlowError, OSError) as problem:
        return ComponentHealth(False, str(problem))


@dataclass(frozen=True, slots=True)
class MeasuredDatabase:
    """Database whose calls are timed."""

    database: Database
    metrics: Metrics

    async def read(self, query: QueryFunction[T]) -> T:
        with self.metrics.time_database_call("read"):
            return await self.database.read(query)

    async def look_up(self, query: QueryFunction[T]) -> T:
        with self.metrics.time_database_call("read"):
            return await self.database.look_up(query)

    async def write(self, change: QueryFunction[T]) -> T:
        with self.metrics.time_database_call("write"):
            return await self.database.write(change)

    async def append(self, events: Sequence[LoggedEvent]) -> Collection[str]:
        self.metrics.events.inc(len(events))
        with self.metrics.time_database_call("append"):
            return await self.database.append(events)

    async def aclose(self) -> None:
        await self.database.aclose()
