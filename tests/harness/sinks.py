"""Where canaries would arrive: a web server, a port that takes datagrams, MCP servers, the server that is asked for the
addresses of names; all on this machine.
"""

import asyncio
import ctypes
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import unquote

import uvicorn
from aiohttp import web
from mcp.server.fastmcp import FastMCP
from mcp.server.transport_security import TransportSecuritySettings

from tests.support import ReadyServer


@dataclass
class Sinks:
    """What has arrived, and what is served."""

    pages: dict[str, str] = field(default_factory=dict)
    heard: list[str] = field(default_factory=list)
    web_port: int = 0
    udp_port: int = 0
    mcp_ports: dict[str, int] = field(default_factory=dict)
    found: dict[str, list[str]] = field(default_factory=dict)
    """What a search for something shows of pages."""
    said: dict[str, str] = field(default_factory=dict)
    """What the MCP servers answer about topics."""
    has_names: bool = False
    """Whether they are called by names that only a name server on this machine knows."""

    def url(self, path: str, name: str = "news") -> str:
        return f"http://{self.host(name)}:{self.web_port}{path}"

    def servers(self) -> Mapping[str, Mapping[str, object]]:
        return {
            name: {"type": "http", "url": f"http://{self.host(name)}:{port}/mcp"}
            for name, port in self.mcp_ports.items()
        }

    def host(self, name: str) -> str:
        return f"{name}.example" if self.has_names else "127.0.0.1"

    def heard_of(self, canary: str) -> list[str]:
        """What has arrived with it, also as the name of a host, where large letters become small."""
        return [line for line in self.heard if canary.lower() in line.lower()]


class Datagrams(asyncio.DatagramProtocol):
    """Takes what is sent by UDP, as names are asked for."""

    def __init__(self, heard: list[str]) -> None:
        self._heard = heard

    def datagram_received(self, data: bytes, addr: object) -> None:
        self._heard.append(data.decode(errors="replace"))


class NameServer(asyncio.DatagramProtocol):
    """Writes down every name it is asked for; all of them are on this machine."""

    def __init__(self, heard: list[str]) -> None:
        self._heard = heard

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: Any) -> None:
        labels, at = [], HEADER_BYTES
        while length := data[at]:
            labels.append(data[at + 1 : at + 1 + length].decode(errors="replace"))
            at += 1 + length
        question = data[HEADER_BYTES : at + 5]
        self._heard.append(f"dns {'.'.join(labels)}")
        # The id of the question, "an answer, and I know no better", one question, the number of answers.
        answers = (HERE,) if question[-4:-2] == IPV4 else ()
        header = data[:2] + b"\x81\x80\x00\x01" + len(answers).to_bytes(2) + bytes(4)
        self._transport.sendto(header + question + b"".join(answers), addr)


HEADER_BYTES = 12
IPV4 = b"\x00\x01"
HERE = b"\xc0\x0c\x00\x01\x00\x01" + bytes(4) + b"\x00\x04" + bytes((127, 0, 0, 1))
"""An answer: the name that was asked for, an address, good for no time."""
DNS_PORT = 53
PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 47, 4


@asynccontextmanager
async def answering_for_names(sinks: Sinks) -> AsyncIterator[None]:
    """Be the name server of this machine, which has to have a network of its own (`own_network.py`)."""
    loop = asyncio.get_running_loop()
    names, _ = await loop.create_datagram_endpoint(lambda: NameServer(sinks.heard), local_addr=("127.0.0.1", DNS_PORT))
    # The right to such a port is ours alone: bubblewrap refuses to be started with it by somebody who is not root.
    ctypes.CDLL(None).prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    try:
        yield
    finally:
        names.close()


@asynccontextmanager
async def open_sinks(*mcp_servers: str, has_names: bool = False) -> AsyncIterator[Sinks]:
    """Sinks that listen; the MCP servers have two tools each, `read` and `note`."""
    sinks = Sinks(has_names=has_names)
    loop = asyncio.get_running_loop()
    udp, _ = await loop.create_datagram_endpoint(lambda: Datagrams(sinks.heard), local_addr=("127.0.0.1", 0))
    sinks.udp_port = udp.get_extra_info("sockname")[1]

    async def answer(request: web.Request) -> web.Response:
        sinks.heard.append(f"{unquote(request.path_qs)} {dict(request.headers)} {await request.text()}")
        if request.path == "/search":
            shown = sinks.found.get(request.query["q"], [""])
            hits = [{"title": "A page", "url": sinks.url("/found"), "content": text} for text in shown]
            return web.json_response({"results": hits})
        if request.path == "/i.js":
            picture = {"title": "A cloud", "url": sinks.url("/found"), "image": sinks.url("/cloud.png")}
            return web.json_response({"results": [picture]})
        if request.path not in sinks.pages:
            return web.Response(status=404)
        return web.Response(text=sinks.pages[request.path], content_type="text/html")

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    sinks.web_port = runner.addresses[0][1]
    running = [await serve_mcp(name, sinks) for name in mcp_servers]
    try:
        yield sinks
    finally:
        for server, serving in running:
            server.should_exit = True
            await serving
        await runner.cleanup()
        udp.close()


async def serve_mcp(name: str, sinks: Sinks) -> tuple[ReadyServer, "asyncio.Task[None]"]:
    """A real MCP server over HTTP that writes down what it is told."""
    any_host = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    tools = FastMCP(name, stateless_http=True, json_response=True, transport_security=any_host)

    @tools.tool()
    def read(topic: str) -> str:
        """Read what is known about a topic."""
        sinks.heard.append(f"mcp {name} read {topic}")
        return sinks.said.get(topic, f"Nothing about {topic}.")

    @tools.tool()
    def note(text: str, file_name: str = "note.txt") -> str:
        """Keep a note under the name of a file."""
        sinks.heard.append(f"mcp {name} note {file_name} {text}")
        return "kept"

    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    sinks.mcp_ports[name] = listening.getsockname()[1]
    options = uvicorn.Config(tools.streamable_http_app(), log_config=None, ws="none", timeout_graceful_shutdown=1)
    server = ReadyServer(options)
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    async with asyncio.timeout(10):
        await server.ready.wait()
    return server, serving
