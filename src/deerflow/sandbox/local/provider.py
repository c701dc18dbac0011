"""Provider of sandboxes on this machine, isolated by bubblewrap, or on macOS by sandbox-exec."""

import asyncio
import logging
import os
import shutil
import sys
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Literal

from deerflow.config.sections.sandbox import SandboxConfig
from deerflow.domain.errors import SandboxError
from deerflow.domain.sandbox import Sandbox, is_container
from deerflow.sandbox.egress import AllowedHosts, Egress
from deerflow.sandbox.files.files import LocalThreadFiles
from deerflow.sandbox.files.mounts import (
    AREAS,
    HOME,
    TEMPORARY,
    Mount,
    derive_sandbox_id,
    file_owner,
    make_default_mounts,
    thread_folder,
)
from deerflow.sandbox.jobs.services import Service, ServiceSpec
from deerflow.sandbox.local.background import BackgroundCommands
from deerflow.sandbox.local.launcher.bubblewrap import (
    NODE,
    REMEDY,
    TOOLS,
    BubblewrapProfile,
    find_bubblewrap,
    find_host_programs,
    find_ripgrep,
    write_etc,
)
from deerflow.sandbox.local.launcher.cgroups import MB, Cgroups, find_controllers
from deerflow.sandbox.local.launcher.client import LauncherClient
from deerflow.sandbox.local.launcher.network import NetworkPolicy
from deerflow.sandbox.local.output import BoundedText, OutputReader
from deerflow.sandbox.local.runners import (
    SANDBOX_EXEC,
    CommandSpec,
    HostRunner,
    IsolatedRunner,
    Isolation,
    Runner,
    StoppableRunner,
    build_sandbox_exec,
)
from deerflow.sandbox.local.sandbox import DiskLimitedRunner, LocalSandbox
from deerflow.sandbox.local.services import ServiceManager
from deerflow.sandbox.local.toolbox import Toolbox, ToolboxBuilder, read_mtime
from deerflow.sandbox.local.usage import DiskMonitor, make_temporary_folder, remove_stale_folders
from deerflow.sandbox.sandbox_provider import (
    HostContext,
    SandboxComponent,
    SandboxLimit,
    SandboxProblem,
    SandboxReport,
    ToolboxState,
)

logger = logging.getLogger(__name__)

PROBE_TIMEOUT_S = 10.0
PROBE_WORD = "isolated"
ON_HOST = "commands run as the server itself, without isolation"
POLLED = "polled every second"
COMMANDS_OFF = "`bash` is off, because commands cannot be isolated on this machine"
SERVICES_OFF = "services are not started without isolation, which is not available on this machine"
CONTAINERS = "containers (`sandbox.use: deerflow.community.aio_sandbox:AioSandboxProvider`)"
ON_WINDOWS = "Windows cannot isolate commands, and files of threads need a POSIX file system"
WINDOWS_REMEDY = "run DeerFlow in WSL2 (`wsl --install`, then install it there), or run it in a Linux container"
MACOS_REMEDY = f"set `sandbox.network` to `none` or `full`, or use {CONTAINERS}"
MACOS_SERVICES = f"use remote servers or {CONTAINERS}"
HOMEBREW = "/opt/homebrew/bin"
NETWORK_SHARING: dict[tuple[Path, int | None, str], bool] = {}
"""Whether sandboxes can share a network namespace, by probed program, its modification time and the configuration."""


class LocalSandboxProvider:
    """Provider of one sandbox per thread, with its folders below the state directory."""

    def __init__(
        self,
        config: SandboxConfig,
        host: HostContext,
        egress: Egress | None = None,
        find_bubblewrap_programs: Callable[[], Sequence[Path]] = find_bubblewrap,
        builder: ToolboxBuilder | None = None,
        system: str = sys.platform,
        sandbox_exec: Path = SANDBOX_EXEC,
    ) -> None:
        """`system` is the name of the operating system, as in `sys.platform`."""
        self._config = config
        self._host = host
        self._egress = egress or Egress()
        self._find_programs = find_bubblewrap_programs
        self._toolbox: Toolbox | None = None
        self._builder = builder or ToolboxBuilder(config.toolbox, host.cache, host.environment)
        self._toolbox_search: asyncio.Task[None] | None = None
        self._etc: Path | None = None
        self._programs = find_host_programs(host.environment.get("PATH"))
        self._program_folders = [
            TOOLS,
            *([f"{NODE}/bin"] if any(path.startswith(NODE) for path in self._programs) else []),
        ]
        if system == "darwin":
            self._program_folders.append(HOMEBREW)
        self._system = system
        self._sandbox_exec = sandbox_exec
        self._isolation: Isolation | None = None
        self._report = SandboxReport("none", "not opened", "the sandbox has not been opened")
        self._services = ServiceManager(host.home, host.environment)
        self._sandboxes: dict[str, LocalSandbox] = {}
        self._users: dict[str, int] = {}

    async def open(self) -> SandboxReport:
        """Check if commands can be isolated on this machine."""
        if self._system == "win32":
            self._report = SandboxReport("none", COMMANDS_OFF, ON_WINDOWS, WINDOWS_REMEDY, "windows", has_files=False)
            return self._report
        self._toolbox_search = asyncio.create_task(self._find_toolbox())
        await asyncio.to_thread(self._make_etc)
        if self._system == "darwin":
            self._report = self._describe_on_macos()
            return self._report
        self._isolation, problem, code = await self._detect_isolation()
        self._report = self._describe(problem, code)
        return self._report

    async def prepare(self) -> None:
        """Build the Python toolbox unless it exists."""
        if self._toolbox_search is not None:
            await asyncio.shield(self._toolbox_search)
        if self._toolbox is not None or not (self._config.toolbox.enabled and self._has_toolbox):
            return
        logger.info("building the Python toolbox of the sandbox; commands can run meanwhile, Python waits")
        try:
            if self._isolation is not None:
                self._toolbox = await self._builder.make_waiting_toolbox()
            self._toolbox = await self._builder.build()
        except SandboxError as problem:
            self._toolbox = None
            logger.warning("%s", problem)
        else:
            logger.info("the Python toolbox of the sandbox is ready")

    @property
    def _has_toolbox(self) -> bool:
        return self._report.runs_commands and self._report.has_mounts

    async def toolbox_state(self) -> ToolboxState | None:
        """Return the build state of the toolbox, None if commands cannot use one."""
        return await self._builder.state() if self._has_toolbox else None

    async def components(self) -> Sequence[SandboxComponent]:
        """Return the state of the programs and the Python toolbox."""
        toolbox = await self._builder.state()
        state: Literal["ok", "note"] = "ok" if toolbox.status in ("ready", "off") else "note"
        return [
            SandboxComponent("python toolbox", state, f"{toolbox.status}: {toolbox.detail}"),
            SandboxComponent("ripgrep", "ok", str(found))
            if (found := find_ripgrep())
            else SandboxComponent("ripgrep", "note", "not found, so `grep` and `glob` do not work", "install ripgrep"),
            *([await check_node(self._isolation)] if self._isolation else []),
        ]

    async def acquire(self, thread_id: str, user_id: str) -> str:
        """Return the id of the thread's sandbox."""
        sandbox_id = derive_sandbox_id(thread_id, user_id)
        skills = await asyncio.to_thread(self._host.skills, user_id) if self._host.skills else None
        if sandbox_id not in self._sandboxes:
            folder = thread_folder(self._host.home, user_id, thread_id)
            mounts = await asyncio.to_thread(make_default_mounts, folder, self._config, skills)
            # Another task may have created it meanwhile.
            self._sandboxes.setdefault(sandbox_id, self._make(sandbox_id, mounts))
        self._users[sandbox_id] = self._users.get(sandbox_id, 0) + 1
        return sandbox_id

    async def get(self, sandbox_id: str) -> Sandbox | None:
        """Return the sandbox with this id, if it was acquired."""
        return self._sandboxes.get(sandbox_id)

    async def release(self, sandbox_id: str) -> None:
        """Release a sandbox; close it if it is idle and has no other users."""
        sandbox = self._sandboxes.get(sandbox_id)
        if sandbox is None:  # discarded meanwhile, with its users
            return
        self._users[sandbox_id] = max(0, self._users.get(sandbox_id, 0) - 1)
        if not self._users[sandbox_id] and not sandbox.background.is_busy:
            await self._close(sandbox_id)

    async def discard(self, thread_id: str, user_id: str) -> None:
        """Stop everything that runs for a thread."""
        await self._close(derive_sandbox_id(thread_id, user_id))

    async def start_service(self, spec: ServiceSpec) -> Service:
        """Start a service; the caller stops it."""
        if self._isolation is None and self._report.tier != "host" and not is_container(spec.command):
            remedy = self._report.remedy or MACOS_SERVICES
            raise SandboxError(f"{SERVICES_OFF}: {self._report.problem or self._report.detail}; {remedy}")
        return await self._services.start(spec, self._isolation, self._profile())

    async def prune_homes(self, seeds: Collection[str]) -> None:
        """Remove saved homes of services that are not used any more."""
        await asyncio.to_thread(self._services.prune_homes, seeds)

    async def aclose(self) -> None:
        """Stop everything."""
        if self._toolbox_search is not None:
            self._toolbox_search.cancel()
            await asyncio.wait({self._toolbox_search})
        for sandbox_id in list(self._sandboxes):
            await self._close(sandbox_id)
        if self._isolation is not None:
            await self._isolation.launcher.aclose()
        await asyncio.to_thread(self._services.close)
        if self._etc is not None:
            await asyncio.to_thread(shutil.rmtree, self._etc, ignore_errors=True)

    async def _close(self, sandbox_id: str) -> None:
        self._users.pop(sandbox_id, None)
        if sandbox := self._sandboxes.pop(sandbox_id, None):
            await sandbox.aclose()

    def _make_etc(self) -> None:
        remove_stale_folders()
        self._etc = make_temporary_folder("etc")
        write_etc(self._etc, file_owner() or os.geteuid(), has_network=self._config.network == "full")

    async def _detect_isolation(self) -> tuple[Isolation | None, str | None, SandboxProblem | None]:
        """Return the isolation after a successful probe, or the reason why there is none."""
        problem, is_found = "bubblewrap was not found", False
        groups = Cgroups(find_controllers(), self._config.limits)
        groups.remove_stale()
        for program in self._find_programs():
            try:
                isolation = await self._open_isolation(program, groups)
            except (SandboxError, LookupError, OSError, TimeoutError) as failure:
                problem, is_found = f"{program}: {failure}", True
            else:
                return isolation, None, None
        return None, problem, "bubblewrap_failed" if is_found else "bubblewrap_missing"

    async def _open_isolation(self, program: Path, groups: Cgroups) -> Isolation:
        """Return the isolation by `program`, probed once per process and configuration."""
        key = program, read_mtime(program), self._config.model_dump_json()
        launcher = LauncherClient(program, file_owner())
        try:
            known = NETWORK_SHARING.get(key)
            isolation = Isolation(
                launcher,
                self._profile,
                groups,
                self._config.limits,
                NetworkPolicy(self._config.network, AllowedHosts.from_patterns(self._config.allowed_hosts)),
                self._egress,
                can_share_network=await self._can_share_network(launcher) if known is None else known,
            )
            if known is None:
                await check_isolation(isolation)
        except BaseException:
            await launcher.aclose()
            raise
        NETWORK_SHARING[key] = isolation.can_share_network
        return isolation

    async def _can_share_network(self, launcher: LauncherClient) -> bool:
        try:
            namespace, _ = await launcher.open_namespace(listen=False)
        except SandboxError:
            if self._config.network == "allowlist":
                raise  # the proxy needs the shared network namespace
            return False
        launcher.close_namespace(namespace)
        return True

    def _profile(self) -> BubblewrapProfile:
        assert self._etc is not None
        toolbox = self._toolbox
        return BubblewrapProfile(
            self._etc,
            {**self._programs, **(toolbox.mounts if toolbox else {})},
            [*(toolbox.path if toolbox else [f"{HOME}/.local/bin"]), *self._program_folders],
            toolbox.variables if toolbox else {},
            self._config.environment,
            self._config.skill_environment,
        )

    async def _find_toolbox(self) -> None:
        self._toolbox = await self._builder.find()

    def _make(self, sandbox_id: str, mounts: tuple[Mount, ...]) -> LocalSandbox:
        wrapper: Sequence[str] = ()
        if self._system == "darwin" and self._report.tier == "isolated":
            wrapper = build_sandbox_exec(self._sandbox_exec, mounts, has_network=self._config.network == "full")
        runner: Runner = HostRunner(self._profile, mounts, wrapper)
        ripgrep = find_ripgrep()
        search_program = str(ripgrep) if ripgrep else None
        if self._isolation is not None:
            runner = IsolatedRunner(sandbox_id, self._isolation, mounts)
            search_program = f"{TOOLS}/rg" if ripgrep else None
        runner = StoppableRunner(runner)
        limits = self._config.limits
        growing = [mount.folder for mount in mounts if mount.path in (*AREAS, TEMPORARY)]
        home, storage = self._host.home, self._host.storage_limit
        disk = DiskMonitor(growing, limits.disk_mb * MB, home=home, storage_limit=storage)
        return LocalSandbox(
            id=sandbox_id,
            config=self._config,
            files=LocalThreadFiles(mounts, file_owner()),
            runner=runner,
            disk=disk,
            background=BackgroundCommands(DiskLimitedRunner(runner, disk), limits.background_processes),
            search_program=search_program,
            refusal=None if self._report.runs_commands else f"{COMMANDS_OFF}: {self._report.problem}",
        )

    def _describe_on_macos(self) -> SandboxReport:
        """Return what is available on macOS: sandbox-exec, which can allow or deny the network as a whole."""
        limits = list_limits(self._config, None)
        problem: str | None = None
        code: SandboxProblem | None = None
        if not os.access(self._sandbox_exec, os.X_OK):
            problem, code = f"{self._sandbox_exec} was not found", "sandbox_exec_missing"
        elif self._config.network == "allowlist":
            problem, code = "sandbox-exec cannot enforce `sandbox.network: allowlist`", "sandbox_exec_allowlist"
        if problem is None:
            detail = f"isolated by {self._sandbox_exec}, network: {self._config.network}"
            return SandboxReport("isolated", detail, limits=limits, has_mounts=False)
        if self._config.allow_host_bash:
            return SandboxReport("host", ON_HOST, problem, MACOS_REMEDY, code, limits)
        return SandboxReport("none", COMMANDS_OFF, problem, MACOS_REMEDY, code)

    def _describe(self, problem: str | None, code: SandboxProblem | None) -> SandboxReport:
        if self._isolation is not None:
            detail = f"isolated by {self._isolation.launcher.program}, network: {self._config.network}"
            return SandboxReport("isolated", detail, limits=list_limits(self._config, self._isolation))
        if self._config.allow_host_bash:
            return SandboxReport("host", ON_HOST, problem, REMEDY, code, list_limits(self._config, None))
        return SandboxReport("none", COMMANDS_OFF, problem, REMEDY, code)


async def check_isolation(isolation: Isolation) -> None:
    """Run a probe command with isolation.

    Raises:
        SandboxError: It failed; the text gives the reason.
    """
    if (output := await run_probe(isolation, "/bin/echo", PROBE_WORD)) != PROBE_WORD:
        raise SandboxError(f"a probe command printed {output!r} instead of {PROBE_WORD!r}")


async def check_node(isolation: Isolation) -> SandboxComponent:
    """Return the state of Node, tested by running it: an unprivileged user may lack permission."""
    try:
        output = await run_probe(isolation, "/bin/bash", "-c", "node --version && command -v node")
    except SandboxError as problem:
        remedy = "install Node.js where every user can read and run it, for example below /usr/local"
        return SandboxComponent("node", "note", f"commands cannot use it: {problem}", remedy)
    return SandboxComponent("node", "ok", " at ".join(output.split()))


async def run_probe(isolation: Isolation, *command: str) -> str:
    """Run a command in an empty sandbox and return its output.

    Raises:
        SandboxError: It failed; the text is its output.
    """
    runner = IsolatedRunner("trial", isolation, ())
    text = BoundedText()
    try:
        status = await runner.run(CommandSpec(command, "/"), OutputReader(text), PROBE_TIMEOUT_S)
    finally:
        await runner.aclose()
    output = text.take()[0].strip()
    if not status.has_run or status.code != 0:
        raise SandboxError(output or f"exit code {status.code}")
    return output


def list_limits(config: SandboxConfig, isolation: Isolation | None) -> list[SandboxLimit]:
    """Return the limits of commands and how they are enforced."""
    limits, groups = config.limits, isolation.groups.controllers if isolation else None
    each = "each process (ulimit)" if isolation else None
    by_looking = f"{each}, {POLLED}" if each else None
    by_group = f"control groups (version {groups.version})" if groups else None
    return [
        SandboxLimit("processes", str(limits.processes), by_group if groups and groups.pids else each),
        SandboxLimit("memory", f"{limits.memory_mb} MB", by_group if groups and groups.memory else by_looking),
        SandboxLimit("file size", f"{limits.file_mb} MB", each),
        SandboxLimit("disk of a thread", f"{limits.disk_mb} MB", POLLED),
        SandboxLimit("time of a command", f"{config.bash_command_timeout:g} s", "the server"),
        SandboxLimit("background processes", str(limits.background_processes), "the server"),
        SandboxLimit("network", config.network, "a network namespace" if isolation else None),
    ]
