"""The way out of a container without a network: connections to the proxy port are handed to whoever waits outside."""

import asyncio
from contextlib import suppress

CHUNK = 64 * 1024
MAX_WAITING = 64
PORT = 3128

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Egress:
    """Brings together connections of commands and connections made from outside to fetch one."""

    def __init__(self) -> None:
        self.waiting: asyncio.Queue[Streams] = asyncio.Queue(MAX_WAITING)

    async def listen(self) -> None:
        """Accept the connections of commands."""
        await asyncio.start_server(self._accept, "127.0.0.1", PORT)

    async def fetch(self) -> Streams:
        """The next connection of a command."""
        return await self.waiting.get()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            self.waiting.put_nowait((reader, writer))
        except asyncio.QueueFull:
            writer.close()


async def carry(one: Streams, other: Streams) -> None:
    """Carry bytes both ways until both sides have said all."""
    try:
        await asyncio.gather(pump(one[0], other[1]), pump(other[0], one[1]))
    finally:
        one[1].close()
        other[1].close()


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Carry bytes one way."""
    with suppress(OSError):
        while chunk := await reader.read(CHUNK):
            writer.write(chunk)
            await writer.drain()
        writer.write_eof()
