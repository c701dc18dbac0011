"""Containers on this machine, by Docker or Podman."""

import hashlib
import json
import os
import secrets
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deerflow.community.aio_sandbox.api import Address
from deerflow.community.aio_sandbox.backend import Readiness, Wanted
from deerflow.community.aio_sandbox.engine import Container, Engine, EngineUnreachable, Image
from deerflow.community.aio_sandbox.relay import Relay
from deerflow.community.aio_sandbox.system_calls import container_filters
from deerflow.community.aio_sandbox.tunnel import EgressTunnel
from deerflow.config.sandbox import SandboxConfig
from deerflow.domain.errors import SandboxError
from deerflow.sandbox.egress import AllowedHosts, Egress
from deerflow.sandbox.local.network import VARIABLES
from deerflow.sandbox.places import SANDBOX_UID, TEMPORARY
from deerflow.sandbox.sandbox_provider import Limit

MB = 1024 * 1024
SANDBOX, HOME, IMAGE, RECIPE = "deerflow.sandbox", "deerflow.home", "deerflow.image", "deerflow.recipe"
"""Labels: of our images and containers, whose container it is, and what it was made from."""
TOKEN, HOST, PORT = "DEERFLOW_SANDBOX_TOKEN", "DEERFLOW_SANDBOX_HOST", "DEERFLOW_SANDBOX_PORT"
FILTERS = "DEERFLOW_SANDBOX_FILTERS"
LOOPBACK = "127.0.0.1"
CPUS = 2
CPU_PERIOD_US = 100_000
SPARE_PROCESSES = 64
"""For the server and the programs that connect to it."""
SCRATCH = "rw,noexec,nosuid,nodev,mode=1777,size=64m"
ULIMITS = (("nofile", 1024, 4096), ("nproc", 4096, 4096))
FOREIGN_CAPABILITIES = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "SETGID", "SETUID")
"""An image that is not ours starts its services as root, and gives root up by itself."""


def usual_sockets() -> Sequence[Path]:
    """Where Docker and Podman listen, those of the system first."""
    user = Path("/run/user", str(os.getuid()))
    system = [Path("/var/run/docker.sock"), Path("/run/podman/podman.sock")]
    return [*system, user / "docker.sock", user / "podman/podman.sock", Path.home() / ".docker/run/docker.sock"]


def find_engine(url: str | None, candidates: Sequence[Path]) -> Path | None:
    """The socket of the engine: the configured one, else the first that is there."""
    if url is None:
        return next((path for path in candidates if path.is_socket()), None)
    return Path(url.removeprefix("unix://")) if url.startswith("unix:///") else None


@dataclass(frozen=True, slots=True)
class Facts:
    """What the engine said when it was asked first."""

    engine: Engine
    is_rootless: bool
    image: Image

    @property
    def is_our_image(self) -> bool:
        """Whether it is one that runs as anybody, on a root that cannot be written to."""
        return SANDBOX in ((self.image.config and self.image.config.labels) or {})


class LocalContainerBackend:
    """One container per sandbox, kept from everything but the folders it is for.

    The network of a container is the engine's "none" or, with `network: full`, its default bridge. No port is
    published in either case: the server is reached through the engine (see `relay`), so that `none` means none, and
    the allowed hosts of `network: allowlist` are reached the same way (see `tunnel`).
    """

    is_here = True

    def __init__(self, config: SandboxConfig, home: Path, egress: Egress | None = None) -> None:
        self._config = config
        self._home = hashlib.sha256(str(home.resolve()).encode()).hexdigest()[:16]
        self._egress = egress or Egress()
        self._facts: Facts | None = None
        self._ways: dict[str, AsyncExitStack] = {}

    async def open(self) -> Readiness:
        """Ask the engine what it is and whether it has the image."""
        socket = find_engine(self._config.engine_url, usual_sockets())
        if socket is None:
            remedy = "start Docker or Podman, or set sandbox.engine_url to its socket, like unix:///var/run/docker.sock"
            return Readiness("no container engine", "neither Docker nor Podman was found", remedy)
        engine = Engine(socket)
        try:
            ready = await self._look_at(engine)
        except SandboxError as problem:
            ready = Readiness(str(socket), str(problem), f"is the engine running, and may we use {socket}?")
        if ready.problem is not None:
            self._facts = None
            await engine.aclose()
        return ready

    async def _look_at(self, engine: Engine) -> Readiness:
        """Ask an engine what it is and whether it has the image, and let it run a container as ours are."""
        where, image = str(engine.socket), self._config.image
        info, found = await engine.info(), await engine.image(image)
        if found is None:
            return Readiness(where, f"there is no image {image!r}", remedy_for(image))
        self._facts = Facts(engine, info.is_rootless, found)
        if self._config.network == "allowlist" and not self._facts.is_our_image:
            remedy = "build deploy/sandbox and set sandbox.image to it, or set sandbox.network to none or full"
            return Readiness(where, f"{image!r} cannot be held to a list of hosts", remedy)
        left = await engine.containers(f"{HOME}={self._home}")
        if code := await self._try_out(engine):
            remedy = "try `true` in a container of this image yourself"
            return Readiness(where, f"a container that does nothing ended with exit code {code}", remedy)
        detail = (
            f"containers of {image} by the engine {info.server_version} at {where}, network: {self._config.network}"
        )
        return Readiness(detail, limits=self._limits(), running=[each.labels[SANDBOX] for each in left])

    async def _try_out(self, engine: Engine) -> int:
        """The exit code of a container that does nothing; limits that cannot be set show here."""
        name = self._name(f"trial-{secrets.token_hex(4)}")
        settings = {**self._settings(Wanted("trial", "", "", ())), "Entrypoint": ["true"], "Cmd": [], "Labels": {}}
        try:
            await engine.create(name, settings)
            await engine.start(name)
            return await engine.wait(name)
        finally:
            await engine.remove(name)

    async def create(self, wanted: Wanted) -> Address:
        """Make and start a container."""
        engine, name = self._engine(), self._name(wanted.sandbox_id)
        token = secrets.token_urlsafe(32)
        settings = self._settings(wanted)
        settings["Labels"] = {**settings["Labels"], RECIPE: recipe(settings)}
        settings["Env"] = [*settings["Env"], f"{TOKEN}={token}"]
        await self.destroy(wanted.sandbox_id)
        await engine.create(name, settings)
        await engine.start(name)
        return await self._reach(wanted.sandbox_id, token)

    async def discover(self, wanted: Wanted) -> Address | None:
        """The container of a sandbox, if it runs and is as it would be made now."""
        found = await self._owned(wanted.sandbox_id)
        if found is None or not found.state.running or found.labels.get(RECIPE) != recipe(self._settings(wanted)):
            return None
        variables = dict(each.partition("=")[::2] for each in found.config.env or ())
        return await self._reach(wanted.sandbox_id, variables.get(TOKEN))

    async def explain(self, sandbox_id: str) -> str | None:
        """Why a container does not run, with its last words."""
        found = await self._owned(sandbox_id)
        if found is None:
            return "the container is gone"
        if found.state.running:
            return None
        words = await self._engine().logs(self._name(sandbox_id))
        return f"the container ended with exit code {found.state.exit_code}: {words[-500:]}"

    async def destroy(self, sandbox_id: str) -> None:
        """End a container of ours."""
        await self._leave(sandbox_id)
        if await self._owned(sandbox_id) is not None:
            await self._engine().remove(self._name(sandbox_id))

    async def aclose(self) -> None:
        """Let go of the engine."""
        for sandbox_id in list(self._ways):
            await self._leave(sandbox_id)
        if self._facts is not None:
            await self._facts.engine.aclose()

    async def _reach(self, sandbox_id: str, token: str | None) -> Address:
        """Open the way into a container, and with a list of hosts the one out of it."""
        await self._leave(sandbox_id)
        ways = self._ways[sandbox_id] = AsyncExitStack()
        relay = Relay(self._engine(), self._name(sandbox_id), self._config.port)
        ways.push_async_callback(relay.aclose)
        await relay.open()
        address = Address(f"http://{LOOPBACK}", token, relay.socket)
        if self._config.network == "allowlist":
            tunnel = EgressTunnel(address, AllowedHosts.of(self._config.allowed_hosts), self._egress)
            ways.push_async_callback(tunnel.aclose)
            await tunnel.open()
        return address

    async def _leave(self, sandbox_id: str) -> None:
        if ways := self._ways.pop(sandbox_id, None):
            await ways.aclose()

    async def _owned(self, sandbox_id: str) -> Container | None:
        """The container of a sandbox. One of the same name may belong to another installation: that is left alone."""
        name = self._name(sandbox_id)
        found = await self._engine().container(name)
        if found is not None and found.labels.get(HOME) != self._home:
            raise SandboxError(f"the container {name} belongs to somebody else; set another sandbox.container_prefix")
        return found

    def _engine(self) -> Engine:
        return self._known().engine

    def _known(self) -> Facts:
        if self._facts is None:
            raise EngineUnreachable("there is no container engine to be used; run `deerflow doctor` for the reason")
        return self._facts

    def _name(self, sandbox_id: str) -> str:
        return f"{self._config.container_prefix}-{sandbox_id}"

    def _settings(self, wanted: Wanted) -> dict[str, Any]:
        """What a container is made from, but for its token."""
        config = self._config
        filters = ",".join(each.hex() for each in container_filters())
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
            "Labels": {SANDBOX: wanted.sandbox_id, HOME: self._home, IMAGE: self._known().image.id},
            "HostConfig": self._host_settings(wanted),
        }
        if self._known().is_our_image:
            settings["User"] = container_user(self._known().is_rootless)
        return settings

    def _host_settings(self, wanted: Wanted) -> dict[str, Any]:
        limits = self._config.limits
        is_ours = self._known().is_our_image
        return {
            "NetworkMode": "bridge" if self._config.network == "full" else "none",
            "CapDrop": ["ALL"],
            "CapAdd": [] if is_ours else list(FOREIGN_CAPABILITIES),
            "SecurityOpt": ["no-new-privileges"],  # and, as nothing else is said, the engine's seccomp filter
            "ReadonlyRootfs": is_ours,
            "Tmpfs": dict.fromkeys(("/run", "/var/tmp"), SCRATCH) if is_ours else {},
            "Memory": limits.memory_mb * MB,
            "MemorySwap": limits.memory_mb * MB,
            "PidsLimit": limits.processes + SPARE_PROCESSES,
            "CpuPeriod": CPU_PERIOD_US,
            "CpuQuota": CPUS * CPU_PERIOD_US,
            "Ulimits": ulimits(limits.file_mb * MB),
            "Mounts": [
                {
                    "Type": "bind",
                    "Source": str(place.folder.absolute()),
                    "Target": place.path,
                    "ReadOnly": place.read_only,
                }
                for place in wanted.places
                if is_ours or place.path != TEMPORARY  # others may be several users, and want it for all of them
            ],
        }

    def _limits(self) -> Sequence[Limit]:
        limits, engine = self._config.limits, "the container engine"
        return [
            Limit("processes", str(limits.processes), engine),
            Limit("memory", f"{limits.memory_mb} MB", engine),
            Limit("processors", str(CPUS), engine),
            Limit("size of a file", f"{limits.file_mb} MB", engine),
            Limit("disk of a thread", f"{limits.disk_mb} MB", "the server, which looks once a second"),
            Limit("network", self._config.network, engine),
        ]


def container_user(is_rootless: bool) -> str:
    """Who the server in a container runs as: whoever the files of threads belong to on this machine."""
    if is_rootless:
        return "0:0"  # which is who we are outside
    uid, gid = os.geteuid(), os.getegid()
    return f"{uid}:{gid}" if uid else f"{SANDBOX_UID}:{SANDBOX_UID}"


def ulimits(file_bytes: int) -> list[Mapping[str, object]]:
    """Limits of every process. All are given, for some engines cannot set their own defaults."""
    wanted = [*ULIMITS, ("fsize", file_bytes, file_bytes), ("core", 0, 0)]
    return [{"Name": name, "Soft": soft, "Hard": hard} for name, soft, hard in wanted]


def recipe(settings: Mapping[str, Any]) -> str:
    """A mark that is the same for containers made from the same."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]


def remedy_for(image: str) -> str:
    """What to do for an image that is not there."""
    if "/" in image:
        return f"docker pull {image}, or the same with podman"
    return f"docker build -t {image} deploy/sandbox, or the same with podman"
