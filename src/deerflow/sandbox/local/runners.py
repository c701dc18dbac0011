"""Runners of commands: isolated by the kernel, or directly on this machine if that is allowed."""

import asyncio
import os
import re
import shlex
import signal
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Protocol

from deerflow.config.sections.sandbox import LimitsConfig
from deerflow.domain.errors import SandboxError
from deerflow.domain.files import USER_DATA, WORKSPACE
from deerflow.domain.sandbox import Confinement
from deerflow.sandbox.egress import Egress
from deerflow.sandbox.files.mounts import TEMPORARY, Mount, confine_mounts, resolve_path
from deerflow.sandbox.local.launcher.bubblewrap import BubblewrapProfile
from deerflow.sandbox.local.launcher.cgroups import MB, Cgroups, MemoryMonitor
from deerflow.sandbox.local.launcher.client import ExitStatus, IsolatedCommand, LauncherClient, open_pipe_reader
from deerflow.sandbox.local.launcher.network import NetworkPolicy, ThreadNetwork
from deerflow.sandbox.local.output import OutputReader
from deerflow.sandbox.local.usage import run_until_exceeded

MAX_OPEN_FILES = 4096
KILL_TIMEOUT_S = 5.0
# The system's Python is externally managed. Overriding that is safe: it is read-only, and pip writes to the home.
PIP_VARIABLES = {"PIP_BREAK_SYSTEM_PACKAGES": "1"}
# Processes are counted inside the namespace, so other threads do not count. If the machine runs out of memory, these
# are killed first.
PRELUDE = (
    'ulimit -u {processes} 2>/dev/null; echo 1000 2>/dev/null >/proc/self/oom_score_adj; exec -a "${{1##*/}}" "$@"'
)


@dataclass(frozen=True, slots=True)
class CommandSpec:
    """A program with its arguments and working directory in the sandbox."""

    argv: Sequence[str]
    cwd: str
    env: Mapping[str, str] = field(default_factory=dict)
    confinement: Confinement | None = None


class Runner(Protocol):
    """Runner of the commands of one thread."""

    async def run(self, spec: CommandSpec, reader: OutputReader, timeout_s: float) -> ExitStatus: ...
    async def aclose(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Isolation:
    """Settings shared by all isolated commands of a server."""

    launcher: LauncherClient
    profile: Callable[[], BubblewrapProfile]
    groups: Cgroups
    limits: LimitsConfig
    policy: NetworkPolicy
    egress: Egress
    can_share_network: bool
    """True if the commands of a thread can share a network namespace."""

    def resource_limits(self, *, counts_processes: bool) -> dict[str, int]:
        """Return the limits of each process; memory is limited per process only if there is no memory cgroup."""
        limits = {"RLIMIT_CORE": 0, "RLIMIT_NOFILE": MAX_OPEN_FILES, "RLIMIT_FSIZE": self.limits.file_mb * MB}
        if not self.groups.controllers.memory:
            limits["RLIMIT_DATA"] = self.limits.memory_mb * MB
        if counts_processes:  # the limit then applies to all commands in the thread's user namespace together
            limits["RLIMIT_NPROC"] = self.limits.processes
        return limits


class IsolatedRunner:
    """Runner that starts each command in new namespaces; those with the same network policy share a network."""

    def __init__(self, sandbox_id: str, isolation: Isolation, mounts: Sequence[Mount]) -> None:
        self._id = sandbox_id
        self._isolation = isolation
        self._mounts = mounts
        self._networks: dict[NetworkPolicy, ThreadNetwork] = {}

    async def run(self, spec: CommandSpec, reader: OutputReader, timeout_s: float) -> ExitStatus:
        """Run a command to its end; cancelling kills everything it started."""
        policy = self._isolation.policy.confine(spec.confinement)
        namespace = await self._open_network(policy)
        profile = self._isolation.profile().confine(spec.confinement)
        env = {**PIP_VARIABLES, **policy.variables, **spec.env}
        prelude = PRELUDE.format(processes=self._isolation.limits.processes)
        command = IsolatedCommand(
            ["/bin/bash", "-c", prelude, "bash", *spec.argv],
            profile.options(share_network=namespace is not None or policy.mode == "full", env=env),
            profile.binds(confine_mounts(self._mounts, spec.confinement)),
            profile.trailing_options(spec.cwd),
            await self._isolation.groups.open(self._id),
            self._isolation.resource_limits(counts_processes=namespace is not None),
            namespace,
        )
        running = self._isolation.launcher.run(command, reader, timeout_s)
        if namespace is None or self._isolation.groups.controllers.memory:
            return await running
        inode = self._isolation.launcher.namespace_inode(namespace)
        memory = MemoryMonitor(inode, self._isolation.limits.memory_mb * MB)
        status, kill_reason = await run_until_exceeded(running, memory.wait_for_excess)
        return status or ExitStatus(-signal.SIGKILL, kill_reason=kill_reason)

    async def aclose(self) -> None:
        """Release the network namespaces and cgroups."""
        networks = [*self._networks.values()]
        self._networks.clear()
        await asyncio.gather(*(network.aclose() for network in networks))
        await self._isolation.groups.close(self._id)

    async def _open_network(self, policy: NetworkPolicy) -> int | None:
        """Return the id of the shared network namespace, or None if the command does not use one."""
        if policy.mode == "full" or not self._isolation.can_share_network:
            return None
        if policy not in self._networks:
            self._networks[policy] = ThreadNetwork(policy, self._isolation.launcher, self._isolation.egress)
        return await self._networks[policy].open()


class HostRunner:
    """Runner as the server's user: without isolation if the configuration allows it, or with `sandbox-exec`."""

    def __init__(
        self, profile: Callable[[], BubblewrapProfile], mounts: Sequence[Mount], wrapper: Sequence[str] = ()
    ) -> None:
        """`wrapper` is the program and arguments before each command."""
        self._profile = profile
        self._mounts = mounts
        self._paths = HostPaths(mounts)
        self._wrapper = wrapper

    async def run(self, spec: CommandSpec, reader: OutputReader, timeout_s: float) -> ExitStatus:
        """Run a command to its end; cancelling kills its process group, but not processes that left it."""
        reader.rename = self._paths.to_sandbox
        if spec.confinement is not None:
            raise SandboxError("the active skill has a contract, which cannot be enforced for commands on this machine")
        resolved = resolve_path(self._mounts, spec.cwd)
        output, output_end = os.pipe()
        try:
            process = await asyncio.create_subprocess_exec(
                *self._wrapper,
                *map(self._paths.to_host, spec.argv),
                cwd=resolved.mount.folder.joinpath(*resolved.parts),
                env=self._environment(resolved.mount.folder, spec.env),
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
        transport, stream = await open_pipe_reader(output)
        try:
            async with asyncio.timeout(timeout_s):
                reading = asyncio.ensure_future(reader.read(stream))
                code = await process.wait()
            # Background processes may keep the pipe open: they are not awaited.
            await asyncio.wait({reading}, timeout=0.1)
            return ExitStatus(code)
        except TimeoutError:
            return ExitStatus(-signal.SIGKILL, timed_out=True)
        finally:
            reading.cancel()
            transport.close()
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            async with asyncio.timeout(KILL_TIMEOUT_S):
                await process.wait()

    def _environment(self, home: Path, env: Mapping[str, str]) -> dict[str, str]:
        own = {"HOME": str(home)}
        temporary = next((mount.folder for mount in self._mounts if mount.path == TEMPORARY), None)
        if self._wrapper and temporary is not None:  # the common folder cannot be written
            own["TMPDIR"] = str(temporary)
        variables = {name: self._paths.to_host(value) for name, value in env.items()}
        return {**self._profile().environment({}), **own, **variables}

    async def aclose(self) -> None:
        """Do nothing: no resource is held."""


class HostPaths:
    """Paths of a sandbox in commands that run without one: the folders of this machine take their place.

    Only text is replaced, so it does not reach paths that a program puts together or reads from a file.
    """

    def __init__(self, mounts: Sequence[Mount]) -> None:
        # `/tmp` stays that of this machine: programs use it without naming it.
        folders = {mount.path: mount.folder for mount in mounts if mount.path != TEMPORARY}
        if WORKSPACE in folders:
            folders[USER_DATA] = folders[WORKSPACE].parent
        self._folders = {path: str(folder) for path, folder in folders.items()}
        self._paths = {str(folder.resolve()): path for path, folder in folders.items()} | {
            folder: path for path, folder in self._folders.items()
        }

    # Compiled with the first command: most threads only use files.
    @cached_property
    def _in_commands(self) -> re.Pattern[str]:
        return compile_paths(self._folders)

    @cached_property
    def _in_output(self) -> re.Pattern[str]:
        return compile_paths(self._paths)

    def to_host(self, text: str) -> str:
        """Return a part of a command with the paths of this machine.

        Raises:
            SandboxError: A folder has a name that a shell would split.
        """
        return self._in_commands.sub(self._find_folder, text)

    def to_sandbox(self, text: str) -> str:
        """Return output with the paths of the sandbox."""
        return self._in_output.sub(lambda found: self._paths[found[0]], text)

    def _find_folder(self, found: re.Match[str]) -> str:
        folder = self._folders[found[0]]
        if shlex.quote(folder) != folder:
            raise SandboxError(
                f"{found[0]} is at {folder!r} on this machine, which a shell would split; use relative paths"
            )
        return folder


def compile_paths(paths: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern for any of the paths as a whole, the longest first."""
    longest_first = sorted(paths, key=len, reverse=True)
    return re.compile(rf"(?<![\w./-])(?:{'|'.join(map(re.escape, longest_first))})(?![\w.-])")


SANDBOX_EXEC = Path("/usr/bin/sandbox-exec")
"""Program of macOS that limits what a command may do."""
WRITABLE_DEVICES = ("/dev/null", "/dev/zero", "/dev/tty", "/dev/stdout", "/dev/stderr", "/dev/dtracehelper")
PRIVATE_FOLDERS = ("/Users", "/Volumes", "/Library/Keychains", "/private/var/root")
"""Folders of macOS that hold data of users; commands cannot read them, except for their own mounts."""


def build_sandbox_exec(program: Path, mounts: Sequence[Mount], *, has_network: bool) -> list[str]:
    """Return the arguments of `sandbox-exec` for a thread: it may read the system, and write to its own folders only.

    Later rules win over earlier ones. Paths are parameters, so that they need no quoting.
    """
    folders = {f"MOUNT_{number}": mount for number, mount in enumerate(mounts)}
    readable = "".join(f'(subpath (param "{name}"))' for name in folders)
    writable = "".join(f'(subpath (param "{name}"))' for name, mount in folders.items() if not mount.read_only)
    private = "".join(f'(subpath "{folder}")' for folder in PRIVATE_FOLDERS)
    devices = "".join(f'(literal "{device}")' for device in WRITABLE_DEVICES)
    rules = [
        "(version 1)",
        "(allow default)",
        f"(deny file-read-data {private})",
        f"(allow file-read* {readable})" if readable else "",
        "(deny file-write*)",
        f"(allow file-write* {writable}{devices})",
        "" if has_network else "(deny network*)",
        "(deny appleevent-send)",
        "(deny signal (target others))",
    ]
    parameters = [word for name, mount in folders.items() for word in ("-D", f"{name}={mount.folder.resolve()}")]
    return [str(program), *parameters, "-p", "\n".join(filter(None, rules))]


class StoppableRunner:
    """Runner whose commands are killed when it is closed."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._running: set[asyncio.Task[ExitStatus]] = set()

    async def run(self, spec: CommandSpec, reader: OutputReader, timeout_s: float) -> ExitStatus:
        """Run a command to its end.

        Raises:
            SandboxError: The sandbox was closed meanwhile.
        """
        running = asyncio.create_task(self._runner.run(spec, reader, timeout_s))
        self._running.add(running)
        running.add_done_callback(self._running.discard)
        try:
            await asyncio.wait({running})
        finally:
            if not running.done():
                running.cancel()
                await asyncio.wait({running})
        if running.cancelled():
            raise SandboxError("the command was killed because everything that ran for this thread was stopped")
        return running.result()

    async def aclose(self) -> None:
        """Kill the running commands."""
        for running in self._running:
            running.cancel()
        if self._running:
            await asyncio.wait(self._running)
        await self._runner.aclose()
