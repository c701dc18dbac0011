"""The way out of a container with `network: allowlist`: a proxy of ours, which commands reach without a network.

The server in the container hands each connection to its proxy port to a connection that we have made to it. So only we
can be reached from there, and what is reached through us is decided outside, where no command has a say.
"""

import asyncio
import shutil
import socket
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from deerflow.community.aio_sandbox.api import Address
from deerflow.sandbox.egress import AllowedHosts, Egress
from deerflow.sandbox.local.proxy import CHUNK_BYTES, Proxy, ProxyLimits, serve_proxy

CONNECTIONS = 16
AGAIN_AFTER_S = 0.2
REQUEST = "POST /v1/deerflow/egress HTTP/1.1\r\nHost: sandbox\r\nAuthorization: Bearer {token}\r\n\r\n"
TAKEN = b"HTTP/1.1 101 "

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class EgressTunnel:
    """Keeps a connection ready for the next command that wants out."""

    def __init__(self, address: Address, allowed: AllowedHosts, egress: Egress) -> None:
        self._address = address
        self._allowed = allowed
        self._egress = egress
        self._folder = Path(tempfile.mkdtemp(prefix="deerflow-"))
        self._free = asyncio.Semaphore(CONNECTIONS)
        self._tasks: set[asyncio.Task[None]] = set()
        self._proxy: Proxy | None = None

    async def open(self) -> None:
        """Begin to let commands out."""
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(self._folder / "proxy.sock"))
        listener.listen()
        self._proxy = await serve_proxy(listener, self._allowed, self._egress, ProxyLimits(connections=CONNECTIONS))
        self._spawn(self._keep_ready())

    async def aclose(self) -> None:
        """Cut all connections."""
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
            except (OSError, asyncio.IncompleteReadError):  # the container is starting, or gone
                self._free.release()
                await asyncio.sleep(AGAIN_AFTER_S)
                continue
            self._spawn(self._connect(fetched))

    async def _fetch(self) -> Streams:
        """A connection of a command, as soon as one makes it."""
        reader, writer = await asyncio.open_unix_connection(self._address.socket)
        try:
            writer.write(REQUEST.format(token=self._address.token).encode())
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith(TAKEN):
                raise ConnectionError("the server in the container hands nothing over")
        except BaseException:
            writer.transport.abort()
            raise
        return reader, writer

    async def _connect(self, command: Streams) -> None:
        """Let the proxy serve a command."""
        try:
            proxy = await asyncio.open_unix_connection(self._folder / "proxy.sock")
            try:
                await asyncio.gather(pump(command[0], proxy[1]), pump(proxy[0], command[1]))
            finally:
                proxy[1].transport.abort()
        finally:
            command[1].close()
            self._free.release()


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Carry bytes one way, and say when there are no more."""
    try:
        while chunk := await reader.read(CHUNK_BYTES):
            writer.write(chunk)
            await writer.drain()
        writer.write_eof()
    except OSError:
        writer.transport.abort()  # nothing comes back either
