"""Test runner for skill changes: runs `deerflow skills test` on a staged skill in a child process."""

import asyncio
import json
import logging
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deerflow.config.sections.sandbox import ToolboxConfig
from deerflow.domain.errors import SkillRefused
from deerflow.skills.contract import find_tests

logger = logging.getLogger(__name__)

COMMAND = (sys.executable, "-c", "from deerflow.cli.main import main; main()", "skills", "test", "--json")
PASSED_VARIABLES = ("PATH", "HOME", "XDG_CACHE_HOME", "LANG")
PREFIX = "deerflow-skill-trial-"
TIMEOUT_S = 600.0
KILL_TIMEOUT_S = 5.0
MAX_SHOWN_CHARS = 3000


@dataclass(frozen=True, slots=True)
class SkillCaseResult:
    """Result of one test of a skill."""

    name: str
    passed: bool
    failures: tuple[str, ...]
    outputs: tuple[str, ...]
    """Last outputs of tools if it failed."""
    seconds: float


@dataclass(frozen=True, slots=True)
class SkillTestResults:
    """Results of all tests of a skill, and the errors that prevented tests from running."""

    cases: Sequence[SkillCaseResult]
    problems: Sequence[str]


class SkillTestProcess:
    """Accepts a change only if the tests of the skill pass.

    A child process is used because a test needs a harness with another model and configuration. Only one runs at a
    time, because each needs as much memory as a small server.
    """

    def __init__(self, toolbox: ToolboxConfig, environment: Mapping[str, str], timeout_s: float = TIMEOUT_S) -> None:
        self._toolbox = toolbox
        self._environment = environment
        self._timeout_s = timeout_s
        self._semaphore = asyncio.Semaphore(1)

    async def run_tests(self, owner: str, name: str, folder: Path) -> None:
        """Test the skill in `folder`, which is a staged copy.

        Raises:
            SkillRefused: A test failed, or the tests cannot be run.
        """
        if not await asyncio.to_thread(find_tests, folder):
            logger.warning("skill %r of user %r was changed by an agent and has no tests", name, owner)
            return
        output, error = await self.run_all(folder)
        if failures := [error] if error else parse_failures(output):
            text = "\n".join(failures)[:MAX_SHOWN_CHARS]
            raise SkillRefused(f"change of {name!r} refused; tests of the skill failed:\n{text}")

    @property
    def is_busy(self) -> bool:
        """Return whether tests are running."""
        return self._semaphore.locked()

    async def run_all(self, folder: Path, *, is_custom: bool = True) -> tuple[bytes, str | None]:
        """Return the output of all tests of a skill as JSON, and the error if they did not complete."""
        async with self._semaphore:
            directory = await asyncio.to_thread(tempfile.mkdtemp, prefix=PREFIX)
            try:
                return await self._run(folder, Path(directory), is_custom)
            finally:
                await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)

    async def _run(self, folder: Path, directory: Path, is_custom: bool) -> tuple[bytes, str | None]:
        """Return the output of the process, and the error if it did not complete. All its files are in `directory`."""
        config = await asyncio.to_thread(write_config, directory, self._toolbox)
        process = await asyncio.create_subprocess_exec(
            *COMMAND,
            *(["--custom"] if is_custom else []),
            f"--config={config}",
            "--",
            str(folder),
            cwd=directory,
            env={**select_environment(self._environment), "TMPDIR": str(directory)},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(self._timeout_s):
                output, stderr = await process.communicate()
        except TimeoutError:
            return b"", f"tests took longer than {self._timeout_s:g} s"
        finally:
            await kill_process_group(process)
        if process.returncode not in (0, 1) or not output.strip():
            return output, f"tests could not be run: {stderr.decode(errors='replace').strip()[-500:]}"
        return output, None


def write_config(directory: Path, toolbox: ToolboxConfig) -> Path:
    """Prepare the working directory and return its configuration, which shares only the toolbox with ours."""
    directory.chmod(0o711)  # the sandbox user must be able to traverse it
    config = directory / "config.yaml"
    config.write_text(json.dumps({"sandbox": {"toolbox": toolbox.model_dump(mode="json")}}), encoding="utf-8")
    return config


def select_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the process: only what is needed to find programs and the toolbox, no secrets."""
    return {name: environment[name] for name in PASSED_VARIABLES if name in environment}


async def kill_process_group(process: asyncio.subprocess.Process) -> None:
    """Kill a process and its children, including its sandboxes."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        async with asyncio.timeout(KILL_TIMEOUT_S):
            await process.wait()


def parse_failures(output: bytes) -> Sequence[str]:
    """Return the failures in the output of `deerflow skills test --json`."""
    results: list[dict[str, Any]] = json.loads(output)
    lines: list[str] = []
    for result in results:
        lines += result["problems"]
        for test in result["verdicts"]:
            lines += [f"{test['trial']}: {error}" for error in test["complaints"]]
    return lines


def parse_results(output: bytes) -> SkillTestResults:
    """Return the results in the output of `deerflow skills test --json`."""
    reports: list[dict[str, Any]] = json.loads(output)
    return SkillTestResults(
        [
            SkillCaseResult(
                name=case["trial"],
                passed=not case["complaints"],
                failures=tuple(case["complaints"]),
                outputs=tuple(case["outputs"]),
                seconds=case["seconds"],
            )
            for report in reports
            for case in report["verdicts"]
        ],
        [problem for report in reports for problem in report["problems"]],
    )
