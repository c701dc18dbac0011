"""Who makes the containers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from deerflow.community.aio_sandbox.api import Address
from deerflow.sandbox.places import Place
from deerflow.sandbox.sandbox_provider import Limit


@dataclass(frozen=True, slots=True)
class Wanted:
    """A sandbox, and whose it is."""

    sandbox_id: str
    thread_id: str
    user_id: str
    places: Sequence[Place]


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether containers can be had, in words; what is missing has a remedy."""

    detail: str
    problem: str | None = None
    remedy: str | None = None
    limits: Sequence[Limit] = ()
    running: Sequence[str] = ()
    """The ids of all sandboxes that have a container already, ours and perhaps others'."""


class SandboxBackend(Protocol):
    """Makes, finds and ends containers. Every method raises `SandboxError`."""

    @property
    def is_here(self) -> bool:
        """Whether containers are on this machine, and their files too."""
        ...

    async def open(self) -> Readiness:
        """Try out whether containers can be had."""
        ...

    async def create(self, wanted: Wanted) -> Address:
        """Start a container; its server may need a moment to answer."""
        ...

    async def discover(self, wanted: Wanted) -> Address | None:
        """A container that runs already and is as it would be made now."""
        ...

    async def explain(self, sandbox_id: str) -> str | None:
        """Why a container does not run, None if it does."""
        ...

    async def destroy(self, sandbox_id: str) -> None:
        """End a container, if there is one."""
        ...

    async def aclose(self) -> None:
        """Let go of everything; containers go on."""
        ...
