"""Tests of servers that stop answering: each is stopped, and the next call has a fresh one."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp.types import LATEST_PROTOCOL_VERSION

from deerflow.domain.identity import LOCAL_USER
from deerflow.mcp.session import connection
from deerflow.testing import calling, in_parallel
from tests.conformance.command_suite import wait_until
from tests.mcp.support import HOSTILE_SERVER, build_hostile_entry, has_processes, list_processes, open_mcp_harness

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def short_ping(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait less long for the answer of a hung server."""
    monkeypatch.setattr(connection, "PING_S", 2.0)


@pytest.mark.parametrize("tool", ["freeze", "ignore"])
async def test_server_that_stops_answering_is_restarted_for_the_next_call(tmp_path: Path, tool: str) -> None:
    servers = {"s": build_hostile_entry(tools={tool: {"tool_call_timeout": 0.5}})}
    turns = (calling("s_echo", value="1"), calling(f"s_{tool}"), calling("s_echo", value="2"), "done")
    async with open_mcp_harness(tmp_path, servers, *turns) as world:
        await world.wait_until_listed()
        await world.run()
        first, hung, second = await world.results()
        assert first.text == "echo: 1"
        assert hung.status == "error"
        assert "the MCP server 's' did not answer within 0.5 s; it is restarted for the next call" in hung.text
        assert second.text == "echo: 2"
        await wait_until(lambda: has_processes(1))
    await wait_until(lambda: has_processes(0))


async def test_slow_server_that_answers_pings_keeps_its_process(tmp_path: Path) -> None:
    servers = {"s": build_hostile_entry(tools={"hang": {"tool_call_timeout": 0.5}})}
    turns = (calling("s_seen"), calling("s_hang"), calling("s_seen"), "done")
    async with open_mcp_harness(tmp_path, servers, *turns) as world:
        await world.wait_until_listed()
        await world.run()
        before, slow, after = await world.results()
        assert "s_hang took longer than 0.5 s and was stopped" in slow.text
        assert (json.loads(before.text), len(json.loads(after.text))) == ([], 1)  # the same process remembers it


async def test_calls_at_the_same_time_end_with_the_server(tmp_path: Path) -> None:
    servers = {"s": build_hostile_entry(tools={"freeze": {"tool_call_timeout": 0.5}})}
    together = in_parallel(calling("s_freeze"), calling("s_hang"))
    async with open_mcp_harness(tmp_path, servers, together, calling("s_echo", value="again"), "done") as world:
        await world.wait_until_listed()
        await world.run()
        frozen, other, after = await world.results()
        assert "did not answer within 0.5 s" in frozen.text
        assert "did not answer a ping within 2 s; it is restarted for the next call" in other.text
        assert after.text == "echo: again"


async def test_cancelling_a_run_stops_a_server_that_does_not_answer(tmp_path: Path) -> None:
    turns = (calling("s_freeze"), calling("s_echo", value="again"), "done")
    async with open_mcp_harness(tmp_path, {"s": build_hostile_entry()}, *turns) as world:
        await world.wait_until_listed()
        run = await world.start()
        assert await world.wait_for_progress(run) == ["1/2 freezing\n"]
        async with asyncio.timeout(10):
            await world.harness.runs.cancel("t1", run.run_id, LOCAL_USER)
        await wait_until(lambda: has_processes(0))
        await world.run()
        assert (await world.results())[-1].text == "echo: again"


@pytest.mark.parametrize("mode", ["hang-if", "hang-at-list-if"])
async def test_server_that_hangs_while_it_is_opened_is_started_again(tmp_path: Path, mode: str) -> None:
    flags = tmp_path / "flags"
    flags.mkdir()
    paths = [str(HOSTILE_SERVER), str(flags)]
    servers = {"s": build_hostile_entry(f"{mode}:{flags}/now", paths=paths, session_init_timeout=2)}
    turns = (calling("s_echo", value="1"), "failed", calling("s_echo", value="2"), "done")
    async with open_mcp_harness(tmp_path, servers, *turns) as world:
        await world.wait_until_listed()
        (flags / "now").touch()
        await world.run()
        (failed,) = await world.results()
        assert failed.status == "error" and "did not answer within 2 s" in failed.text
        assert not list_processes()
        (flags / "now").unlink()
        await world.run()
        assert (await world.results())[-1].text == "echo: 2"


@pytest.mark.parametrize("kind", ["http", "sse"])
async def test_remote_server_that_stops_answering_is_connected_again(tmp_path: Path, kind: str) -> None:
    async with open_remote_server() as remote:
        entry = {"type": kind, "url": f"{remote.url}/{kind}", "tools": {"hang": {"tool_call_timeout": 0.5}}}
        turns = (calling("far_hang"), calling("far_echo"), "done")
        async with open_mcp_harness(tmp_path, {"far": entry}, *turns) as world:
            await world.wait_until_listed()
            await world.run()
            hung, well = await world.results()
            assert hung.status == "error"
            assert "the MCP server 'far' did not answer within 0.5 s; the next call connects again" in hung.text
            assert well.text == "well"
            assert remote.openings == 3  # for the listing, for the first call, and again


class RemoteServer:
    """Server that answers nothing after a call of `hang`, until it is opened again."""

    def __init__(self) -> None:
        self.url = ""
        self.openings = 0
        self.is_hanging = False
        self.stop = asyncio.Event()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request; a connection of the SSE transport carries the answers to all."""
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            fields = dict(line.split(": ", 1) for line in head.splitlines()[1:] if line)
            body = await reader.readexactly(int(fields.get("content-length", "0")))
            if head.startswith("get /sse"):
                self.events = writer
                writer.write(build_head("200 OK", "text/event-stream") + b"event: endpoint\ndata: /sse\n\n")
                await self.stop.wait()
            elif head.startswith("post"):
                await self.answer(json.loads(body), writer, self.events if head.startswith("post /sse") else None)
            else:
                writer.write(build_head("405 Method Not Allowed", "application/json"))
        except (OSError, asyncio.IncompleteReadError):
            pass  # the client has disconnected
        finally:
            writer.close()

    async def answer(
        self, message: dict[str, Any], writer: asyncio.StreamWriter, events: asyncio.StreamWriter | None
    ) -> None:
        """Answer a message, on the connection of its request or on that of the events."""
        method, number = message["method"], message.get("id")
        if method == "initialize":
            self.openings += 1
            self.is_hanging = False
        if method == "tools/call" and message["params"]["name"] == "hang":
            self.is_hanging = True
        if events is not None or number is None:
            writer.write(build_head("202 Accepted", "application/json"))
        if number is None:
            return
        if self.is_hanging:
            await self.stop.wait()
            return
        reply = json.dumps({"jsonrpc": "2.0", "id": number, "result": RESULTS[method]}).encode()
        if events is not None:
            events.write(b"event: message\ndata: " + reply + b"\n\n")
        else:
            writer.write(build_head("200 OK", "application/json") + reply)


RESULTS: dict[str, dict[str, Any]] = {
    "initialize": {
        "protocolVersion": LATEST_PROTOCOL_VERSION,
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "far", "version": "1"},
    },
    "tools/list": {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ("hang", "echo")]},
    "tools/call": {"content": [{"type": "text", "text": "well"}]},
    "ping": {},
}


def build_head(status: str, kind: str) -> bytes:
    return f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\nconnection: close\r\n\r\n".encode()


@asynccontextmanager
async def open_remote_server() -> AsyncIterator[RemoteServer]:
    """Yield a running server."""
    remote = RemoteServer()
    server = await asyncio.start_server(remote.handle, "127.0.0.1", 0)
    remote.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        try:
            yield remote
        finally:
            remote.stop.set()
