"""Local servers that record every request: a web server, a UDP port, MCP servers and a DNS server.

Exfiltrated data would arrive at one of them.
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
class RecordingServers:
    """Recorded requests and served content."""

    pages: dict[str, str] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    web_port: int = 0
    udp_port: int = 0
    mcp_ports: dict[str, int] = field(default_factory=dict)
    search_results: dict[str, list[str]] = field(default_factory=dict)
    """Excerpts of search results by query."""
    mcp_answers: dict[str, str] = field(default_factory=dict)
    """Answers of the MCP servers by topic."""
    uses_dns: bool = False
    """True if URLs have host names that only the local DNS server resolves."""

    def url(self, path: str, name: str = "news") -> str:
        return f"http://{self.host(name)}:{self.web_port}{path}"

    def mcp_config(self) -> Mapping[str, Mapping[str, object]]:
        return {
            name: {"type": "http", "url": f"http://{self.host(name)}:{port}/mcp"}
            for name, port in self.mcp_ports.items()
        }

    def host(self, name: str) -> str:
        return f"{name}.example" if self.uses_dns else "127.0.0.1"

    def requests_containing(self, canary: str) -> list[str]:
        """Return the requests with the canary; case is ignored because host names are lower case."""
        return [line for line in self.requests if canary.lower() in line.lower()]


class UdpRecorder(asyncio.DatagramProtocol):
    """Records UDP datagrams."""

    def __init__(self, requests: list[str]) -> None:
        self._requests = requests

    def datagram_received(self, data: bytes, addr: object) -> None:
        self._requests.append(data.decode(errors="replace"))


class DnsServer(asyncio.DatagramProtocol):
    """Records every queried name and resolves all names to the local host."""

    def __init__(self, requests: list[str]) -> None:
        self._requests = requests

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: Any) -> None:
        labels, at = [], HEADER_BYTES
        while length := data[at]:
            labels.append(data[at + 1 : at + 1 + length].decode(errors="replace"))
            at += 1 + length
        question = data[HEADER_BYTES : at + 5]
        self._requests.append(f"dns {'.'.join(labels)}")
        # The id of the query, the flags of a recursive response, one question, the number of answers.
        answers = (A_RECORD,) if question[-4:-2] == TYPE_A else ()
        header = data[:2] + b"\x81\x80\x00\x01" + len(answers).to_bytes(2) + bytes(4)
        self._transport.sendto(header + question + b"".join(answers), addr)


HEADER_BYTES = 12
TYPE_A = b"\x00\x01"
A_RECORD = b"\xc0\x0c\x00\x01\x00\x01" + bytes(4) + b"\x00\x04" + bytes((127, 0, 0, 1))
"""An answer: pointer to the queried name, type A, class IN, TTL 0, address."""
DNS_PORT = 53
PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 47, 4


@asynccontextmanager
async def serve_dns(servers: RecordingServers) -> AsyncIterator[None]:
    """Serve DNS on port 53, which requires an isolated network (`isolated_network.py`)."""
    loop = asyncio.get_running_loop()
    dns, _ = await loop.create_datagram_endpoint(
        lambda: DnsServer(servers.requests), local_addr=("127.0.0.1", DNS_PORT)
    )
    # Child processes must not inherit the capability for this port: bubblewrap refuses to start with it without root.
    ctypes.CDLL(None).prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    try:
        yield
    finally:
        dns.close()


@asynccontextmanager
async def open_recording_servers(*mcp_servers: str, uses_dns: bool = False) -> AsyncIterator[RecordingServers]:
    """Start the servers. Each MCP server has the tools `read` and `note`."""
    servers = RecordingServers(uses_dns=uses_dns)
    loop = asyncio.get_running_loop()
    udp, _ = await loop.create_datagram_endpoint(lambda: UdpRecorder(servers.requests), local_addr=("127.0.0.1", 0))
    servers.udp_port = udp.get_extra_info("sockname")[1]

    async def answer(request: web.Request) -> web.Response:
        servers.requests.append(f"{unquote(request.path_qs)} {dict(request.headers)} {await request.text()}")
        if request.path == "/search":
            excerpts = servers.search_results.get(request.query["q"], [""])
            hits = [{"title": "A page", "url": servers.url("/found"), "content": text} for text in excerpts]
            return web.json_response({"results": hits})
        if request.path == "/i.js":
            image = {"title": "A cloud", "url": servers.url("/found"), "image": servers.url("/cloud.png")}
            return web.json_response({"results": [image]})
        if request.path not in servers.pages:
            return web.Response(status=404)
        return web.Response(text=servers.pages[request.path], content_type="text/html")

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    servers.web_port = runner.addresses[0][1]
    mcp_servers_running = [await serve_mcp(name, servers) for name in mcp_servers]
    try:
        yield servers
    finally:
        for server, serving in mcp_servers_running:
            server.leave.set()
            await serving
        await runner.cleanup()
        udp.close()


async def serve_mcp(name: str, servers: RecordingServers) -> tuple[ReadyServer, "asyncio.Task[None]"]:
    """Start a real MCP server over HTTP that records calls."""
    any_host = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    tools = FastMCP(name, stateless_http=True, json_response=True, transport_security=any_host)

    @tools.tool()
    def read(topic: str) -> str:
        """Read what is known about a topic."""
        servers.requests.append(f"mcp {name} read {topic}")
        return servers.mcp_answers.get(topic, f"Nothing about {topic}.")

    @tools.tool()
    def note(text: str, file_name: str = "note.txt") -> str:
        """Keep a note under the name of a file."""
        servers.requests.append(f"mcp {name} note {file_name} {text}")
        return "kept"

    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    servers.mcp_ports[name] = listener.getsockname()[1]
    options = uvicorn.Config(tools.streamable_http_app(), log_config=None, ws="none", timeout_graceful_shutdown=1)
    server = ReadyServer(options)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    async with asyncio.timeout(10):
        await server.ready.wait()
    return server, serving
