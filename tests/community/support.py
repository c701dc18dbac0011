"""Container engine for tests: Podman from Debian packages, with its own storage and an image built here."""

import fcntl
import hashlib
import os
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from uuid import uuid4

import pytest

from deerflow.community.aio_sandbox import AioSandboxProvider
from deerflow.config.sections.sandbox import SandboxConfig
from deerflow.sandbox.sandbox_provider import HostContext
from tests.support import dependencies, needs, user_cache

ROOT = Path(__file__).parents[2]
IMAGE_FILES = ROOT / "deploy" / "sandbox"
BASE = dependencies()["container"]
PACKAGES = ("podman", "runc", "debootstrap", "netavark", "iptables")
BUILD_S = 600
ROUNDS, ROUND_S = 600, 0.05
SETTINGS = """
[containers]
default_ulimits = ["nofile=1024:4096", "nproc=4096:4096"]
[network]
network_config_dir = "{cache}/networks"
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "none"
exit_command_delay = 1
tmp_dir = "{run}/libpod"
"""
STORAGE = """
[storage]
driver = "overlay"
graphroot = "{cache}/storage"
runroot = "{run}/storage"
"""


@dataclass(frozen=True)
class ContainerEngine:
    """Socket of our own Podman, and the name of its image."""

    socket: Path
    image: str
    environment: Mapping[str, str]

    def config(self, **settings: object) -> SandboxConfig:
        """Return settings for a provider whose containers are separate from other tests."""
        own = {
            "engine_url": f"unix://{self.socket}",
            "image": self.image,
            "container_prefix": f"test-{uuid4().hex[:8]}",
        }
        return SandboxConfig.model_validate({**own, **settings})

    def podman(self, *arguments: str) -> str:
        """Return the output of Podman."""
        return podman(self.environment, *arguments)

    def remove_containers(self, prefix: str) -> list[str]:
        """Remove the containers whose names begin with `prefix`; return their ids."""
        left = self.podman("ps", "--all", "--quiet", "--filter", f"name=^{prefix}").split()
        if left:
            self.podman("rm", "--force", "--time=0", *left)
        return left


@asynccontextmanager
async def running_provider(
    engine: ContainerEngine, folder: Path, places: HostContext | None = None, **settings: object
) -> AsyncIterator[AioSandboxProvider]:
    """Open a provider of real containers, and remove all of them at the end."""
    config = engine.config(**settings)
    provider = AioSandboxProvider(config, places or make_host(folder))
    try:
        await provider.open()
        yield provider
    finally:
        await provider.aclose()
        left = engine.remove_containers(config.container_prefix)
        assert left == []


def make_host(folder: Path) -> HostContext:
    """Create a state directory with one skill."""
    skill = folder / "skills" / "greeting" / "SKILL.md"
    skill.parent.mkdir(parents=True, exist_ok=True)
    skill.write_text("Say hello.\n")
    return HostContext(home=folder / "home", cache=folder / "cache", skills=lambda _: folder / "skills")


@contextmanager
def running_engine(folder: Path) -> Iterator[ContainerEngine]:
    """Serve Podman's API on a socket in `folder`; the image is built once and kept."""
    if os.geteuid() != 0:
        pytest.skip("real containers are made as root, with Debian's podman, runc, netavark and debootstrap")
    for package in PACKAGES:
        needs(dependencies()["debian"][package])
    cache = user_cache() / "deerflow-tests" / "containers"
    environment = write_settings(cache)
    with clean_containers(cache, environment):
        image = build_image(cache, environment)
        path = folder / "engine.sock"
        # Where it runs, its helpers leave files.
        command = ["podman", "system", "service", "--time=0", f"unix://{path}"]
        service = subprocess.Popen(command, env=environment, cwd=path.parent)
        try:
            wait_for_socket(path, service)
            yield ContainerEngine(path, image, environment)
        finally:
            service.terminate()
            service.wait(timeout=30)


@contextmanager
def clean_containers(cache: Path, environment: Mapping[str, str]) -> Iterator[None]:
    """Remove all containers before and after, unless another process is using this storage."""
    with (cache / "users.lock").open("w") as lock:
        remove_leftovers(lock, environment)
        fcntl.flock(lock, fcntl.LOCK_SH)
        try:
            yield
        finally:
            remove_leftovers(lock, environment)


def remove_leftovers(lock: IO[str], environment: Mapping[str, str]) -> None:
    """Remove all containers if no other process holds the lock."""
    with suppress(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        podman(environment, "rm", "--all", "--force", "--time=0")


def write_settings(cache: Path) -> Mapping[str, str]:
    """Write settings that separate this Podman from others, and return its environment variables."""
    mark = hashlib.sha256(str(cache).encode()).hexdigest()[:8]
    run = Path("/run", f"deerflow-tests-{mark}")  # gone after a restart of the machine, as Podman wants it
    for path in (cache, run):
        path.mkdir(parents=True, exist_ok=True)
    files = {"CONTAINERS_CONF": SETTINGS, "CONTAINERS_STORAGE_CONF": STORAGE}
    for variable, text in files.items():
        write_atomically(cache / f"{variable.lower()}.toml", text.format(cache=cache, run=run))
    named = {variable: str(cache / f"{variable.lower()}.toml") for variable in files}
    return {**os.environ, **named}  # noqa: TID251


def build_image(cache: Path, environment: Mapping[str, str]) -> str:
    """Build the image from `deploy/sandbox` if needed and return its name."""
    digest = hashlib.sha256()
    for file in sorted(IMAGE_FILES.glob("*.py")) + [IMAGE_FILES / "Dockerfile"]:
        digest.update(file.name.encode() + file.read_bytes())
    image = f"localhost/deerflow-sandbox:{digest.hexdigest()[:16]}"
    with (cache / "build.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not image_exists(environment, image):
            if not image_exists(environment, BASE["image"]):
                create_base_image(cache, environment)
            options = ["--isolation=chroot", "--network=host", "--pull=never", "--layers"]
            podman(environment, "build", *options, "--tag", image, str(IMAGE_FILES))
            remove_older_images(environment, image)
    return image


def remove_older_images(environment: Mapping[str, str], image: str) -> None:
    """Remove images of earlier versions that are not in use."""
    listing = ("images", "--format={{.Repository}}:{{.Tag}}", "--filter=label=deerflow.sandbox")
    older = {name for name in podman(environment, *listing).split() if name.startswith("localhost/")} - {image}
    for name in older:
        subprocess.run(["podman", "rmi", name], env=environment, capture_output=True, timeout=60, check=False)


def create_base_image(cache: Path, environment: Mapping[str, str]) -> None:
    """Create a Debian image locally under its registry name, as tests do not use a registry."""
    root = cache / "debian"
    shutil.rmtree(root, ignore_errors=True)
    run_command(["debootstrap", "--variant=minbase", BASE["suite"], str(root)], environment)
    run_command(["tar", "--directory", str(root), "--create", "--file", str(cache / "debian.tar"), "."], environment)
    podman(environment, "import", str(cache / "debian.tar"), BASE["image"])
    shutil.rmtree(root)
    (cache / "debian.tar").unlink()


def image_exists(environment: Mapping[str, str], image: str) -> bool:
    command = ["podman", "image", "exists", image]
    return subprocess.run(command, env=environment, check=False, timeout=60).returncode == 0


def podman(environment: Mapping[str, str], *arguments: str) -> str:
    return run_command(["podman", *arguments], environment)


def run_command(command: list[str], environment: Mapping[str, str]) -> str:
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=BUILD_S, check=False)
    assert ended.returncode == 0, f"{command}: {ended.stdout[-2000:]}{ended.stderr[-2000:]}"
    return ended.stdout


def wait_for_socket(path: Path, service: "subprocess.Popen[bytes]") -> None:
    """Wait until Podman listens; its exit is an error."""
    for _ in range(ROUNDS):
        try:
            service.wait(ROUND_S)
        except subprocess.TimeoutExpired:
            if is_listening(path):
                return
    pytest.fail("Podman does not answer")


def is_listening(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(path)) == 0


def write_atomically(file: Path, text: str) -> None:
    """Write a file atomically."""
    unfinished = file.with_name(f"{file.name}.{os.getpid()}")
    unfinished.write_text(text)
    unfinished.replace(file)
