"""Sandbox provider that resolves every allowed host to a listener on this machine, and that listener."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from deerflow.config.sections.sandbox import SandboxConfig
from deerflow.sandbox.egress import Egress, IPAddress, Streams
from deerflow.sandbox.local import LocalSandboxProvider
from deerflow.sandbox.sandbox_provider import HostContext

PORT_VARIABLE = "LISTENER_PORT"
PAGE = b"reached the listener"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b"


class LoopbackProvider(LocalSandboxProvider):
    """Local provider that resolves every host to this machine."""

    def __init__(self, config: SandboxConfig, places: HostContext) -> None:
        port = int(places.environment[PORT_VARIABLE])

        async def resolve(host: str) -> Sequence[str]:
            return ["127.0.0.1"]

        async def dial(addresses: Sequence[IPAddress], wanted: int) -> Streams:
            return await asyncio.open_connection("127.0.0.1", port)

        super().__init__(config, places, Egress(resolve, lambda _: True, dial))


@dataclass
class Listener:
    """Records TCP and UDP requests."""

    requests: list[str] = field(default_factory=list)
    port: int = 0
    udp_port: int = 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.requests.append(head.split(b" ")[1].decode())
        if b"/moved" in head:
            writer.write(b"HTTP/1.1 302 Found\r\nLocation: http://localhost:%d/secret\r\n\r\n" % self.port)
        else:
            writer.write(ANSWER % (len(PAGE), PAGE))
        writer.close()


class Datagrams(asyncio.DatagramProtocol):
    def __init__(self, listener: Listener) -> None:
        self._listener = listener

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self._listener.requests.append("datagram")


@asynccontextmanager
async def open_listener() -> AsyncIterator[Listener]:
    listener = Listener()
    server = await asyncio.start_server(listener.answer, "127.0.0.1", 0)
    listener.port = server.sockets[0].getsockname()[1]
    loop = asyncio.get_running_loop()
    udp, _ = await loop.create_datagram_endpoint(lambda: Datagrams(listener), local_addr=("127.0.0.1", 0))
    listener.udp_port = udp.get_extra_info("sockname")[1]
    async with server:
        yield listener
    udp.close()
