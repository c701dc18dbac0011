"""Sandbox jobs: scripts of the server that run in a thread's sandbox, with limits."""

import asyncio
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from deerflow.domain.errors import SandboxError
from deerflow.domain.sandbox import CommandResult, Sandbox
from deerflow.sandbox.sandbox_provider import SandboxProvider, SandboxReport, ToolboxOwner

PROBE_TIMEOUT_S = 30.0
PACKAGE_PROBE = """
import importlib.metadata, sys
for name in sys.argv[1:]:
    try:
        importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        print(name)
"""


def describe_missing_packages(skill: str, packages: Sequence[str]) -> str:
    """Return the message for packages that a skill needs and the sandbox lacks."""
    remedy = "an administrator can add them to sandbox.toolbox.packages in config.yaml"
    return f"the skill {skill!r} needs {', '.join(packages)}, which the sandbox's Python lacks; {remedy}"


async def find_missing_packages(sandbox: Sandbox, packages: Sequence[str]) -> tuple[str, ...]:
    """Return the packages, by distribution name, that the sandbox's Python lacks.

    Raises:
        SandboxError: Commands cannot be run.
    """
    result = await sandbox.execute_command(
        shlex.join(["python3", "-c", PACKAGE_PROBE, *packages]), timeout_s=PROBE_TIMEOUT_S
    )
    if result.timed_out:  # they are still being installed
        return ()
    if result.exit_code != 0:
        return tuple(packages)
    printed = result.output.split()
    return tuple(name for name in packages if name in printed)


MB = 1024 * 1024
MAX_CONCURRENT = 2
MISSING_PACKAGE, OUT_OF_MEMORY, KILLED_CODE = 97, 98, 137
"""Exit codes: a package is missing, out of memory, killed."""
KILL_NOTE_PREFIX = "[ended: "
"""Prefix of the note with which a sandbox explains why it killed a command."""
TOOLBOX_PYTHON = "/opt/toolbox/bin/python"
TOOLBOX_PROBLEMS = MappingProxyType(
    {
        "building": ("the Python toolbox of the sandbox is still being built", "try again in a few minutes"),
        "missing": ("the Python toolbox of the sandbox has not been built yet", "a server builds it when it starts"),
        "failed": ("the Python toolbox of the sandbox could not be built", "run `deerflow doctor` for the reason"),
        "off": ("the Python toolbox of the sandbox is off", "set sandbox.toolbox.enabled to true"),
    }
)
WRAPPER = Path(__file__).with_name("job_wrapper.py").read_text(encoding="utf-8")


class SandboxJobUnavailable(SandboxError):
    """Sandbox jobs cannot run, or not yet; the text gives the reason and a remedy."""

    def __init__(
        self,
        reason: str,
        remedy: str,
        *,
        kind: Literal["not isolated", "no toolbox"],
        is_temporary: bool = False,
    ) -> None:
        super().__init__(f"{reason}; {remedy}")
        self.reason = reason
        self.remedy = remedy
        self.kind = kind
        self.is_temporary = is_temporary


@dataclass(frozen=True, slots=True)
class SandboxJob:
    """Script with its limits. Standard error is discarded; an exception is printed at the end of the output."""

    script: str
    packages: tuple[str, ...] = ()
    """Imported packages beyond the standard library."""
    seconds: float = 30.0
    memory_mb: int = 512
    file_mb: int = 64
    """Maximum size of a file it writes."""
    output_chars: int = 256 * 1024
    """Maximum output; the end is cut."""


@dataclass(frozen=True, slots=True)
class SandboxJobResult:
    """Output and exit code of a script."""

    exit_code: int
    output: str
    truncated: bool = False
    timed_out: bool = False
    out_of_memory: bool = False
    kill_reason: str | None = None
    """Why the sandbox killed it, if it exceeded another limit."""


class SandboxJobs:
    """Runner of sandbox jobs with limited concurrency, so that they do not slow down chats."""

    def __init__(self, provider: SandboxProvider, report: SandboxReport, max_concurrent: int = MAX_CONCURRENT) -> None:
        self._provider = provider
        self._report = report
        self._slots = asyncio.Semaphore(max_concurrent)

    async def run(
        self, thread_id: str, user_id: str, job: SandboxJob, arguments: Sequence[str] = ()
    ) -> SandboxJobResult:
        """Run a script in the sandbox of a thread; cancelling kills it.

        Raises:
            SandboxJobUnavailable: There is no isolation, or a package is missing (yet).
            SandboxError: The sandbox is not available.
        """
        if self._report.tier not in ("isolated", "container"):
            reason = self._report.problem or "commands run without isolation on this machine"
            remedy = self._report.remedy or "set up a sandbox that isolates commands"
            raise SandboxJobUnavailable(reason, remedy, kind="not isolated")
        async with self._slots:
            sandbox_id = await self._provider.acquire(thread_id, user_id)
            try:
                sandbox = await self._provider.get(sandbox_id)
                if sandbox is None:
                    raise SandboxError("the sandbox of this thread has just ended; try again")
                result = await execute_job(sandbox, job, arguments)
            finally:
                await self._provider.release(sandbox_id)
        if result.exit_code == MISSING_PACKAGE:
            raise await self._explain_missing(job)
        return result

    async def _explain_missing(self, job: SandboxJob) -> SandboxJobUnavailable:
        packages = ", ".join(job.packages) or "Python"
        if self._report.tier == "container":
            reason = f"the container image lacks {packages}"
            return SandboxJobUnavailable(reason, "build one that has it", kind="no toolbox")
        # Only the status: paths of this machine are not shown to users of a sandbox.
        toolbox = await self._provider.toolbox_state() if isinstance(self._provider, ToolboxOwner) else None
        state = toolbox.status if toolbox else ""
        reason, remedy = TOOLBOX_PROBLEMS.get(state, (f"the sandbox lacks {packages}", "try again later"))
        is_temporary = state in ("building", "missing")
        return SandboxJobUnavailable(reason, remedy, kind="no toolbox", is_temporary=is_temporary)


async def execute_job(sandbox: Sandbox, job: SandboxJob, arguments: Sequence[str]) -> SandboxJobResult:
    """Run a script in a sandbox."""
    head = HeadBuffer(job.output_chars)
    command = build_command_line(job, arguments)
    result = await sandbox.execute_command(command, timeout_s=job.seconds, on_output=head.add)
    kill_reason = parse_kill_reason(result)
    out_of_memory = (
        result.exit_code == KILLED_CODE and not result.timed_out and (kill_reason is None or "memory" in kill_reason)
    )
    return SandboxJobResult(
        result.exit_code,
        head.text,
        head.is_truncated,
        result.timed_out,
        out_of_memory=out_of_memory or result.exit_code == OUT_OF_MEMORY,
        kill_reason=None if out_of_memory else kill_reason,
    )


def build_command_line(job: SandboxJob, arguments: Sequence[str]) -> str:
    """Return the bash command that runs a script; all input is passed as arguments, so no file is written."""
    limits = [str(job.memory_mb * MB), str(job.file_mb * MB), ",".join(job.packages)]
    words = shlex.join(["-I", "-B", "-c", WRAPPER, *limits, job.script, *arguments])
    choice = f"python={TOOLBOX_PYTHON}; [ -x $python ] || python=$(command -v python3) || exit {MISSING_PACKAGE}"
    return f"{choice}; exec $python {words} 2>/dev/null"


def parse_kill_reason(result: CommandResult) -> str | None:
    """Return why a sandbox killed a command, if its output says so."""
    last = result.output.rpartition("\n")[2]
    return (
        last.removeprefix(KILL_NOTE_PREFIX).removesuffix("]")
        if result.exit_code == KILLED_CODE and last.startswith(KILL_NOTE_PREFIX)
        else None
    )


class HeadBuffer:
    """Buffer that keeps the first characters of an output."""

    def __init__(self, limit: int) -> None:
        self._remaining = limit
        self._chunks: list[str] = []
        self.is_truncated = False

    def add(self, text: str) -> None:
        """Add text, up to the limit."""
        self.is_truncated = self.is_truncated or len(text) > self._remaining
        self._chunks.append(text[: self._remaining])
        self._remaining -= len(self._chunks[-1])

    @property
    def text(self) -> str:
        return "".join(self._chunks)
