"""Contract of the backends that create containers."""

import asyncio
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from deerflow.community.aio_sandbox.api import SandboxAddress
from deerflow.config.loader.files import O_CLOEXEC, acquire_lock, release_lock
from deerflow.domain.errors import SandboxError
from deerflow.sandbox.files.mounts import Mount
from deerflow.sandbox.sandbox_provider import SandboxLimit, SandboxProblem

RETRY_S = 0.05
WAIT_TIMEOUT_S = 90.0


@dataclass(slots=True)
class FileLease:
    """Lease of a sandbox: shared with other users, or exclusive to create or remove it."""

    file: Path
    descriptor: int

    async def share(self) -> None:
        """Wait for a shared lease; the sandbox is not removed meanwhile."""
        try:
            async with asyncio.timeout(WAIT_TIMEOUT_S):
                # A thread that waits in flock cannot be cancelled, so the lock is polled.
                while not self._try_lock(shared=True):  # noqa: ASYNC110
                    await asyncio.sleep(RETRY_S)
        except TimeoutError:
            raise SandboxError("another process is busy with this sandbox; try again later") from None

    def try_own(self) -> bool:
        """Try to get an exclusive lease; on failure the shared lease is lost too."""
        return self._try_lock(shared=False)

    def release(self) -> None:
        """Release the lease and record the time."""
        os.utime(self.descriptor)
        os.close(self.descriptor)

    def delete(self) -> None:
        """Release the lease of a sandbox that will not be used again."""
        self.file.unlink(missing_ok=True)
        os.close(self.descriptor)

    def _try_lock(self, *, shared: bool) -> bool:
        try:
            acquire_lock(self.descriptor, shared=shared, wait=False)
        except BlockingIOError:
            release_lock(self.descriptor)  # two processes upgrading a shared lock would deadlock
            return False
        if self._is_current():
            return True
        os.close(self.descriptor)
        self.descriptor = open_lock(self.file)  # the lease file was deleted meanwhile
        return False

    def _is_current(self) -> bool:
        try:
            return self.file.stat().st_ino == os.fstat(self.descriptor).st_ino
        except FileNotFoundError:
            return False


@dataclass(frozen=True, slots=True)
class FileLeases:
    """Lease files, one per sandbox."""

    folder: Path

    def open(self, sandbox_id: str) -> FileLease:
        """Return a lease that is not held yet."""
        self.folder.mkdir(parents=True, exist_ok=True)
        return FileLease(self._file(sandbox_id), open_lock(self._file(sandbox_id)))

    async def share(self, sandbox_id: str) -> FileLease:
        """Return a shared lease."""
        lease = self.open(sandbox_id)
        try:
            await lease.share()
        except BaseException:
            lease.release()
            raise
        return lease

    def exists(self, sandbox_id: str) -> bool:
        """Return True if the sandbox was ever used from this state directory."""
        return self._file(sandbox_id).exists()

    def idle_s(self, sandbox_id: str) -> float:
        """Return the seconds since the sandbox was released."""
        try:
            return time.time() - self._file(sandbox_id).stat().st_mtime
        except FileNotFoundError:
            return float("inf")

    def _file(self, sandbox_id: str) -> Path:
        return self.folder / f"{sandbox_id}.lock"


def open_lock(file: Path) -> int:
    """Open a lock file and return its descriptor."""
    return os.open(file, os.O_RDWR | os.O_CREAT | O_CLOEXEC, 0o600)


@dataclass(frozen=True, slots=True)
class ContainerRequest:
    """A sandbox to create, with its owner and mounts."""

    sandbox_id: str
    thread_id: str
    user_id: str
    mounts: Sequence[Mount]


@dataclass(frozen=True, slots=True)
class BackendStatus:
    """State of a backend, with a remedy for a problem."""

    detail: str
    problem: str | None = None
    remedy: str | None = None
    code: SandboxProblem | None = None
    limits: Sequence[SandboxLimit] = ()
    running: Sequence[str] = ()
    """Ids of all sandboxes with a running container, possibly also of other installations."""


class SandboxBackend(Protocol):
    """Creates, finds and removes containers. Every method raises `SandboxError`."""

    @property
    def is_here(self) -> bool:
        """True if containers and their files are on this machine."""
        ...

    async def open(self) -> BackendStatus:
        """Check if containers can be created."""
        ...

    async def create(self, request: ContainerRequest) -> SandboxAddress:
        """Start a container; its server may need a moment to answer."""
        ...

    async def discover(self, request: ContainerRequest) -> SandboxAddress | None:
        """Return a running container with the current settings, if there is one."""
        ...

    async def explain(self, sandbox_id: str) -> str | None:
        """Return why a container does not run, or None if it does."""
        ...

    async def destroy(self, sandbox_id: str) -> None:
        """Remove a container, if there is one."""
        ...

    async def aclose(self) -> None:
        """Close all connections; containers keep running."""
        ...
