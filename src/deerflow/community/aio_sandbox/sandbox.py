"""A thread's computer in a container."""

import asyncio
import base64
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from deerflow.community.aio_sandbox.api import (
    CALL_S,
    Context,
    FileNames,
    Lines,
    Listing,
    Nothing,
    Output,
    Piece,
    Process,
    Processes,
    SandboxApi,
    SandboxUnreachable,
)
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
from deerflow.sandbox.files import MAX_READ_BYTES, explaining, refuse_read_only
from deerflow.sandbox.local.background import NAME
from deerflow.sandbox.local.launch import Ended
from deerflow.sandbox.local.output import DEFAULT_KEPT, BoundedText, clip_middle, note
from deerflow.sandbox.local.sandbox import KILLED_CODE, TIMED_OUT_CODE, bash, with_note
from deerflow.sandbox.local.usage import until_excess
from deerflow.sandbox.places import Place, find_spot

GRACE_S = 15.0
"""So much longer than a command may take we wait for the server to say that it has ended it."""
MAX_WRITE_BYTES = MAX_READ_BYTES
MAX_FILE_SIZE = "1M"


@dataclass(frozen=True, slots=True)
class AioSandbox:
    """Everything happens in the container; calls run side by side."""

    id: str
    config: SandboxConfig
    places: Sequence[Place]
    await_excess: Callable[[], Coroutine[Any, Any, str]]
    """Returns, with a sentence, when the files of the thread have become too many."""
    api: SandboxApi
    server: Context

    async def execute_command(
        self,
        command: str,
        *,
        env: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
        on_output: OutputListener | None = None,
    ) -> CommandResult:
        """Run a line of bash in the workspace."""
        bash(command, env)  # refuses what no shell takes
        limit = min(timeout_s or self.config.bash_command_timeout, self.config.bash_command_timeout)
        heard = Transcript(on_output)
        run = self._run if self.server.deerflow else self._run_plainly
        ended, complaint = await until_excess(run(command, env or {}, limit, heard), self.await_excess)
        output, truncated = heard.take(self.config.bash_output_max_chars)
        if ended is None:
            return CommandResult(with_note(output, f"ended: {complaint}"), KILLED_CODE, truncated)
        if ended.timed_out:
            noted = with_note(output, f"ended after {limit:g} s; run long jobs in the background")
            return CommandResult(noted, TIMED_OUT_CODE, truncated, timed_out=True)
        return CommandResult(output, ended.code, truncated)

    async def _run(self, command: str, env: Mapping[str, str], limit: float, heard: "Transcript") -> Ended:
        """By our own server, which tells the output while it comes, and ends the command when we hang up."""
        order = {"command": command, "env": env, "hard_timeout": limit, "max_output": DEFAULT_KEPT}
        last: Piece | None = None
        async with aclosing(self.api.pieces("/v1/deerflow/run", order, limit + GRACE_S)) as pieces:
            async for piece in pieces:
                last = piece
                heard.miss(piece.left_out)
                heard.add(piece.output)
        if last is not None and last.problem is not None:
            raise SandboxError(last.problem)
        if last is None or last.exit_code is None:
            raise SandboxUnreachable("the sandbox ended before the command did; call the tool again")
        return Ended(last.exit_code, timed_out=last.timed_out)

    async def _run_plainly(self, command: str, env: Mapping[str, str], limit: float, heard: "Transcript") -> Ended:
        """By the server of the AIO image. A session for each command, so that none waits for another."""
        session = uuid4().hex
        path, order = "/v1/shell/exec", {"command": command, "hard_timeout": limit}
        if env:
            path, order = "/v1/bash/exec", {**order, "env": env}
        else:
            order = {**order, "id": session, "exec_dir": self.server.home_dir}
        try:
            ended = await self.api.post(path, order, Output, limit + GRACE_S)
        except (asyncio.CancelledError, SandboxUnreachable):
            await self._kill_session(session)
            raise
        heard.add(ended.output or ended.stdout + ended.stderr)
        return Ended(ended.exit_code or 0, timed_out=ended.status in ("hard_timeout", "timed_out"))

    async def _kill_session(self, session: str) -> None:
        try:
            await asyncio.shield(self.api.post("/v1/shell/kill", {"id": session}, Nothing, CALL_S))
        except SandboxError:
            return  # there was none, or it is gone with the container

    async def read_file(self, path: str) -> str:
        """The text of a file."""
        content = await self.download(path)
        try:
            return content.decode()
        except UnicodeDecodeError:
            what = f"{len(content)} bytes of something else"
            raise FileProblem(f"{path!r} is no UTF-8 text but {what}; use a program for it") from None

    async def write_file(self, path: str, content: str, append: bool = False) -> None:
        """Make or replace a file, or add to its end."""
        try:
            encoded = content.encode()
        except UnicodeEncodeError:
            problem = "the content has characters that UTF-8 cannot say (lone surrogates); leave them out"
            raise FileProblem(problem) from None
        await self._write(path, encoded, append)

    async def update_file(self, path: str, content: bytes) -> None:
        """Make or replace a file with any bytes."""
        await self._write(path, content, append=False)

    async def _write(self, path: str, content: bytes, append: bool) -> None:
        spot = find_spot(self.places, path)
        with explaining(spot):
            refuse_read_only(spot)
        if len(content) > MAX_WRITE_BYTES:
            raise FileProblem(f"{path!r} would have more than {MAX_WRITE_BYTES // 1024**2} MB; write it in parts")
        encoded = await asyncio.to_thread(base64.b64encode, content)
        order = {"file": spot.path, "content": encoded.decode(), "encoding": "base64", "append": append}
        await self.api.post("/v1/file/write", order, Nothing)

    async def download(self, path: str) -> bytes:
        """The bytes of a file."""
        return await self.api.download(find_spot(self.places, path).path, MAX_READ_BYTES)

    async def list_dir(self, path: str, max_depth: int = 2, max_results: int = 1000) -> Found:
        """What is in a folder."""
        folder = find_spot(self.places, path).path
        order = {"path": folder, "recursive": max_depth > 1, "show_hidden": True}
        limits = {"max_depth": max_depth, "max_results": max_results}
        listing = await self.api.post("/v1/file/list", {**order, **limits}, Listing)
        found = [
            f"{each.path}/" if each.is_directory else each.path
            for each in listing.files
            if each.path.removeprefix(folder).strip("/").count("/") < max_depth
        ]
        return Found(sorted(found)[:max_results], listing.truncated or len(found) > max_results)

    async def glob(self, path: str, pattern: str, *, include_dirs: bool = False, max_results: int = 200) -> Found:
        """Files whose path matches a pattern."""
        order = {"path": find_spot(self.places, path).path, "glob": pattern}
        more = {"include_dirs": include_dirs, "max_results": max_results}
        found = await self.api.post("/v1/file/find", {**order, **more}, FileNames)
        return Found(sorted(found.files)[:max_results], found.truncated or len(found.files) > max_results)

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
        order = {
            "path": find_spot(self.places, path).path,
            "pattern": pattern,
            "include": glob and [glob],
            "fixed_strings": literal,
            "case_insensitive": not case_sensitive,
            "max_results": max_results,
            "max_file_size": MAX_FILE_SIZE,
            "recursive": True,
        }
        found = await self.api.post("/v1/file/grep", order, Lines)
        matches = [GrepMatch(each.file, each.line_number, each.line_content) for each in found.matches]
        return Matches(matches[:max_results], found.truncated or len(matches) > max_results)

    async def start_process(self, name: str, command: str, *, env: Mapping[str, str] | None = None) -> None:
        """Run a command in the background."""
        bash(command, env)
        if not NAME.fullmatch(name):
            raise SandboxError("a name is 1 to 64 letters, digits, '.', '-' or '_'")
        order = {"name": name, "command": command, "env": env or {}, "at_most": self.config.limits.background_processes}
        await self.api.post("/v1/deerflow/processes/start", order, Nothing)

    async def process_output(self, name: str) -> BackgroundOutput:
        """What a background process has printed since this was last asked."""
        return told(await self.api.post("/v1/deerflow/processes/output", {"name": name}, Process))

    async def kill_process(self, name: str) -> BackgroundOutput:
        """End a background process."""
        return told(await self.api.post("/v1/deerflow/processes/kill", {"name": name}, Process))

    async def list_processes(self) -> Sequence[BackgroundProcess]:
        """The background processes of the thread."""
        if not self.server.deerflow:
            return []
        found = await self.api.get("/v1/deerflow/processes", Processes)
        return [BackgroundProcess(each.name, each.command, each.exit_code) for each in found.processes]

    async def aclose(self) -> None:
        """Let go of the container, which goes on."""
        await self.api.aclose()


def told(process: Process) -> BackgroundOutput:
    """What the server says of a background process, in our words."""
    shown = BackgroundProcess(process.name, process.command, process.exit_code)
    return BackgroundOutput(shown, process.output, process.truncated)


class Transcript:
    """What a command has printed, kept within bounds and handed on while it comes."""

    def __init__(self, listener: OutputListener | None) -> None:
        self._text = BoundedText(2 * DEFAULT_KEPT)  # the server keeps to half of it, if it is as it should be
        self._listener = listener
        self._is_whole = True

    def add(self, text: str) -> None:
        """Take in what came next."""
        if text:
            self._text.add(text)
            if self._listener is not None:
                self._listener(text)

    def miss(self, size: int) -> None:
        """Note that so much is not told."""
        if size:
            self._is_whole = False
            self.add(note(size))

    def take(self, limit: int) -> tuple[str, bool]:
        """What the model sees of it, and whether something is missing."""
        output, truncated = self._text.take()
        output, clipped = clip_middle(output, limit)
        return output, truncated or clipped or not self._is_whole
