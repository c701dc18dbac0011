"""In-memory sandbox: files are kept in a dictionary, commands are answered by a script."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from deerflow.config.sections.sandbox import SandboxConfig
from deerflow.domain.errors import FileProblem, SandboxError
from deerflow.domain.sandbox import (
    BackgroundOutput,
    BackgroundProcess,
    CommandResult,
    GrepMatch,
    GrepMatches,
    OutputListener,
    PathListing,
)
from deerflow.sandbox.files.files import MAX_READ_BYTES
from deerflow.sandbox.files.mounts import AREAS, TEMPORARY, Mount, ResolvedPath, resolve_path
from deerflow.sandbox.local.sandbox import is_excluded
from deerflow.sandbox.sandbox_provider import HostContext, SandboxComponent, SandboxReport

NO_PATH = Path("/nonexistent")
MOUNTS = (
    *(Mount(path, NO_PATH) for path in (*AREAS, TEMPORARY)),
    *(Mount(path, NO_PATH, read_only=True) for path in ("/mnt/skills", "/mnt/acp-workspace")),
)
KILLED_CODE = 137

CommandScript = Callable[[str, "FakeSandbox"], CommandResult | str]
"""Function that answers a command. It may use the files of the sandbox. A string is the output of a success."""


def succeed_silently(command: str, sandbox: "FakeSandbox") -> str:
    """Let every command succeed without output."""
    return ""


@dataclass
class FakeProcess:
    """A background process that prints and ends under the control of the test."""

    process: BackgroundProcess
    unread: str = ""

    def read_new(self) -> BackgroundOutput:
        """Return the output since the last read."""
        output, self.unread = self.unread, ""
        return BackgroundOutput(self.process, output)


@dataclass
class FakeSandbox:
    """Sandbox of one thread. Tests can inspect `files` and `commands`."""

    id: str = "fake"
    script: CommandScript = succeed_silently
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
        """Return the answer of the script."""
        result = self._run_script(command)
        if on_output is not None and result.output:
            on_output(result.output)
        return result

    async def read_file(self, path: str) -> str:
        """Return the text of a file."""
        try:
            return (await self.download(path)).decode()
        except UnicodeDecodeError:
            raise FileProblem(f"{path!r} is not UTF-8 text; use a program for it") from None

    async def write_file(self, path: str, content: str, append: bool = False) -> None:
        """Create or replace a file, or append to it."""
        try:
            encoded = content.encode()
        except UnicodeEncodeError:
            raise FileProblem("the content has characters that UTF-8 cannot say; leave them out") from None
        before = self.files.get(resolve_path(MOUNTS, path).path, b"") if append else b""
        await self.update_file(path, before + encoded)

    async def update_file(self, path: str, content: bytes) -> None:
        """Create or replace a file with bytes."""
        resolved = resolve_path(MOUNTS, path)
        if resolved.mount.read_only:
            raise FileProblem(f"{resolved.path!r} cannot be used: it is read-only; write to another folder")
        if self._is_folder(resolved):
            raise FileProblem(f"{resolved.path!r} cannot be used: it is a folder; name a file in it")
        if any(parent in self.files for parent in list_parents(resolved)):
            raise FileProblem(f"{resolved.path!r} cannot be used: a part of the path is not a folder")
        if any(len(name.encode()) > 255 for name in resolved.parts):
            raise FileProblem(f"{resolved.path!r} cannot be used: the name is too long; choose a shorter one")
        self.files[resolved.path] = content

    async def download(self, path: str) -> bytes:
        """Return the bytes of a file."""
        resolved = resolve_path(MOUNTS, path)
        if self._is_folder(resolved):
            raise FileProblem(f"{resolved.path!r} cannot be used: it is a folder; name a file in it")
        if resolved.path not in self.files:
            raise FileProblem(f"{resolved.path!r} cannot be used: there is no such file; list the folder")
        if len(self.files[resolved.path]) > MAX_READ_BYTES:
            raise FileProblem(f"{resolved.path!r} has more than {MAX_READ_BYTES // 1024**2} MB; read only a part of it")
        return self.files[resolved.path]

    async def list_dir(self, path: str, max_depth: int = 2, max_results: int = 1000) -> PathListing:
        """Return the content of a folder."""
        names = sorted(name for name in self._below(path, folders=True) if name.rstrip("/").count("/") < max_depth)
        return build_listing([f"{resolve_path(MOUNTS, path).path}/{name}" for name in names], max_results)

    async def glob(self, path: str, pattern: str, *, include_dirs: bool = False, max_results: int = 200) -> PathListing:
        """Return the files whose path matches a pattern."""
        matcher = glob_regex(pattern)
        names = [
            name for name in self._list_searchable(path, folders=include_dirs) if matcher.fullmatch(name.rstrip("/"))
        ]
        return build_listing([f"{resolve_path(MOUNTS, path).path}/{name}" for name in names], max_results)

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
        """Return the matching lines. Slow patterns are not limited here."""
        try:
            matcher = re.compile(re.escape(pattern) if literal else pattern, 0 if case_sensitive else re.IGNORECASE)
        except re.error as error:
            raise SandboxError(f"the search failed: {error}") from None
        matches = [match for match in self._lines(path, glob) if matcher.search(match.line)]
        return GrepMatches(matches[:max_results], len(matches) > max_results)

    async def start_process(self, name: str, command: str, *, env: Mapping[str, str] | None = None) -> None:
        """Start a process whose output is the answer of the script."""
        running = [each for each, process in self.processes.items() if process.process.exit_code is None]
        if name in running:
            raise SandboxError(f"{name!r} is already running; kill it first, or choose another name")
        if len(running) >= self.background_limit:
            raise SandboxError(f"{self.background_limit} background processes are running; kill one first")
        self.processes.pop(name, None)
        self.processes[name] = FakeProcess(BackgroundProcess(name, command), self._run_script(command).output)

    async def process_output(self, name: str) -> BackgroundOutput:
        """Return the output of a background process since the last read."""
        return self._process(name).read_new()

    async def kill_process(self, name: str) -> BackgroundOutput:
        """Kill a background process."""
        self.end_process(name, KILLED_CODE)
        return self._process(name).read_new()

    async def list_processes(self) -> Sequence[BackgroundProcess]:
        """Return the background processes, oldest first."""
        return [process.process for process in self.processes.values()]

    def end_process(self, name: str, exit_code: int, last_output: str = "") -> None:
        """Let a background process end. A process that has ended keeps its exit code."""
        process = self._process(name)
        process.unread += last_output
        if process.process.exit_code is None:
            process.process = replace(process.process, exit_code=exit_code)

    def _run_script(self, command: str) -> CommandResult:
        if not command.strip():
            raise SandboxError("the command is empty; give one")
        self.commands.append(command)
        answer = self.script(command, self)
        return CommandResult(answer, 0) if isinstance(answer, str) else answer

    def _process(self, name: str) -> FakeProcess:
        if name not in self.processes:
            raise SandboxError(f"there is no background process {name!r}")
        return self.processes[name]

    def _is_folder(self, resolved: ResolvedPath) -> bool:
        return not resolved.parts or any(path.startswith(f"{resolved.path}/") for path in self.files)

    def _below(self, path: str, *, folders: bool) -> set[str]:
        """Return the relative paths of files below a folder. Folder paths end with `/`."""
        resolved = resolve_path(MOUNTS, path)
        if resolved.path in self.files:
            raise FileProblem(f"{resolved.path!r} cannot be used: a part of the path is not a folder")
        if not self._is_folder(resolved):
            raise FileProblem(f"{resolved.path!r} cannot be used: there is no such file; list the folder")
        files = {each.removeprefix(f"{resolved.path}/") for each in self.files if each.startswith(f"{resolved.path}/")}
        parts = [name.split("/") for name in files] if folders else []
        return files | {"/".join(names[:count]) + "/" for names in parts for count in range(1, len(names))}

    def _list_searchable(self, path: str, *, folders: bool) -> list[str]:
        """Return the paths below a folder, without excluded names."""
        names = self._below(path, folders=folders)
        return sorted(name for name in names if not any(map(is_excluded, name.split("/"))))

    def _lines(self, path: str, glob: str | None) -> Iterator[GrepMatch]:
        matcher = glob_regex(glob) if glob else None
        folder = resolve_path(MOUNTS, path).path
        for name in self._list_searchable(path, folders=False):
            content = self.files[f"{folder}/{name}"]
            if b"\0" in content or (matcher and not matcher.fullmatch(name)):
                continue
            lines = content.decode(errors="replace").removesuffix("\n").split("\n") if content else []
            for number, line in enumerate(lines, 1):
                yield GrepMatch(f"{folder}/{name}", number, line.rstrip("\r"))


class FakeSandboxProvider:
    """Provider of fake sandboxes, which keep their files. Tests can inspect `sandboxes`."""

    def __init__(
        self,
        config: SandboxConfig | None = None,
        host: HostContext | None = None,
        script: CommandScript = succeed_silently,
    ) -> None:
        self.sandboxes: dict[str, FakeSandbox] = {}
        self.released: list[str] = []
        self._limit = (config or SandboxConfig()).limits.background_processes
        self._script = script

    async def open(self) -> SandboxReport:
        """Report isolated commands, because a script has no access to the machine."""
        return SandboxReport("isolated", "answered by a script")

    async def prepare(self) -> None:
        """Do nothing."""

    async def components(self) -> Sequence[SandboxComponent]:
        """Return no components."""
        return ()

    async def acquire(self, thread_id: str, user_id: str) -> str:
        """Return the id of the thread's sandbox."""
        sandbox_id = f"{user_id}:{thread_id}"
        self.sandboxes.setdefault(sandbox_id, FakeSandbox(sandbox_id, self._script, self._limit))
        return sandbox_id

    async def get(self, sandbox_id: str) -> FakeSandbox | None:
        """Return the sandbox with that id, if it was acquired."""
        return self.sandboxes.get(sandbox_id)

    async def release(self, sandbox_id: str) -> None:
        """Record a release."""
        self.released.append(sandbox_id)

    async def discard(self, thread_id: str, user_id: str) -> None:
        """End the processes of a thread."""
        if sandbox := self.sandboxes.get(f"{user_id}:{thread_id}"):
            sandbox.processes.clear()

    async def aclose(self) -> None:
        """End the processes of all threads."""
        for sandbox in self.sandboxes.values():
            sandbox.processes.clear()


def list_parents(resolved: ResolvedPath) -> Iterator[str]:
    """Yield the paths of the parent folders."""
    return (ResolvedPath(resolved.mount, resolved.parts[:count]).path for count in range(1, len(resolved.parts)))


def build_listing(paths: Sequence[str], limit: int) -> PathListing:
    """Return the paths up to the limit."""
    return PathListing(paths[:limit], len(paths) > limit)


def glob_regex(pattern: str) -> re.Pattern[str]:
    """Return a glob as a regular expression: `*` stays in a folder, `**` does not, a plain name matches everywhere."""
    matcher = pattern.removeprefix("/") if "/" in pattern else f"**/{pattern}"
    pieces = re.split(r"(\*\*/|\*\*|\*|\?)", matcher)
    meaning = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.compile("".join(meaning.get(piece) or re.escape(piece) for piece in pieces), re.DOTALL)
