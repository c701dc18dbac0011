"""Sandbox of a thread on this machine, and search in its files."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from deerflow.config.sections.sandbox import VARIABLE, SandboxConfig
from deerflow.domain.errors import FileProblem, SandboxError
from deerflow.domain.files import WORKSPACE
from deerflow.domain.sandbox import (
    BackgroundOutput,
    BackgroundProcess,
    CommandResult,
    Confinement,
    GrepMatch,
    GrepMatches,
    OutputListener,
    PathListing,
)
from deerflow.sandbox.files.files import LocalThreadFiles
from deerflow.sandbox.files.mounts import confine_mounts, is_encodable
from deerflow.sandbox.local.background import BackgroundCommands
from deerflow.sandbox.local.launcher.client import ExitStatus
from deerflow.sandbox.local.output import BoundedText, OutputReader, clip_middle
from deerflow.sandbox.local.runners import CommandSpec, Runner
from deerflow.sandbox.local.usage import DiskMonitor, run_until_exceeded

MAX_FILE_SIZE = "1M"
MAX_LINE = 500
EXCLUDED = (
    ".git", ".hg", ".svn", ".home", "node_modules", "__pycache__", ".venv", "venv", ".mypy_cache", ".pytest_cache",
    ".ruff_cache", "*.pyc",
)  # fmt: skip
"""Names excluded from searches."""
# Warning that ripgrep prints after the matches of a file that turned out to be binary.
BINARY_WARNING = (
    r'(?:[^\0]*: WARNING: stopped searching binary file after match \(found "\\0" byte around offset \d+\)\n)?'
)
MATCH = re.compile(rf"{BINARY_WARNING}([^\0]*)\0(\d+)[:-]([^\n]*)\n?")
FAILED = 2
"""Exit code of ripgrep after an error."""
FIND_FOLDERS = r"""
shopt -s globstar nullglob dotglob
IFS=
for found in $1; do [ -d "$found" ] && [ ! -L "$found" ] && printf '%s\0' "${found%/}"; done
:
"""


def build_files_command(program: str, pattern: str) -> list[str]:
    """Return the command that lists files matching a glob, separated by zero bytes."""
    return [
        program,
        "--no-config",
        "--files",
        "--null",
        *SEARCH_OPTIONS,
        "--sort=path",
        *glob_options(pattern),
        "--",
        ".",
    ]


def build_folders_command(pattern: str) -> list[str]:
    """Return the command that lists folders matching a glob."""
    if ".." in pattern.split("/"):
        raise SandboxError(f"the pattern {pattern!r} must not contain '..'; search in another folder instead")
    glob = pattern.lstrip("/") if "/" in pattern else f"**/{pattern}"
    return ["/bin/bash", "-c", FIND_FOLDERS, "bash", glob]


def build_lines_command(
    program: str, pattern: str, glob: str | None, literal: bool, case_sensitive: bool, max_results: int
) -> list[str]:
    """Return the command that lists matching lines; a zero byte ends the path, a line ending the line."""
    kind = ["--fixed-strings"] if literal else []
    case = ["--case-sensitive"] if case_sensitive else ["--ignore-case"]
    shape = ["--null", "--line-number", "--with-filename", "--no-heading", "--color=never", f"--max-columns={MAX_LINE}"]
    limits = ["--max-columns-preview", f"--max-filesize={MAX_FILE_SIZE}", f"--max-count={max_results + 1}"]
    command = [
        program,
        "--no-config",
        *SEARCH_OPTIONS,
        "--sort=path",
        *kind,
        *case,
        *shape,
        *limits,
        *glob_options(glob),
    ]
    return [*command, "--regexp", pattern, "--", "."]


SEARCH_OPTIONS = ("--hidden", "--no-ignore", "--no-messages")


def glob_options(pattern: str | None) -> list[str]:
    """Return the options for the pattern and the excluded names."""
    included = [f"--glob={pattern}"] if pattern else []
    return [*included, *(f"--glob=!{name}" for name in EXCLUDED)]


def parse_files(output: str, folder: str) -> list[str]:
    """Return the paths in the output of the files command."""
    return [join_path(folder, name) for name in output.split("\0") if name.strip("\n")]


def parse_folders(output: str, folder: str) -> list[str]:
    """Return the paths in the output of the folders command, without excluded names."""
    names = [name for name in output.split("\0") if name and not any(map(is_excluded, name.split("/")))]
    return [f"{join_path(folder, name)}/" for name in names]


def is_excluded(name: str) -> bool:
    """Return True if files of that name are excluded."""
    return any(fnmatchcase(name, pattern) for pattern in EXCLUDED)


def parse_lines(output: str, folder: str) -> list[GrepMatch]:
    """Return the matches in the output of the lines command."""
    return [
        GrepMatch(join_path(folder, found[1].lstrip("\n")), int(found[2]), found[3].rstrip("\r"))
        for found in MATCH.finditer(output)
    ]


def check_search(code: int, output: str) -> None:
    """Raise an error if ripgrep rejected the pattern."""
    text = output.strip()
    if code >= FAILED and text and "\0" not in text:  # unreadable files print nothing
        raise SandboxError(f"the search failed: {text.replace('rg: ', '')[:500]}")


def join_path(folder: str, name: str) -> str:
    """Return the absolute path of a result."""
    return f"{folder.rstrip('/')}/{name.removeprefix('./')}"


def truncate(found: Sequence[str], limit: int) -> tuple[Sequence[str], bool]:
    """Return the first results, and True if there are more."""
    return found[:limit], len(found) > limit


MAX_COMMAND = 100_000
MAX_OUTPUT_BYTES = 256 * 1024 * 1024
MAX_SEARCH_BYTES = 8 * 1024 * 1024
SEARCH_TIMEOUT_S = 30.0
TIMED_OUT_CODE, KILLED_CODE = 124, 137


@dataclass(frozen=True, slots=True)
class LocalSandbox:
    """Sandbox whose files are accessed from outside, safe against races; commands run through `runner`."""

    id: str
    config: SandboxConfig
    files: LocalThreadFiles
    runner: Runner
    disk: DiskMonitor
    background: BackgroundCommands
    search_program: str | None
    refusal: str | None = None
    """Reason why commands are refused; files are available anyway."""
    confinement: Confinement | None = None

    def confined(self, to: Confinement) -> "LocalSandbox":
        """Return this sandbox for confined work."""
        files = replace(self.files, mounts=confine_mounts(self.files.mounts, to))
        return replace(self, files=files, confinement=to)

    async def execute_command(
        self,
        command: str,
        *,
        env: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
        on_output: OutputListener | None = None,
    ) -> CommandResult:
        """Run a bash command in the workspace."""
        self._refuse_commands()
        limit = min(timeout_s or self.config.bash_command_timeout, self.config.bash_command_timeout)
        text = BoundedText()
        reader = OutputReader(text, on_output, MAX_OUTPUT_BYTES)
        running = self.runner.run(self._bash(command, env), reader, limit)
        status, kill_reason = await run_until_exceeded(running, self.disk.wait_for_excess)
        output, truncated = text.take()
        if status is not None and not status.has_run:
            raise SandboxError(f"the command could not be isolated, so it was not run: {output.strip()[-500:]}")
        output, clipped = clip_middle(output, self.config.bash_output_max_chars)
        if reader.limit_exceeded:
            kill_reason = f"it printed more than {MAX_OUTPUT_BYTES // 1024**2} MB"
        kill_reason = kill_reason or (status.kill_reason if status else None)
        if kill_reason:
            return CommandResult(append_note(output, f"ended: {kill_reason}"), KILLED_CODE, truncated or clipped)
        assert status is not None
        if status.timed_out:
            noted = append_note(output, f"ended after {limit:g} s; run long jobs in the background")
            return CommandResult(noted, TIMED_OUT_CODE, truncated or clipped, timed_out=True)
        return CommandResult(output, to_shell_exit_code(status.code), truncated or clipped)

    async def read_file(self, path: str) -> str:
        """Return the text of a file."""
        content = await self.files.read(path)
        try:
            return content.decode()
        except UnicodeDecodeError:
            size = len(content)
            raise FileProblem(f"{path!r} is not UTF-8 text ({size} bytes); use a program for it") from None

    async def write_file(self, path: str, content: str, append: bool = False) -> None:
        """Create, replace or append to a file."""
        try:
            encoded = content.encode()
        except UnicodeEncodeError:
            raise FileProblem(
                "the content has characters that UTF-8 cannot encode (lone surrogates); leave them out"
            ) from None
        await (self.files.append(path, encoded) if append else self.files.write(path, encoded))

    async def update_file(self, path: str, content: bytes) -> None:
        """Create or replace a file with bytes."""
        await self.files.write(path, content)

    async def download(self, path: str) -> bytes:
        """Return the bytes of a file."""
        return await self.files.read(path)

    async def list_dir(self, path: str, max_depth: int = 2, max_results: int = 1000) -> PathListing:
        """Return the entries of a folder."""
        return PathListing(*truncate(await self.files.tree(path, max_depth), max_results))

    async def glob(self, path: str, pattern: str, *, include_dirs: bool = False, max_results: int = 200) -> PathListing:
        """Return the files whose path matches a pattern."""
        output = await self._search(build_files_command(self._searcher(), pattern), path)
        found = parse_files(output, path)
        if include_dirs:
            found += parse_folders(await self._search(build_folders_command(pattern), path), path)
        return PathListing(*truncate(sorted(found), max_results))

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
        """Return the matching lines."""
        command = build_lines_command(self._searcher(), pattern, glob, literal, case_sensitive, max_results)
        found = parse_lines(await self._search(command, path), path)
        return GrepMatches(found[:max_results], len(found) > max_results)

    async def start_process(self, name: str, command: str, *, env: Mapping[str, str] | None = None) -> None:
        """Start a background command."""
        self._refuse_commands()
        self.background.start(name, command, self._bash(command, env))

    async def process_output(self, name: str) -> BackgroundOutput:
        """Return the output of a background command since the last call."""
        return self.background.output(name)

    async def kill_process(self, name: str) -> BackgroundOutput:
        """Kill a background command."""
        return await self.background.kill(name)

    async def list_processes(self) -> Sequence[BackgroundProcess]:
        """Return the background commands of the thread."""
        return self.background.list()

    async def aclose(self) -> None:
        """Stop everything that runs here."""
        await self.background.aclose()
        await self.runner.aclose()

    def _bash(self, command: str, env: Mapping[str, str] | None) -> CommandSpec:
        return replace(make_bash_spec(command, env), confinement=self.confinement)

    def _refuse_commands(self) -> None:
        if self.refusal is not None:
            raise SandboxError(self.refusal)

    def _searcher(self) -> str:
        if self.search_program is None:
            raise SandboxError("ripgrep is not installed, and searching needs it; use `ls` and `read_file`")
        return self.search_program

    async def _search(self, command: Sequence[str], folder: str) -> str:
        await self.files.tree(folder, 1)  # raises an error for an invalid path
        text = BoundedText(2 * MAX_SEARCH_BYTES)
        status = await self.runner.run(
            CommandSpec(command, folder), OutputReader(text, limit=MAX_SEARCH_BYTES), SEARCH_TIMEOUT_S
        )
        output, _ = text.take()
        if status.timed_out:
            raise SandboxError(f"the search took longer than {SEARCH_TIMEOUT_S:g} s; search in a smaller folder")
        if not status.has_run:
            raise SandboxError(f"the search could not be isolated, so it was not run: {output.strip()[-500:]}")
        check_search(status.code, output)
        return output


def make_bash_spec(command: str, env: Mapping[str, str] | None) -> CommandSpec:
    """Return the spec of a bash command in the workspace."""
    if not command.strip():
        raise SandboxError("the command is empty")
    if not is_encodable(command):
        raise SandboxError("the command contains a zero byte or a lone surrogate; leave it out")
    if len(command.encode()) > MAX_COMMAND:
        raise SandboxError(f"the command is longer than {MAX_COMMAND} bytes; write it to a file and run that")
    for name, value in (env or {}).items():
        if not VARIABLE.fullmatch(name) or not is_encodable(value):
            raise SandboxError(f"{name!r} is not a valid variable: its name or value has invalid characters")
    return CommandSpec(["/bin/bash", "-c", command], WORKSPACE, env or {})


@dataclass(frozen=True, slots=True)
class DiskLimitedRunner:
    """Runner that kills commands when the disk limit is exceeded."""

    runner: Runner
    disk: DiskMonitor

    async def run(self, spec: CommandSpec, reader: OutputReader, timeout_s: float) -> ExitStatus:
        status, kill_reason = await run_until_exceeded(
            self.runner.run(spec, reader, timeout_s), self.disk.wait_for_excess
        )
        if status is None:
            reader.add_note(f"ended: {kill_reason}")
        return status or ExitStatus(KILLED_CODE)

    async def aclose(self) -> None:
        await self.runner.aclose()


def to_shell_exit_code(code: int) -> int:
    """Return the exit code as a shell reports it: 128 plus the signal for a killed command."""
    return 128 - code if code < 0 else code


def append_note(output: str, text: str) -> str:
    """Return `output` followed by a note."""
    return f"{output.rstrip()}\n[{text}]".lstrip()
