"""The sandbox of a thread, as tools and middlewares see it."""

from asyncio import Lock
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Protocol, runtime_checkable

CONTAINER_ENGINES = frozenset({"docker", "podman", "nerdctl"})


def is_container(command: Sequence[str]) -> bool:
    """Return whether a command is that of a container engine."""
    return bool(command) and PurePath(command[0]).name in CONTAINER_ENGINES


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The output and exit code of a command."""

    output: str
    """Standard output and error, interleaved; the middle of a long output is replaced by a note."""
    exit_code: int
    truncated: bool = False
    timed_out: bool = False


@dataclass(frozen=True, slots=True)
class PathListing:
    """The paths that a search or listing returned; `truncated` when there are more."""

    paths: Sequence[str]
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class GrepMatch:
    """A matching line; the first line of a file is 1."""

    path: str
    line_number: int
    line: str


@dataclass(frozen=True, slots=True)
class GrepMatches:
    """The matching lines; `truncated` when there are more."""

    matches: Sequence[GrepMatch]
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class BackgroundProcess:
    """A background command; `exit_code` is None while it runs."""

    name: str
    command: str
    exit_code: int | None = None


@dataclass(frozen=True, slots=True)
class BackgroundOutput:
    """The output of a background process since the last read."""

    process: BackgroundProcess
    output: str
    truncated: bool = False


OutputListener = Callable[[str], None]
ANY_HOST = "*"


@dataclass(frozen=True, slots=True)
class Confinement:
    """Restrictions on part of the work in a sandbox. They never grant more than the sandbox itself."""

    writable: tuple[str, ...] | None = None
    """The writable folders besides `/tmp`; None for no restriction."""
    hosts: tuple[str, ...] | None = None
    """The hosts that can be reached; `*.example.org` matches subdomains. None or `*` for no restriction."""
    environment: frozenset[str] | None = None
    """The configured environment variables that commands see; None for all."""

    @property
    def allowed_hosts(self) -> tuple[str, ...] | None:
        """Return the hosts that can be reached; None when there is no restriction."""
        return None if self.hosts is None or ANY_HOST in self.hosts else self.hosts


@runtime_checkable  # LangChain validates the run context with isinstance
class Sandbox(Protocol):
    """One thread's machine. Paths are absolute and the same for every provider.

    Every method raises `SandboxError`, and those that take a path `FileProblem`; the texts are written for the model.
    Cancelling the task that awaits a command kills every process the command has started.
    """

    def __init__(self, id: str = "") -> None:
        """Keep the id, for classes that inherit from this one."""
        object.__setattr__(self, "_id", id)

    @property
    def id(self) -> str:
        return str(getattr(self, "_id", ""))

    async def execute_command(
        self,
        command: str,
        *,
        env: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
        on_output: OutputListener | None = None,
    ) -> CommandResult:
        """Run a bash command line in the workspace; `on_output` receives the output as it is printed."""
        ...

    async def read_file(self, path: str) -> str:
        """Return the exact text of a file, with its line ends and byte order mark; reject files that are not UTF-8."""
        ...

    async def write_file(self, path: str, content: str, append: bool = False) -> None:
        """Create, replace or append to a file; missing folders are created."""
        ...

    async def update_file(self, path: str, content: bytes) -> None:
        """Create or replace a file with the given bytes."""
        ...

    async def download(self, path: str) -> bytes:
        """Return the bytes of a file."""
        ...

    async def list_dir(self, path: str, max_depth: int = 2, max_results: int = 1000) -> PathListing:
        """Return the entries of a folder down to `max_depth` levels; folders end in `/`."""
        ...

    async def glob(self, path: str, pattern: str, *, include_dirs: bool = False, max_results: int = 200) -> PathListing:
        """Return the files below `path` whose relative path matches `pattern`."""
        ...

    async def grep(
        self,
        path: str,
        pattern: str,
        *,
        glob: str | None = None,
        literal: bool = False,
        case_sensitive: bool = False,
        max_results: int = 100,
    ) -> GrepMatches:
        """Return the lines below `path` that match a regular expression, or contain `pattern` literally."""
        ...

    async def start_process(self, name: str, command: str, *, env: Mapping[str, str] | None = None) -> None:
        """Start a command that runs until it exits, is killed, or the thread is deleted."""
        ...

    async def process_output(self, name: str) -> BackgroundOutput:
        """Return the output of a background process since the last call."""
        ...

    async def kill_process(self, name: str) -> BackgroundOutput:
        """Kill a background process and its children; return its remaining output."""
        ...

    async def list_processes(self) -> Sequence[BackgroundProcess]:
        """Return the background processes of the thread, oldest first."""
        ...


@runtime_checkable
class ConfinableSandbox(Protocol):
    """A sandbox that can restrict part of its work."""

    def confined(self, to: Confinement) -> Sandbox:
        """Return the same sandbox with restrictions applied."""
        ...


@dataclass(frozen=True, slots=True)
class OutputLimits:
    """The maximum number of characters of a result that the model sees; 0 for no limit."""

    bash: int = 20_000
    read_file: int = 50_000
    ls: int = 20_000


@runtime_checkable
class SandboxLease(Protocol):
    """A run's lease of its thread's sandbox, which is prepared on first use."""

    @property
    def limits(self) -> OutputLimits: ...

    @property
    def sandbox_id(self) -> str | None:
        """Return the id of the sandbox; None until it was first used."""
        ...

    async def sandbox(self) -> Sandbox:
        """Return the sandbox of the thread.

        Raises:
            SandboxError: No sandbox is available; the text says what to do.
        """
        ...

    def lock(self, path: str) -> Lock:
        """Return the lock that serializes changes of one file."""
        ...
