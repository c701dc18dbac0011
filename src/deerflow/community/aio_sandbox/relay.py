"""A way into a container that is no network: programs run in it by the engine carry the bytes.

A container without a network cannot publish a port, and one that can publish a port has a network. So nothing is
published: for each connection made to a socket here, the engine runs a small program in the container which connects to
the server on the container's own loopback. Nobody else can come in that way, and nothing can get out.
"""

import asyncio
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from deerflow.community.aio_sandbox.engine import FRAME_HEAD, Engine, Streams, frame_size
from deerflow.domain.errors import SandboxError

CHUNK = 64 * 1024
PROGRAM = """
import os, socket, sys, threading
server = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
def carry_in():
    while data := os.read(0, 65536):
        server.sendall(data)
    os._exit(0)
threading.Thread(target=carry_in, daemon=True).start()
while data := server.recv(65536):
    while data:
        data = data[os.write(1, data):]
"""


class Relay:
    """A socket of this machine whose connections end at a port in a container."""

    def __init__(self, engine: Engine, container: str, port: int) -> None:
        self._engine = engine
        self._container = container
        self._command: Sequence[str] = ("python3", "-I", "-S", "-c", PROGRAM, str(port))
        self._folder = Path(tempfile.mkdtemp(prefix="deerflow-"))  # for its owner alone, and of a short name
        self._connections: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.socket = self._folder / "sandbox.sock"

    async def open(self) -> None:
        """Begin to listen."""
        self._server = await asyncio.start_unix_server(self._accept, self.socket)

    async def aclose(self) -> None:
        """Cut all connections."""
        if self._server is not None:
            self._server.close()
        ending = tuple(self._connections)
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve((reader, writer)))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _serve(self, client: Streams) -> None:
        """Carry the bytes of one connection until either side has ended."""
        try:
            inside = await self._engine.connect(self._container, self._command)
            try:
                await carry(client, inside)
            finally:
                inside[1].close()
        except SandboxError:
            pass  # whoever connected finds the connection closed, and asks how the container is
        finally:
            client[1].close()


async def carry(client: Streams, inside: Streams) -> None:
    """Carry bytes both ways until there are no more of one."""
    ways = [asyncio.create_task(carry_in(client[0], inside[1])), asyncio.create_task(carry_out(inside[0], client[1]))]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)


async def carry_in(client: asyncio.StreamReader, inside: asyncio.StreamWriter) -> None:
    """Write what the client says."""
    with suppress(ConnectionError):
        while chunk := await client.read(CHUNK):
            inside.write(chunk)
            await inside.drain()


async def carry_out(inside: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
    """Write what the server says; the engine sends it in frames that name the stream and their length."""
    with suppress(ConnectionError, asyncio.IncompleteReadError):
        while True:
            left = frame_size(await inside.readexactly(FRAME_HEAD))
            while left:
                chunk = await inside.read(min(left, CHUNK))
                if not chunk:
                    return
                left -= len(chunk)
                client.write(chunk)
                await client.drain()
