"""A run's claim on the sandbox and the files of its thread."""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from deerflow.domain.errors import FileProblem, SandboxError
from deerflow.domain.files import FileEntry, ThreadFiles
from deerflow.domain.sandbox import OutputLimits, Sandbox
from deerflow.sandbox.locks import FileLocks
from deerflow.sandbox.sandbox_provider import SandboxProvider
from deerflow.sandbox.snapshots import Snapshots

logger = logging.getLogger(__name__)


class RunSnapshot:
    """Remembers the files of a thread before a run first uses them; runs that use none cost nothing."""

    def __init__(self, snapshots: Snapshots, run_id: str) -> None:
        self._snapshots = snapshots
        self._run_id = run_id
        self._taking = asyncio.Lock()
        self._is_taken = False

    async def take(self) -> None:
        """Take it, unless it was taken. A run that cannot be undone later is better than none."""
        async with self._taking:
            if self._is_taken:
                return
            try:
                await asyncio.to_thread(self._snapshots.take, self._run_id)
            except (OSError, FileProblem) as problem:
                logger.warning("what run %s does to files cannot be undone: %s", self._run_id, problem)
            self._is_taken = True


async def bring_back(snapshots: Snapshots, run_id: str) -> None:
    """Have the files be what they were before a run, as far as the system lets us."""
    try:
        failed = await asyncio.to_thread(snapshots.restore, run_id)
    except OSError as problem:
        logger.error("files changed by run %s could not be brought back: %s", run_id, problem)
        return
    if failed:
        logger.error("%d files changed by run %s could not be brought back: %s", len(failed), run_id, ", ".join(failed))


@dataclass(frozen=True, slots=True)
class RememberedFiles:
    """The files of a thread for a run: before the first is written, they are remembered."""

    files: ThreadFiles
    snapshot: RunSnapshot

    async def stat(self, path: str) -> FileEntry:
        return await self.files.stat(path)

    async def read(self, path: str, limit: int | None = None) -> bytes:
        return await self.files.read(path, limit)

    async def write(self, path: str, content: bytes) -> None:
        await self.snapshot.take()
        await self.files.write(path, content)

    async def list(self, folder: str) -> Sequence[FileEntry]:
        return await self.files.list(folder)


class RunLease:
    """Acquires the sandbox when a tool first needs it, and gives it back when the run ends."""

    def __init__(
        self,
        provider: SandboxProvider,
        thread_id: str,
        user_id: str,
        limits: OutputLimits,
        locks: FileLocks,
        snapshot: RunSnapshot | None = None,
    ) -> None:
        self.limits = limits
        self._provider = provider
        self._thread_id = thread_id
        self._user_id = user_id
        self._snapshot = snapshot
        self._acquiring = asyncio.Lock()
        self._locks = locks
        self._found_running: frozenset[str] = frozenset()
        self.sandbox_id: str | None = None

    async def sandbox(self) -> Sandbox:
        """The sandbox of the thread."""
        async with self._acquiring:
            if self.sandbox_id is None:
                if self._snapshot is not None:
                    await self._snapshot.take()
                self.sandbox_id = await self._provider.acquire(self._thread_id, self._user_id)
                self._found_running = await self._running()
        sandbox = await self._provider.get(self.sandbox_id)
        if sandbox is None:
            raise SandboxError("the sandbox of this thread has ended; send another message to get a new one")
        return sandbox

    async def end_started(self) -> None:
        """End the background processes this run has started, which would go on changing files."""
        sandbox = await self._provider.get(self.sandbox_id) if self.sandbox_id is not None else None
        if sandbox is not None:
            for name in await self._running() - self._found_running:
                with suppress(SandboxError):  # it has just ended by itself
                    await sandbox.kill_process(name)

    async def _running(self) -> frozenset[str]:
        """The background processes of the thread."""
        sandbox = await self._provider.get(self.sandbox_id or "")
        shown = await sandbox.list_processes() if sandbox is not None else ()
        return frozenset(process.name for process in shown if process.exit_code is None)

    def lock(self, path: str) -> asyncio.Lock:
        """What keeps two changes of one file from mixing."""
        return self._locks.lock(self._thread_id, path)

    async def release(self) -> None:
        """Give the sandbox back, if there was one."""
        if self.sandbox_id is not None:
            await self._provider.release(self.sandbox_id)
