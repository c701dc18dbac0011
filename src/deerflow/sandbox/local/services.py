"""Services on this machine: isolated by bubblewrap, or as the server's user if that is allowed."""

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
from deerflow.domain.sandbox import Confinement, is_container
from deerflow.sandbox.files.mounts import (
    ACP_WORKSPACE,
    TEMPORARY,
    Mount,
    confine_mounts,
    file_owner,
    make_folder,
    resolve_path,
    thread_folder,
    user_data_mounts,
)
from deerflow.sandbox.jobs.services import ServiceSpec
from deerflow.sandbox.local.launcher.bubblewrap import SYSTEM_PATH, BubblewrapProfile, write_etc
from deerflow.sandbox.local.launcher.client import KILL_TIMEOUT_S, ExitStatus, IsolatedCommand, open_pipe_reader
from deerflow.sandbox.local.launcher.network import PUBLIC_INTERNET, ThreadNetwork
from deerflow.sandbox.local.output import BoundedText, OutputReader
from deerflow.sandbox.local.programs import (
    build_container_command,
    find_engine_settings,
    remove_container,
    resolve_program,
)
from deerflow.sandbox.local.runners import PIP_VARIABLES, PRELUDE, Isolation
from deerflow.sandbox.local.usage import make_temporary_folder, remove_folder

MAX_STDERR_CHARS = 8_000
GRACE_S = 0.5
"""Time a service gets to exit by itself after its input is closed."""
HOME = f"{TEMPORARY}/home"
"""Not the home of the agent: commands must not read or change the data of a service."""
COPY_TIMEOUT_S = 3600.0
SET_ARGV0 = 'exec -a "${1##*/}" '
MAKE_HOME = f"mkdir -p {HOME}; "

CERTIFICATE_VARIABLES = (
    *("NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT"),
)
SHOWN_CERTIFICATES = ("/etc/ssl/", "/etc/pki/", "/usr/")
"""Folders of certificates that every sandbox mounts."""
MIRROR_VARIABLES = (
    *("NPM_CONFIG_REGISTRY", "npm_config_registry", "UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL"),
)

Stop = Callable[[], Awaitable[object]]


class LocalService:
    """A service that runs on this machine."""

    def __init__(
        self, output: asyncio.StreamReader, writer: asyncio.StreamWriter, stderr: asyncio.StreamReader, stop: Stop
    ) -> None:
        self.output = output
        self._writer = writer
        self._text = BoundedText(MAX_STDERR_CHARS)
        self._stderr_task = asyncio.create_task(OutputReader(self._text).read(stderr))
        self._stop = stop
        self._closing: asyncio.Task[None] | None = None
        self.keeps_home = False

    @property
    def stderr_tail(self) -> str:
        """Start and end of standard error."""
        return self._text.take()[0].strip()

    async def write(self, data: bytes) -> None:
        """Write to standard input."""
        self._writer.write(data)
        await self._writer.drain()

    def keep_home(self) -> None:
        """Save its home for later services."""
        self.keeps_home = True

    async def aclose(self) -> None:
        """Stop it; continues even if the caller is cancelled."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        self._writer.close()
        try:
            await self._stop()
        finally:
            await asyncio.wait({self._stderr_task}, timeout=KILL_TIMEOUT_S)
            self._stderr_task.cancel()


@dataclass(frozen=True, slots=True)
class ServiceStreams:
    """Our ends and the program's ends of its standard streams."""

    output: asyncio.StreamReader
    writer: asyncio.StreamWriter
    stderr: asyncio.StreamReader
    transports: tuple[asyncio.ReadTransport, asyncio.ReadTransport]
    theirs: tuple[int, int, int]

    def close_theirs(self) -> None:
        """Close the program's ends in this process."""
        for file in self.theirs:
            os.close(file)

    def close(self) -> None:
        """Close our ends."""
        self.writer.close()
        for transport in self.transports:
            transport.close()


async def open_streams() -> ServiceStreams:
    """Open the standard streams for a program."""
    ours, theirs = socket.socketpair()
    _, writer = await asyncio.open_connection(sock=ours)
    output, output_end = os.pipe()
    errors, stderr_end = os.pipe()
    output_transport, stdout = await open_pipe_reader(output)
    stderr_transport, stderr = await open_pipe_reader(errors)
    files = (theirs.detach(), output_end, stderr_end)
    return ServiceStreams(stdout, writer, stderr, (output_transport, stderr_transport), files)


class ServiceManager:
    """Starts services, each with a private folder next to the files of its thread."""

    def __init__(self, home: Path, environment: Mapping[str, str]) -> None:
        self._home = home
        self._environment = environment
        self._etc: Path | None = None

    async def start(self, spec: ServiceSpec, isolation: Isolation | None, profile: BubblewrapProfile) -> LocalService:
        """Start a service; without isolation, as the server's user.

        Raises:
            SandboxError: It cannot be started.
        """
        mounts, folder = await asyncio.to_thread(self._make_mounts, spec)
        started: list[LocalService] = []

        async def clean_up() -> None:
            if folder is not None and spec.seed and started and started[0].keeps_home:
                await asyncio.to_thread(copy_folder, locate_home(mounts), self._saved_home(spec.seed))
            # The copy can be made again, and is too large to keep in every thread.
            await remove_if_set(folder or (locate_home(mounts) if spec.seed else None))

        try:
            if is_container(spec.command):
                return await start_container(spec, mounts, self._environment, clean_up)
            if isolation is None:
                return await start_on_host(spec, mounts, self._environment, clean_up)
            etc = await asyncio.to_thread(self._etc_with_network) if spec.network is True else profile.etc
            # The configured variables are for commands only.
            own = replace(profile, etc=etc, configured={}, reserved={})
            if spec.network:
                own = replace(own, variables={**own.variables, **find_network_settings(self._environment)})
            path = self._environment.get("PATH")
            started.append(await start_isolated(spec, isolation, own, mounts, path, clean_up))
            return started[0]
        except BaseException:
            await remove_if_set(folder)
            raise

    def prune_homes(self, seeds: Collection[str]) -> None:
        """Remove the saved homes with other seeds, and unfinished copies; blocks."""
        saved = self._home / "services"
        used = {self._saved_home(seed).name for seed in seeds}
        for folder in list(saved.iterdir()) if saved.is_dir() else []:
            is_old = time.time() - folder.lstat().st_ctime > COPY_TIMEOUT_S
            if folder.name not in used and (is_old or not folder.name.startswith(".")):
                with suppress(OSError):  # removed by another process, or tried again later
                    remove_folder(folder)

    def close(self) -> None:
        """Remove temporary files."""
        if self._etc is not None:
            shutil.rmtree(self._etc, ignore_errors=True)

    def _make_mounts(self, spec: ServiceSpec) -> tuple[tuple[Mount, ...], Path | None]:
        """Create the folders and return the mounts, and the folder that is removed with the service."""
        temporary = make_temporary_folder("service") if spec.thread_id is None else None
        if temporary is not None:
            temporary.chmod(0o711)
        folder = temporary or thread_folder(self._home, spec.user_id, spec.thread_id or "")
        own = folder / "services" / sha256(spec.name.encode()).hexdigest()[:16]
        acp = [Mount(ACP_WORKSPACE, folder / "acp-workspace")] if spec.folder == ACP_WORKSPACE else []
        mounts = (*user_data_mounts(folder / "user-data"), *acp, Mount(TEMPORARY, own))
        for mount in mounts:
            make_folder(mount.folder, file_owner())
        if spec.seed and temporary is None and not locate_home(mounts).exists():
            copy_folder(self._saved_home(spec.seed), locate_home(mounts))
        return confine_mounts(mounts, Confinement(writable=spec.writable)), temporary

    def _saved_home(self, seed: str) -> Path:
        return self._home / "services" / sha256(seed.encode()).hexdigest()[:32]

    def _etc_with_network(self) -> Path:
        if self._etc is None:
            self._etc = write_etc(make_temporary_folder("etc"), file_owner() or os.geteuid(), has_network=True)
        return self._etc


def locate_home(mounts: Sequence[Mount]) -> Path:
    """Return the home of a service on this machine."""
    resolved = resolve_path(mounts, HOME)
    return resolved.mount.folder.joinpath(*resolved.parts)


def copy_folder(source: Path, copy: Path) -> None:
    """Replace `copy` by a copy of a folder, if it exists; links are copied and not followed."""
    if not source.is_dir() or source.is_symlink():
        return
    copy.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    new = copy.with_name(f".{copy.name}.{os.urandom(4).hex()}")
    copied = subprocess.run(["cp", "-a", "--reflink=auto", "--", source, new], capture_output=True, check=False)
    if copied.returncode == 0:
        shutil.rmtree(copy, ignore_errors=True)
        with suppress(OSError):  # created by another process meanwhile
            new.rename(copy)
    shutil.rmtree(new, ignore_errors=True)


async def remove_if_set(folder: Path | None) -> None:
    """Remove a folder, if there is one."""
    if folder is not None:
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


async def start_isolated(
    spec: ServiceSpec,
    isolation: Isolation,
    profile: BubblewrapProfile,
    mounts: Sequence[Mount],
    path: str | None,
    clean_up: Stop,
) -> LocalService:
    """Start a service in new namespaces. `path` is the `PATH` of this machine.

    Raises:
        SandboxError: The program does not exist or cannot be isolated.
    """
    shown = profile.environment({})["PATH"].split(":")
    command, needed = await asyncio.to_thread(resolve_program, spec.command, spec.paths, shown, path)
    network = None
    if spec.network == "public" and isolation.can_share_network:
        network = ThreadNetwork(PUBLIC_INTERNET, isolation.launcher, isolation.egress)
    group = f"service-{sha256(os.urandom(16)).hexdigest()[:16]}"
    try:
        namespace = await network.open() if network is not None else None
        isolated = replace(
            build_command(spec, command, isolation, profile, namespace),
            binds=[*profile.binds(mounts), *((str(each), str(each), "--ro-bind") for each in needed)],
            cgroups=await isolation.groups.open(group),
        )
        streams = await open_streams()
        try:
            running = await isolation.launcher.start(isolated, streams.theirs)
        except BaseException:
            streams.close()
            raise
        finally:
            streams.close_theirs()
    except BaseException:
        await isolation.groups.close(group)
        await close_network(network)
        raise

    async def stop() -> ExitStatus:
        try:
            await asyncio.wait({running.reply}, timeout=GRACE_S)
            return await isolation.launcher.stop(running)
        finally:
            streams.close()
            await isolation.groups.close(group)
            await close_network(network)
            await clean_up()

    return LocalService(streams.output, streams.writer, streams.stderr, stop)


def build_command(
    spec: ServiceSpec, command: Sequence[str], isolation: Isolation, profile: BubblewrapProfile, namespace: int | None
) -> IsolatedCommand:
    """Return the command of a service, without its binds and cgroups. `namespace` is its own network."""
    # With its full path, unlike commands: Python finds its virtual environment by it.
    prelude = MAKE_HOME + PRELUDE.format(processes=isolation.limits.processes).replace(SET_ARGV0, "exec ")
    proxy = PUBLIC_INTERNET.variables if namespace is not None else {}
    env = {**PIP_VARIABLES, "HOME": HOME, **proxy, **spec.env}
    return IsolatedCommand(
        ["/bin/bash", "-c", prelude, "bash", *command],
        profile.options(share_network=spec.network is True or namespace is not None, env=env),
        trailing_options=profile.trailing_options(str(spec.host_folder or spec.folder)),
        limits=isolation.resource_limits(counts_processes=False),
        namespace=namespace,
    )


async def close_network(network: ThreadNetwork | None) -> None:
    """Close the network of a service, if it has one of its own."""
    if network is not None:
        await network.aclose()


def find_network_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of this machine that services with network need: certificates and package mirrors."""
    certificates = {
        name: value
        for name in CERTIFICATE_VARIABLES
        if (value := environment.get(name, "")) and value.startswith(SHOWN_CERTIFICATES)
    }
    mirrors = {
        name: value
        for name in MIRROR_VARIABLES
        if (value := environment.get(name, "")) and "@" not in value  # no credentials
    }
    return {**certificates, **mirrors}


async def start_on_host(
    spec: ServiceSpec, mounts: Sequence[Mount], environment: Mapping[str, str], clean_up: Stop
) -> LocalService:
    """Start a service as the server's user: only if the configuration allows it.

    Raises:
        SandboxError: It cannot be started.
    """
    resolved = resolve_path(mounts, spec.folder)
    path = environment.get("PATH") or ":".join(SYSTEM_PATH)
    env = {"PATH": path, "HOME": str(resolved.mount.folder), "LANG": "C.UTF-8", **spec.env}
    streams = await open_streams()
    try:
        stdin, stdout, stderr = streams.theirs
        program = shutil.which(spec.command[0], path=path) or spec.command[0]
        process = await asyncio.create_subprocess_exec(
            *(program, *spec.command[1:]),
            cwd=spec.host_folder or resolved.mount.folder,
            env=env,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )
    except OSError as problem:
        streams.close()
        raise SandboxError(f"{spec.command[0]!r} cannot be started: {problem.strerror or problem}") from problem
    finally:
        streams.close_theirs()

    async def stop() -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(GRACE_S):
                await process.wait()
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        async with asyncio.timeout(KILL_TIMEOUT_S):
            await process.wait()
        streams.close()
        await clean_up()

    return LocalService(streams.output, streams.writer, streams.stderr, stop)


async def start_container(
    spec: ServiceSpec, mounts: Sequence[Mount], environment: Mapping[str, str], clean_up: Stop
) -> LocalService:
    """Start a service that is a container of Docker or Podman; it is removed with the service.

    Raises:
        SandboxError: The engine cannot be started, or the container would not be isolated.
    """
    name = f"deerflow-{os.urandom(8).hex()}"
    command = build_container_command(spec.command, name, Path.home(), has_network=bool(spec.network))
    env = {**find_engine_settings(environment), **spec.env}

    async def remove() -> None:
        await asyncio.to_thread(remove_container, command[0], name, env)
        await clean_up()

    return await start_on_host(replace(spec, command=command, env=env), mounts, environment, remove)
