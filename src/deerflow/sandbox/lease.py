"""A run's claim on the sandbox of its thread."""

import asyncio
from pathlib import PurePosixPath
from weakref import WeakValueDictionary

from deerflow.domain.errors import SandboxError
from deerflow.domain.sandbox import OutputLimits, Sandbox
from deerflow.sandbox.sandbox_provider import SandboxProvider


class RunLease:
    """Acquires the sandbox when a tool first needs it, and gives it back when the run ends."""

    def __init__(self, provider: SandboxProvider, thread_id: str, user_id: str, limits: OutputLimits) -> None:
        self.limits = limits
        self._provider = provider
        self._thread_id = thread_id
        self._user_id = user_id
        self._acquiring = asyncio.Lock()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self.sandbox_id: str | None = None

    async def sandbox(self) -> Sandbox:
        """The sandbox of the thread."""
        async with self._acquiring:
            if self.sandbox_id is None:
                self.sandbox_id = await self._provider.acquire(self._thread_id, self._user_id)
        sandbox = await self._provider.get(self.sandbox_id)
        if sandbox is None:
            raise SandboxError("the sandbox of this thread has ended; send another message to get a new one")
        return sandbox

    def lock(self, path: str) -> asyncio.Lock:
        """What keeps two changes of one file from mixing."""
        return self._locks.setdefault(str(PurePosixPath(path)), asyncio.Lock())

    async def release(self) -> None:
        """Give the sandbox back, if there was one."""
        if self.sandbox_id is not None:
            await self._provider.release(self.sandbox_id)
