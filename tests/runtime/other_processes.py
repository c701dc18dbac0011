"""A real process on the same database, which the test tells what to do."""

import asyncio
import multiprocessing
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from tests.runtime.other_process import serve

HALF_AN_ANSWER = "tests.runtime.other_process:half_an_answer"
LIMIT_S = 30.0
# Forked from a process that has imported everything: starting Python and importing takes longer than most tests.
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["tests.runtime.other_process"])


@dataclass(frozen=True)
class Elsewhere:
    """The other process."""

    process: ForkServerProcess
    connection: Connection

    async def ask(self, *words: str) -> str:
        """Tell it something and hear its answer."""
        await self.tell(*words)
        return await self.hear()

    async def tell(self, *words: str) -> None:
        await asyncio.to_thread(self.connection.send, words)

    async def hear(self) -> str:
        return await asyncio.to_thread(self._receive)

    def _receive(self) -> str:
        assert self.connection.poll(LIMIT_S), f"no answer within {LIMIT_S:g} s"
        answer: str = self.connection.recv()
        return answer

    def send_signal(self, number: int) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, number)

    async def die(self) -> None:
        """End it as a power cut would."""
        self.process.kill()
        await asyncio.to_thread(self.process.join, LIMIT_S)


@asynccontextmanager
async def start(home: Path, script: str = HALF_AN_ANSWER) -> AsyncIterator[Elsewhere]:
    """A process that keeps its state in `home`, with the model that the function `script` makes."""
    ours, theirs = FORKS.Pipe()
    with ours:
        with theirs:
            process = FORKS.Process(target=serve, args=(theirs, home, script), daemon=True)
            await asyncio.to_thread(process.start)
        other = Elsewhere(process, ours)
        try:
            assert await other.hear() == "ready"
            yield other
        finally:
            await other.die()
            process.close()
