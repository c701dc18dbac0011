"""Sandboxes in containers, made at the first use and kept warm for a while after the last."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from weakref import WeakValueDictionary

from deerflow.community.aio_sandbox.api import Address, Context, SandboxApi, SandboxUnreachable
from deerflow.community.aio_sandbox.backend import SandboxBackend, Wanted
from deerflow.community.aio_sandbox.leases import Lease, Leases
from deerflow.community.aio_sandbox.local_backend import LocalContainerBackend
from deerflow.community.aio_sandbox.remote_backend import RemoteSandboxBackend
from deerflow.community.aio_sandbox.sandbox import AioSandbox
from deerflow.config.sandbox import SandboxConfig
from deerflow.domain.errors import SandboxError
from deerflow.domain.sandbox import Sandbox
from deerflow.sandbox.furnishing import make_places, sandbox_id_of
from deerflow.sandbox.local.usage import DiskWatch
from deerflow.sandbox.places import (
    AREAS,
    TEMPORARY,
    thread_folder,
)
from deerflow.sandbox.sandbox_provider import Part, SandboxPlaces, SandboxReport

logger = logging.getLogger(__name__)

MB = 1024 * 1024
READY_S = 60.0
OBTAIN_S = 120.0
HEALTH_S = 5.0
AGAIN_AFTER_S = 0.05
NOT_OPENED = SandboxReport("none", "not opened", "the sandbox has not been opened")


@dataclass(slots=True)
class Held:
    """A container we know to be there, in use by `users` runs; without any it is warm, and others may end it."""

    wanted: Wanted
    sandbox: AioSandbox
    lease: Lease | None
    users: int


class AioSandboxProvider:
    """One container per thread: the one we hold, else one that runs already, else a new one."""

    def __init__(self, config: SandboxConfig, places: SandboxPlaces, backend: SandboxBackend | None = None) -> None:
        self.config = config
        self._places = places
        self._backend = backend or choose_backend(config, places.home)
        self._leases = Leases(places.home / "sandboxes")
        self._report = NOT_OPENED
        self._held: OrderedDict[str, Held] = OrderedDict()  # the one used longest ago comes first
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._endings: set[asyncio.Task[None]] = set()

    async def open(self) -> SandboxReport:
        """Try out whether containers can be had, and look after those that an earlier server left."""
        ready = await self._backend.open()
        if ready.problem is not None:
            self._report = SandboxReport("none", ready.detail, ready.problem, ready.remedy)
            return self._report
        for sandbox_id in ready.running:
            if self._leases.know(sandbox_id):
                self._end_when_idle(sandbox_id)
        self._report = SandboxReport("container", ready.detail, limits=ready.limits)
        return self._report

    async def prepare(self) -> None:
        """Nothing: whoever runs the server builds or pulls the image."""

    async def parts(self) -> Sequence[Part]:
        """What containers are made from."""
        return [Part("container image", "ok" if self._report.runs_commands else "failed", self.config.image)]

    async def acquire(self, thread_id: str, user_id: str) -> str:
        """The id of the thread's sandbox, whose container runs."""
        if self._report.problem is not None:
            raise SandboxError(f"{self._report.problem}; {self._report.remedy or 'call `open` first'}")
        sandbox_id = sandbox_id_of(thread_id, user_id)
        skills = await asyncio.to_thread(self._places.skills, user_id) if self._places.skills else None
        folder = thread_folder(self._places.home, user_id, thread_id)
        places = await asyncio.to_thread(make_places, folder, self.config, skills)
        async with self._lock(sandbox_id):
            self._stay(sandbox_id)
            held = await self._ensure(Wanted(sandbox_id, thread_id, user_id, places))
            held.users += 1
        return sandbox_id

    async def get(self, sandbox_id: str) -> Sandbox | None:
        """The sandbox of that id, if it has been acquired here; one that could not be reached is looked after first."""
        held = self._held.get(sandbox_id)
        if held is not None and held.sandbox.api.has_failed:
            async with self._lock(sandbox_id):
                held = self._held.get(sandbox_id) and await self._ensure(held.wanted)
        return held.sandbox if held else None

    async def release(self, sandbox_id: str) -> None:
        """Keep the container warm when nobody uses it any more."""
        held = self._held.get(sandbox_id)
        if held is None or not held.users:
            return
        held.users -= 1
        if not held.users:
            self._let_go(held)
            self._end_when_idle(sandbox_id)

    async def discard(self, thread_id: str, user_id: str) -> None:
        """End the container of a thread, whoever uses it."""
        if self._report.problem is not None:
            return
        sandbox_id = sandbox_id_of(thread_id, user_id)
        async with self._lock(sandbox_id):
            self._stay(sandbox_id)
            await self._forget(sandbox_id)
            await self._backend.destroy(sandbox_id)
            self._leases.open(sandbox_id).forget()

    async def aclose(self) -> None:
        """End all our containers but those that another process uses."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        await asyncio.gather(*self._endings, return_exceptions=True)
        await asyncio.gather(*(self._close(sandbox_id) for sandbox_id in list(self._held)))
        await self._backend.aclose()

    async def _ensure(self, wanted: Wanted) -> Held:
        """The container we hold if it is well, else another one."""
        held = self._held.get(wanted.sandbox_id)
        if held is None or not await self._is_well(held):
            users = held.users if held else 0
            await self._forget(wanted.sandbox_id)
            await self._make_room()
            held = self._held[wanted.sandbox_id] = await self._obtain(wanted, users)
        self._held.move_to_end(wanted.sandbox_id)
        return held

    async def _is_well(self, held: Held) -> bool:
        if held.lease is None:
            held.lease = await self._leases.share(held.wanted.sandbox_id)
        try:
            await held.sandbox.api.context(HEALTH_S)
        except SandboxError:
            return False
        held.sandbox.api.has_failed = False
        return True

    async def _forget(self, sandbox_id: str) -> None:
        """Let go of a container, which may go on."""
        if held := self._held.pop(sandbox_id, None):
            self._let_go(held)
            await held.sandbox.aclose()

    async def _obtain(self, wanted: Wanted, users: int) -> Held:
        """A container that runs already, or a new one; only one process at a time makes it."""
        lease = self._leases.open(wanted.sandbox_id)
        try:
            async with asyncio.timeout(OBTAIN_S):
                while True:
                    await lease.share()
                    if sandbox := await self._discover(wanted):
                        return Held(wanted, sandbox, lease, users)
                    if lease.try_own():
                        sandbox = await self._discover(wanted) or await self._create(wanted)
                        await lease.share()
                        return Held(wanted, sandbox, lease, users)
                    await asyncio.sleep(AGAIN_AFTER_S)  # somebody else is about to make it
        except BaseException as ending:
            lease.release()
            if isinstance(ending, TimeoutError):
                raise SandboxError(f"no sandbox could be had within {OBTAIN_S:g} s; try again") from None
            raise

    async def _discover(self, wanted: Wanted) -> AioSandbox | None:
        address = await self._backend.discover(wanted)
        if address is None:
            return None
        with suppress(SandboxError):  # it is of no use then
            return await self._connect(wanted, address, HEALTH_S)
        return None

    async def _create(self, wanted: Wanted) -> AioSandbox:
        try:
            return await self._connect(wanted, await self._backend.create(wanted), READY_S)
        except BaseException:
            await self._backend.destroy(wanted.sandbox_id)
            raise

    async def _connect(self, wanted: Wanted, address: Address, limit_s: float) -> AioSandbox:
        """The sandbox at an address, as soon as its server answers."""
        api = SandboxApi(address)
        try:
            async with asyncio.timeout(limit_s):
                server = await self._await_server(api, wanted.sandbox_id)
        except BaseException as ending:
            await api.aclose()
            if isinstance(ending, TimeoutError):
                raise SandboxError(f"the sandbox was not ready within {limit_s:g} s; try again") from None
            raise
        growing = [place.folder for place in wanted.places if place.path in (*AREAS, TEMPORARY)]
        disk = DiskWatch(growing, self.config.limits.disk_mb * MB)
        await_excess = disk.await_excess if self._backend.is_here else never
        return AioSandbox(wanted.sandbox_id, self.config, wanted.places, await_excess, api, server)

    async def _await_server(self, api: SandboxApi, sandbox_id: str) -> Context:
        while True:
            try:
                return await api.context(HEALTH_S)
            except SandboxUnreachable:
                reason = await self._backend.explain(sandbox_id)
            if reason is not None:
                raise SandboxError(f"the sandbox did not start: {reason}")
            await asyncio.sleep(AGAIN_AFTER_S)

    async def _make_room(self) -> None:
        """End the container used longest ago, if there are too many; those that do something stay."""
        for sandbox_id in list(self._held):
            if len(self._held) < self.config.replicas:
                return
            if not self._lock(sandbox_id).locked():
                async with self._lock(sandbox_id):
                    await self._end_if_idle(sandbox_id)

    def _end_when_idle(self, sandbox_id: str) -> None:
        """End a container later, unless it is used before."""
        self._stay(sandbox_id)
        if self.config.idle_timeout:
            loop = asyncio.get_running_loop()
            self._timers[sandbox_id] = loop.call_later(self.config.idle_timeout, self._begin_ending, sandbox_id)

    def _stay(self, sandbox_id: str) -> None:
        if timer := self._timers.pop(sandbox_id, None):
            timer.cancel()

    def _begin_ending(self, sandbox_id: str) -> None:
        task = asyncio.create_task(self._end_unused(sandbox_id))
        self._endings.add(task)
        task.add_done_callback(self._endings.discard)

    async def _end_unused(self, sandbox_id: str) -> None:
        async with self._lock(sandbox_id):
            # Another process may have used it since we did.
            is_unused = self._leases.idle_s(sandbox_id) >= self.config.idle_timeout
            try:
                has_ended = is_unused and await self._end_if_idle(sandbox_id)
            except SandboxError as problem:
                logger.warning("an idle sandbox cannot be ended: %s", problem)
                has_ended = False
            if not has_ended:
                self._end_when_idle(sandbox_id)

    async def _end_if_idle(self, sandbox_id: str) -> bool:
        """End a container that nobody uses and in which nothing runs; whether that was so."""
        held = self._held.get(sandbox_id)
        if held is not None and (held.users or await is_busy(held.sandbox)):
            return False
        lease = self._leases.open(sandbox_id)
        try:
            if not lease.try_own():
                return False
            await self._forget(sandbox_id)
            await self._backend.destroy(sandbox_id)
        finally:
            lease.release()
        self._stay(sandbox_id)
        return True

    async def _close(self, sandbox_id: str) -> None:
        """End a container, used or not, unless another process uses it."""
        held = self._held.pop(sandbox_id)
        await held.sandbox.aclose()
        lease = held.lease or self._leases.open(sandbox_id)
        try:
            if lease.try_own():
                await self._backend.destroy(sandbox_id)
        except SandboxError as problem:
            logger.warning("a sandbox cannot be ended: %s", problem)
        finally:
            lease.release()

    def _let_go(self, held: Held) -> None:
        if held.lease is not None:
            held.lease.release()
            held.lease = None

    def _lock(self, sandbox_id: str) -> asyncio.Lock:
        return self._locks.setdefault(sandbox_id, asyncio.Lock())


def choose_backend(config: SandboxConfig, home: Path) -> SandboxBackend:
    """Who makes containers: the provisioner if there is one, else this machine."""
    if config.provisioner_url:
        return RemoteSandboxBackend(config)
    return LocalContainerBackend(config, home)


async def never() -> str:
    """Wait until cancelled: files elsewhere are not ours to count."""
    endless: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    return await endless


async def is_busy(sandbox: AioSandbox) -> bool:
    """Whether something runs in the background; a container that does not answer is of no use."""
    try:
        return any(process.exit_code is None for process in await sandbox.list_processes())
    except SandboxError:
        return False
