"""Background commands of a thread: servers and long-running jobs."""

import asyncio
import re
from collections.abc import Sequence
from contextlib import suppress

from deerflow.domain.errors import SandboxError
from deerflow.domain.sandbox import BackgroundOutput, BackgroundProcess
from deerflow.sandbox.local.launcher.client import ExitStatus
from deerflow.sandbox.local.output import BoundedText, OutputReader
from deerflow.sandbox.local.runners import CommandSpec, Runner

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
MAX_KEPT_CHARS = 64 * 1024
MAX_REMEMBERED = 32
KILLED_CODE = 137
NO_TIMEOUT_S = 7 * 24 * 3600.0


class BackgroundCommand:
    """One background command."""

    def __init__(self, name: str, command: str) -> None:
        self.name = name
        self.command = command
        self.text = BoundedText(MAX_KEPT_CHARS)
        self.task: asyncio.Task[ExitStatus] | None = None
        self.exit_reported = False

    @property
    def is_running(self) -> bool:
        return self.task is not None and not self.task.done()

    def describe(self) -> BackgroundProcess:
        """Return its name, command and exit code."""
        return BackgroundProcess(self.name, self.command, None if self.is_running else self._exit_code())

    def take_output(self) -> BackgroundOutput:
        """Return the output since the last call."""
        output, truncated = self.text.take()
        self.text = BoundedText(MAX_KEPT_CHARS)
        self.exit_reported = not self.is_running
        return BackgroundOutput(self.describe(), output, truncated)

    def add_output(self, text: str) -> None:
        """Add output."""
        self.text.add(text)

    def _exit_code(self) -> int:
        if self.task is None or self.task.cancelled() or self.task.exception() is not None:
            return KILLED_CODE
        return self.task.result().code


class BackgroundCommands:
    """Background commands of one thread."""

    def __init__(self, runner: Runner, limit: int) -> None:
        self._runner = runner
        self._limit = limit
        self._commands: dict[str, BackgroundCommand] = {}

    @property
    def is_busy(self) -> bool:
        """True if a command runs, or has exited and its exit was not reported yet."""
        return any(not command.exit_reported for command in self._commands.values())

    def start(self, name: str, command: str, spec: CommandSpec) -> None:
        """Start a command under a unique name."""
        if not NAME.fullmatch(name):
            raise SandboxError("a name is 1 to 64 letters, digits, '.', '-' or '_'")
        if (known := self._commands.get(name)) and known.is_running:
            raise SandboxError(f"{name!r} is already running; kill it first, or choose another name")
        running = [command.name for command in self._commands.values() if command.is_running]
        if len(running) >= self._limit:
            raise SandboxError(f"{self._limit} background processes are running ({', '.join(running)}); kill one first")
        background = BackgroundCommand(name, command)
        # The reader keeps nothing: the command collects its own output.
        reader = OutputReader(BoundedText(0), background.add_output)
        background.task = asyncio.create_task(self._runner.run(spec, reader, NO_TIMEOUT_S))
        self._commands.pop(name, None)
        self._commands[name] = background
        self._remove_old()

    def output(self, name: str) -> BackgroundOutput:
        """Return the output of a command since the last call."""
        return self._find(name).take_output()

    async def kill(self, name: str) -> BackgroundOutput:
        """Kill a command and everything it started."""
        command = self._find(name)
        await self._kill(command)
        return command.take_output()

    def list(self) -> Sequence[BackgroundProcess]:
        """Return the commands, oldest first."""
        return [command.describe() for command in self._commands.values()]

    async def aclose(self) -> None:
        """Kill all commands."""
        await asyncio.gather(*(self._kill(command) for command in self._commands.values()))
        self._commands.clear()

    async def _kill(self, command: BackgroundCommand) -> None:
        if command.task is None:
            return
        command.task.cancel()
        with suppress(asyncio.CancelledError, SandboxError):
            await command.task

    def _find(self, name: str) -> BackgroundCommand:
        if name not in self._commands:
            known = f"there are {', '.join(self._commands)}" if self._commands else "there is none"
            raise SandboxError(f"there is no background process {name!r}; {known}")
        return self._commands[name]

    def _remove_old(self) -> None:
        exited = [name for name, command in self._commands.items() if not command.is_running]
        for name in exited[: max(0, len(self._commands) - MAX_REMEMBERED)]:
            del self._commands[name]
