"""Tests of OAuth discovery with honest and hostile metadata."""

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from deerflow.config.sections.extensions import McpServerConfig
from deerflow.domain.errors import McpLoginFailed
from deerflow.mcp.auth.discovery import find_endpoints, find_token_endpoint
from deerflow.mcp.auth.http import OAuthHttp, merge_scopes
from deerflow.mcp.auth.login import get_client
from deerflow.mcp.auth.tokens import LoginRedirect
from tests.mcp.login_server import serve_in_thread, serving_logins

HTTP = OAuthHttp(allow_private=True)


@pytest.fixture(scope="module")
def server_url() -> Iterator[str]:
    """Yield the URL of a server whose path selects its behaviour."""

    def base(request: Request) -> str:
        return str(request.base_url).rstrip("/")

    async def mcp(request: Request) -> Response:
        mode = request.path_params["mode"]
        if mode == "open":
            return JSONResponse({})
        if mode in ("late", "later") and (passed := await let_pass(request, mode)):
            return passed
        challenge = f'Bearer resource_metadata="{base(request)}/resource/{mode}", scope="read write"'
        return Response(status_code=401, headers={"www-authenticate": challenge})

    def resource(request: Request) -> Response:
        mode, here = request.path_params["mode"], base(request)
        if mode == "moved":
            return RedirectResponse(f"{here}/resource/true")
        if mode == "failing":
            return Response(status_code=503)
        resource_url = "https://bank.example/mcp" if mode == "another" else f"{here}/{mode}/mcp"
        issuer = {"plain": "http://login.example", "file": "file:///etc", "broken": "https://["}.get(
            mode, f"{here}/as/{mode}"
        )
        return JSONResponse({"resource": resource_url, "authorization_servers": [issuer], "scopes_supported": ["read"]})

    def server_metadata(request: Request) -> Response:
        mode, here = request.path_params["mode"], base(request)
        metadata: dict[str, Any] = {
            "issuer": f"{here}/as/{mode}",
            "authorization_endpoint": f"{here}/authorize",
            "token_endpoint": f"{here}/token",
            "code_challenge_methods_supported": ["S256"],
        }
        if mode == "huge":
            return Response(b'{"issuer": "' + b"x" * 2_000_000 + b'"}')
        overrides = {
            "renamed": {"issuer": f"{here}/as/true"},
            "bare": {"code_challenge_methods_supported": None},
            "leaking": {"token_endpoint": "http://evil.example/token"},
            "robots": {"authorization_endpoint": None},
            "document": {"client_id_metadata_document_supported": True},
        }
        content = {**metadata, **overrides.get(mode, {})}
        return JSONResponse({name: value for name, value in content.items() if value is not None})

    app = Starlette(
        routes=[
            Route("/{mode}/mcp", mcp, methods=["GET", "POST"]),
            Route("/resource/{mode}", resource),
            Route("/.well-known/oauth-authorization-server/as/{mode}", server_metadata),
        ]
    )
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        with serve_in_thread(app, listening):
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"


async def let_pass(request: Request, mode: str) -> Response | None:
    """Return the response to a request that needs no login; with "late", `tools/list` in the session needs one."""
    sent = await request.json()
    if sent["method"] == "initialize":
        return JSONResponse({}, headers={"Mcp-Session-Id": "s1"})
    is_protected = mode == "late" and request.headers.get("mcp-session-id") == "s1" and "id" in sent
    return None if is_protected else Response(status_code=202)


def build_entry(url: str, **settings: object) -> McpServerConfig:
    return McpServerConfig.model_validate({"type": "http", "url": url, **settings})


async def test_finds_endpoints_of_a_correct_server(server_url: str) -> None:
    for kind in ("http", "sse"):
        found = await find_endpoints(HTTP, build_entry(f"{server_url}/true/mcp", type=kind))
        assert (found.issuer, found.token) == (f"{server_url}/as/true", f"{server_url}/token")
        assert (found.resource, found.scope) == (f"{server_url}/true/mcp", "read write")


@pytest.mark.parametrize(
    ("mode", "problem"),
    [
        ("another", "is for 'https://bank.example/mcp'"),
        ("renamed", "issuer mismatch"),
        ("bare", "does not support PKCE"),
        ("leaking", "'evil.example' does not use https"),
        ("plain", "'login.example' does not use https"),
        ("file", "invalid authorization server URL"),
        ("broken", "invalid URL"),
        ("huge", "no metadata found"),
        ("failing", "answered with status 503"),
        ("open", "requires no login"),
        ("later", "requires no login"),
        ("robots", "has no authorization endpoint"),
    ],
)
async def test_rejects_hostile_metadata(server_url: str, mode: str, problem: str) -> None:
    with pytest.raises(McpLoginFailed, match=problem):
        await find_endpoints(HTTP, build_entry(f"{server_url}/{mode}/mcp"))


async def test_finds_the_challenge_of_a_server_that_asks_after_initialize(server_url: str) -> None:
    found = await find_endpoints(HTTP, build_entry(f"{server_url}/late/mcp"))
    assert (found.issuer, found.scope) == (f"{server_url}/as/late", "read write")


async def test_starts_from_the_challenge_of_an_earlier_response(server_url: str) -> None:
    seen = f'Bearer resource_metadata="{server_url}/resource/later", scope="admin"'
    found = await find_endpoints(HTTP, build_entry(f"{server_url}/later/mcp"), seen)
    assert (found.issuer, found.scope) == (f"{server_url}/as/later", "admin")
    # Without parameters the well-known addresses are used.
    assert (await find_endpoints(HTTP, build_entry(f"{server_url}/later/mcp"), "Bearer")).issuer == server_url


async def test_credentials_need_no_authorization_endpoint(server_url: str) -> None:
    found = await find_token_endpoint(HTTP, build_entry(f"{server_url}/robots/mcp"))
    assert (found.token, found.authorization) == (f"{server_url}/token", "")


async def test_client_metadata_document_replaces_registration(server_url: str) -> None:
    entry = build_entry(f"{server_url}/document/mcp")
    endpoints = await find_endpoints(HTTP, entry)
    known = LoginRedirect("https://deer.example/back", client_url="https://deer.example/client.json")
    client = await get_client(HTTP, entry, endpoints, known)
    assert (client.client_id, client.client_secret, client.auth_method) == (known.client_url, None, "none")
    with pytest.raises(
        McpLoginFailed, match="set its `client_id` in `oauth` of the server, or set `gateway.public_url`"
    ):
        await get_client(HTTP, entry, endpoints, LoginRedirect("http://127.0.0.1/back"))
    configured = build_entry(entry.url or "", oauth={"grant_type": "authorization_code", "client_id": "ours"})
    assert (await get_client(HTTP, configured, endpoints, known)).client_id == "ours"


@pytest.mark.parametrize(
    ("scopes", "merged"),
    [
        (("read write", "write admin"), "read write admin"),
        ((None, "", 'bad"one ok\u2028 \x00'), "ok"),
        ((None,), None),
        (("x" * 3999, "yy z"), "x" * 3999),
    ],
)
def test_scopes_are_merged_without_malformed_ones(scopes: tuple[str | None, ...], merged: str | None) -> None:
    assert merge_scopes(*scopes) == merged


async def test_redirects_are_not_followed(server_url: str) -> None:
    found = await find_endpoints(HTTP, build_entry(f"{server_url}/moved/mcp"))
    assert (found.issuer, found.resource) == (server_url, None), "as without metadata: the server itself is the issuer"


async def test_falls_back_to_default_endpoints_without_metadata() -> None:
    with serving_logins(tells=False) as server:
        found = await find_endpoints(HTTP, build_entry(server.url))
    assert found.token == server.url.replace("/mcp", "/token") and found.resource is None
