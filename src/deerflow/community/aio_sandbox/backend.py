"""Contract of the backends that create containers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from deerflow.community.aio_sandbox.api import SandboxAddress
from deerflow.sandbox.files.mounts import Mount
from deerflow.sandbox.sandbox_provider import SandboxLimit


@dataclass(frozen=True, slots=True)
class ContainerRequest:
    """A sandbox to create, with its owner and mounts."""

    sandbox_id: str
    thread_id: str
    user_id: str
    mounts: Sequence[Mount]


@dataclass(frozen=True, slots=True)
class BackendStatus:
    """State of a backend, with a remedy for a problem."""

    detail: str
    problem: str | None = None
    remedy: str | None = None
    limits: Sequence[SandboxLimit] = ()
    running: Sequence[str] = ()
    """Ids of all sandboxes with a running container, possibly also of other installations."""


class SandboxBackend(Protocol):
    """Creates, finds and removes containers. Every method raises `SandboxError`."""

    @property
    def is_here(self) -> bool:
        """True if containers and their files are on this machine."""
        ...

    async def open(self) -> BackendStatus:
        """Check if containers can be created."""
        ...

    async def create(self, request: ContainerRequest) -> SandboxAddress:
        """Start a container; its server may need a moment to answer."""
        ...

    async def discover(self, request: ContainerRequest) -> SandboxAddress | None:
        """Return a running container with the current settings, if there is one."""
        ...

    async def explain(self, sandbox_id: str) -> str | None:
        """Return why a container does not run, or None if it does."""
        ...

    async def destroy(self, sandbox_id: str) -> None:
        """Remove a container, if there is one."""
        ...

    async def aclose(self) -> None:
        """Close all connections; containers keep running."""
        ...
