"""Tests of remote servers that flood, fail or disconnect during a call."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from deerflow.testing import calling
from tests.mcp.support import open_mcp_harness

MB = 1024 * 1024
JSON, EVENTS = "application/json", "text/event-stream"


@pytest.mark.slow
async def test_broken_responses_fail_the_call_but_not_the_server(tmp_path: Path) -> None:
    trouble = ("flood", "flood_events", "fail", "vanish", "lose")
    turns = (*(calling(f"far_{name}") for name in trouble), calling("far_echo"), "done")
    async with open_hostile_server() as port:
        servers = {"far": {"type": "http", "url": f"http://127.0.0.1:{port}/mcp", "tool_call_timeout": 20}}
        async with open_mcp_harness(tmp_path, servers, *turns) as world:
            await world.wait_until_listed()
            assert [tool.name for tool in world.status("far").tools] == [*trouble, "echo"]
            before = psutil.Process().memory_info().rss
            await world.run()
            *troubled, well = await world.results()
            assert psutil.Process().memory_info().rss - before < 80 * MB
            assert well.text == "well"
            texts = dict(zip(trouble, (message.text for message in troubled), strict=True))
            assert "more than 16 MB" in texts["flood"] and "more than 16 MB" in texts["flood_events"]
            assert "500 Internal Server Error" in texts["fail"]
            assert "the connection to the server broke" in texts["vanish"]
            assert "before it had answered" in texts["lose"]


@asynccontextmanager
async def open_hostile_server() -> AsyncIterator[int]:
    """Yield the port of a small server that answers requests with JSON."""
    server = await asyncio.start_server(handle_connection, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def handle_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        async with asyncio.timeout(20):
            await send_reply(await read_request(reader), writer)
    except (OSError, asyncio.IncompleteReadError):
        pass  # the client has disconnected, as expected
    finally:
        writer.close()


async def read_request(reader: asyncio.StreamReader) -> dict[str, Any]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    length = next((line.split(":")[1] for line in head.splitlines() if line.startswith("content-length")), "0")
    body = await reader.readexactly(int(length))
    return dict(json.loads(body)) if head.startswith("post") else {"method": "get"}


async def send_reply(message: dict[str, Any], writer: asyncio.StreamWriter) -> None:
    method = message["method"]
    if method == "get" or "id" not in message:
        writer.write(build_head("405 Method Not Allowed" if method == "get" else "202 Accepted", JSON))
        return
    results = {
        "initialize": {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "far", "version": "1"},
        },
        "tools/list": {
            "tools": [
                {"name": name, "inputSchema": {"type": "object"}}
                for name in ("flood", "flood_events", "fail", "vanish", "lose", "echo")
            ]
        },
    }
    if method in results:
        writer.write(build_head("200 OK", JSON) + build_body(message, results[method]))
    else:
        await misbehave(message, writer)


async def misbehave(message: dict[str, Any], writer: asyncio.StreamWriter) -> None:
    match message["params"]["name"]:
        case "flood" | "flood_events" as name:
            kind = JSON if name == "flood" else EVENTS
            writer.write(build_head("200 OK", kind) + (b"data: " if kind == EVENTS else b""))
            for _ in range(1600):
                writer.write(b"x" * 65536)
                await writer.drain()
        case "fail":
            writer.write(build_head("500 Internal Server Error", JSON))
        case "vanish":
            writer.write(build_head("200 OK", EVENTS, "transfer-encoding: chunked") + b"5\r\n: hi\n\r\n")
        case "lose":
            writer.write(build_head("200 OK", EVENTS) + b": nothing\n\n")
        case _:
            writer.write(
                build_head("200 OK", JSON) + build_body(message, {"content": [{"type": "text", "text": "well"}]})
            )


def build_head(status: str, kind: str, *more: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"content-type: {kind}", "connection: close", *more]
    return "".join(f"{line}\r\n" for line in [*lines, ""]).encode()


def build_body(message: dict[str, Any], result: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()
