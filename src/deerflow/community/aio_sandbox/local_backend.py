"""Backend that creates containers on this machine with Docker or Podman."""

import errno
import hashlib
import json
import os
import platform
import secrets
import sys
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deerflow.community.aio_sandbox.api import SandboxAddress
from deerflow.community.aio_sandbox.backend import BackendStatus, ContainerRequest
from deerflow.community.aio_sandbox.engine import Container, ContainerImage, Engine, EngineUnreachable
from deerflow.community.aio_sandbox.relay import EgressTunnel, Relay
from deerflow.config.sections.sandbox import SandboxConfig
from deerflow.domain.errors import SandboxError
from deerflow.sandbox.egress import AllowedHosts, Egress
from deerflow.sandbox.files.mounts import SANDBOX_UID, TEMPORARY
from deerflow.sandbox.local.launcher.bubblewrap import (
    ALLOW,
    ARCHITECTURE,
    ARCHITECTURES,
    EQUAL,
    FAIL,
    FIRST_ARGUMENT,
    KILL,
    LOAD,
    NUMBER,
    RETURN,
    bpf_instruction,
    build_seccomp_filter,
)
from deerflow.sandbox.local.launcher.network import VARIABLES
from deerflow.sandbox.sandbox_provider import SandboxLimit

JUMP_IF_ANY_BIT = 0x45
CLONE = {"x86_64": 56, "aarch64": 220}
CLONE3 = 435
NEW_NAMESPACES = 0x7E020000


def build_container_filters(machine: str | None = None) -> Sequence[bytes]:
    """Return the seccomp filters of a container, all of which apply; empty for unsupported architectures."""
    machine = machine or platform.machine()
    return [build_seccomp_filter(machine), build_namespace_filter(machine)] if machine in CLONE else []


def build_namespace_filter(machine: str) -> bytes:
    """Return a filter that refuses new namespaces: engines differ here, and a new user namespace makes anyone root."""
    steps = [
        bpf_instruction(LOAD, ARCHITECTURE),
        bpf_instruction(EQUAL, ARCHITECTURES[machine], 1, 0),
        bpf_instruction(RETURN, KILL),
        bpf_instruction(LOAD, NUMBER),
        bpf_instruction(EQUAL, CLONE3, 0, 1),
        bpf_instruction(
            RETURN, FAIL | errno.ENOSYS
        ),  # its flags are in memory, which BPF cannot read; callers fall back to clone
        bpf_instruction(EQUAL, CLONE[machine], 0, 3),
        bpf_instruction(LOAD, FIRST_ARGUMENT),
        bpf_instruction(JUMP_IF_ANY_BIT, NEW_NAMESPACES, 0, 1),
        bpf_instruction(RETURN, FAIL | errno.EPERM),
        bpf_instruction(RETURN, ALLOW),
    ]
    return b"".join(steps)


MB = 1024 * 1024
SANDBOX, HOME, IMAGE, SETTINGS_HASH = "deerflow.sandbox", "deerflow.home", "deerflow.image", "deerflow.recipe"
"""Labels of our images and containers: sandbox id, installation, image, and hash of the settings."""
TOKEN, HOST, PORT = "DEERFLOW_SANDBOX_TOKEN", "DEERFLOW_SANDBOX_HOST", "DEERFLOW_SANDBOX_PORT"
FILTERS = "DEERFLOW_SANDBOX_FILTERS"
LOOPBACK = "127.0.0.1"
CPUS = 2
CPU_PERIOD_US = 100_000
SPARE_PROCESSES = 64
"""Processes for the server and the relay programs."""
SCRATCH = "rw,noexec,nosuid,nodev,mode=1777,size=64m"
ULIMITS = (("nofile", 1024, 4096), ("nproc", 4096, 4096))
FOREIGN_CAPABILITIES = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "SETGID", "SETUID")
"""Capabilities of other images, which start their services as root and drop it themselves."""


def list_engine_sockets() -> Sequence[Path]:
    """Return the usual sockets of Docker and Podman, those of the system first."""
    if sys.platform == "win32":  # engines listen on named pipes there, and threads have no files
        return ()
    user = Path("/run/user", str(os.getuid()))
    system = [Path("/var/run/docker.sock"), Path("/run/podman/podman.sock")]
    return [*system, user / "docker.sock", user / "podman/podman.sock", Path.home() / ".docker/run/docker.sock"]


def find_engine(url: str | None, candidates: Sequence[Path]) -> Path | None:
    """Return the socket of the engine: the configured one, else the first that exists."""
    if url is None:
        return next((path for path in candidates if path.is_socket()), None)
    return Path(url.removeprefix("unix://")) if url.startswith("unix:///") else None


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """Properties of the engine and the image."""

    engine: Engine
    is_rootless: bool
    image: ContainerImage

    @property
    def is_our_image(self) -> bool:
        """True if the image is ours: it runs as any user with a read-only root."""
        return SANDBOX in ((self.image.config and self.image.config.labels) or {})


class LocalContainerBackend:
    """Backend with one isolated container per sandbox.

    The network of a container is "none" or, with `network: full`, the default bridge. No port is published in either
    case: the server is reached through the engine (see `relay`), so that `none` means none, and the allowed hosts of
    `network: allowlist` are reached the same way (see `EgressTunnel`).
    """

    is_here = True

    def __init__(self, config: SandboxConfig, home: Path, egress: Egress | None = None) -> None:
        self._config = config
        self._home = hashlib.sha256(str(home.resolve()).encode()).hexdigest()[:16]
        self._egress = egress or Egress()
        self._facts: EngineFacts | None = None
        self._connections: dict[str, AsyncExitStack] = {}

    async def open(self) -> BackendStatus:
        """Check the engine and the image."""
        socket = find_engine(self._config.engine_url, list_engine_sockets())
        if socket is None:
            remedy = "start Docker or Podman, or set sandbox.engine_url to its socket, like unix:///var/run/docker.sock"
            return BackendStatus("no container engine", "neither Docker nor Podman was found", remedy, "engine_missing")
        engine = Engine(socket)
        try:
            ready = await self._inspect(engine)
        except SandboxError as problem:
            remedy = f"is the engine running, and may we use {socket}?"
            ready = BackendStatus(str(socket), str(problem), remedy, "engine_unreachable")
        if ready.problem is not None:
            self._facts = None
            await engine.aclose()
        return ready

    async def _inspect(self, engine: Engine) -> BackendStatus:
        """Check an engine and the image, and run a probe container."""
        where, image = str(engine.socket), self._config.image
        info, found = await engine.info(), await engine.image(image)
        if found is None:
            return BackendStatus(where, f"there is no image {image!r}", suggest_remedy(image), "image_missing")
        self._facts = EngineFacts(engine, info.is_rootless, found)
        if self._config.network == "allowlist" and not self._facts.is_our_image:
            remedy = "build deploy/sandbox and set sandbox.image to it, or set sandbox.network to none or full"
            return BackendStatus(where, f"{image!r} cannot be held to a list of hosts", remedy, "image_allowlist")
        left = await engine.containers(f"{HOME}={self._home}")
        if code := await self._run_probe(engine):
            remedy = "try `true` in a container of this image yourself"
            problem = f"a container that does nothing ended with exit code {code}"
            return BackendStatus(where, problem, remedy, "container_failed")
        detail = (
            f"containers of {image} by the engine {info.server_version} at {where}, network: {self._config.network}"
        )
        return BackendStatus(detail, limits=self._limits(), running=[each.labels[SANDBOX] for each in left])

    async def _run_probe(self, engine: Engine) -> int:
        """Run a container with the same limits that does nothing, and return its exit code."""
        name = self._name(f"trial-{secrets.token_hex(4)}")
        settings = {
            **self._settings(ContainerRequest("trial", "", "", ())),
            "Entrypoint": ["true"],
            "Cmd": [],
            "Labels": {},
        }
        try:
            await engine.create(name, settings)
            await engine.start(name)
            return await engine.wait(name)
        finally:
            await engine.remove(name)

    async def create(self, request: ContainerRequest) -> SandboxAddress:
        """Create and start a container."""
        engine, name = self._engine(), self._name(request.sandbox_id)
        token = secrets.token_urlsafe(32)
        settings = self._settings(request)
        settings["Labels"] = {**settings["Labels"], SETTINGS_HASH: hash_settings(settings)}
        settings["Env"] = [*settings["Env"], f"{TOKEN}={token}"]
        await self.destroy(request.sandbox_id)
        await engine.create(name, settings)
        await engine.start(name)
        return await self._connect(request.sandbox_id, token)

    async def discover(self, request: ContainerRequest) -> SandboxAddress | None:
        """Return the container of a sandbox if it runs with the current settings."""
        found = await self._owned(request.sandbox_id)
        if (
            found is None
            or not found.state.running
            or found.labels.get(SETTINGS_HASH) != hash_settings(self._settings(request))
        ):
            return None
        variables = dict(each.partition("=")[::2] for each in found.config.env or ())
        return await self._connect(request.sandbox_id, variables.get(TOKEN))

    async def explain(self, sandbox_id: str) -> str | None:
        """Return why a container does not run, with the end of its log."""
        found = await self._owned(sandbox_id)
        if found is None:
            return "the container does not exist"
        if found.state.running:
            return None
        logs = await self._engine().logs(self._name(sandbox_id))
        return f"the container ended with exit code {found.state.exit_code}: {logs[-500:]}"

    async def destroy(self, sandbox_id: str) -> None:
        """Remove a container of ours."""
        await self._disconnect(sandbox_id)
        if await self._owned(sandbox_id) is not None:
            await self._engine().remove(self._name(sandbox_id))

    async def aclose(self) -> None:
        """Close the connections to the engine."""
        for sandbox_id in list(self._connections):
            await self._disconnect(sandbox_id)
        if self._facts is not None:
            await self._facts.engine.aclose()

    async def _connect(self, sandbox_id: str, token: str | None) -> SandboxAddress:
        """Open the relay into a container, and with allowed hosts the tunnel out of it."""
        await self._disconnect(sandbox_id)
        connections = self._connections[sandbox_id] = AsyncExitStack()
        relay = Relay(self._engine(), self._name(sandbox_id), self._config.port)
        connections.push_async_callback(relay.aclose)
        await relay.open()
        address = SandboxAddress(f"http://{LOOPBACK}", token, relay.socket)
        if self._config.network == "allowlist":
            tunnel = EgressTunnel(address, AllowedHosts.from_patterns(self._config.allowed_hosts), self._egress)
            connections.push_async_callback(tunnel.aclose)
            await tunnel.open()
        return address

    async def _disconnect(self, sandbox_id: str) -> None:
        if connections := self._connections.pop(sandbox_id, None):
            await connections.aclose()

    async def _owned(self, sandbox_id: str) -> Container | None:
        """Return the container of a sandbox. A container of another installation with the same name is left alone."""
        name = self._name(sandbox_id)
        found = await self._engine().container(name)
        if found is not None and found.labels.get(HOME) != self._home:
            raise SandboxError(
                f"the container {name} belongs to another installation; set another sandbox.container_prefix"
            )
        return found

    def _engine(self) -> Engine:
        return self._require_facts().engine

    def _require_facts(self) -> EngineFacts:
        if self._facts is None:
            raise EngineUnreachable("no container engine is available; run `deerflow doctor` for the reason")
        return self._facts

    def _name(self, sandbox_id: str) -> str:
        return f"{self._config.container_prefix}-{sandbox_id}"

    def _settings(self, request: ContainerRequest) -> dict[str, Any]:
        """Return the settings of a container without its token."""
        config = self._config
        filters = ",".join(each.hex() for each in build_container_filters())
        variables = {
            **VARIABLES[config.network],
            **config.environment,
            HOST: LOOPBACK,
            PORT: str(config.port),
            FILTERS: filters,
        }
        settings: dict[str, Any] = {
            "Image": config.image,
            "Hostname": "sandbox",
            "Env": [f"{name}={value}" for name, value in variables.items()],
            "Labels": {SANDBOX: request.sandbox_id, HOME: self._home, IMAGE: self._require_facts().image.id},
            "HostConfig": self._host_settings(request),
        }
        if self._require_facts().is_our_image:
            settings["User"] = get_container_user(self._require_facts().is_rootless)
        return settings

    def _host_settings(self, request: ContainerRequest) -> dict[str, Any]:
        limits = self._config.limits
        is_ours = self._require_facts().is_our_image
        return {
            "NetworkMode": "bridge" if self._config.network == "full" else "none",
            "CapDrop": ["ALL"],
            "CapAdd": [] if is_ours else list(FOREIGN_CAPABILITIES),
            "SecurityOpt": ["no-new-privileges"],  # and by default the engine's seccomp filter
            "ReadonlyRootfs": is_ours,
            "Tmpfs": dict.fromkeys(("/run", "/var/tmp"), SCRATCH) if is_ours else {},
            "Memory": limits.memory_mb * MB,
            "MemorySwap": limits.memory_mb * MB,
            "PidsLimit": limits.processes + SPARE_PROCESSES,
            "CpuPeriod": CPU_PERIOD_US,
            "CpuQuota": CPUS * CPU_PERIOD_US,
            "Ulimits": build_ulimits(limits.file_mb * MB),
            "Mounts": [
                {
                    "Type": "bind",
                    "Source": str(mount.folder.absolute()),
                    "Target": mount.path,
                    "ReadOnly": mount.read_only,
                }
                for mount in request.mounts
                if is_ours or mount.path != TEMPORARY  # other images may have several users that share it
            ],
        }

    def _limits(self) -> Sequence[SandboxLimit]:
        limits, engine = self._config.limits, "the container engine"
        return [
            SandboxLimit("processes", str(limits.processes), engine),
            SandboxLimit("memory", f"{limits.memory_mb} MB", engine),
            SandboxLimit("processors", str(CPUS), engine),
            SandboxLimit("size of a file", f"{limits.file_mb} MB", engine),
            SandboxLimit("disk of a thread", f"{limits.disk_mb} MB", "the server, polled every second"),
            SandboxLimit("network", self._config.network, engine),
        ]


def get_container_user(is_rootless: bool) -> str:
    """Return the user of the server in a container: the owner of thread files on this machine."""
    if is_rootless:
        return "0:0"  # it is our own user outside
    uid, gid = os.geteuid(), os.getegid()
    return f"{uid}:{gid}" if uid else f"{SANDBOX_UID}:{SANDBOX_UID}"


def build_ulimits(file_bytes: int) -> list[Mapping[str, object]]:
    """Return the limits of every process. All are set, because some engines cannot set their own defaults."""
    request = [*ULIMITS, ("fsize", file_bytes, file_bytes), ("core", 0, 0)]
    return [{"Name": name, "Soft": soft, "Hard": hard} for name, soft, hard in request]


def hash_settings(settings: Mapping[str, Any]) -> str:
    """Return a hash that is equal for containers with the same settings."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]


def suggest_remedy(image: str) -> str:
    """Return the remedy for a missing image."""
    if "/" in image:
        return f"docker pull {image}, or the same with podman"
    return f"docker build -t {image} deploy/sandbox, or the same with podman"
