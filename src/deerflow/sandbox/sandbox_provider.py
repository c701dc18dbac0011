"""Contract of sandbox providers."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

from deerflow.config.sections.sandbox import SandboxConfig
from deerflow.domain.sandbox import Sandbox

StorageLimit = Callable[[str], Awaitable[int | None]]


@dataclass(frozen=True, slots=True)
class HostContext:
    """Paths and environment of the host that a provider works with."""

    home: Path
    """State directory; the files of threads are below it."""
    cache: Path
    """Directory for files that can be rebuilt."""
    skills: Callable[[str], Path] | None = None
    """Returns a user's up-to-date skills folder, mounted read-only at `/mnt/skills`; blocks."""
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Environment of the server, for its own helper programs; commands never see it."""
    storage_limit: StorageLimit | None = None
    """Returns the limit of the files of a person in bytes; None for none."""


IsolationTier = Literal["isolated", "container", "host", "none"]
SandboxProblem = Literal[
    "bubblewrap_missing", "bubblewrap_failed", "windows", "sandbox_exec_missing", "sandbox_exec_allowlist",
    "engine_missing", "engine_unreachable", "image_missing", "image_allowlist", "container_failed",
    "provisioner_unreachable",
]  # fmt: skip
"""Why commands cannot be isolated."""


@dataclass(frozen=True, slots=True)
class SandboxLimit:
    """A resource limit of a sandbox; `enforced_by` is None if this machine cannot enforce it."""

    name: str
    value: str
    enforced_by: str | None


@dataclass(frozen=True, slots=True)
class SandboxReport:
    """Isolation tier of commands, with the problem and remedy if there is none."""

    tier: IsolationTier
    detail: str
    problem: str | None = None
    remedy: str | None = None
    code: SandboxProblem | None = None
    """Code of the problem, for clients with sentences of their own."""
    limits: Sequence[SandboxLimit] = ()
    has_files: bool = True
    """False if threads have no files on this system."""
    has_mounts: bool = True
    """False if commands see folders of this machine instead of mounts, so that they have no toolbox."""

    @property
    def runs_commands(self) -> bool:
        return self.tier != "none"


@dataclass(frozen=True, slots=True)
class ToolboxState:
    """Build state of the Python toolbox."""

    status: Literal["ready", "building", "failed", "missing", "off"]
    detail: str
    """For operators."""
    installed: int = 0
    total: int = 0
    """Number of packages, while it is being built."""


@runtime_checkable
class ToolboxOwner(Protocol):
    """Provider whose sandboxes have a Python toolbox."""

    async def toolbox_state(self) -> ToolboxState | None:
        """Return the build state of the toolbox, None if these sandboxes have none."""
        ...


@dataclass(frozen=True, slots=True)
class SandboxComponent:
    """A component that sandboxes need, and its state."""

    name: str
    state: Literal["ok", "note", "failed"]
    detail: str
    remedy: str | None = None


@runtime_checkable
class SandboxProvider(Protocol):
    """Provider of one sandbox per thread. The class named in `sandbox.use` is created with its config and host."""

    def __init__(self, config: SandboxConfig, host: HostContext) -> None: ...

    async def open(self) -> SandboxReport:
        """Set up and check if commands can be isolated on this machine. Called once, before any other method."""
        ...

    async def prepare(self) -> None:
        """Build slow, one-time resources. Servers await it in the background; nothing depends on it."""
        ...

    async def components(self) -> Sequence[SandboxComponent]:
        """Return the components that sandboxes need, for health checks."""
        ...

    async def acquire(self, thread_id: str, user_id: str) -> str:
        """Return the id of the thread's sandbox and start it if needed. Equal arguments give equal ids.

        Raises:
            SandboxError: No sandbox is available; the text gives the reason and a remedy.
        """
        ...

    async def get(self, sandbox_id: str) -> Sandbox | None:
        """Return the sandbox with this id, or None if it was not acquired here or has ended."""
        ...

    async def release(self, sandbox_id: str) -> None:
        """Release a sandbox after a run. Its files and background processes are kept."""
        ...

    async def discard(self, thread_id: str, user_id: str) -> None:
        """Stop everything that runs for a thread; its files are kept."""
        ...

    async def aclose(self) -> None:
        """Stop everything that runs in any sandbox."""
        ...
