"""Tests of the MCP client with the official conformance suite."""

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from deerflow.config.sections.base import Settings
from deerflow.config.sections.extensions import McpServerConfig
from deerflow.domain.errors import DeerFlowError
from deerflow.mcp.auth.service import OAuthService
from deerflow.mcp.auth.token_store import TokenStore
from deerflow.mcp.auth.tokens import LoginCallback, LoginRedirect, LoginRequired
from deerflow.mcp.session.calls import (
    Elicitation,
    McpCallResult,
    McpSession,
    McpToolCall,
    ServerAddress,
    SessionDependencies,
)
from deerflow.mcp.session.pool import SessionPool
from deerflow.mcp.status import ServerListing
from deerflow.mcp.tools import parse_reply
from deerflow.persistence.encryption import TokenCipher
from deerflow.persistence.engine import open_database
from deerflow.sandbox.jobs.services import Service, ServiceSpec
from tests.mcp.installed import conformance_suite
from tests.mcp.login_server import follow_redirect

pytestmark = [pytest.mark.external, pytest.mark.timeout(400)]  # the first time on a machine it is fetched

TIME = re.compile(r"-\d{4}-\d\d-\d\dT.*")
"""The end of the names of results."""
SCENARIOS = frozenset(
    {
        "initialize",
        "tools_call",
        "elicitation-sep1034-client-defaults",
        "sse-retry",
        "auth/2025-03-26-oauth-endpoint-fallback",
        "auth/2025-03-26-oauth-metadata-backcompat",
        "auth/basic-cimd",
        "auth/metadata-default",
        "auth/metadata-var1",
        "auth/metadata-var2",
        "auth/metadata-var3",
        "auth/pre-registration",
        "auth/scope-from-scopes-supported",
        "auth/scope-from-www-authenticate",
        "auth/scope-omitted-when-undefined",
        "auth/scope-retry-limit",
        "auth/scope-step-up",
        "auth/token-endpoint-auth-basic",
        "auth/token-endpoint-auth-none",
        "auth/token-endpoint-auth-post",
        # Not part of a dated version of the specification:
        "auth/client-credentials-basic",
        "auth/offline-access-not-supported",
        "auth/offline-access-scope",
        "auth/resource-mismatch",
    }
)
NOT_SUPPORTED = frozenset({"auth/client-credentials-jwt", "auth/cross-app-access-complete-flow"})
"""Extensions of the specification."""
ENDS_WITH_ERROR = {
    "auth/scope-retry-limit": "'x' refuses the request, although the login has requested 'mcp:admin'",
    "auth/resource-mismatch": "the resource metadata of localhost is for 'https://evil.example.com/mcp'",
}
CALLBACK = "http://127.0.0.1:2026/api/mcp/oauth/callback"
CLIENT_URL = "https://conformance-test.local/client-metadata.json"
MAX_LOGINS = 6
"""Logins after which the user gives up; the suite allows three."""
LIMIT_S = 120.0
# The suite starts a process for each scenario. It passes the task on, so that nothing has to be imported.
MESSENGER = """\
import json, os, socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as connection, connection.makefile("rw") as stream:
    names = "MCP_CONFORMANCE_SCENARIO", "MCP_CONFORMANCE_CONTEXT"
    stream.write(json.dumps([os.environ.get(name, "") for name in names] + [sys.argv[2]]) + "\\n")
    stream.flush()
    problem = stream.readline().strip()
sys.exit(problem or None)
"""


async def test_passes_the_conformance_suite(tmp_path: Path) -> None:
    problems: dict[str, str] = {}
    messenger = tmp_path / "messenger.py"
    messenger.write_text(MESSENGER)
    async with open_database(tmp_path / "d.db") as database:
        store = TokenStore(database, TokenCipher(tmp_path / "mcp.key", None))
        async with serve_client(messenger, store, problems) as command:
            checks = await run_suite(tmp_path / "results", command)
    assert checks.keys() == SCENARIOS | NOT_SUPPORTED
    failed = {name: found for name in SCENARIOS if (found := [*map(describe_check, checks[name])])}
    assert not failed, f"{json.dumps(failed, indent=2)}\n{problems}"
    assert problems == ENDS_WITH_ERROR


async def run_suite(results: Path, command: str) -> dict[str, list[dict[str, Any]]]:
    """Run all scenarios and return the checks of each that did not succeed."""
    node, suite = await asyncio.to_thread(conformance_suite)
    arguments = ("client", "--suite", "all", "--command", command, "--output-dir", str(results))
    process = await asyncio.create_subprocess_exec(
        node, suite, *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        async with asyncio.timeout(LIMIT_S):
            output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    found = dict(read_failed_checks(results))
    assert found, output.decode()
    return found


def read_failed_checks(results: Path) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield each scenario in a folder of results with the checks that did not succeed."""
    for file in results.rglob("checks.json"):
        scenario = TIME.sub("", str(file.parent.relative_to(results)))
        yield scenario, [check for check in json.loads(file.read_bytes()) if is_failed(check)]


def is_failed(check: Mapping[str, Any]) -> bool:
    if check["id"] == "client-sse-retry-timing":  # a reconnection is late when the machine is busy
        return bool(check["details"].get("tooEarly", True))
    return check["status"] in ("FAILURE", "WARNING")


def describe_check(check: Mapping[str, Any]) -> str:
    return f"{check['status']} {check['id']}: {check.get('errorMessage') or check['description']}"


@asynccontextmanager
async def serve_client(messenger: Path, store: TokenStore, problems: dict[str, str]) -> AsyncIterator[str]:
    """Yield the command that has this process do a scenario; errors of the client are added to `problems`."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        scenario, context, url = json.loads(await reader.readline())
        try:
            async with asyncio.timeout(LIMIT_S):
                if scenario not in NOT_SUPPORTED:
                    await use_server(scenario, url, build_oauth(scenario, context), store)
        except DeerFlowError as problem:
            problems[scenario] = str(problem)
            writer.write(b"failed\n")
        finally:
            writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        yield f"{sys.executable} -IS {messenger} {port}"


def build_oauth(scenario: str, context: str) -> dict[str, object] | None:
    """Return the `oauth` settings that a scenario expects to be configured."""
    if not context:
        return None
    grant = "client_credentials" if "client-credentials" in scenario else "authorization_code"
    given = json.loads(context)
    return {"grant_type": grant, "client_id": given["client_id"], "client_secret": given["client_secret"]}


async def use_server(user: str, url: str, oauth: dict[str, object] | None, store: TokenStore) -> None:
    """List a server and call all its tools, and log in whenever that is required."""
    entry = {"type": "http", "url": url, "allow_private_addresses": True, **({"oauth": oauth} if oauth else {})}
    config = McpServerConfig.model_validate(entry)
    # A user for each scenario; credentials of the operator are stored by server.
    service = OAuthService(Settings(lambda: {"x": config}), store)
    pool = SessionPool(SessionDependencies(start_nothing, service))
    try:
        for _ in range(MAX_LOGINS):
            try:
                await call_all_tools(pool, ServerAddress("x", config, "key", user, "t1"))
                return
            except LoginRequired:
                await log_in(service, user)
        raise AssertionError(f"more than {MAX_LOGINS} logins")
    finally:
        await pool.aclose()
        await service.aclose()


async def start_nothing(spec: ServiceSpec) -> Service:
    raise AssertionError


async def call_all_tools(pool: SessionPool, address: ServerAddress) -> None:
    listing: ServerListing = await pool.fetch_listing(address)
    session = await pool.acquire(address)
    for tool in listing.tools:
        await call(session, tool.name, dict.fromkeys(tool.input_schema.get("properties", {}), 5))


async def call(session: McpSession, tool: str, arguments: dict[str, object]) -> McpCallResult:
    """Call a tool and accept all forms as they are."""
    pending = session.begin(McpToolCall("call", tool, arguments))
    while isinstance(outcome := await pending.wait(), Elicitation):
        pending.answer(parse_reply(outcome, {"decisions": [{"type": "approve"}]}))
    return outcome


async def log_in(service: OAuthService, user: str) -> None:
    started = await service.start("x", user, LoginRedirect(CALLBACK, client_url=CLIENT_URL))
    back = (await follow_redirect(started.authorization_url)).params
    await service.finish(user, LoginCallback(back["state"], back.get("code"), back.get("error"), back.get("iss")))
