"""A thread's computer, as tools and middlewares see it."""

from asyncio import Lock
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What a command printed and how it ended."""

    output: str
    """Both streams as they came; where there was too much, the middle is left out and a note says so."""
    exit_code: int
    truncated: bool = False
    timed_out: bool = False


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found, and whether there is more than was asked for."""

    paths: Sequence[str]
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class GrepMatch:
    """One line that matches; the first line of a file is 1."""

    path: str
    line_number: int
    line: str


@dataclass(frozen=True, slots=True)
class Matches:
    """Matching lines, and whether there are more than was asked for."""

    matches: Sequence[GrepMatch]
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class BackgroundProcess:
    """A command that runs on its own. `exit_code` is None while it does."""

    name: str
    command: str
    exit_code: int | None = None


@dataclass(frozen=True, slots=True)
class BackgroundOutput:
    """What a background process printed since it was last asked."""

    process: BackgroundProcess
    output: str
    truncated: bool = False


OutputListener = Callable[[str], None]
EVERYWHERE = "*"


@dataclass(frozen=True, slots=True)
class Confinement:
    """What somebody's work in a sandbox is narrowed to. It never gives more than the sandbox has anyway."""

    writable: tuple[str, ...] | None = None
    """The folders that can be written to, and `/tmp`; None: as always."""
    hosts: tuple[str, ...] | None = None
    """The hosts that can be reached, `*.example.org` for all below one; None, or `*` among them: as always."""
    environment: frozenset[str] | None = None
    """The variables of the configuration that commands see; None: all."""

    @property
    def only_hosts(self) -> tuple[str, ...] | None:
        """The hosts that can be reached; None: as always."""
        return None if self.hosts is None or EVERYWHERE in self.hosts else self.hosts


@runtime_checkable  # LangChain validates the run context with isinstance
class Sandbox(Protocol):
    """One thread's machine. Paths are absolute inside it, and the same whatever provides it.

    Every method raises `SandboxError`, and those that take a path `FileProblem`; the texts are written for the model.
    Cancelling the task that awaits a command ends everything the command started.
    """

    @property
    def id(self) -> str: ...

    async def execute_command(
        self,
        command: str,
        *,
        env: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
        on_output: OutputListener | None = None,
    ) -> CommandResult:
        """Run a line of bash in the workspace; `on_output` hears what it prints while it prints."""
        ...

    async def read_file(self, path: str) -> str:
        """The text of a file, exactly: line ends and byte order mark are as they are. Refuses what is no UTF-8."""
        ...

    async def write_file(self, path: str, content: str, append: bool = False) -> None:
        """Make or replace a file, or add to its end; missing folders are made."""
        ...

    async def update_file(self, path: str, content: bytes) -> None:
        """Make or replace a file with any bytes."""
        ...

    async def download(self, path: str) -> bytes:
        """The bytes of a file."""
        ...

    async def list_dir(self, path: str, max_depth: int = 2, max_results: int = 1000) -> Found:
        """What is in a folder, to `max_depth` levels; folders end in `/`."""
        ...

    async def glob(self, path: str, pattern: str, *, include_dirs: bool = False, max_results: int = 200) -> Found:
        """Files below `path` whose path from there matches `pattern`."""
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
    ) -> Matches:
        """Lines below `path` that match a regular expression, or contain `pattern` literally."""
        ...

    async def start_process(self, name: str, command: str, *, env: Mapping[str, str] | None = None) -> None:
        """Run a command that goes on by itself until it ends, is ended, or the thread is deleted."""
        ...

    async def process_output(self, name: str) -> BackgroundOutput:
        """What a background process has printed since this was last asked."""
        ...

    async def kill_process(self, name: str) -> BackgroundOutput:
        """End a background process and everything it started; what it had left to say."""
        ...

    async def list_processes(self) -> Sequence[BackgroundProcess]:
        """The background processes of the thread, oldest first."""
        ...


@runtime_checkable
class ConfinableSandbox(Protocol):
    """A sandbox that can hold some of its work to less than the rest."""

    def confined(self, to: Confinement) -> Sandbox:
        """The same sandbox, for work that is confined."""
        ...


@dataclass(frozen=True, slots=True)
class OutputLimits:
    """How many characters of a result the model sees; 0: all."""

    bash: int = 20_000
    read_file: int = 50_000
    ls: int = 20_000


@runtime_checkable
class SandboxLease(Protocol):
    """A run's claim on its thread's sandbox, which is made ready at the first use."""

    @property
    def limits(self) -> OutputLimits: ...

    @property
    def sandbox_id(self) -> str | None:
        """None until the sandbox was first used."""
        ...

    async def sandbox(self) -> Sandbox:
        """The sandbox of the thread.

        Raises:
            SandboxError: There is none to be had; the text says what to do.
        """
        ...

    def lock(self, path: str) -> Lock:
        """What keeps two changes of one file from mixing."""
        ...
