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
from deerflow.mcp.auth.discovery import find_endpoints
from deerflow.mcp.auth.http import OAuthHttp
from tests.mcp.login_server import serve_in_thread, serving_logins

HTTP = OAuthHttp(allow_private=True)


@pytest.fixture(scope="module")
def server_url() -> Iterator[str]:
    """Yield the URL of a server whose path selects its behaviour."""

    def base(request: Request) -> str:
        return str(request.base_url).rstrip("/")

    def mcp(request: Request) -> Response:
        mode = request.path_params["mode"]
        if mode == "open":
            return JSONResponse({})
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
        }
        return JSONResponse({**metadata, **overrides.get(mode, {})})

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
    ],
)
async def test_rejects_hostile_metadata(server_url: str, mode: str, problem: str) -> None:
    with pytest.raises(McpLoginFailed, match=problem):
        await find_endpoints(HTTP, build_entry(f"{server_url}/{mode}/mcp"))


async def test_redirects_are_not_followed(server_url: str) -> None:
    found = await find_endpoints(HTTP, build_entry(f"{server_url}/moved/mcp"))
    assert (found.issuer, found.resource) == (server_url, None), "as without metadata: the server itself is the issuer"


async def test_falls_back_to_default_endpoints_without_metadata() -> None:
    with serving_logins(tells=False) as server:
        found = await find_endpoints(HTTP, build_entry(server.url))
    assert found.token == server.url.replace("/mcp", "/token") and found.resource is None
