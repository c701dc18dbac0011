"""Tries a changed skill out by its own tests, in a process of its own: `deerflow skills test` with a folder."""

import asyncio
import json
import logging
import os
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from deerflow.config.load import Loaded
from deerflow.config.sandbox import ToolboxConfig
from deerflow.domain.errors import SkillRefused
from deerflow.skills.trial_files import find_trials

logger = logging.getLogger(__name__)

COMMAND = (sys.executable, "-c", "from deerflow.cli.start import main; main()", "skills", "test", "--json", "--custom")
PASSED_ON = ("PATH", "HOME", "XDG_CACHE_HOME", "LANG")
PREFIX = "deerflow-skill-trial-"
MAX_S = 600.0
END_S = 5.0
SHOWN_CHARS = 3000


class TrialInChild:
    """Accepts a change only if the tests that the skill has pass.

    Another process, because a test needs a harness with another model and another configuration; one at a time,
    because it needs as much memory as a small server.
    """

    def __init__(self, machine: Loaded, limit_s: float = MAX_S) -> None:
        self._machine = machine
        self._limit_s = limit_s
        self._turn = asyncio.Semaphore(1)

    async def try_out(self, owner: str, name: str, folder: Path) -> None:
        """Try the skill in `folder`, which is not the one in use.

        Raises:
            SkillRefused: One of its tests fails, or they cannot be run; the text says why.
        """
        if not await asyncio.to_thread(find_trials, folder):
            logger.warning("the skill %r of %r was changed by an agent, and has no tests that could fail", name, owner)
            return
        async with self._turn:
            with tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True) as place:
                said, complaint = await self._run(folder, Path(place))
        if complaints := [complaint] if complaint else read_complaints(said):
            told = "\n".join(complaints)[:SHOWN_CHARS]
            raise SkillRefused(f"the change of {name!r} was not accepted, for the tests of the skill fail:\n{told}")

    async def _run(self, folder: Path, place: Path) -> tuple[bytes, str | None]:
        """What the process said, and why it did not come to an end. Whatever it leaves behind is in `place`."""
        config = await asyncio.to_thread(furnish, place, self._machine.config.sandbox.toolbox)
        process = await asyncio.create_subprocess_exec(
            *COMMAND,
            f"--config={config}",
            "--",
            str(folder),
            cwd=place,
            env={**environment_of(self._machine.environment), "TMPDIR": str(place)},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(self._limit_s):
                said, trouble = await process.communicate()
        except TimeoutError:
            return b"", f"they took longer than {self._limit_s:g} s"
        finally:
            await end(process)
        if process.returncode not in (0, 1) or not said.strip():
            return said, f"they could not be run: {trouble.decode(errors='replace').strip()[-500:]}"
        return said, None


def furnish(place: Path, toolbox: ToolboxConfig) -> Path:
    """Make a folder ready for the process; the configuration in it, which has only the toolbox in common with ours."""
    place.chmod(0o711)  # whoever runs the commands of a sandbox has to pass through
    config = place / "config.yaml"
    config.write_text(json.dumps({"sandbox": {"toolbox": toolbox.model_dump(mode="json")}}), encoding="utf-8")
    return config


def environment_of(machine: Mapping[str, str]) -> dict[str, str]:
    """What the process is told of this machine: how to find programs and the toolbox, and no secret."""
    return {name: machine[name] for name in PASSED_ON if name in machine}


async def end(process: asyncio.subprocess.Process) -> None:
    """End a process and what it started; the sandboxes in it end with it."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        async with asyncio.timeout(END_S):
            await process.wait()


def read_complaints(said: bytes) -> Sequence[str]:
    """What went wrong, in the results that `deerflow skills test --json` prints."""
    results: list[dict[str, Any]] = json.loads(said)
    lines: list[str] = []
    for tested in results:
        lines += tested["problems"]
        for verdict in tested["verdicts"]:
            lines += [f"{verdict['trial']}: {complaint}" for complaint in verdict["complaints"]]
    return lines
