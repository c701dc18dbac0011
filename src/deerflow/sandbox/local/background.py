"""Commands of a thread that run on their own: servers, and jobs that take long."""

import asyncio
import re
from collections.abc import Sequence
from contextlib import suppress

from deerflow.domain.errors import SandboxError
from deerflow.domain.sandbox import BackgroundOutput, BackgroundProcess
from deerflow.sandbox.local.launch import Ended
from deerflow.sandbox.local.output import BoundedText, OutputReader
from deerflow.sandbox.local.runners import Order, Runner

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
KEPT = 64 * 1024
REMEMBERED = 32
KILLED_CODE = 137
FOR_EVER_S = 7 * 24 * 3600.0


class Job:
    """One background command."""

    def __init__(self, name: str, command: str) -> None:
        self.name = name
        self.command = command
        self.text = BoundedText(KEPT)
        self.task: asyncio.Task[Ended] | None = None
        self.end_is_told = False

    @property
    def is_running(self) -> bool:
        return self.task is not None and not self.task.done()

    def show(self) -> BackgroundProcess:
        """How far it is."""
        return BackgroundProcess(self.name, self.command, None if self.is_running else self._exit_code())

    def take(self) -> BackgroundOutput:
        """What it printed since it was last asked."""
        output, truncated = self.text.take()
        self.text = BoundedText(KEPT)
        self.end_is_told = not self.is_running
        return BackgroundOutput(self.show(), output, truncated)

    def hear(self, text: str) -> None:
        """Take in what it prints."""
        self.text.add(text)

    def _exit_code(self) -> int:
        if self.task is None or self.task.cancelled() or self.task.exception() is not None:
            return KILLED_CODE
        return self.task.result().code


class Background:
    """The background commands of one thread."""

    def __init__(self, runner: Runner, limit: int) -> None:
        self._runner = runner
        self._limit = limit
        self._jobs: dict[str, Job] = {}

    @property
    def is_busy(self) -> bool:
        """Whether something runs, or has ended and nobody knows how."""
        return any(not job.end_is_told for job in self._jobs.values())

    def start(self, name: str, command: str, order: Order) -> None:
        """Start a command under a name of its own."""
        if not NAME.fullmatch(name):
            raise SandboxError("a name is 1 to 64 letters, digits, '.', '-' or '_'")
        if (known := self._jobs.get(name)) and known.is_running:
            raise SandboxError(f"{name!r} is running already; end it first, or choose another name")
        running = [job.name for job in self._jobs.values() if job.is_running]
        if len(running) >= self._limit:
            raise SandboxError(f"{self._limit} background processes are running ({', '.join(running)}); end one first")
        job = Job(name, command)
        # Nothing is kept by the reader itself: the job hears it piece by piece.
        reader = OutputReader(BoundedText(0), job.hear)
        job.task = asyncio.create_task(self._runner.run(order, reader, FOR_EVER_S))
        self._jobs.pop(name, None)
        self._jobs[name] = job
        self._forget_old()

    def output(self, name: str) -> BackgroundOutput:
        """What a command printed since it was last asked."""
        return self._find(name).take()

    async def kill(self, name: str) -> BackgroundOutput:
        """End a command and everything it started."""
        job = self._find(name)
        await self._end(job)
        return job.take()

    def show(self) -> Sequence[BackgroundProcess]:
        """The commands, oldest first."""
        return [job.show() for job in self._jobs.values()]

    async def aclose(self) -> None:
        """End all of them."""
        await asyncio.gather(*(self._end(job) for job in self._jobs.values()))
        self._jobs.clear()

    async def _end(self, job: Job) -> None:
        if job.task is None:
            return
        job.task.cancel()
        with suppress(asyncio.CancelledError, SandboxError):
            await job.task

    def _find(self, name: str) -> Job:
        if name not in self._jobs:
            known = f"there are {', '.join(self._jobs)}" if self._jobs else "there is none"
            raise SandboxError(f"there is no background process {name!r}; {known}")
        return self._jobs[name]

    def _forget_old(self) -> None:
        ended = [name for name, job in self._jobs.items() if not job.is_running]
        for name in ended[: max(0, len(self._jobs) - REMEMBERED)]:
            del self._jobs[name]
