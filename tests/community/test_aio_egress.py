"""Allowed hosts of containers without a network."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from pathlib import Path

import pytest
import pytest_asyncio

from deerflow.community.aio_sandbox import AioSandboxProvider
from deerflow.community.aio_sandbox.local_backend import LocalContainerBackend
from deerflow.domain.sandbox import Sandbox
from deerflow.sandbox.egress import Egress, IPAddress, Streams
from tests.community.support import ContainerEngine, make_host
from tests.conformance.command_suite import run_command
from tests.conformance.sandbox_suite import acquire

pytestmark = pytest.mark.asyncio(loop_scope="module")
PAGE = b"x" * 1_000_000


async def serve_page(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer like a web server."""
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(PAGE) + PAGE)
    await writer.drain()
    writer.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox(engine: ContainerEngine, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Sandbox]:
    server = await asyncio.start_server(serve_page, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]

    async def resolve(host: str) -> Sequence[str]:
        return ["93.184.215.14"]

    async def dial(addresses: Sequence[IPAddress], _: int) -> Streams:
        return await asyncio.open_connection("127.0.0.1", port)

    config = engine.config(network="allowlist", allowed_hosts=["allowed.example"])
    places = make_host(tmp_path_factory.mktemp("egress"))
    backend = LocalContainerBackend(config, places.home, Egress(resolve=resolve, dial=dial))
    async with server, aclosing(AioSandboxProvider(config, places, backend)) as provider:
        assert (await provider.open()).tier == "container"
        yield await acquire(provider, "t1")


async def test_reaches_an_allowed_host(sandbox: Sandbox) -> None:
    assert await run_command(sandbox, "curl -sS http://allowed.example/page | wc -c") == f"{len(PAGE)}\n"


async def test_refuses_another_host_with_a_reason(sandbox: Sandbox) -> None:
    result = await sandbox.execute_command("curl -sS http://other.example/")
    assert "other.example is not on the list" in result.output
    assert "allowed.example" in result.output


async def test_proxy_cannot_be_bypassed(sandbox: Sandbox) -> None:
    assert (await run_command(sandbox, "ls /sys/class/net")).split() == ["lo"]
    assert (await sandbox.execute_command("curl -sS --noproxy '*' -m 3 http://allowed.example/")).exit_code != 0


async def test_serves_many_connections_concurrently(sandbox: Sandbox) -> None:
    fetch = "seq 24 | xargs -P 24 -I{} curl -sS -o /dev/null -w '%{size_download}\\n' http://allowed.example/{}"
    async with asyncio.timeout(60):
        assert await run_command(sandbox, fetch) == f"{len(PAGE)}\n" * 24


async def test_refuses_an_allow_list_with_another_image(engine: ContainerEngine, tmp_path: Path) -> None:
    config = engine.config(network="allowlist", image="docker.io/library/debian:12-slim")
    async with aclosing(AioSandboxProvider(config, make_host(tmp_path))) as provider:
        report = await provider.open()
        assert report.tier == "none" and "list of hosts" in (report.problem or "")
