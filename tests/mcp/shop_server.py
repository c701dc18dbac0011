"""Small MCP server of the `mcp` package whose tool can change while it runs."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from mcp.server.fastmcp import FastMCP

from tests.mcp.login_server import ReadyServer


class Shop:
    """Server with one tool, one resource and one prompt."""

    def __init__(self) -> None:
        self.url = ""
        self.server = FastMCP("weather", stateless_http=True, json_response=True, log_level="ERROR")
        self.server.resource("weather://stations", description="Where it is measured")(stations)
        self.server.prompt("packing", description="What to pack")(packing)
        self.server.add_tool(forecast, "forecast", description="Tells the weather.")

    def describe(self, description: str) -> None:
        """Have the tool say this of itself from now on."""
        self.server.remove_tool("forecast")
        self.server.add_tool(forecast, "forecast", description=description)


def stations() -> str:
    return "Oslo"


def packing(place: str) -> str:
    return f"What to pack for {place}?"


def forecast(place: str) -> str:
    return f"Rain in {place}"


@contextmanager
def serving_shop() -> Iterator[Shop]:
    """Serve on a free port in a thread."""
    shop = Shop()
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        shop.url = f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        app = shop.server.streamable_http_app()
        server = ReadyServer(uvicorn.Config(app, log_config=None, ws="none", timeout_graceful_shutdown=1))
        thread = threading.Thread(target=server.run, args=[[listening]])
        thread.start()
        try:
            assert server.ready.wait(10)
            yield shop
        finally:
            server.should_exit = True
            thread.join(10)
