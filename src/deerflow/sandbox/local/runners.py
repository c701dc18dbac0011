"""Two ways to run a command: isolated by the kernel, or plainly on this machine where that was allowed."""

import asyncio
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal, Protocol

from deerflow.config.sandbox import LimitsConfig
from deerflow.domain.errors import SandboxError
from deerflow.sandbox.egress import AllowedHosts, Egress
from deerflow.sandbox.local.cgroups import MB, ControlGroups
from deerflow.sandbox.local.launch import Ended, Launch, LaunchPad, read_pipe
from deerflow.sandbox.local.layout import Layout
from deerflow.sandbox.local.output import OutputReader
from deerflow.sandbox.local.proxy import Proxy, serve_proxy
from deerflow.sandbox.local.usage import MemoryWatch, until_excess
from deerflow.sandbox.places import Place, find_spot

OPEN_FILES = 4096
END_S = 5.0
PROXY = "http://127.0.0.1:3128"
PROXY_VARIABLES = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), PROXY)
DIRECT = {"NO_PROXY": "localhost,127.0.0.1,::1", "no_proxy": "localhost,127.0.0.1,::1"}
OFFLINE = {"PIP_RETRIES": "1", "npm_config_fetch_retries": "0"}
"""Programs that would try for long fail soon. Not at once: pip tells what went wrong only before it tries again."""
# The system's Python asks to be left alone, which it is here: it is read-only, and pip writes to the agent's home.
HARMLESS = {"PIP_BREAK_SYSTEM_PACKAGES": "1"}
# Processes are counted inside the namespace, where those of other threads do not count. If memory runs out on the
# machine, these are the first to go.
PRELUDE = (
    'ulimit -u {processes} 2>/dev/null; echo 1000 2>/dev/null >/proc/self/oom_score_adj; exec -a "${{1##*/}}" "$@"'
)

NetworkPolicy = Literal["none", "allowlist", "full"]


@dataclass(frozen=True, slots=True)
class Order:
    """A program with its arguments, to be run in a folder of the agent's."""

    command: Sequence[str]
    folder: str
    env: Mapping[str, str] = field(default_factory=dict)


class Runner(Protocol):
    """Runs the commands of one thread."""

    async def run(self, order: Order, reader: OutputReader, timeout_s: float) -> Ended: ...
    async def aclose(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Isolation:
    """What all isolated commands of a server share."""

    pad: LaunchPad
    layout: Callable[[], Layout]
    groups: ControlGroups
    limits: LimitsConfig
    network: NetworkPolicy
    allowed_hosts: AllowedHosts
    egress: Egress
    shares_network: bool
    """Whether the commands of one thread can have a network in common."""

    def resource_limits(self, *, counts_processes: bool) -> dict[str, int]:
        """What each process is held to; its memory only where nobody counts that of all together."""
        limits = {"RLIMIT_CORE": 0, "RLIMIT_NOFILE": OPEN_FILES, "RLIMIT_FSIZE": self.limits.file_mb * MB}
        if not self.groups.controllers.memory:
            limits["RLIMIT_DATA"] = self.limits.memory_mb * MB
        if counts_processes:  # the thread's namespace then holds all its commands to this together
            limits["RLIMIT_NPROC"] = self.limits.processes
        return limits


class IsolatedRunner:
    """Runs each command in namespaces of its own, on a network that the thread's commands share."""

    def __init__(self, sandbox_id: str, isolation: Isolation, places: Sequence[Place]) -> None:
        self._id = sandbox_id
        self._of = isolation
        self._places = places
        self._opening = asyncio.Lock()
        self._space: int | None = None
        self._proxy: Proxy | None = None

    async def run(self, order: Order, reader: OutputReader, timeout_s: float) -> Ended:
        """Run a command to its end; cancelling ends everything it started."""
        await self._open_network()
        layout = self._of.layout()
        env = {**HARMLESS, **network_variables(self._of.network), **order.env}
        has_network = self._space is not None or self._of.network == "full"
        prelude = PRELUDE.format(processes=self._of.limits.processes)
        launch = Launch(
            ["/bin/bash", "-c", prelude, "bash", *order.command],
            layout.options(share_network=has_network, env=env),
            layout.binds(self._places),
            layout.last_options(order.folder),
            self._of.groups.join_files(self._id),
            self._of.resource_limits(counts_processes=self._space is not None),
            self._space,
        )
        running = self._of.pad.run(launch, reader, timeout_s)
        if self._space is None or self._of.groups.controllers.memory:
            return await running
        watch = MemoryWatch(self._of.pad.network_of(self._space), self._of.limits.memory_mb * MB)
        ended, complaint = await until_excess(running, watch.await_excess)
        return ended or Ended(-signal.SIGKILL, complaint=complaint)

    async def aclose(self) -> None:
        """Let go of the network and the limits."""
        await self._close_network()
        self._of.groups.close(self._id)

    @property
    def _is_online(self) -> bool:
        return self._space is not None and self._of.pad.has_space(self._space)

    async def _close_network(self) -> None:
        if self._proxy is not None:
            await self._proxy.aclose()
            self._proxy = None
        if self._space is not None:
            self._of.pad.close_space(self._space)
            self._space = None

    async def _open_network(self) -> None:
        if self._is_online or self._of.network == "full" or not self._of.shares_network:
            return
        async with self._opening:
            if self._is_online:
                return
            await self._close_network()
            wants_proxy = self._of.network == "allowlist"
            self._space, listener = await self._of.pad.open_space(listen=wants_proxy)
            if listener is not None:
                self._proxy = await serve_proxy(listener, self._of.allowed_hosts, self._of.egress)


def network_variables(policy: NetworkPolicy) -> Mapping[str, str]:
    """What tells programs how to reach others, or that they need not try."""
    return {"none": OFFLINE, "allowlist": PROXY_VARIABLES | DIRECT, "full": {}}[policy]


class HostRunner:
    """Runs commands as the server itself: for machines that cannot isolate, and only if the user said so."""

    def __init__(self, layout: Callable[[], Layout], places: Sequence[Place]) -> None:
        self._layout = layout
        self._places = places

    async def run(self, order: Order, reader: OutputReader, timeout_s: float) -> Ended:
        """Run a command to its end; cancelling ends its process group, though not what has left it."""
        spot = find_spot(self._places, order.folder)
        output, output_end = os.pipe()
        try:
            process = await asyncio.create_subprocess_exec(
                *order.command,
                cwd=spot.place.folder.joinpath(*spot.names),
                env={**self._layout().environment({}), "HOME": str(spot.place.folder), **order.env},
                stdin=subprocess.DEVNULL,
                stdout=output_end,
                stderr=output_end,
                start_new_session=True,
            )
        except OSError as problem:
            os.close(output)
            raise SandboxError(f"the command cannot be started: {problem}") from problem
        finally:
            os.close(output_end)
        transport, stream = await read_pipe(output)
        try:
            async with asyncio.timeout(timeout_s):
                reading = asyncio.ensure_future(reader.read(stream))
                code = await process.wait()
            # What it left in the background may hold the pipe for long: it is not waited for.
            await asyncio.wait({reading}, timeout=0.1)
            return Ended(code)
        except TimeoutError:
            return Ended(-signal.SIGKILL, timed_out=True)
        finally:
            reading.cancel()
            transport.close()
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            async with asyncio.timeout(END_S):
                await process.wait()

    async def aclose(self) -> None:
        """Nothing is held."""


class StoppableRunner:
    """Runs commands that end when it is closed, whoever waits for them."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._running: set[asyncio.Task[Ended]] = set()

    async def run(self, order: Order, reader: OutputReader, timeout_s: float) -> Ended:
        """Run a command to its end.

        Raises:
            SandboxError: It was ended with the sandbox.
        """
        running = asyncio.create_task(self._runner.run(order, reader, timeout_s))
        self._running.add(running)
        running.add_done_callback(self._running.discard)
        try:
            await asyncio.wait({running})
        finally:
            if not running.done():
                running.cancel()
                await asyncio.wait({running})
        if running.cancelled():
            raise SandboxError("the command was ended, because everything that ran for this thread was")
        return running.result()

    async def aclose(self) -> None:
        """End what runs."""
        for running in self._running:
            running.cancel()
        if self._running:
            await asyncio.wait(self._running)
        await self._runner.aclose()
