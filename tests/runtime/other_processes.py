"""A real process on the same database, controlled by the test."""

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

STALLING_MODEL = "tests.runtime.other_process:create_stalling_model"
LIMIT_S = 30.0
# Forked from a process that has imported everything: starting Python and importing takes longer than most tests.
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["tests.runtime.other_process"])


@dataclass(frozen=True)
class OtherProcess:
    """Process that executes commands, and the connection to it."""

    process: ForkServerProcess
    connection: Connection

    async def request(self, *words: str) -> str:
        """Send a command and return the response."""
        await self.send(*words)
        return await self.receive()

    async def send(self, *words: str) -> None:
        await asyncio.to_thread(self.connection.send, words)

    async def receive(self) -> str:
        return await asyncio.to_thread(self._receive)

    def _receive(self) -> str:
        assert self.connection.poll(LIMIT_S), f"no answer within {LIMIT_S:g} s"
        answer: str = self.connection.recv()
        return answer

    def send_signal(self, number: int) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, number)

    async def kill(self) -> None:
        """Kill the process and wait for its end."""
        self.process.kill()
        await asyncio.to_thread(self.process.join, LIMIT_S)


@asynccontextmanager
async def start_process(home: Path, script: str = STALLING_MODEL) -> AsyncIterator[OtherProcess]:
    """Start a process with its state in `home` and the model that the function `script` creates."""
    ours, theirs = FORKS.Pipe()
    with ours:
        with theirs:
            process = FORKS.Process(target=serve, args=(theirs, home, script), daemon=True)
            await asyncio.to_thread(process.start)
        other = OtherProcess(process, ours)
        try:
            assert await other.receive() == "ready"
            yield other
        finally:
            await other.kill()
            process.close()
