"""Provider of sandboxes in containers, created on first use and kept for a while after the last."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from weakref import WeakValueDictionary

from deerflow.community.aio_sandbox.api import SandboxAddress, SandboxApi, SandboxUnreachable, ServerInfo
from deerflow.community.aio_sandbox.backend import ContainerRequest, FileLease, FileLeases, SandboxBackend
from deerflow.community.aio_sandbox.local_backend import LocalContainerBackend
from deerflow.community.aio_sandbox.remote_backend import RemoteSandboxBackend
from deerflow.community.aio_sandbox.sandbox import AioSandbox
from deerflow.config.sections.sandbox import SandboxConfig
from deerflow.domain.errors import SandboxError
from deerflow.domain.sandbox import Sandbox
from deerflow.sandbox.files.mounts import (
    AREAS,
    TEMPORARY,
    derive_sandbox_id,
    make_default_mounts,
    thread_folder,
)
from deerflow.sandbox.local.usage import DiskMonitor
from deerflow.sandbox.sandbox_provider import HostContext, SandboxComponent, SandboxReport

logger = logging.getLogger(__name__)

MB = 1024 * 1024
READY_TIMEOUT_S = 60.0
OBTAIN_TIMEOUT_S = 120.0
HEALTH_TIMEOUT_S = 5.0
RETRY_S = 0.05
NOT_OPENED = SandboxReport("none", "not opened", "the sandbox has not been opened")


@dataclass(slots=True)
class HeldSandbox:
    """A known container, used by `users` runs; without users it is idle, and other processes may remove it."""

    request: ContainerRequest
    sandbox: AioSandbox
    lease: FileLease | None
    users: int


class AioSandboxProvider:
    """Provider of one container per thread: a known one, else a running one, else a new one."""

    def __init__(self, config: SandboxConfig, host: HostContext, backend: SandboxBackend | None = None) -> None:
        self.config = config
        self._host = host
        self._backend = backend or choose_backend(config, host.home)
        self._leases = FileLeases(host.home / "sandboxes")
        self._report = NOT_OPENED
        self._held: OrderedDict[str, HeldSandbox] = OrderedDict()  # least recently used first
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._endings: set[asyncio.Task[None]] = set()

    async def open(self) -> SandboxReport:
        """Check if containers can be created, and schedule the removal of those of an earlier server."""
        ready = await self._backend.open()
        if ready.problem is not None:
            self._report = SandboxReport("none", ready.detail, ready.problem, ready.remedy, ready.code)
            return self._report
        for sandbox_id in ready.running:
            if self._leases.exists(sandbox_id):
                self._end_when_idle(sandbox_id)
        self._report = SandboxReport("container", ready.detail, limits=ready.limits)
        return self._report

    async def prepare(self) -> None:
        """Do nothing: the image is built or pulled by the operator."""

    async def components(self) -> Sequence[SandboxComponent]:
        """Return the state of the container image."""
        return [
            SandboxComponent("container image", "ok" if self._report.runs_commands else "failed", self.config.image)
        ]

    async def acquire(self, thread_id: str, user_id: str) -> str:
        """Return the id of the thread's sandbox; its container runs."""
        if self._report.problem is not None:
            raise SandboxError(f"{self._report.problem}; {self._report.remedy or 'call `open` first'}")
        sandbox_id = derive_sandbox_id(thread_id, user_id)
        skills = await asyncio.to_thread(self._host.skills, user_id) if self._host.skills else None
        folder = thread_folder(self._host.home, user_id, thread_id)
        mounts = await asyncio.to_thread(make_default_mounts, folder, self.config, skills)
        async with self._lock(sandbox_id):
            self._cancel_timer(sandbox_id)
            held = await self._ensure(ContainerRequest(sandbox_id, thread_id, user_id, mounts))
            held.users += 1
        return sandbox_id

    async def get(self, sandbox_id: str) -> Sandbox | None:
        """Return the sandbox with this id, if it was acquired here; one that failed is checked first."""
        held = self._held.get(sandbox_id)
        if held is not None and held.sandbox.api.has_failed:
            async with self._lock(sandbox_id):
                held = self._held.get(sandbox_id) and await self._ensure(held.request)
        return held.sandbox if held else None

    async def release(self, sandbox_id: str) -> None:
        """Release the container; without users it is kept until the idle timeout."""
        held = self._held.get(sandbox_id)
        if held is None or not held.users:
            return
        held.users -= 1
        if not held.users:
            self._release_lease(held)
            self._end_when_idle(sandbox_id)

    async def discard(self, thread_id: str, user_id: str) -> None:
        """Remove the container of a thread, even if it is in use."""
        if self._report.problem is not None:
            return
        sandbox_id = derive_sandbox_id(thread_id, user_id)
        async with self._lock(sandbox_id):
            self._cancel_timer(sandbox_id)
            await self._drop(sandbox_id)
            await self._backend.destroy(sandbox_id)
            self._leases.open(sandbox_id).delete()

    async def aclose(self) -> None:
        """Remove all our containers except those used by another process."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        await asyncio.gather(*self._endings, return_exceptions=True)
        await asyncio.gather(*(self._close(sandbox_id) for sandbox_id in list(self._held)))
        await self._backend.aclose()

    async def _ensure(self, request: ContainerRequest) -> HeldSandbox:
        """Return the known container if it is healthy, else another one."""
        held = self._held.get(request.sandbox_id)
        if held is None or not await self._is_healthy(held):
            users = held.users if held else 0
            await self._drop(request.sandbox_id)
            await self._make_room()
            held = self._held[request.sandbox_id] = await self._obtain(request, users)
        self._held.move_to_end(request.sandbox_id)
        return held

    async def _is_healthy(self, held: HeldSandbox) -> bool:
        if held.lease is None:
            held.lease = await self._leases.share(held.request.sandbox_id)
        try:
            await held.sandbox.api.context(HEALTH_TIMEOUT_S)
        except SandboxError:
            return False
        held.sandbox.api.has_failed = False
        return True

    async def _drop(self, sandbox_id: str) -> None:
        """Drop a container, which may keep running."""
        if held := self._held.pop(sandbox_id, None):
            self._release_lease(held)
            await held.sandbox.aclose()

    async def _obtain(self, request: ContainerRequest, users: int) -> HeldSandbox:
        """Return a running container or a new one; only one process at a time creates it."""
        lease = self._leases.open(request.sandbox_id)
        try:
            async with asyncio.timeout(OBTAIN_TIMEOUT_S):
                while True:
                    await lease.share()
                    if sandbox := await self._discover(request):
                        return HeldSandbox(request, sandbox, lease, users)
                    if lease.try_own():
                        sandbox = await self._discover(request) or await self._create(request)
                        await lease.share()
                        return HeldSandbox(request, sandbox, lease, users)
                    await asyncio.sleep(RETRY_S)  # another process is about to create it
        except BaseException as ending:
            lease.release()
            if isinstance(ending, TimeoutError):
                raise SandboxError(f"no sandbox became available within {OBTAIN_TIMEOUT_S:g} s; try again") from None
            raise

    async def _discover(self, request: ContainerRequest) -> AioSandbox | None:
        address = await self._backend.discover(request)
        if address is None:
            return None
        with suppress(SandboxError):  # it is not usable
            return await self._connect(request, address, HEALTH_TIMEOUT_S)
        return None

    async def _create(self, request: ContainerRequest) -> AioSandbox:
        try:
            return await self._connect(request, await self._backend.create(request), READY_TIMEOUT_S)
        except BaseException:
            await self._backend.destroy(request.sandbox_id)
            raise

    async def _connect(self, request: ContainerRequest, address: SandboxAddress, limit_s: float) -> AioSandbox:
        """Return the sandbox at an address as soon as its server answers."""
        api = SandboxApi(address)
        try:
            async with asyncio.timeout(limit_s):
                server = await self._await_server(api, request.sandbox_id)
        except BaseException as ending:
            await api.aclose()
            if isinstance(ending, TimeoutError):
                raise SandboxError(f"the sandbox was not ready within {limit_s:g} s; try again") from None
            raise
        growing = [mount.folder for mount in request.mounts if mount.path in (*AREAS, TEMPORARY)]
        home, storage = self._host.home, self._host.storage_limit
        disk = DiskMonitor(growing, self.config.limits.disk_mb * MB, home=home, storage_limit=storage)
        wait_for_excess = disk.wait_for_excess if self._backend.is_here else wait_forever
        return AioSandbox(request.sandbox_id, self.config, request.mounts, wait_for_excess, api, server)

    async def _await_server(self, api: SandboxApi, sandbox_id: str) -> ServerInfo:
        while True:
            try:
                return await api.context(HEALTH_TIMEOUT_S)
            except SandboxUnreachable:
                reason = await self._backend.explain(sandbox_id)
            if reason is not None:
                raise SandboxError(f"the sandbox did not start: {reason}")
            await asyncio.sleep(RETRY_S)

    async def _make_room(self) -> None:
        """Remove the least recently used idle containers if there are too many."""
        for sandbox_id in list(self._held):
            if len(self._held) < self.config.replicas:
                return
            if not self._lock(sandbox_id).locked():
                async with self._lock(sandbox_id):
                    await self._end_if_idle(sandbox_id)

    def _end_when_idle(self, sandbox_id: str) -> None:
        """Schedule the removal of a container, unless it is used before."""
        self._cancel_timer(sandbox_id)
        if self.config.idle_timeout:
            loop = asyncio.get_running_loop()
            self._timers[sandbox_id] = loop.call_later(self.config.idle_timeout, self._start_ending, sandbox_id)

    def _cancel_timer(self, sandbox_id: str) -> None:
        if timer := self._timers.pop(sandbox_id, None):
            timer.cancel()

    def _start_ending(self, sandbox_id: str) -> None:
        task = asyncio.create_task(self._end_unused(sandbox_id))
        self._endings.add(task)
        task.add_done_callback(self._endings.discard)

    async def _end_unused(self, sandbox_id: str) -> None:
        async with self._lock(sandbox_id):
            # Another process may have used it since.
            is_unused = self._leases.idle_s(sandbox_id) >= self.config.idle_timeout
            try:
                has_ended = is_unused and await self._end_if_idle(sandbox_id)
            except SandboxError as problem:
                logger.warning("could not remove an idle sandbox: %s", problem)
                has_ended = False
            if not has_ended:
                self._end_when_idle(sandbox_id)

    async def _end_if_idle(self, sandbox_id: str) -> bool:
        """Remove an idle container; return True if it was idle."""
        held = self._held.get(sandbox_id)
        if held is not None and (held.users or await is_busy(held.sandbox)):
            return False
        lease = self._leases.open(sandbox_id)
        try:
            if not lease.try_own():
                return False
            await self._drop(sandbox_id)
            await self._backend.destroy(sandbox_id)
        finally:
            lease.release()
        self._cancel_timer(sandbox_id)
        return True

    async def _close(self, sandbox_id: str) -> None:
        """Remove a container, unless another process uses it."""
        held = self._held.pop(sandbox_id)
        await held.sandbox.aclose()
        lease = held.lease or self._leases.open(sandbox_id)
        try:
            if lease.try_own():
                await self._backend.destroy(sandbox_id)
        except SandboxError as problem:
            logger.warning("could not remove a sandbox: %s", problem)
        finally:
            lease.release()

    def _release_lease(self, held: HeldSandbox) -> None:
        if held.lease is not None:
            held.lease.release()
            held.lease = None

    def _lock(self, sandbox_id: str) -> asyncio.Lock:
        return self._locks.setdefault(sandbox_id, asyncio.Lock())


def choose_backend(config: SandboxConfig, home: Path) -> SandboxBackend:
    """Return the backend: the provisioner if configured, else this machine."""
    if config.provisioner_url:
        return RemoteSandboxBackend(config)
    return LocalContainerBackend(config, home)


async def wait_forever() -> str:
    """Wait until cancelled: the size of remote files is not measured."""
    endless: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    return await endless


async def is_busy(sandbox: AioSandbox) -> bool:
    """Return True if a background process runs; a container that does not answer is not busy."""
    try:
        return any(process.exit_code is None for process in await sandbox.list_processes())
    except SandboxError:
        return False
