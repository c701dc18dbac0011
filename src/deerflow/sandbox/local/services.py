"""Services on this machine: isolated by bubblewrap, or as the server itself where that was allowed."""

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

from deerflow.domain.errors import SandboxError
from deerflow.domain.sandbox import Confinement
from deerflow.sandbox.furnishing import ACP_WORKSPACE
from deerflow.sandbox.local.launch import END_S, Ended, Launch, read_pipe
from deerflow.sandbox.local.layout import SYSTEM_PATH, Layout, write_etc
from deerflow.sandbox.local.leftovers import make_temporary
from deerflow.sandbox.local.output import BoundedText, OutputReader
from deerflow.sandbox.local.programs import needed_paths
from deerflow.sandbox.local.removal import remove_folder
from deerflow.sandbox.local.runners import HARMLESS, PRELUDE, Isolation
from deerflow.sandbox.places import (
    TEMPORARY,
    Place,
    confined_places,
    file_owner,
    find_spot,
    make_folder,
    thread_folder,
    user_data_places,
)
from deerflow.sandbox.services import ServiceOrder

COMPLAINTS = 8_000
GRACE_S = 0.5
"""So long a program may take to end by itself, once nobody speaks with it any more."""
HOME = f"{TEMPORARY}/home"
"""Not that of the agent: what a service keeps for itself is not for commands to read or change."""
LONGEST_COPY_S = 3600.0
OWN_NAME = 'exec -a "${1##*/}" '
BEGIN = f"mkdir -p {HOME}; "

End = Callable[[], Awaitable[object]]


class LocalService:
    """A program that runs here."""

    def __init__(
        self, output: asyncio.StreamReader, writer: asyncio.StreamWriter, complaints: asyncio.StreamReader, end: End
    ) -> None:
        self.output = output
        self._writer = writer
        self._text = BoundedText(COMPLAINTS)
        self._hearing = asyncio.create_task(OutputReader(self._text).read(complaints))
        self._end = end
        self._closing: asyncio.Task[None] | None = None
        self.is_kept = False

    @property
    def complaints(self) -> str:
        """The first and the last of what it wrote to its standard error."""
        return self._text.take()[0].strip()

    async def write(self, data: bytes) -> None:
        """Tell it something."""
        self._writer.write(data)
        await self._writer.drain()

    def keep(self) -> None:
        """Have its home kept for others."""
        self.is_kept = True

    async def aclose(self) -> None:
        """End it; goes on even if whoever waits is told to stop."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        self._writer.close()
        try:
            await self._end()
        finally:
            await asyncio.wait({self._hearing}, timeout=END_S)
            self._hearing.cancel()


@dataclass(frozen=True, slots=True)
class Streams:
    """Our ends of a program's standard files, and the program's."""

    output: asyncio.StreamReader
    writer: asyncio.StreamWriter
    complaints: asyncio.StreamReader
    transports: tuple[asyncio.ReadTransport, asyncio.ReadTransport]
    theirs: tuple[int, int, int]

    def close_theirs(self) -> None:
        """Leave the program's ends to the program."""
        for file in self.theirs:
            os.close(file)

    def close(self) -> None:
        """Let go of ours."""
        self.writer.close()
        for transport in self.transports:
            transport.close()


async def open_streams() -> Streams:
    """The files through which a program is spoken with."""
    ours, theirs = socket.socketpair()
    _, writer = await asyncio.open_connection(sock=ours)
    output, output_end = os.pipe()
    complaints, complaints_end = os.pipe()
    said_transport, said = await read_pipe(output)
    wrong_transport, wrong = await read_pipe(complaints)
    files = (theirs.detach(), output_end, complaints_end)
    return Streams(said, writer, wrong, (said_transport, wrong_transport), files)


class ServiceDesk:
    """Starts services, each with a folder for its own things beside the files of its thread."""

    def __init__(self, home: Path, environment: Mapping[str, str]) -> None:
        self._home = home
        self._environment = environment
        self._etc: Path | None = None

    async def start(self, order: ServiceOrder, isolation: Isolation | None, layout: Layout) -> LocalService:
        """Start a program; without isolation, as the server itself.

        Raises:
            SandboxError: It cannot be started.
        """
        places, folder = await asyncio.to_thread(self._furnish, order)
        started: list[LocalService] = []

        async def after() -> None:
            if folder is not None and order.seed and started and started[0].is_kept:
                await asyncio.to_thread(copy_folder, own_home(places), self._kept(order.seed))
            # A copy of what was fetched can be made again, and is too much to stay in every thread.
            await remove(folder or (own_home(places) if order.seed else None))

        try:
            if isolation is None:
                return await start_on_host(order, places, self._environment, after)
            etc = await asyncio.to_thread(self._etc_with_network) if order.network else layout.etc
            # The variables of the configuration are for commands.
            own = replace(layout, etc=etc, configured={}, reserved={})
            path = self._environment.get("PATH")
            started.append(await start_isolated(order, isolation, own, places, path, after))
            return started[0]
        except BaseException:
            await remove(folder)
            raise

    def keep_homes(self, seeds: Collection[str]) -> None:
        """Remove the homes that were kept for others than these, and copies that were not finished; blocks."""
        kept = self._home / "services"
        wanted = {self._kept(seed).name for seed in seeds}
        for folder in list(kept.iterdir()) if kept.is_dir() else []:
            is_old = time.time() - folder.lstat().st_ctime > LONGEST_COPY_S
            if folder.name not in wanted and (is_old or not folder.name.startswith(".")):
                with suppress(OSError):  # somebody was faster, or it is tried again
                    remove_folder(folder)

    def close(self) -> None:
        """Leave nothing behind."""
        if self._etc is not None:
            shutil.rmtree(self._etc, ignore_errors=True)

    def _furnish(self, order: ServiceOrder) -> tuple[tuple[Place, ...], Path | None]:
        """The folders that are shown, and the one that goes with the service."""
        temporary = make_temporary("service") if order.thread_id is None else None
        if temporary is not None:
            temporary.chmod(0o711)
        folder = temporary or thread_folder(self._home, order.user_id, order.thread_id or "")
        own = folder / "services" / sha256(order.name.encode()).hexdigest()[:16]
        acp = [Place(ACP_WORKSPACE, folder / "acp-workspace")] if order.folder == ACP_WORKSPACE else []
        places = (*user_data_places(folder / "user-data"), *acp, Place(TEMPORARY, own))
        for place in places:
            make_folder(place.folder, file_owner())
        if order.seed and temporary is None and not own_home(places).exists():
            copy_folder(self._kept(order.seed), own_home(places))
        return confined_places(places, Confinement(writable=order.writable)), temporary

    def _kept(self, seed: str) -> Path:
        return self._home / "services" / sha256(seed.encode()).hexdigest()[:32]

    def _etc_with_network(self) -> Path:
        if self._etc is None:
            self._etc = write_etc(make_temporary("etc"), file_owner() or os.geteuid(), has_network=True)
        return self._etc


def own_home(places: Sequence[Place]) -> Path:
    """The home of a service, on this machine."""
    spot = find_spot(places, HOME)
    return spot.place.folder.joinpath(*spot.names)


def copy_folder(source: Path, copy: Path) -> None:
    """Put a copy of a folder, if there is one, in the place of another; links are copied and not followed."""
    if not source.is_dir() or source.is_symlink():
        return
    copy.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    new = copy.with_name(f".{copy.name}.{os.urandom(4).hex()}")
    copied = subprocess.run(["cp", "-a", "--reflink=auto", "--", source, new], capture_output=True, check=False)
    if copied.returncode == 0:
        shutil.rmtree(copy, ignore_errors=True)
        with suppress(OSError):  # somebody was faster
            new.rename(copy)
    shutil.rmtree(new, ignore_errors=True)


async def remove(folder: Path | None) -> None:
    """Remove what was made for a service, if something was."""
    if folder is not None:
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


async def start_isolated(
    order: ServiceOrder,
    isolation: Isolation,
    layout: Layout,
    places: Sequence[Place],
    path: str | None,
    after: End,
) -> LocalService:
    """Start a program in namespaces of its own. `path` is where programs of this machine are looked for.

    Raises:
        SandboxError: It is not there, or cannot be isolated.
    """
    shown = layout.environment({})["PATH"].split(":")
    command, needed = await asyncio.to_thread(needed_paths, order.command, order.paths, shown, path)
    # By its whole path, unlike commands: a Python of an environment finds out by it which one that is.
    prelude = BEGIN + PRELUDE.format(processes=isolation.limits.processes).replace(OWN_NAME, "exec ")
    env = {**HARMLESS, "HOME": HOME, **order.env}
    group = f"service-{sha256(os.urandom(16)).hexdigest()[:16]}"
    launch = Launch(
        ["/bin/bash", "-c", prelude, "bash", *command],
        layout.options(share_network=order.network, env=env),
        [*layout.binds(places), *((str(each), str(each), "--ro-bind") for each in needed)],
        layout.last_options(order.folder),
        isolation.groups.join_files(group),
        isolation.resource_limits(counts_processes=False),
    )
    streams = await open_streams()
    try:
        running = await isolation.pad.start(launch, streams.theirs)
    except BaseException:
        streams.close()
        isolation.groups.close(group)
        raise
    finally:
        streams.close_theirs()

    async def end() -> Ended:
        try:
            await asyncio.wait({running.ended}, timeout=GRACE_S)
            return await isolation.pad.stop(running)
        finally:
            streams.close()
            isolation.groups.close(group)
            await after()

    return LocalService(streams.output, streams.writer, streams.complaints, end)


async def start_on_host(
    order: ServiceOrder, places: Sequence[Place], environment: Mapping[str, str], after: End
) -> LocalService:
    """Start a program as the server itself: only where the user said so.

    Raises:
        SandboxError: It cannot be started.
    """
    spot = find_spot(places, order.folder)
    path = environment.get("PATH") or ":".join(SYSTEM_PATH)
    env = {"PATH": path, "HOME": str(spot.place.folder), "LANG": "C.UTF-8", **order.env}
    streams = await open_streams()
    try:
        stdin, stdout, stderr = streams.theirs
        program = shutil.which(order.command[0], path=path) or order.command[0]
        process = await asyncio.create_subprocess_exec(
            *(program, *order.command[1:]),
            cwd=spot.place.folder,
            env=env,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )
    except OSError as problem:
        streams.close()
        raise SandboxError(f"{order.command[0]!r} cannot be started: {problem.strerror or problem}") from problem
    finally:
        streams.close_theirs()

    async def end() -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(GRACE_S):
                await process.wait()
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        async with asyncio.timeout(END_S):
            await process.wait()
        streams.close()
        await after()

    return LocalService(streams.output, streams.writer, streams.complaints, end)
