"""Sandboxes on this machine, isolated by bubblewrap."""

import asyncio
import logging
import os
import shutil
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Literal

from deerflow.config.sandbox import SandboxConfig
from deerflow.domain.errors import SandboxError
from deerflow.domain.sandbox import Sandbox
from deerflow.sandbox.egress import AllowedHosts, Egress
from deerflow.sandbox.files import LocalThreadFiles
from deerflow.sandbox.furnishing import HOME, make_places, sandbox_id_of
from deerflow.sandbox.local.background import Background
from deerflow.sandbox.local.bubblewrap import REMEDY, find_bubblewrap
from deerflow.sandbox.local.cgroups import MB, ControlGroups, find_controllers
from deerflow.sandbox.local.launch import LaunchPad
from deerflow.sandbox.local.layout import NODE, TOOLS, Layout, find_programs, find_ripgrep, write_etc
from deerflow.sandbox.local.leftovers import clear_leftovers, make_temporary
from deerflow.sandbox.local.network import Reach
from deerflow.sandbox.local.output import BoundedText, OutputReader
from deerflow.sandbox.local.runners import HostRunner, IsolatedRunner, Isolation, Order, Runner, StoppableRunner
from deerflow.sandbox.local.sandbox import LocalSandbox, WatchedRunner
from deerflow.sandbox.local.services import ServiceDesk
from deerflow.sandbox.local.toolbox import Toolbox, ToolboxBuilder
from deerflow.sandbox.local.usage import DiskWatch
from deerflow.sandbox.places import (
    AREAS,
    TEMPORARY,
    Place,
    file_owner,
    thread_folder,
)
from deerflow.sandbox.sandbox_provider import Limit, Part, SandboxPlaces, SandboxReport
from deerflow.sandbox.services import Service, ServiceOrder

logger = logging.getLogger(__name__)

TRIAL_S = 10.0
WORD = "isolated"
ON_HOST = "commands run as the server itself, without isolation"
LOOKS = "looking every second"
REFUSED = "`bash` is off, because nothing isolates commands on this machine"
NOT_STARTED = "programs are not started without isolation, and nothing isolates them on this machine"


class LocalSandboxProvider:
    """One sandbox per thread, with its folders below the state directory."""

    def __init__(
        self,
        config: SandboxConfig,
        places: SandboxPlaces,
        egress: Egress | None = None,
        find_isolators: Callable[[], Sequence[Path]] = find_bubblewrap,
        builder: ToolboxBuilder | None = None,
    ) -> None:
        self._config = config
        self._places = places
        self._egress = egress or Egress()
        self._find_isolators = find_isolators
        self._toolbox: Toolbox | None = None
        self._builder = builder or ToolboxBuilder(config.toolbox, places.cache, places.environment)
        self._finding: asyncio.Task[None] | None = None
        self._etc: Path | None = None
        self._programs = find_programs(places.environment.get("PATH"))
        self._program_folders = [
            TOOLS,
            *([f"{NODE}/bin"] if any(path.startswith(NODE) for path in self._programs) else []),
        ]
        self._isolation: Isolation | None = None
        self._report = SandboxReport("none", "not opened", "the sandbox has not been opened")
        self._services = ServiceDesk(places.home, places.environment)
        self._sandboxes: dict[str, LocalSandbox] = {}
        self._users: dict[str, int] = {}

    async def open(self) -> SandboxReport:
        """Try out whether commands can be isolated here."""
        self._finding = asyncio.create_task(self._find_toolbox())
        await asyncio.to_thread(self._make_etc)
        self._isolation, problem = await self._try_isolation()
        self._report = self._describe(problem)
        return self._report

    async def prepare(self) -> None:
        """Build the Python environment that commands find, unless it is there."""
        if self._finding is not None:
            await asyncio.shield(self._finding)
        if self._toolbox is not None or not self._config.toolbox.enabled or not self._report.runs_commands:
            return
        logger.info("the Python toolbox of the sandbox is being built; commands can be run meanwhile")
        try:
            self._toolbox = await self._builder.build()
        except SandboxError as problem:
            logger.warning("%s", problem)
        else:
            logger.info("the Python toolbox of the sandbox is ready")

    async def parts(self) -> Sequence[Part]:
        """Whether the programs and the Python environment of commands are there."""
        toolbox = await self._builder.state()
        state: Literal["ok", "note"] = "ok" if toolbox.status in ("ready", "off") else "note"
        return [
            Part("python toolbox", state, f"{toolbox.status}: {toolbox.detail}"),
            Part("ripgrep", "ok", str(found))
            if (found := find_ripgrep())
            else Part("ripgrep", "note", "not found, so `grep` and `glob` do not work", "install ripgrep"),
            *([await look_at_node(self._isolation)] if self._isolation else []),
        ]

    async def acquire(self, thread_id: str, user_id: str) -> str:
        """The id of the thread's sandbox."""
        sandbox_id = sandbox_id_of(thread_id, user_id)
        skills = await asyncio.to_thread(self._places.skills, user_id) if self._places.skills else None
        if sandbox_id not in self._sandboxes:
            folder = thread_folder(self._places.home, user_id, thread_id)
            places = await asyncio.to_thread(make_places, folder, self._config, skills)
            # Somebody else may have been faster meanwhile.
            self._sandboxes.setdefault(sandbox_id, self._make(sandbox_id, places))
        self._users[sandbox_id] = self._users.get(sandbox_id, 0) + 1
        return sandbox_id

    async def get(self, sandbox_id: str) -> Sandbox | None:
        """The sandbox of that id, if it has been acquired."""
        return self._sandboxes.get(sandbox_id)

    async def release(self, sandbox_id: str) -> None:
        """Let go of a sandbox in which nothing runs and nobody works any more."""
        self._users[sandbox_id] = max(0, self._users.get(sandbox_id, 0) - 1)
        sandbox = self._sandboxes.get(sandbox_id)
        if sandbox is not None and not self._users[sandbox_id] and not sandbox.background.is_busy:
            await self._close(sandbox_id)

    async def discard(self, thread_id: str, user_id: str) -> None:
        """End everything that runs for a thread."""
        await self._close(sandbox_id_of(thread_id, user_id))

    async def start_service(self, order: ServiceOrder) -> Service:
        """Start a program that speaks with the server; whoever asks for it ends it."""
        if self._isolation is None and not self._report.runs_commands:
            raise SandboxError(f"{NOT_STARTED}: {self._report.problem}; {self._report.remedy}")
        return await self._services.start(order, self._isolation, self._layout())

    async def keep_homes(self, seeds: Collection[str]) -> None:
        """Remove the homes of programs that nobody will begin with any more."""
        await asyncio.to_thread(self._services.keep_homes, seeds)

    async def aclose(self) -> None:
        """End everything."""
        if self._finding is not None:
            self._finding.cancel()
            await asyncio.wait({self._finding})
        for sandbox_id in list(self._sandboxes):
            await self._close(sandbox_id)
        if self._isolation is not None:
            await self._isolation.pad.aclose()
        await asyncio.to_thread(self._services.close)
        if self._etc is not None:
            await asyncio.to_thread(shutil.rmtree, self._etc, ignore_errors=True)

    async def _close(self, sandbox_id: str) -> None:
        self._users.pop(sandbox_id, None)
        if sandbox := self._sandboxes.pop(sandbox_id, None):
            await sandbox.aclose()

    def _make_etc(self) -> None:
        clear_leftovers()
        self._etc = make_temporary("etc")
        write_etc(self._etc, file_owner() or os.geteuid(), has_network=self._config.network == "full")

    async def _try_isolation(self) -> tuple[Isolation | None, str | None]:
        """What isolates commands, after it has done so once, or why nothing does."""
        problem = "bubblewrap was not found"
        groups = ControlGroups(find_controllers(), self._config.limits)
        groups.open()
        for program in self._find_isolators():
            try:
                isolation = await self._try_program(program, groups)
            except (SandboxError, LookupError, OSError, TimeoutError) as failure:
                problem = f"{program}: {failure}"
            else:
                return isolation, None
        return None, problem

    async def _try_program(self, program: Path, groups: ControlGroups) -> Isolation:
        pad = LaunchPad(program, file_owner())
        try:
            isolation = Isolation(
                pad,
                self._layout,
                groups,
                self._config.limits,
                Reach(self._config.network, AllowedHosts.of(self._config.allowed_hosts)),
                self._egress,
                shares_network=await self._can_share_network(pad),
            )
            await try_out(isolation)
        except BaseException:
            await pad.aclose()
            raise
        return isolation

    async def _can_share_network(self, pad: LaunchPad) -> bool:
        try:
            space, _ = await pad.open_space(listen=False)
        except SandboxError:
            if self._config.network == "allowlist":
                raise  # the proxy can be reached in no other way
            return False
        pad.close_space(space)
        return True

    def _layout(self) -> Layout:
        assert self._etc is not None
        toolbox = self._toolbox
        return Layout(
            self._etc,
            {**self._programs, **(toolbox.mounts if toolbox else {})},
            [*(toolbox.path if toolbox else [f"{HOME}/.local/bin"]), *self._program_folders],
            toolbox.variables if toolbox else {},
            self._config.environment,
            self._config.skill_environment,
        )

    async def _find_toolbox(self) -> None:
        self._toolbox = await self._builder.find()

    def _make(self, sandbox_id: str, places: tuple[Place, ...]) -> LocalSandbox:
        runner: Runner = HostRunner(self._layout, places)
        ripgrep = find_ripgrep()
        search_program = str(ripgrep) if ripgrep else None
        if self._isolation is not None:
            runner = IsolatedRunner(sandbox_id, self._isolation, places)
            search_program = f"{TOOLS}/rg" if ripgrep else None
        runner = StoppableRunner(runner)
        limits = self._config.limits
        growing = [place.folder for place in places if place.path in (*AREAS, TEMPORARY)]
        disk = DiskWatch(growing, limits.disk_mb * MB)
        return LocalSandbox(
            id=sandbox_id,
            config=self._config,
            files=LocalThreadFiles(places, file_owner()),
            runner=runner,
            disk=disk,
            background=Background(WatchedRunner(runner, disk), limits.background_processes),
            search_program=search_program,
            refusal=None if self._report.runs_commands else f"{REFUSED}: {self._report.problem}",
        )

    def _describe(self, problem: str | None) -> SandboxReport:
        if self._isolation is not None:
            detail = f"isolated by {self._isolation.pad.program}, network: {self._config.network}"
            return SandboxReport("isolated", detail, limits=limits_in_force(self._config, self._isolation))
        if self._config.allow_host_bash:
            return SandboxReport("host", ON_HOST, problem, REMEDY, limits_in_force(self._config, None))
        return SandboxReport("none", REFUSED, problem, REMEDY)


async def try_out(isolation: Isolation) -> None:
    """Isolate one command for real.

    Raises:
        SandboxError: That did not work; the text says why.
    """
    if (said := await say(isolation, "/bin/echo", WORD)) != WORD:
        raise SandboxError(f"a command said {said!r} instead of {WORD!r}")


async def look_at_node(isolation: Isolation) -> Part:
    """Whether commands have a Node, tried out: one that is there need not be of use to an unprivileged user."""
    try:
        said = await say(isolation, "/bin/bash", "-c", "node --version && command -v node")
    except SandboxError as problem:
        remedy = "install Node.js where every user can read and run it, for instance below /usr/local"
        return Part("node", "note", f"commands cannot use it: {problem}", remedy)
    return Part("node", "ok", " at ".join(said.split()))


async def say(isolation: Isolation, *command: str) -> str:
    """What a command prints in a sandbox of nobody's.

    Raises:
        SandboxError: It failed; the text is what it printed.
    """
    runner = IsolatedRunner("trial", isolation, ())
    text = BoundedText()
    try:
        ended = await runner.run(Order(command, "/"), OutputReader(text), TRIAL_S)
    finally:
        await runner.aclose()
    output = text.take()[0].strip()
    if not ended.has_run or ended.code != 0:
        raise SandboxError(output or f"exit code {ended.code}")
    return output


def limits_in_force(config: SandboxConfig, isolation: Isolation | None) -> list[Limit]:
    """What commands are held to, and by whom."""
    limits, groups = config.limits, isolation.groups.controllers if isolation else None
    each = "each process (ulimit)" if isolation else None
    by_looking = f"{each}, {LOOKS}" if each else None
    by_group = f"control groups (version {groups.version})" if groups else None
    return [
        Limit("processes", str(limits.processes), by_group if groups and groups.pids else each),
        Limit("memory", f"{limits.memory_mb} MB", by_group if groups and groups.memory else by_looking),
        Limit("file size", f"{limits.file_mb} MB", each),
        Limit("disk of a thread", f"{limits.disk_mb} MB", LOOKS),
        Limit("time of a command", f"{config.bash_command_timeout:g} s", "the server"),
        Limit("background processes", str(limits.background_processes), "the server"),
        Limit("network", config.network, "a network namespace" if isolation else None),
    ]
