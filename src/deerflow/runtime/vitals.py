"""How a server does: whether its parts work, and its figures."""

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from deerflow.domain.errors import DeerFlowError, SandboxError, StorageUnavailable
from deerflow.persistence.database import Database
from deerflow.persistence.events import LoggedEvent
from deerflow.persistence.probe import Query, T, count_unfinished, read_back
from deerflow.sandbox.sandbox_provider import SandboxProvider, SandboxReport
from deerflow.tracing.metrics import Metrics

LIMIT_S = 5.0
MB = 2**20


@dataclass(frozen=True, slots=True)
class PartHealth:
    """Whether a part of the server works, and what there is to say of it."""

    works: bool
    detail: str


@dataclass(frozen=True, slots=True)
class Vitals:
    """Looks at the parts of a server that could fail under it."""

    database: Database
    sandboxes: SandboxProvider
    report: SandboxReport
    home: Path
    metrics: Metrics
    min_free_mb: float

    async def look(self) -> Mapping[str, PartHealth]:
        """How each part does, by its name."""
        checks = {"database": self._database, "sandbox": self._sandbox, "disk": self._disk}
        found = await asyncio.gather(*(checked(check) for check in checks.values()))
        return dict(zip(checks, found, strict=True))

    async def figures(self) -> bytes:
        """The figures as of now, in the format Prometheus reads."""
        for status, count in (await self.database.read(count_unfinished)).items():
            self.metrics.runs_unfinished.labels(status).set(count)
        return await asyncio.to_thread(self.metrics.to_text)

    async def _database(self) -> str:
        await self.database.write(read_back)
        return "written to and read from"

    async def _sandbox(self) -> str:
        if not self.report.runs_commands:
            raise SandboxError(f"{self.report.problem or self.report.detail}; {self.report.remedy or 'see the log'}")
        for part in await self.sandboxes.parts():
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


async def checked(check: Callable[[], Awaitable[str]]) -> PartHealth:
    """What a check says, or why it does not."""
    try:
        async with asyncio.timeout(LIMIT_S):
            return PartHealth(True, await check())
    except TimeoutError:
        return PartHealth(False, f"no answer within {LIMIT_S:g} s")
    except (DeerFlowError, OSError) as problem:
        return PartHealth(False, str(problem))


@dataclass(frozen=True, slots=True)
class MeasuredDatabase:
    """A database whose every call is timed."""

    database: Database
    metrics: Metrics

    async def read(self, query: Query[T]) -> T:
        with self.metrics.database_call("read"):
            return await self.database.read(query)

    async def write(self, change: Query[T]) -> T:
        with self.metrics.database_call("write"):
            return await self.database.write(change)

    async def append(self, events: Sequence[LoggedEvent]) -> Collection[str]:
        self.metrics.events.inc(len(events))
        with self.metrics.database_call("append"):
            return await self.database.append(events)

    async def aclose(self) -> None:
        await self.database.aclose()
