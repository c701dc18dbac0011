"""A real process on the same database, which the test tells what to do."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import deerflow

SOURCES = Path(deerflow.__file__).parents[1]
ROOT = Path(__file__).parents[2]
HALF_AN_ANSWER = "tests.runtime.other_process:half_an_answer"


@dataclass(frozen=True)
class Elsewhere:
    """The other process."""

    process: asyncio.subprocess.Process

    async def ask(self, *words: str) -> str:
        """Tell it something and hear its answer."""
        await self.tell(*words)
        return await self.hear()

    async def tell(self, *words: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(" ".join(words).encode() + b"\n")
        await self.process.stdin.drain()

    async def hear(self) -> str:
        assert self.process.stdout is not None
        async with asyncio.timeout(30):
            return (await self.process.stdout.readline()).decode().strip()

    async def die(self) -> None:
        """End it as a power cut would."""
        self.process.kill()
        await self.process.wait()


@asynccontextmanager
async def start(home: Path, script: str = HALF_AN_ANSWER) -> AsyncIterator[Elsewhere]:
    """A process that keeps its state in `home`, with the model that the function `script` makes."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.runtime.other_process", str(home), script),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
        env={"PYTHONPATH": f"{SOURCES}{os.pathsep}{ROOT}", "PATH": "/usr/bin:/bin"},
    )
    other = Elsewhere(process)
    try:
        assert await other.hear() == "ready"
        yield other
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()
