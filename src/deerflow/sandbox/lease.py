"""Leases of a run on its sandbox, and the snapshot taken before its first use."""

import asyncio
import logging
from asyncio import Lock
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from deerflow.domain.errors import FileProblem, SandboxError
from deerflow.domain.files import FileEntry, ThreadFiles
from deerflow.domain.sandbox import (
    BackgroundOutput,
    BackgroundProcess,
    CommandResult,
    ConfinableSandbox,
    Confinement,
    GrepMatches,
    OutputLimits,
    OutputListener,
    PathListing,
    Sandbox,
    SandboxLease,
)
from deerflow.sandbox.file_access import FileLocks
from deerflow.sandbox.files.mounts import TEMPORARY
from deerflow.sandbox.sandbox_provider import SandboxProvider
from deerflow.sandbox.snapshots.snapshots import Snapshots

logger = logging.getLogger(__name__)


class RunSnapshot:
    """Snapshot of a thread's files, taken before a run first uses them; runs without files cost nothing."""

    def __init__(self, snapshots: Snapshots, run_id: str) -> None:
        self._snapshots = snapshots
        self._run_id = run_id
        self._taking = asyncio.Lock()
        self._is_taken = False

    async def take(self) -> None:
        """Take the snapshot once. A failure is logged: a run without undo is better than no run."""
        async with self._taking:
            if self._is_taken:
                return
            try:
                await asyncio.to_thread(self._snapshots.take, self._run_id)
            except (OSError, FileProblem) as problem:
                logger.warning("snapshot failed, file changes of run %s cannot be undone: %s", self._run_id, problem)
            self._is_taken = True


async def restore_files(snapshots: Snapshots, run_id: str) -> None:
    """Restore the files to their state before a run, as far as possible."""
    try:
        failed = await asyncio.to_thread(snapshots.restore, run_id)
    except OSError as problem:
        logger.error("files changed by run %s could not be restored: %s", run_id, problem)
        return
    if failed:
        logger.error("%d files changed by run %s could not be restored: %s", len(failed), run_id, ", ".join(failed))


@dataclass(frozen=True, slots=True)
class SnapshottedFiles:
    """Files of a thread for a run; a snapshot is taken before the first write."""

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
    """Lease that acquires the sandbox on first use and releases it when the run ends."""

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
        self._initially_running: frozenset[str] = frozenset()
        self.sandbox_id: str | None = None

    async def sandbox(self) -> Sandbox:
        """Return the sandbox of the thread."""
        async with self._acquiring:
            if self.sandbox_id is None:
                if self._snapshot is not None:
                    await self._snapshot.take()
                self.sandbox_id = await self._provider.acquire(self._thread_id, self._user_id)
                self._initially_running = await self._running()
        sandbox = await self._provider.get(self.sandbox_id)
        if sandbox is None:
            raise SandboxError("the sandbox of this thread has ended; send another message to get a new one")
        return sandbox

    async def kill_started_processes(self) -> None:
        """Kill the background processes that this run started, as they would keep changing files."""
        sandbox = await self._provider.get(self.sandbox_id) if self.sandbox_id is not None else None
        if sandbox is not None:
            for name in await self._running() - self._initially_running:
                with suppress(SandboxError):  # it has just exited
                    await sandbox.kill_process(name)

    async def _running(self) -> frozenset[str]:
        """Return the names of the thread's running background processes."""
        sandbox = await self._provider.get(self.sandbox_id or "")
        shown = await sandbox.list_processes() if sandbox is not None else ()
        return frozenset(process.name for process in shown if process.exit_code is None)

    def lock(self, path: str) -> asyncio.Lock:
        """Return the lock that serializes changes of a file."""
        return self._locks.lock(self._thread_id, path)

    async def release(self) -> None:
        """Release the sandbox, if one was acquired."""
        if self.sandbox_id is not None:
            await self._provider.release(self.sandbox_id)


NO_COMMANDS = (
    "the active skill has a contract, and this sandbox cannot enforce it for commands, so none is run; "
    "do it with file tools, or tell the user"
)


@dataclass(frozen=True, slots=True)
class ConfinedLease:
    """Lease for confined work."""

    lease: SandboxLease
    confinement: Confinement

    @property
    def limits(self) -> OutputLimits:
        return self.lease.limits

    @property
    def sandbox_id(self) -> str | None:
        return self.lease.sandbox_id

    async def sandbox(self) -> Sandbox:
        sandbox = await self.lease.sandbox()
        return (
            sandbox.confined(self.confinement)
            if isinstance(sandbox, ConfinableSandbox)
            else FilesOnlySandbox(sandbox, self.confinement)
        )

    def lock(self, path: str) -> Lock:
        return self.lease.lock(path)


@dataclass(frozen=True, slots=True)
class FilesOnlySandbox:
    """Sandbox of a provider without confinement: files are available, commands are refused."""

    inner: Sandbox
    confinement: Confinement

    @property
    def id(self) -> str:
        return self.inner.id

    async def execute_command(
        self,
        command: str,
        *,
        env: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
        on_output: OutputListener | None = None,
    ) -> CommandResult:
        raise SandboxError(NO_COMMANDS)

    async def read_file(self, path: str) -> str:
        return await self.inner.read_file(path)

    async def write_file(self, path: str, content: str, append: bool = False) -> None:
        self._check(path)
        await self.inner.write_file(path, content, append)

    async def update_file(self, path: str, content: bytes) -> None:
        self._check(path)
        await self.inner.update_file(path, content)

    async def download(self, path: str) -> bytes:
        return await self.inner.download(path)

    async def list_dir(self, path: str, max_depth: int = 2, max_results: int = 1000) -> PathListing:
        return await self.inner.list_dir(path, max_depth, max_results)

    async def glob(self, path: str, pattern: str, *, include_dirs: bool = False, max_results: int = 200) -> PathListing:
        return await self.inner.glob(path, pattern, include_dirs=include_dirs, max_results=max_results)

    async def grep(
        self,
        path: str,
        pattern: str,
        *,
        glob: str | None = None,
        literal: bool = False,
        case_sensitive: bool = False,
        max_results: int = 100,
    ) -> GrepMatches:
        return await self.inner.grep(
            path, pattern, glob=glob, literal=literal, case_sensitive=case_sensitive, max_results=max_results
        )

    async def start_process(self, name: str, command: str, *, env: Mapping[str, str] | None = None) -> None:
        raise SandboxError(NO_COMMANDS)

    async def process_output(self, name: str) -> BackgroundOutput:
        return await self.inner.process_output(name)

    async def kill_process(self, name: str) -> BackgroundOutput:
        return await self.inner.kill_process(name)

    async def list_processes(self) -> Sequence[BackgroundProcess]:
        return await self.inner.list_processes()

    def _check(self, path: str) -> None:
        if self.confinement.writable is None:
            return
        folders = (*self.confinement.writable, TEMPORARY)
        if ".." in path.split("/") or not any(path.startswith(f"{folder}/") for folder in folders):
            raise FileProblem(f"{path!r}: it is read-only; write to another folder")
