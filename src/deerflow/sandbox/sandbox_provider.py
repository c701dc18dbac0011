"""Who hands out sandboxes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

from deerflow.config.sandbox import SandboxConfig
from deerflow.domain.sandbox import Sandbox


@dataclass(frozen=True, slots=True)
class SandboxPlaces:
    """Where on this machine a provider finds and keeps things."""

    home: Path
    """The state directory; the files of threads are below it."""
    cache: Path
    """For what can be made again."""
    skills: Callable[[str], Path] | None = None
    """The folder that is shown, read-only, at `/mnt/skills` to the sandboxes of a user, brought up to date; blocks."""
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The server's own variables, for programs that work for it; commands never see them."""


Tier = Literal["isolated", "container", "host", "none"]


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit a sandbox is under; `enforced_by` is None where this machine cannot enforce it."""

    name: str
    value: str
    enforced_by: str | None


@dataclass(frozen=True, slots=True)
class SandboxReport:
    """How far commands are kept from the rest of the machine."""

    tier: Tier
    detail: str
    problem: str | None = None
    remedy: str | None = None
    limits: Sequence[Limit] = ()

    @property
    def runs_commands(self) -> bool:
        return self.tier != "none"


@dataclass(frozen=True, slots=True)
class Part:
    """Something sandboxes are made from, and whether it is there."""

    name: str
    state: Literal["ok", "note", "failed"]
    detail: str
    remedy: str | None = None


@runtime_checkable
class SandboxProvider(Protocol):
    """Hands out one sandbox per thread. A class named in `sandbox.use` is called with its settings and places."""

    def __init__(self, config: SandboxConfig, places: SandboxPlaces) -> None: ...

    async def open(self) -> SandboxReport:
        """Get ready, and try out whether commands can be isolated here. Called once, before all others."""
        ...

    async def prepare(self) -> None:
        """Make what takes long and is made once. Servers await it in the background; nothing depends on it."""
        ...

    async def parts(self) -> Sequence[Part]:
        """What sandboxes are made from, for whoever asks what is missing."""
        ...

    async def acquire(self, thread_id: str, user_id: str) -> str:
        """The id of the thread's sandbox, which is made ready where it is not. Equal arguments give equal ids.

        Raises:
            SandboxError: None can be had; the text says why and what to do.
        """
        ...

    async def get(self, sandbox_id: str) -> Sandbox | None:
        """The sandbox of that id, if it has been acquired here and not gone since."""
        ...

    async def release(self, sandbox_id: str) -> None:
        """Say that a run is done with a sandbox. Its files stay, and so do its background processes."""
        ...

    async def discard(self, thread_id: str, user_id: str) -> None:
        """End everything that runs for a thread; its files are somebody else's business."""
        ...

    async def aclose(self) -> None:
        """End everything that runs in any sandbox."""
        ...
