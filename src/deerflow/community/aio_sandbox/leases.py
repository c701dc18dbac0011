"""Who uses a sandbox, among processes that share a state directory. What a dead process held is free again."""

import asyncio
import fcntl
import os
import time
from dataclasses import dataclass
from pathlib import Path

from deerflow.domain.errors import SandboxError

AGAIN_AFTER_S = 0.05
WAIT_S = 90.0


@dataclass(slots=True)
class Lease:
    """A claim on a sandbox, shared with other users or, to make or end it, for us alone."""

    file: Path
    descriptor: int

    async def share(self) -> None:
        """Use the sandbox along with others; nobody ends it meanwhile."""
        try:
            async with asyncio.timeout(WAIT_S):
                # A thread that waits in flock cannot be cancelled, so we look again now and then.
                while not self._try(fcntl.LOCK_SH):  # noqa: ASYNC110
                    await asyncio.sleep(AGAIN_AFTER_S)
        except TimeoutError:
            raise SandboxError("another process is busy with this sandbox; try again later") from None

    def try_own(self) -> bool:
        """Whether nobody else uses the sandbox, which is kept so; if somebody does, our own share is gone too."""
        return self._try(fcntl.LOCK_EX)

    def release(self) -> None:
        """Let go, and leave a note of when that was."""
        os.utime(self.descriptor)
        os.close(self.descriptor)

    def forget(self) -> None:
        """Let go of a sandbox that will not be used again."""
        self.file.unlink(missing_ok=True)
        os.close(self.descriptor)

    def _try(self, kind: int) -> bool:
        try:
            fcntl.flock(self.descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            fcntl.flock(self.descriptor, fcntl.LOCK_UN)  # two who both share and both want to own would wait for ever
            return False
        if self._is_current():
            return True
        os.close(self.descriptor)
        self.descriptor = open_lock(self.file)  # somebody forgot the sandbox while we waited
        return False

    def _is_current(self) -> bool:
        try:
            return self.file.stat().st_ino == os.fstat(self.descriptor).st_ino
        except FileNotFoundError:
            return False


@dataclass(frozen=True, slots=True)
class Leases:
    """One file for each sandbox."""

    folder: Path

    def open(self, sandbox_id: str) -> Lease:
        """A lease on nothing yet."""
        self.folder.mkdir(parents=True, exist_ok=True)
        return Lease(self._file(sandbox_id), open_lock(self._file(sandbox_id)))

    async def share(self, sandbox_id: str) -> Lease:
        """A lease shared with other users of the sandbox."""
        lease = self.open(sandbox_id)
        try:
            await lease.share()
        except BaseException:
            lease.release()
            raise
        return lease

    def know(self, sandbox_id: str) -> bool:
        """Whether the sandbox was ever used from this state directory."""
        return self._file(sandbox_id).exists()

    def idle_s(self, sandbox_id: str) -> float:
        """How long ago the sandbox was let go of."""
        try:
            return time.time() - self._file(sandbox_id).stat().st_mtime
        except FileNotFoundError:
            return float("inf")

    def _file(self, sandbox_id: str) -> Path:
        return self.folder / f"{sandbox_id}.lock"


def open_lock(file: Path) -> int:
    """A descriptor of a file to lock."""
    return os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
