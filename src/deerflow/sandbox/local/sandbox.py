"""A thread's computer on this machine."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from deerflow.config.sandbox import VARIABLE, SandboxConfig
from deerflow.domain.errors import FileProblem, SandboxError
from deerflow.domain.files import WORKSPACE
from deerflow.domain.sandbox import (
    BackgroundOutput,
    BackgroundProcess,
    CommandResult,
    Confinement,
    Found,
    Matches,
    OutputListener,
)
from deerflow.sandbox.files import LocalThreadFiles
from deerflow.sandbox.local.background import Background
from deerflow.sandbox.local.launch import Ended
from deerflow.sandbox.local.output import BoundedText, OutputReader, clip_middle
from deerflow.sandbox.local.runners import Order, Runner
from deerflow.sandbox.local.search import (
    check_search,
    files_command,
    first,
    folders_command,
    lines_command,
    read_files,
    read_folders,
    read_lines,
)
from deerflow.sandbox.local.usage import DiskWatch, until_excess
from deerflow.sandbox.places import confined_places, is_text

MAX_COMMAND = 100_000
MAX_OUTPUT_BYTES = 256 * 1024 * 1024
SEARCH_BYTES = 8 * 1024 * 1024
SEARCH_S = 30.0
TIMED_OUT_CODE, KILLED_CODE = 124, 137


@dataclass(frozen=True, slots=True)
class LocalSandbox:
    """Files are reached from outside, race-free; commands run through `runner`."""

    id: str
    config: SandboxConfig
    files: LocalThreadFiles
    runner: Runner
    disk: DiskWatch
    background: Background
    search_program: str | None
    refusal: str | None = None
    """Why no command is run here; files can be worked with all the same."""
    confinement: Confinement | None = None

    def confined(self, to: Confinement) -> "LocalSandbox":
        """The same sandbox, for work that is confined."""
        files = replace(self.files, places=confined_places(self.files.places, to))
        return replace(self, files=files, confinement=to)

    async def execute_command(
        self,
        command: str,
        *,
        env: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
        on_output: OutputListener | None = None,
    ) -> CommandResult:
        """Run a line of bash in the workspace."""
        self._refuse_commands()
        limit = min(timeout_s or self.config.bash_command_timeout, self.config.bash_command_timeout)
        text = BoundedText()
        reader = OutputReader(text, on_output, MAX_OUTPUT_BYTES)
        running = self.runner.run(self._bash(command, env), reader, limit)
        ended, complaint = await until_excess(running, self.disk.await_excess)
        output, truncated = text.take()
        if ended is not None and not ended.has_run:
            raise SandboxError(f"the command could not be isolated, so it was not run: {output.strip()[-500:]}")
        output, clipped = clip_middle(output, self.config.bash_output_max_chars)
        if reader.is_flooded:
            complaint = f"it printed more than {MAX_OUTPUT_BYTES // 1024**2} MB"
        complaint = complaint or (ended.complaint if ended else None)
        if complaint:
            return CommandResult(with_note(output, f"ended: {complaint}"), KILLED_CODE, truncated or clipped)
        assert ended is not None
        if ended.timed_out:
            noted = with_note(output, f"ended after {limit:g} s; run long jobs in the background")
            return CommandResult(noted, TIMED_OUT_CODE, truncated or clipped, timed_out=True)
        return CommandResult(output, exit_code(ended.code), truncated or clipped)

    async def read_file(self, path: str) -> str:
        """The text of a file."""
        content = await self.files.read(path)
        try:
            return content.decode()
        except UnicodeDecodeError:
            size = len(content)
            raise FileProblem(
                f"{path!r} is no UTF-8 text but {size} bytes of something else; use a program for it"
            ) from None

    async def write_file(self, path: str, content: str, append: bool = False) -> None:
        """Make or replace a file, or add to its end."""
        try:
            encoded = content.encode()
        except UnicodeEncodeError:
            raise FileProblem(
                "the content has characters that UTF-8 cannot say (lone surrogates); leave them out"
            ) from None
        await (self.files.append(path, encoded) if append else self.files.write(path, encoded))

    async def update_file(self, path: str, content: bytes) -> None:
        """Make or replace a file with any bytes."""
        await self.files.write(path, content)

    async def download(self, path: str) -> bytes:
        """The bytes of a file."""
        return await self.files.read(path)

    async def list_dir(self, path: str, max_depth: int = 2, max_results: int = 1000) -> Found:
        """What is in a folder."""
        return Found(*first(await self.files.tree(path, max_depth), max_results))

    async def glob(self, path: str, pattern: str, *, include_dirs: bool = False, max_results: int = 200) -> Found:
        """Files whose path matches a pattern."""
        output = await self._search(files_command(self._searcher(), pattern), path)
        found = read_files(output, path)
        if include_dirs:
            found += read_folders(await self._search(folders_command(pattern), path), path)
        return Found(*first(sorted(found), max_results))

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
        """Lines that match."""
        command = lines_command(self._searcher(), pattern, glob, literal, case_sensitive, max_results)
        found = read_lines(await self._search(command, path), path)
        return Matches(found[:max_results], len(found) > max_results)

    async def start_process(self, name: str, command: str, *, env: Mapping[str, str] | None = None) -> None:
        """Run a command in the background."""
        self._refuse_commands()
        self.background.start(name, command, self._bash(command, env))

    async def process_output(self, name: str) -> BackgroundOutput:
        """What a background process has printed since this was last asked."""
        return self.background.output(name)

    async def kill_process(self, name: str) -> BackgroundOutput:
        """End a background process."""
        return await self.background.kill(name)

    async def list_processes(self) -> Sequence[BackgroundProcess]:
        """The background processes of the thread."""
        return self.background.show()

    async def aclose(self) -> None:
        """End everything that runs here."""
        await self.background.aclose()
        await self.runner.aclose()

    def _bash(self, command: str, env: Mapping[str, str] | None) -> Order:
        return replace(bash(command, env), confinement=self.confinement)

    def _refuse_commands(self) -> None:
        if self.refusal is not None:
            raise SandboxError(self.refusal)

    def _searcher(self) -> str:
        if self.search_program is None:
            raise SandboxError("ripgrep is not installed, and searching needs it; use `ls` and `read_file`")
        return self.search_program

    async def _search(self, command: Sequence[str], folder: str) -> str:
        await self.files.tree(folder, 1)  # says what is wrong with the path
        text = BoundedText(2 * SEARCH_BYTES)
        ended = await self.runner.run(Order(command, folder), OutputReader(text, limit=SEARCH_BYTES), SEARCH_S)
        output, _ = text.take()
        if ended.timed_out:
            raise SandboxError(f"the search took longer than {SEARCH_S:g} s; search in a smaller folder")
        if not ended.has_run:
            raise SandboxError(f"the search could not be isolated, so it was not made: {output.strip()[-500:]}")
        check_search(ended.code, output)
        return output


def bash(command: str, env: Mapping[str, str] | None) -> Order:
    """A line of bash, run in the workspace."""
    if not command.strip():
        raise SandboxError("the command is empty; give one")
    if not is_text(command):
        raise SandboxError("the command contains a zero byte or a lone surrogate; leave it out")
    if len(command.encode()) > MAX_COMMAND:
        raise SandboxError(f"the command is longer than {MAX_COMMAND} bytes; write it to a file and run that")
    for name, value in (env or {}).items():
        if not VARIABLE.fullmatch(name) or not is_text(value):
            raise SandboxError(
                f"{name!r} cannot be a variable: its name or its value has characters that none can have"
            )
    return Order(["/bin/bash", "-c", command], WORKSPACE, env or {})


@dataclass(frozen=True, slots=True)
class WatchedRunner:
    """Runs commands until they have written too much."""

    runner: Runner
    disk: DiskWatch

    async def run(self, order: Order, reader: OutputReader, timeout_s: float) -> Ended:
        ended, complaint = await until_excess(self.runner.run(order, reader, timeout_s), self.disk.await_excess)
        if ended is None:
            reader.add_note(f"ended: {complaint}")
        return ended or Ended(KILLED_CODE)

    async def aclose(self) -> None:
        await self.runner.aclose()


def exit_code(code: int) -> int:
    """As a shell tells it: 128 and the signal for a command that was killed."""
    return 128 - code if code < 0 else code


def with_note(output: str, text: str) -> str:
    """`output`, and what has to be said about it."""
    return f"{output.rstrip()}\n[{text}]".lstrip()
