"""`deerflow mcp`: the agent as an MCP server on standard input and output."""

import asyncio
from dataclasses import dataclass
from typing import Any, Self, cast

from mcp.server.stdio import stdio_server

from deerflow.config.source import ConfigSource
from deerflow.domain.principal import LOCAL_USER
from deerflow.harness import open_harness
from deerflow.serving.mcp_server import mcp_server
from deerflow.serving.standard_streams import claim_output, open_streams
from deerflow.serving.turns import stop_all


async def serve_mcp(source: ConfigSource) -> None:
    """Serve the local person until the program at the other end closes the pipe."""
    reader, writer = await open_streams(claim_output())
    async with open_harness(source) as harness:
        server = mcp_server(harness, LOCAL_USER)
        try:
            # The library would read in a thread, which nothing can interrupt.
            incoming, outgoing = cast(Any, TextIn(reader)), cast(Any, TextOut(writer))
            async with stdio_server(incoming, outgoing) as (heard, said):
                await server.run(heard, said, server.create_initialization_options())
        finally:
            await stop_all(harness)


@dataclass(frozen=True, slots=True)
class TextIn:
    """Lines as they come."""

    reader: asyncio.StreamReader

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        line = await self.reader.readline()
        if not line:
            raise StopAsyncIteration
        return line.decode(errors="replace")


@dataclass(frozen=True, slots=True)
class TextOut:
    """Where lines go."""

    writer: asyncio.StreamWriter

    async def write(self, text: str) -> None:
        self.writer.write(text.encode(errors="replace"))

    async def flush(self) -> None:
        await self.writer.drain()
