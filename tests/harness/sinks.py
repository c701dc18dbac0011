"""Where canaries would arrive: a web server, a port that takes datagrams, an MCP server; all on this machine."""

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import unquote

import uvicorn
from aiohttp import web
from mcp.server.fastmcp import FastMCP

from tests.support import ReadyServer


@dataclass
class Sinks:
    """What has arrived, and what is served."""

    pages: dict[str, str] = field(default_factory=dict)
    heard: list[str] = field(default_factory=list)
    web_port: int = 0
    udp_port: int = 0
    mcp_ports: dict[str, int] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)
    """What the MCP servers answer."""

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.web_port}{path}"

    def servers(self) -> Mapping[str, Mapping[str, object]]:
        return {name: {"type": "http", "url": f"http://127.0.0.1:{port}/mcp"} for name, port in self.mcp_ports.items()}


class Datagrams(asyncio.DatagramProtocol):
    """Takes what is sent by UDP, as names are asked for."""

    def __init__(self, heard: list[str]) -> None:
        self._heard = heard

    def datagram_received(self, data: bytes, addr: object) -> None:
        self._heard.append(data.decode(errors="replace"))


@asynccontextmanager
async def open_sinks(*mcp_servers: str) -> AsyncIterator[Sinks]:
    """Sinks that listen; the MCP servers have two tools each, `read` and `note`."""
    sinks = Sinks()
    loop = asyncio.get_running_loop()
    udp, _ = await loop.create_datagram_endpoint(lambda: Datagrams(sinks.heard), local_addr=("127.0.0.1", 0))
    sinks.udp_port = udp.get_extra_info("sockname")[1]

    async def answer(request: web.Request) -> web.Response:
        sinks.heard.append(f"{unquote(request.path_qs)} {dict(request.headers)} {await request.text()}")
        if request.path == "/search":
            found = [{"title": "A page", "url": sinks.url("/found"), "content": sinks.pages.get("/search", "")}]
            return web.json_response({"results": found})
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
    tools = FastMCP(name, stateless_http=True, json_response=True)

    @tools.tool()
    def read(topic: str) -> str:
        """Read what is known about a topic."""
        sinks.heard.append(f"mcp {name} read {topic}")
        return sinks.said.get(name, f"Nothing about {topic}.")

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
