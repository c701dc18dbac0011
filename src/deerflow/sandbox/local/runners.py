"""Two ways to run a command: isolated by the kernel, or plainly on this machine where that was allowed."""

import asyncio
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from deerflow.config.sandbox import LimitsConfig
from deerflow.domain.errors import SandboxError
from deerflow.domain.sandbox import Confinement
from deerflow.sandbox.egress import Egress
from deerflow.sandbox.local.cgroups import MB, ControlGroups
from deerflow.sandbox.local.launch import Ended, Launch, LaunchPad, read_pipe
from deerflow.sandbox.local.layout import Layout
from deerflow.sandbox.local.network import Network, Reach
from deerflow.sandbox.local.output import OutputReader
from deerflow.sandbox.local.usage import MemoryWatch, until_excess
from deerflow.sandbox.places import Place, confined_places, find_spot

OPEN_FILES = 4096
END_S = 5.0
# The system's Python asks to be left alone, which it is here: it is read-only, and pip writes to the agent's home.
HARMLESS = {"PIP_BREAK_SYSTEM_PACKAGES": "1"}
# Processes are counted inside the namespace, where those of other threads do not count. If memory runs out on the
# machine, these are the first to go.
PRELUDE = (
    'ulimit -u {processes} 2>/dev/null; echo 1000 2>/dev/null >/proc/self/oom_score_adj; exec -a "${{1##*/}}" "$@"'
)


@dataclass(frozen=True, slots=True)
class Order:
    """A program with its arguments, to be run in a folder of the agent's."""

    command: Sequence[str]
    folder: str
    env: Mapping[str, str] = field(default_factory=dict)
    confinement: Confinement | None = None


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
    reach: Reach
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
    """Runs each command in namespaces of its own, on a network that commands with the same reach share."""

    def __init__(self, sandbox_id: str, isolation: Isolation, places: Sequence[Place]) -> None:
        self._id = sandbox_id
        self._of = isolation
        self._places = places
        self._networks: dict[Reach, Network] = {}

    async def run(self, order: Order, reader: OutputReader, timeout_s: float) -> Ended:
        """Run a command to its end; cancelling ends everything it started."""
        reach = self._of.reach.narrowed(order.confinement)
        space = await self._open_network(reach)
        layout = self._of.layout().confined(order.confinement)
        env = {**HARMLESS, **reach.variables, **order.env}
        prelude = PRELUDE.format(processes=self._of.limits.processes)
        launch = Launch(
            ["/bin/bash", "-c", prelude, "bash", *order.command],
            layout.options(share_network=space is not None or reach.policy == "full", env=env),
            layout.binds(confined_places(self._places, order.confinement)),
            layout.last_options(order.folder),
            self._of.groups.join_files(self._id),
            self._of.resource_limits(counts_processes=space is not None),
            space,
        )
        running = self._of.pad.run(launch, reader, timeout_s)
        if space is None or self._of.groups.controllers.memory:
            return await running
        watch = MemoryWatch(self._of.pad.network_of(space), self._of.limits.memory_mb * MB)
        ended, complaint = await until_excess(running, watch.await_excess)
        return ended or Ended(-signal.SIGKILL, complaint=complaint)

    async def aclose(self) -> None:
        """Let go of the networks and the limits."""
        for network in self._networks.values():
            await network.aclose()
        self._networks.clear()
        self._of.groups.close(self._id)

    async def _open_network(self, reach: Reach) -> int | None:
        """The space of the network; None where a command has that of the machine, or none that it could share."""
        if reach.policy == "full" or not self._of.shares_network:
            return None
        if reach not in self._networks:
            self._networks[reach] = Network(reach, self._of.pad, self._of.egress)
        return await self._networks[reach].open()


class HostRunner:
    """Runs commands as the server itself: for machines that cannot isolate, and only if the user said so."""

    def __init__(self, layout: Callable[[], Layout], places: Sequence[Place]) -> None:
        self._layout = layout
        self._places = places

    async def run(self, order: Order, reader: OutputReader, timeout_s: float) -> Ended:
        """Run a command to its end; cancelling ends its process group, though not what has left it."""
        if order.confinement is not None:
            raise SandboxError("the active skill has a contract, and nothing on this machine can hold commands to it")
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
