"""Messages to and from a program, one per line, within bounds that the `mcp` package's own transport lacks."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCMessage
from pydantic import ValidationError

from deerflow.mcp.problems import McpProblem
from deerflow.sandbox.services import Service

logger = logging.getLogger(__name__)

MB = 1024 * 1024
MAX_MESSAGE = 16 * MB
LARGE = 256 * 1024
"""Messages beyond this are parsed in a thread: they would hold up everybody else."""
CHUNK = 64 * 1024
MOST_GARBAGE = 200
"""Lines that are no message: some programs greet, but none for long."""
SHOWN = 200

Streams = tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]
Fail = Callable[[McpProblem], None]


class Lines:
    """Cuts what a program says into lines, and gives up on one that is too long before it takes up the memory."""

    def __init__(self, output: asyncio.StreamReader, limit: int = MAX_MESSAGE) -> None:
        self._output = output
        self._limit = limit
        self._rest = bytearray()

    async def next(self) -> bytes | None:
        """The next line; None when there is no more.

        Raises:
            McpProblem: The line is too long.
        """
        searched = 0
        while (end := self._rest.find(b"\n", searched)) < 0:
            if len(self._rest) > self._limit:
                raise McpProblem(
                    f"the server sent a message of more than {self._limit // MB} MB, which was refused; "
                    "ask it for less at once"
                )
            searched = len(self._rest)
            chunk = await self._output.read(CHUNK)
            if not chunk:
                return None
            self._rest += chunk
        line = bytes(self._rest[:end])
        del self._rest[: end + 1]
        return line


class Garbage:
    """What a program says that is no message."""

    def __init__(self) -> None:
        self.first: str | None = None
        self._count = 0

    def add(self, line: bytes) -> None:
        """Note it; raises `McpProblem` when it is too much."""
        if self.first is None:
            self.first = line[:SHOWN].decode(errors="replace")
            logger.info("an MCP server says something that is no message: %r", self.first)
        self._count += 1
        if self._count > MOST_GARBAGE:
            raise McpProblem(f"what the server prints is not the protocol: it begins with {self.first!r}")


@asynccontextmanager
async def speaking_with(service: Service, garbage: Garbage, fail: Fail) -> AsyncIterator[Streams]:
    """Streams of messages from and to a program; `fail` is told when it breaks the rules or has ended."""
    heard_end, heard = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    said, said_end = anyio.create_memory_object_stream[SessionMessage](0)
    tasks = {
        asyncio.create_task(listen(service, garbage, heard_end, fail)),
        asyncio.create_task(speak(service, said_end, fail)),
    }
    try:
        yield heard, said
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        for stream in (heard_end, heard, said, said_end):
            stream.close()


async def listen(
    service: Service, garbage: Garbage, heard: MemoryObjectSendStream[SessionMessage | Exception], fail: Fail
) -> None:
    """Pass on what the program says."""
    lines = Lines(service.output)
    async with heard:
        try:
            while (line := await lines.next()) is not None:
                if not line.strip():
                    continue
                message = await asyncio.to_thread(parse, line) if len(line) > LARGE else parse(line)
                if message is None:
                    garbage.add(line)
                    continue
                await heard.send(SessionMessage(message))
        except McpProblem as problem:
            fail(problem)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # nobody listens any more
        else:
            fail(McpProblem(ended(service, garbage)))


async def speak(service: Service, said: MemoryObjectReceiveStream[SessionMessage], fail: Fail) -> None:
    """Tell the program what is to be said."""
    async with said:
        async for message in said:
            text = message.message.model_dump_json(by_alias=True, exclude_none=True)
            try:
                await service.write(text.encode(errors="replace") + b"\n")
            except OSError:  # it has ended, which is noted where it is listened to
                return


def parse(line: bytes) -> JSONRPCMessage | None:
    """The message in a line, if there is one."""
    try:
        return JSONRPCMessage.model_validate(json.loads(line))
    except (ValueError, ValidationError, RecursionError):
        return None


def ended(service: Service, garbage: Garbage) -> str:
    """Why a program that has ended may have done so."""
    said = service.complaints[-SHOWN * 3 :] or garbage.first
    return f"the server has ended by itself{f'; it said: {said}' if said else ' and said nothing'}"
