"""Programs of agents that have the network of this machine: without a credential the API is not for them."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from shlex import quote
from typing import Any
from urllib.parse import urlsplit

import pytest

from deerflow.config.source import open_source
from deerflow.gateway.app import create_app, shares_network
from deerflow.harness import Harness, open_harness
from deerflow.sandbox.jobs.services import ServiceProvider, ServiceSpec
from deerflow.sandbox.local.launcher.network import find_client_socket, is_held_by_sandbox
from deerflow.testing import ScriptedModel
from tests.gateway.account_server import AUTH, QUIET, AccountServer, open_account_server
from tests.support import browse

FULL: dict[str, Any] = {"sandbox": {"network": "full", "toolbox": {"enabled": False}}}
LOCAL = {"sandbox": {"toolbox": {"enabled": False}}}
AGENT = {"acp_agents": {"helper": {"command": "helper", "description": "d", "network": True}}}
REQUEST = """ask() {{
  exec 3<>"/dev/tcp/$1/{port}" || return
  printf '%s\\r\\n' "$2 HTTP/1.1" "Host: $3" 'Connection: close' "$4" >&3
  head -n 1 <&3
}}
"""
BODY = '{"thread_id":"planted"}'
POST = f"Content-Type: application/json\r\nContent-Length: {len(BODY)}\r\n\r\n{BODY}"


@asynccontextmanager
async def open_local_server(home: Path, settings: dict[str, Any]) -> AsyncIterator[tuple[Harness, int]]:
    """Run a server without a login; yield it with its port."""
    source = open_source(directory=home, environment={}, overrides={**QUIET, **settings})
    async with (
        open_harness(source, ScriptedModel.saying("Hello.")) as harness,
        browse(harness, create_app(harness)) as http,
    ):
        assert (await http.get("/api/threads/none/state")).status_code == 404, "the user needs no login"
        yield harness, http.base_url.port or 0
        assert (await http.get("/api/threads/planted")).status_code == 404, "programs have changed nothing"
        assert (await http.get("/api/threads/none/state")).status_code == 404


async def run_in_sandbox(harness: Harness, script: str) -> str:
    """Run a script as a command of an agent and return what it prints."""
    sandboxes = harness.core.sandboxes
    sandbox_id = await sandboxes.acquire("t", "local")
    try:
        async with asyncio.timeout(30):
            return (await (await sandboxes.get(sandbox_id)).execute_command(script, timeout_s=30)).output
    finally:
        await sandboxes.release(sandbox_id)


async def run_service(harness: Harness, script: str) -> str:
    """Run a script as an MCP server or ACP agent with network and return what it prints."""
    sandboxes = harness.core.sandboxes
    assert isinstance(sandboxes, ServiceProvider)
    service = await sandboxes.start_service(ServiceSpec("s", ["/bin/bash", "-c", script], "local", "t", network=True))
    try:
        async with asyncio.timeout(30):
            return (await service.output.read()).decode()
    finally:
        await service.aclose()


def attacks(port: int) -> str:
    """Return a script that tries to reach the API by every address of this machine."""
    lines = [REQUEST.format(port=port)]
    for address in ("127.0.0.1", "localhost", "0.0.0.0", "::ffff:127.0.0.1", "127.0.0.2", "::1", socket.gethostname()):
        for host in ("127.0.0.1", "localhost"):
            lines.append(f"(ask {address} 'GET /api/threads/x/state' {host} '') 2>/dev/null")
            lines.append(f"(ask {address} 'POST /api/threads' {host} {quote(POST)}) 2>/dev/null")
    # It leaves without reading, before it can be found.
    request = quote(f"POST /api/threads HTTP/1.1\r\nHost: localhost\r\n{POST}")
    lines.append(f"exec 4<>/dev/tcp/127.0.0.1/{port}; printf '%s' {request} >&4; exec 4>&-")
    return "\n".join(lines) + "\necho done"


@pytest.mark.parametrize("kind", ["command", "service"])
async def test_programs_with_network_cannot_use_a_server_without_a_login(tmp_path: Path, kind: str) -> None:
    async with open_local_server(tmp_path, FULL if kind == "command" else LOCAL | AGENT) as (harness, port):
        run = run_in_sandbox if kind == "command" else run_service
        printed = await run(harness, attacks(port))
    answers = [line.split(" ")[1] for line in printed.splitlines() if line.startswith("HTTP/")]
    assert "done" in printed and len(answers) > 3, printed
    assert set(answers) == {"403"}, printed


async def test_programs_with_network_need_a_credential_where_a_login_is_required(tmp_path: Path) -> None:
    async with open_account_server(tmp_path, **FULL) as server:
        ann = await server.set_up()
        token, _ = await server.create_token(ann, "read")
        port = urlsplit(server.url).port or 0
        printed = await run_in_sandbox(server.harness, attacks(port))
        answers = {line.split(" ")[1] for line in printed.splitlines() if line.startswith("HTTP/")}
        assert answers == {"401"}, printed
        with_token = REQUEST.format(port=port) + (
            f"ask 127.0.0.1 'GET {AUTH}/me' localhost $'Authorization: Bearer {token}\\r\\n\\r\\n'"
        )
        assert " 200 " in await run_in_sandbox(server.harness, with_token)
        await check_nothing_planted(server)


async def check_nothing_planted(server: AccountServer) -> None:
    ann = await server.log_in()
    assert (await ann.get("/api/threads/planted")).status_code == 404


async def test_a_program_of_a_sandbox_is_distinguished_from_others_of_the_same_user(tmp_path: Path) -> None:
    source = open_source(directory=tmp_path, environment={}, overrides={**QUIET, **LOCAL})
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(20)
        port = listener.getsockname()[1]
        async with open_harness(source, ScriptedModel.saying("Hello.")) as harness:
            sandboxes = harness.core.sandboxes
            assert isinstance(sandboxes, ServiceProvider)
            with socket.create_connection(("127.0.0.1", port)) as own:
                found = find_client_socket(own.getsockname(), own.getpeername())
                assert found is not None and not is_held_by_sandbox(found.inode)
            listener.accept()[0].close()
            script = f"exec 3<>/dev/tcp/127.0.0.1/{port}; read -r line"
            service = await sandboxes.start_service(
                ServiceSpec("s", ["/bin/bash", "-c", script], "local", "t", network=True)
            )
            accepted, client = await asyncio.to_thread(listener.accept)
            with accepted:
                theirs = find_client_socket(client, accepted.getsockname())
                assert theirs is not None and is_held_by_sandbox(theirs.inode)
                assert is_held_by_sandbox(1), "a socket that no program has may be on its way between two"
            await service.aclose()
            assert not is_held_by_sandbox(1)


def test_a_connection_that_does_not_exist_has_no_socket() -> None:
    assert find_client_socket(("127.0.0.1", 1), ("127.0.0.1", 2)) is None
    assert find_client_socket(("::1", 1), ("::1", 2)) is None


@pytest.mark.parametrize(
    ("settings", "is_shared"),
    [({}, False), (FULL, True), (AGENT, True), ({"sandbox": {"network": "allowlist"}}, False)],
)
def test_the_network_is_shared_only_if_it_is_configured(
    tmp_path: Path, settings: dict[str, Any], is_shared: bool
) -> None:
    source = open_source(directory=tmp_path, environment={}, overrides=settings)
    assert shares_network(source.current) is is_shared
