"""Messages to and from a program, within bounds that the `mcp` package's own transport lacks."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCMessage
from pydantic import ValidationError

from deerflow.mcp.problems import McpProblem
from deerflow.sandbox.conversation import Conversation, RulesBroken
from deerflow.sandbox.services import Service

Streams = tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]
Heard = Conversation[JSONRPCMessage]
Fail = Callable[[McpProblem], None]


@asynccontextmanager
async def speaking_with(service: Service, words: Heard, fail: Fail) -> AsyncIterator[Streams]:
    """Streams of messages from and to a program; `fail` is told when it breaks the rules or has ended."""
    heard_end, heard = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    said, said_end = anyio.create_memory_object_stream[SessionMessage](0)
    tasks = {
        asyncio.create_task(listen(words, heard_end, fail)),
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


def hearing(service: Service) -> Heard:
    """What the program of a server says."""
    return Conversation(service, parse, "the server")


async def listen(words: Heard, heard: MemoryObjectSendStream[SessionMessage | Exception], fail: Fail) -> None:
    """Pass on what the program says."""
    async with heard:
        try:
            while (message := await words.next()) is not None:
                await heard.send(SessionMessage(message))
        except RulesBroken as broken:
            fail(McpProblem(str(broken)))
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # nobody listens any more
        else:
            fail(McpProblem(words.ending()))


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
