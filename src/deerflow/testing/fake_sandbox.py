"""A sandbox in memory: files are real to whoever reads and writes them, commands are answered by a script."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from deerflow.config.sandbox import SandboxConfig
from deerflow.domain.errors import FileProblem, SandboxError
from deerflow.domain.sandbox import (
    BackgroundOutput,
    BackgroundProcess,
    CommandResult,
    Found,
    GrepMatch,
    Matches,
    OutputListener,
)
from deerflow.sandbox.files import MAX_READ_BYTES
from deerflow.sandbox.local.search import is_left_out
from deerflow.sandbox.places import AREAS, TEMPORARY, Place, Spot, find_spot
from deerflow.sandbox.sandbox_provider import Part, SandboxPlaces, SandboxReport

NOWHERE = Path("/nonexistent")
PLACES = (
    *(Place(path, NOWHERE) for path in (*AREAS, TEMPORARY)),
    *(Place(path, NOWHERE, read_only=True) for path in ("/mnt/skills", "/mnt/acp-workspace")),
)
KILLED_CODE = 137

Script = Callable[[str, "FakeSandbox"], CommandResult | str]
"""What a command comes to; it may use the files of the sandbox. A plain text is the output of one that went well."""


def silent(command: str, sandbox: "FakeSandbox") -> str:
    """Let every command succeed and print nothing."""
    return ""


@dataclass
class FakeProcess:
    """A background process, which prints and ends when the test says so."""

    shown: BackgroundProcess
    unheard: str = ""

    def take(self) -> BackgroundOutput:
        """What was not yet heard of it."""
        output, self.unheard = self.unheard, ""
        return BackgroundOutput(self.shown, output)


@dataclass
class FakeSandbox:
    """The sandbox of one thread; `files` and `commands` are for tests to look at."""

    id: str = "fake"
    script: Script = silent
    background_limit: int = 4
    files: dict[str, bytes] = field(default_factory=dict)
    commands: list[str] = field(default_factory=list)
    processes: dict[str, FakeProcess] = field(default_factory=dict)

    async def execute_command(
        self,
        command: str,
        *,
        env: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
        on_output: OutputListener | None = None,
    ) -> CommandResult:
        """What the script answers."""
        result = self._answer(command)
        if on_output is not None and result.output:
            on_output(result.output)
        return result

    async def read_file(self, path: str) -> str:
        """The text of a file."""
        try:
            return (await self.download(path)).decode()
        except UnicodeDecodeError:
            raise FileProblem(f"{path!r} is no UTF-8 text; use a program for it") from None

    async def write_file(self, path: str, content: str, append: bool = False) -> None:
        """Make or replace a file, or add to its end."""
        try:
            encoded = content.encode()
        except UnicodeEncodeError:
            raise FileProblem("the content has characters that UTF-8 cannot say; leave them out") from None
        before = self.files.get(find_spot(PLACES, path).path, b"") if append else b""
        await self.update_file(path, before + encoded)

    async def update_file(self, path: str, content: bytes) -> None:
        """Make or replace a file with any bytes."""
        spot = find_spot(PLACES, path)
        if spot.place.read_only:
            raise FileProblem(f"{spot.path!r} cannot be used: it is read-only; write to another folder")
        if self._is_folder(spot):
            raise FileProblem(f"{spot.path!r} cannot be used: it is a folder; name a file in it")
        if any(above in self.files for above in folders_above(spot)):
            raise FileProblem(f"{spot.path!r} cannot be used: a part of the path is not a folder")
        if any(len(name.encode()) > 255 for name in spot.names):
            raise FileProblem(f"{spot.path!r} cannot be used: the name is too long; choose a shorter one")
        self.files[spot.path] = content

    async def download(self, path: str) -> bytes:
        """The bytes of a file."""
        spot = find_spot(PLACES, path)
        if self._is_folder(spot):
            raise FileProblem(f"{spot.path!r} cannot be used: it is a folder; name a file in it")
        if spot.path not in self.files:
            raise FileProblem(f"{spot.path!r} cannot be used: there is no such file; list the folder")
        if len(self.files[spot.path]) > MAX_READ_BYTES:
            raise FileProblem(f"{spot.path!r} has more than {MAX_READ_BYTES // 1024**2} MB; read only a part of it")
        return self.files[spot.path]

    async def list_dir(self, path: str, max_depth: int = 2, max_results: int = 1000) -> Found:
        """What is in a folder."""
        inside = sorted(name for name in self._below(path, folders=True) if name.rstrip("/").count("/") < max_depth)
        return found([f"{find_spot(PLACES, path).path}/{name}" for name in inside], max_results)

    async def glob(self, path: str, pattern: str, *, include_dirs: bool = False, max_results: int = 200) -> Found:
        """Files whose path matches a pattern."""
        wanted = glob_regex(pattern)
        names = [name for name in self._searched(path, folders=include_dirs) if wanted.fullmatch(name.rstrip("/"))]
        return found([f"{find_spot(PLACES, path).path}/{name}" for name in names], max_results)

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
        """Lines that match; a fake has nobody to protect from slow patterns."""
        try:
            wanted = re.compile(re.escape(pattern) if literal else pattern, 0 if case_sensitive else re.IGNORECASE)
        except re.error as problem:
            raise SandboxError(f"the search failed: {problem}") from None
        matches = [match for match in self._lines(path, glob) if wanted.search(match.line)]
        return Matches(matches[:max_results], len(matches) > max_results)

    async def start_process(self, name: str, command: str, *, env: Mapping[str, str] | None = None) -> None:
        """Start a process that has printed what the script answers."""
        running = [each for each, process in self.processes.items() if process.shown.exit_code is None]
        if name in running:
            raise SandboxError(f"{name!r} is running already; end it first, or choose another name")
        if len(running) >= self.background_limit:
            raise SandboxError(f"{self.background_limit} background processes are running; end one first")
        self.processes.pop(name, None)
        self.processes[name] = FakeProcess(BackgroundProcess(name, command), self._answer(command).output)

    async def process_output(self, name: str) -> BackgroundOutput:
        """What a background process has printed since this was last asked."""
        return self._process(name).take()

    async def kill_process(self, name: str) -> BackgroundOutput:
        """End a background process."""
        self.end_process(name, KILLED_CODE)
        return self._process(name).take()

    async def list_processes(self) -> Sequence[BackgroundProcess]:
        """The background processes, oldest first."""
        return [process.shown for process in self.processes.values()]

    def end_process(self, name: str, exit_code: int, last_words: str = "") -> None:
        """Have a background process end by itself; one that has ended keeps its exit code."""
        process = self._process(name)
        process.unheard += last_words
        if process.shown.exit_code is None:
            process.shown = replace(process.shown, exit_code=exit_code)

    def _answer(self, command: str) -> CommandResult:
        if not command.strip():
            raise SandboxError("the command is empty; give one")
        self.commands.append(command)
        answer = self.script(command, self)
        return CommandResult(answer, 0) if isinstance(answer, str) else answer

    def _process(self, name: str) -> FakeProcess:
        if name not in self.processes:
            raise SandboxError(f"there is no background process {name!r}")
        return self.processes[name]

    def _is_folder(self, spot: Spot) -> bool:
        return not spot.names or any(path.startswith(f"{spot.path}/") for path in self.files)

    def _below(self, path: str, *, folders: bool) -> set[str]:
        """The paths of files below a folder, from there; those of folders end in `/`."""
        spot = find_spot(PLACES, path)
        if spot.path in self.files:
            raise FileProblem(f"{spot.path!r} cannot be used: a part of the path is not a folder")
        if not self._is_folder(spot):
            raise FileProblem(f"{spot.path!r} cannot be used: there is no such file; list the folder")
        files = {each.removeprefix(f"{spot.path}/") for each in self.files if each.startswith(f"{spot.path}/")}
        parts = [name.split("/") for name in files] if folders else []
        return files | {"/".join(names[:count]) + "/" for names in parts for count in range(1, len(names))}

    def _searched(self, path: str, *, folders: bool) -> list[str]:
        """What is below a folder, without what nobody looks for."""
        names = self._below(path, folders=folders)
        return sorted(name for name in names if not any(map(is_left_out, name.split("/"))))

    def _lines(self, path: str, glob: str | None) -> Iterator[GrepMatch]:
        wanted = glob_regex(glob) if glob else None
        folder = find_spot(PLACES, path).path
        for name in self._searched(path, folders=False):
            content = self.files[f"{folder}/{name}"]
            if b"\0" in content or (wanted and not wanted.fullmatch(name)):
                continue
            lines = content.decode(errors="replace").removesuffix("\n").split("\n") if content else []
            for number, line in enumerate(lines, 1):
                yield GrepMatch(f"{folder}/{name}", number, line.rstrip("\r"))


class FakeSandboxProvider:
    """Hands out fake sandboxes, which keep their files; `sandboxes` is for tests to look at."""

    def __init__(
        self, config: SandboxConfig | None = None, places: SandboxPlaces | None = None, script: Script = silent
    ) -> None:
        self.sandboxes: dict[str, FakeSandbox] = {}
        self.released: list[str] = []
        self._limit = (config or SandboxConfig()).limits.background_processes
        self._script = script

    async def open(self) -> SandboxReport:
        """Say that commands are isolated: a script reaches nothing."""
        return SandboxReport("isolated", "answered by a script")

    async def prepare(self) -> None:
        """Have nothing to make."""

    async def parts(self) -> Sequence[Part]:
        """Need nothing."""
        return ()

    async def acquire(self, thread_id: str, user_id: str) -> str:
        """The id of the thread's sandbox."""
        sandbox_id = f"{user_id}:{thread_id}"
        self.sandboxes.setdefault(sandbox_id, FakeSandbox(sandbox_id, self._script, self._limit))
        return sandbox_id

    async def get(self, sandbox_id: str) -> FakeSandbox | None:
        """The sandbox of that id, if it has been acquired."""
        return self.sandboxes.get(sandbox_id)

    async def release(self, sandbox_id: str) -> None:
        """Note that a run is done with a sandbox."""
        self.released.append(sandbox_id)

    async def discard(self, thread_id: str, user_id: str) -> None:
        """End the processes of a thread."""
        if sandbox := self.sandboxes.get(f"{user_id}:{thread_id}"):
            sandbox.processes.clear()

    async def aclose(self) -> None:
        """End the processes of all threads."""
        for sandbox in self.sandboxes.values():
            sandbox.processes.clear()


def folders_above(spot: Spot) -> Iterator[str]:
    """The paths of the folders that a spot is in."""
    return (Spot(spot.place, spot.names[:count]).path for count in range(1, len(spot.names)))


def found(paths: Sequence[str], limit: int) -> Found:
    """As many as asked for, and whether there are more."""
    return Found(paths[:limit], len(paths) > limit)


def glob_regex(pattern: str) -> re.Pattern[str]:
    """A glob as a regular expression: `*` stays in a folder, `**` does not, a plain name is looked for everywhere."""
    wanted = pattern.removeprefix("/") if "/" in pattern else f"**/{pattern}"
    pieces = re.split(r"(\*\*/|\*\*|\*|\?)", wanted)
    meaning = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.compile("".join(meaning.get(piece) or re.escape(piece) for piece in pieces), re.DOTALL)
