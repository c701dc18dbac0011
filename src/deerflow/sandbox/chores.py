"""Small jobs of our own that are done in a thread's sandbox, because they parse what nobody vouches for.

A chore is one of our scripts, given its arguments and run by the Python of the toolbox. It has the network of the
sandbox and no more: none, unless the configuration says otherwise.
"""

import asyncio
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from deerflow.domain.errors import SandboxError
from deerflow.domain.sandbox import CommandResult, Sandbox
from deerflow.sandbox.sandbox_provider import SandboxProvider, SandboxReport

MB = 1024 * 1024
AT_ONCE = 2
LACKING, OUT_OF_MEMORY, KILLED = 97, 98, 137
"""Exit codes: a package is not there, memory ran out, something ended the script."""
NOTE = "[ended: "
"""How a sandbox begins to say why it has ended a command."""
TOOLBOX_PYTHON = "/opt/toolbox/bin/python"
TOOLBOX = "python toolbox"
STATES = MappingProxyType(
    {
        "building": ("the Python toolbox of the sandbox is still being built", "try again in a few minutes"),
        "missing": ("the Python toolbox of the sandbox has not been built yet", "a server builds it when it starts"),
        "failed": ("the Python toolbox of the sandbox could not be built", "`deerflow doctor` says why"),
        "off": ("the Python toolbox of the sandbox is off", "set sandbox.toolbox.enabled to true"),
    }
)
WRAPPER = Path(__file__).with_name("chore_wrapper.py").read_text(encoding="utf-8")


class ChoreUnavailable(SandboxError):
    """No chore can be done here, or not yet; the text says why and what to do."""

    def __init__(self, reason: str, remedy: str, *, kind: Literal["not isolated", "no toolbox"]) -> None:
        super().__init__(f"{reason}; {remedy}")
        self.reason = reason
        self.remedy = remedy
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Chore:
    """A script and how far it may go. Its standard error is thrown away; an exception ends its output."""

    script: str
    packages: tuple[str, ...] = ()
    """What it imports beyond the standard library."""
    seconds: float = 30.0
    memory_mb: int = 512
    file_mb: int = 64
    """So large may a file become that it writes."""
    output_chars: int = 256 * 1024
    """What it prints beyond this is left out, from the end."""


@dataclass(frozen=True, slots=True)
class ChoreResult:
    """What a script printed and how it ended."""

    exit_code: int
    output: str
    truncated: bool = False
    timed_out: bool = False
    out_of_memory: bool = False
    complaint: str | None = None
    """Why the sandbox ended it, if it took too much of something else."""


class Chores:
    """Does chores, a few at a time, so that they never take the machine from those who wait for an answer."""

    def __init__(self, provider: SandboxProvider, report: SandboxReport, at_once: int = AT_ONCE) -> None:
        self._provider = provider
        self._report = report
        self._turn = asyncio.Semaphore(at_once)

    async def run(self, thread_id: str, user_id: str, chore: Chore, arguments: Sequence[str] = ()) -> ChoreResult:
        """Run a script in the sandbox of a thread; cancelling ends it.

        Raises:
            ChoreUnavailable: Nothing isolates it here, or the packages it needs are not there (yet).
            SandboxError: The sandbox cannot be had.
        """
        if self._report.tier not in ("isolated", "container"):
            reason = self._report.problem or "commands run without isolation on this machine"
            remedy = self._report.remedy or "set up a sandbox that isolates commands"
            raise ChoreUnavailable(reason, remedy, kind="not isolated")
        async with self._turn:
            sandbox_id = await self._provider.acquire(thread_id, user_id)
            try:
                sandbox = await self._provider.get(sandbox_id)
                if sandbox is None:
                    raise SandboxError("the sandbox of this thread has just ended; try again")
                result = await execute(sandbox, chore, arguments)
            finally:
                await self._provider.release(sandbox_id)
        if result.exit_code == LACKING:
            raise await self._lacking(chore)
        return result

    async def _lacking(self, chore: Chore) -> ChoreUnavailable:
        wanted = ", ".join(chore.packages) or "Python"
        if self._report.tier == "container":
            reason = f"the container image lacks {wanted}"
            return ChoreUnavailable(reason, "build one that has it", kind="no toolbox")
        # Only how far it is: where it is on this machine is nobody's business who uses a sandbox.
        states = [part.detail.partition(":")[0] for part in await self._provider.parts() if part.name == TOOLBOX]
        reason, remedy = STATES.get("".join(states), (f"the sandbox lacks {wanted}", "try again later"))
        return ChoreUnavailable(reason, remedy, kind="no toolbox")


async def execute(sandbox: Sandbox, chore: Chore, arguments: Sequence[str]) -> ChoreResult:
    """Run a script in a sandbox that is there."""
    heard = Beginning(chore.output_chars)
    command = command_line(chore, arguments)
    ended = await sandbox.execute_command(command, timeout_s=chore.seconds, on_output=heard.add)
    complaint = complaint_of(ended)
    was_memory = ended.exit_code == KILLED and not ended.timed_out and (complaint is None or "memory" in complaint)
    return ChoreResult(
        ended.exit_code,
        heard.text,
        heard.is_cut,
        ended.timed_out,
        out_of_memory=was_memory or ended.exit_code == OUT_OF_MEMORY,
        complaint=None if was_memory else complaint,
    )


def command_line(chore: Chore, arguments: Sequence[str]) -> str:
    """A line of bash that runs a script; what it needs comes as arguments, so that nothing is written anywhere."""
    limits = [str(chore.memory_mb * MB), str(chore.file_mb * MB), ",".join(chore.packages)]
    words = shlex.join(["-I", "-B", "-c", WRAPPER, *limits, chore.script, *arguments])
    choice = f"python={TOOLBOX_PYTHON}; [ -x $python ] || python=$(command -v python3) || exit {LACKING}"
    return f"{choice}; exec $python {words} 2>/dev/null"


def complaint_of(ended: CommandResult) -> str | None:
    """Why a sandbox ended a command, where it says so."""
    last = ended.output.rpartition("\n")[2]
    return last.removeprefix(NOTE).removesuffix("]") if ended.exit_code == KILLED and last.startswith(NOTE) else None


class Beginning:
    """The first characters of what comes."""

    def __init__(self, limit: int) -> None:
        self._room = limit
        self._pieces: list[str] = []
        self.is_cut = False

    def add(self, text: str) -> None:
        """Take in what came next, as far as there is room."""
        self.is_cut = self.is_cut or len(text) > self._room
        self._pieces.append(text[: self._room])
        self._room -= len(self._pieces[-1])

    @property
    def text(self) -> str:
        return "".join(self._pieces)
