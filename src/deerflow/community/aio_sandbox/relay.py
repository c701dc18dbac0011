"""Relay into a container without a network: programs run by the engine carry the bytes.

A container without a network cannot publish a port, and one with a published port has a network. So nothing is
published: for each connection to a socket here, the engine runs a small program in the container, which connects to the
server on the container's loopback. No one else can enter that way, and nothing can leave.
"""

import asyncio
import shutil
import socket
import tempfile
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from deerflow.community.aio_sandbox.api import SandboxAddress
from deerflow.community.aio_sandbox.engine import FRAME_HEAD, Engine, Streams, parse_frame_size
from deerflow.domain.errors import SandboxError
from deerflow.sandbox.egress import AllowedHosts, Egress
from deerflow.sandbox.proxy import CHUNK_BYTES, EgressProxy, ProxyLimits, serve_proxy

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
    """Socket of this machine whose connections end at a port in a container."""

    def __init__(self, engine: Engine, container: str, port: int) -> None:
        self._engine = engine
        self._container = container
        self._command: Sequence[str] = ("python3", "-I", "-S", "-c", PROGRAM, str(port))
        self._folder = Path(tempfile.mkdtemp(prefix="deerflow-"))  # private, and short enough for a socket path
        self._connections: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.socket = self._folder / "sandbox.sock"

    async def open(self) -> None:
        """Start listening."""
        self._server = await asyncio.start_unix_server(self._accept, self.socket)

    async def aclose(self) -> None:
        """Close all connections."""
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
        """Relay one connection until either side ends."""
        try:
            inside = await self._engine.connect(self._container, self._command)
            try:
                await relay_both(client, inside)
            finally:
                inside[1].close()
        except SandboxError:
            pass  # the client sees a closed connection and checks the container
        finally:
            client[1].close()


async def relay_both(client: Streams, inside: Streams) -> None:
    """Relay bytes in both directions until one ends."""
    ways = [
        asyncio.create_task(relay_to_container(client[0], inside[1])),
        asyncio.create_task(relay_to_client(inside[0], client[1])),
    ]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)


async def relay_to_container(client: asyncio.StreamReader, inside: asyncio.StreamWriter) -> None:
    """Copy bytes from the client to the container."""
    with suppress(ConnectionError):
        while chunk := await client.read(CHUNK):
            inside.write(chunk)
            await inside.drain()


async def relay_to_client(inside: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
    """Copy bytes from the container to the client; the engine sends them in frames."""
    with suppress(ConnectionError, asyncio.IncompleteReadError):
        while True:
            left = parse_frame_size(await inside.readexactly(FRAME_HEAD))
            while left:
                chunk = await inside.read(min(left, CHUNK))
                if not chunk:
                    return
                left -= len(chunk)
                client.write(chunk)
                await client.drain()


CONNECTIONS = 16
RETRY_S = 0.2
REQUEST = "POST /v1/deerflow/egress HTTP/1.1\r\nHost: sandbox\r\nAuthorization: Bearer {token}\r\n\r\n"
SWITCHING_PROTOCOLS = b"HTTP/1.1 101 "

TunnelStreams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class EgressTunnel:
    """Tunnel out of a container that keeps a connection ready for the next command."""

    def __init__(self, address: SandboxAddress, allowed: AllowedHosts, egress: Egress) -> None:
        self._address = address
        self._allowed = allowed
        self._egress = egress
        self._folder = Path(tempfile.mkdtemp(prefix="deerflow-"))
        self._free = asyncio.Semaphore(CONNECTIONS)
        self._tasks: set[asyncio.Task[None]] = set()
        self._proxy: EgressProxy | None = None

    async def open(self) -> None:
        """Start the proxy and wait for connections of commands."""
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(self._folder / "proxy.sock"))
        listener.listen()
        self._proxy = await serve_proxy(listener, self._allowed, self._egress, ProxyLimits(connections=CONNECTIONS))
        self._spawn(self._keep_ready())

    async def aclose(self) -> None:
        """Close all connections."""
        ending = tuple(self._tasks)
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)
        if self._proxy is not None:
            await self._proxy.aclose()
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _keep_ready(self) -> None:
        while True:
            await self._free.acquire()
            try:
                fetched = await self._fetch()
            except (OSError, asyncio.IncompleteReadError):  # the container is starting, or has exited
                self._free.release()
                await asyncio.sleep(RETRY_S)
                continue
            self._spawn(self._connect(fetched))

    async def _fetch(self) -> TunnelStreams:
        """Return the next connection of a command."""
        reader, writer = await asyncio.open_unix_connection(self._address.socket)
        try:
            writer.write(REQUEST.format(token=self._address.token).encode())
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith(SWITCHING_PROTOCOLS):
                raise ConnectionError("the server in the container refused the egress tunnel")
        except BaseException:
            writer.transport.abort()
            raise
        return reader, writer

    async def _connect(self, command: TunnelStreams) -> None:
        """Connect a command to the proxy."""
        try:
            proxy = await asyncio.open_unix_connection(self._folder / "proxy.sock")
            try:
                await asyncio.gather(copy_stream(command[0], proxy[1]), copy_stream(proxy[0], command[1]))
            finally:
                proxy[1].transport.abort()
        finally:
            command[1].close()
            self._free.release()


async def copy_stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy bytes in one direction, and close the write side at the end."""
    try:
        while chunk := await reader.read(CHUNK_BYTES):
            writer.write(chunk)
            await writer.drain()
        writer.write_eof()
    except OSError:
        writer.transport.abort()  # nothing comes back either
