"""Sandbox of a thread in a container."""

import asyncio
import base64
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from deerflow.community.aio_sandbox.api import (
    CALL_TIMEOUT_S,
    CommandEvent,
    CommandOutput,
    EmptyResponse,
    FoundFiles,
    MatchedLines,
    RemoteFolder,
    RemoteProcess,
    RemoteProcesses,
    SandboxApi,
    SandboxUnreachable,
    ServerInfo,
)
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
from deerflow.sandbox.files.files import MAX_READ_BYTES, check_writable, explain_errors
from deerflow.sandbox.files.mounts import Mount, resolve_path
from deerflow.sandbox.local.background import NAME
from deerflow.sandbox.local.launcher.client import ExitStatus
from deerflow.sandbox.local.output import DEFAULT_MAX_CHARS, BoundedText, clip_middle, format_omission
from deerflow.sandbox.local.sandbox import KILLED_CODE, TIMED_OUT_CODE, append_note, make_bash_spec
from deerflow.sandbox.local.usage import run_until_exceeded

SERVER_GRACE_S = 15.0
"""Extra time after the timeout of a command for the server to report that it was killed."""
MAX_WRITE_BYTES = MAX_READ_BYTES
MAX_FILE_SIZE = "1M"


@dataclass(frozen=True, slots=True)
class AioSandbox:
    """Sandbox in a container; calls run concurrently."""

    id: str
    config: SandboxConfig
    mounts: Sequence[Mount]
    wait_for_excess: Callable[[], Coroutine[Any, Any, str]]
    """Returns a message when the disk limit of the thread is exceeded."""
    api: SandboxApi
    server: ServerInfo

    async def execute_command(
        self,
        command: str,
        *,
        env: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
        on_output: OutputListener | None = None,
    ) -> CommandResult:
        """Run a bash command in the workspace."""
        make_bash_spec(command, env)  # validates the command
        limit = min(timeout_s or self.config.bash_command_timeout, self.config.bash_command_timeout)
        transcript = CommandTranscript(on_output)
        run = self._run if self.server.deerflow else self._run_aio
        status, kill_reason = await run_until_exceeded(run(command, env or {}, limit, transcript), self.wait_for_excess)
        output, truncated = transcript.take(self.config.bash_output_max_chars)
        if status is None:
            return CommandResult(append_note(output, f"ended: {kill_reason}"), KILLED_CODE, truncated)
        if status.timed_out:
            noted = append_note(output, f"ended after {limit:g} s; run long jobs in the background")
            return CommandResult(noted, TIMED_OUT_CODE, truncated, timed_out=True)
        return CommandResult(output, status.code, truncated)

    async def _run(
        self, command: str, env: Mapping[str, str], limit: float, transcript: "CommandTranscript"
    ) -> ExitStatus:
        """Run with our own server, which streams the output and kills the command when the connection is closed."""
        body = {"command": command, "env": env, "hard_timeout": limit, "max_output": DEFAULT_MAX_CHARS}
        last: CommandEvent | None = None
        async with aclosing(self.api.events("/v1/deerflow/run", body, limit + SERVER_GRACE_S)) as events:
            async for event in events:
                last = event
                transcript.add_gap(event.left_out)
                transcript.add(event.output)
        if last is not None and last.problem is not None:
            raise SandboxError(last.problem)
        if last is None or last.exit_code is None:
            raise SandboxUnreachable("the sandbox ended before the command did; call the tool again")
        return ExitStatus(last.exit_code, timed_out=last.timed_out)

    async def _run_aio(
        self, command: str, env: Mapping[str, str], limit: float, transcript: "CommandTranscript"
    ) -> ExitStatus:
        """Run with the server of the AIO image, in one session per command so that they run concurrently."""
        session = uuid4().hex
        path, body = "/v1/shell/exec", {"command": command, "hard_timeout": limit}
        if env:
            path, body = "/v1/bash/exec", {**body, "env": env}
        else:
            body = {**body, "id": session, "exec_dir": self.server.home_dir}
        try:
            status = await self.api.post(path, body, CommandOutput, limit + SERVER_GRACE_S)
        except (asyncio.CancelledError, SandboxUnreachable):
            await self._kill_session(session)
            raise
        transcript.add(status.output or status.stdout + status.stderr)
        return ExitStatus(status.exit_code or 0, timed_out=status.status in ("hard_timeout", "timed_out"))

    async def _kill_session(self, session: str) -> None:
        try:
            await asyncio.shield(self.api.post("/v1/shell/kill", {"id": session}, EmptyResponse, CALL_TIMEOUT_S))
        except SandboxError:
            return  # it did not exist, or ended with the container

    async def read_file(self, path: str) -> str:
        """Return the text of a file."""
        content = await self.download(path)
        try:
            return content.decode()
        except UnicodeDecodeError:
            what = f"{len(content)} bytes"
            raise FileProblem(f"{path!r} is not UTF-8 text ({what}); use a program for it") from None

    async def write_file(self, path: str, content: str, append: bool = False) -> None:
        """Create, replace or append to a file."""
        try:
            encoded = content.encode()
        except UnicodeEncodeError:
            problem = "the content has characters that UTF-8 cannot encode (lone surrogates); leave them out"
            raise FileProblem(problem) from None
        await self._write(path, encoded, append)

    async def update_file(self, path: str, content: bytes) -> None:
        """Create or replace a file with bytes."""
        await self._write(path, content, append=False)

    async def _write(self, path: str, content: bytes, append: bool) -> None:
        resolved = resolve_path(self.mounts, path)
        with explain_errors(resolved):
            check_writable(resolved)
        if len(content) > MAX_WRITE_BYTES:
            raise FileProblem(f"{path!r} would have more than {MAX_WRITE_BYTES // 1024**2} MB; write it in parts")
        encoded = await asyncio.to_thread(base64.b64encode, content)
        body = {"file": resolved.path, "content": encoded.decode(), "encoding": "base64", "append": append}
        await self.api.post("/v1/file/write", body, EmptyResponse)

    async def download(self, path: str) -> bytes:
        """Return the bytes of a file."""
        return await self.api.download(resolve_path(self.mounts, path).path, MAX_READ_BYTES)

    async def list_dir(self, path: str, max_depth: int = 2, max_results: int = 1000) -> PathListing:
        """Return the entries of a folder."""
        folder = resolve_path(self.mounts, path).path
        body = {"path": folder, "recursive": max_depth > 1, "show_hidden": True}
        limits = {"max_depth": max_depth, "max_results": max_results}
        listing = await self.api.post("/v1/file/list", {**body, **limits}, RemoteFolder)
        found = [
            f"{each.path}/" if each.is_directory else each.path
            for each in listing.files
            if each.path.removeprefix(folder).strip("/").count("/") < max_depth
        ]
        return PathListing(sorted(found)[:max_results], listing.truncated or len(found) > max_results)

    async def glob(self, path: str, pattern: str, *, include_dirs: bool = False, max_results: int = 200) -> PathListing:
        """Return the files whose path matches a pattern."""
        body = {"path": resolve_path(self.mounts, path).path, "glob": pattern}
        more = {"include_dirs": include_dirs, "max_results": max_results}
        found = await self.api.post("/v1/file/find", {**body, **more}, FoundFiles)
        return PathListing(sorted(found.files)[:max_results], found.truncated or len(found.files) > max_results)

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
        body = {
            "path": resolve_path(self.mounts, path).path,
            "pattern": pattern,
            "include": glob and [glob],
            "fixed_strings": literal,
            "case_insensitive": not case_sensitive,
            "max_results": max_results,
            "max_file_size": MAX_FILE_SIZE,
            "recursive": True,
        }
        found = await self.api.post("/v1/file/grep", body, MatchedLines)
        matches = [GrepMatch(each.file, each.line_number, each.line_content) for each in found.matches]
        return GrepMatches(matches[:max_results], found.truncated or len(matches) > max_results)

    async def start_process(self, name: str, command: str, *, env: Mapping[str, str] | None = None) -> None:
        """Start a background command."""
        make_bash_spec(command, env)
        if not NAME.fullmatch(name):
            raise SandboxError("a name is 1 to 64 letters, digits, '.', '-' or '_'")
        body = {"name": name, "command": command, "env": env or {}, "at_most": self.config.limits.background_processes}
        await self.api.post("/v1/deerflow/processes/start", body, EmptyResponse)

    async def process_output(self, name: str) -> BackgroundOutput:
        """Return the output of a background command since the last call."""
        return to_background_output(await self.api.post("/v1/deerflow/processes/output", {"name": name}, RemoteProcess))

    async def kill_process(self, name: str) -> BackgroundOutput:
        """Kill a background command."""
        return to_background_output(await self.api.post("/v1/deerflow/processes/kill", {"name": name}, RemoteProcess))

    async def list_processes(self) -> Sequence[BackgroundProcess]:
        """Return the background commands of the thread."""
        if not self.server.deerflow:
            return []
        found = await self.api.get("/v1/deerflow/processes", RemoteProcesses)
        return [BackgroundProcess(each.name, each.command, each.exit_code) for each in found.processes]

    async def aclose(self) -> None:
        """Close the connections; the container keeps running."""
        await self.api.aclose()


def to_background_output(process: RemoteProcess) -> BackgroundOutput:
    """Convert a process of the server to our type."""
    shown = BackgroundProcess(process.name, process.command, process.exit_code)
    return BackgroundOutput(shown, process.output, process.truncated)


class CommandTranscript:
    """Output of a command with bounded memory, passed on while it arrives."""

    def __init__(self, listener: OutputListener | None) -> None:
        self._text = BoundedText(2 * DEFAULT_MAX_CHARS)  # a correct server sends at most half of it
        self._listener = listener
        self._is_complete = True

    def add(self, text: str) -> None:
        """Add output."""
        if text:
            self._text.add(text)
            if self._listener is not None:
                self._listener(text)

    def add_gap(self, size: int) -> None:
        """Record that output was omitted."""
        if size:
            self._is_complete = False
            self.add(format_omission(size))

    def take(self, limit: int) -> tuple[str, bool]:
        """Return the output for the model, and True if something is missing."""
        output, truncated = self._text.take()
        output, clipped = clip_middle(output, limit)
        return output, truncated or clipped or not self._is_complete
