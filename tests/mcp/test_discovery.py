"""Where to log in is found out from what servers say, and not everything they say is believed."""

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from deerflow.config.extensions import McpServerConfig
from deerflow.domain.errors import McpLoginFailed
from deerflow.mcp.oauth_discovery import find_endpoints
from deerflow.mcp.oauth_http import OAuthHttp
from tests.mcp.login_server import serving, serving_logins

HTTP = OAuthHttp(allow_private=True)


@pytest.fixture(scope="module")
def liar() -> Iterator[str]:
    """A server that says what its path tells it to."""

    def base(request: Request) -> str:
        return str(request.base_url).rstrip("/")

    def mcp(request: Request) -> Response:
        lie = request.path_params["lie"]
        if lie == "open":
            return JSONResponse({})
        told = f'Bearer resource_metadata="{base(request)}/resource/{lie}", scope="read write"'
        return Response(status_code=401, headers={"www-authenticate": told})

    def resource(request: Request) -> Response:
        lie, here = request.path_params["lie"], base(request)
        if lie == "moved":
            return RedirectResponse(f"{here}/resource/true")
        if lie == "failing":
            return Response(status_code=503)
        whose = "https://bank.example/mcp" if lie == "another" else f"{here}/{lie}/mcp"
        issuer = {"plain": "http://login.example", "file": "file:///etc", "broken": "https://["}.get(
            lie, f"{here}/as/{lie}"
        )
        return JSONResponse({"resource": whose, "authorization_servers": [issuer], "scopes_supported": ["read"]})

    def described(request: Request) -> Response:
        lie, here = request.path_params["lie"], base(request)
        said: dict[str, Any] = {
            "issuer": f"{here}/as/{lie}",
            "authorization_endpoint": f"{here}/authorize",
            "token_endpoint": f"{here}/token",
            "code_challenge_methods_supported": ["S256"],
        }
        if lie == "huge":
            return Response(b'{"issuer": "' + b"x" * 2_000_000 + b'"}')
        lies = {
            "renamed": {"issuer": f"{here}/as/true"},
            "bare": {"code_challenge_methods_supported": None},
            "leaking": {"token_endpoint": "http://evil.example/token"},
        }
        return JSONResponse({**said, **lies.get(lie, {})})

    app = Starlette(
        routes=[
            Route("/{lie}/mcp", mcp, methods=["GET", "POST"]),
            Route("/resource/{lie}", resource),
            Route("/.well-known/oauth-authorization-server/as/{lie}", described),
        ]
    )
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        with serving(app, listening):
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"


def at(url: str, **settings: object) -> McpServerConfig:
    return McpServerConfig.model_validate({"type": "http", "url": url, **settings})


async def test_what_an_honest_server_says_is_believed(liar: str) -> None:
    for kind in ("http", "sse"):
        found = await find_endpoints(HTTP, at(f"{liar}/true/mcp", type=kind))
        assert (found.issuer, found.token) == (f"{liar}/as/true", f"{liar}/token")
        assert (found.resource, found.scope) == (f"{liar}/true/mcp", "read write")


@pytest.mark.parametrize(
    ("lie", "problem"),
    [
        ("another", "says that its login is for 'https://bank.example/mcp', which it is not"),
        ("renamed", "calls itself"),
        ("bare", "offers no PKCE"),
        ("leaking", "'evil.example' is not reached by https"),
        ("plain", "'login.example' is not reached by https"),
        ("file", "is no address of an authorization server"),
        ("broken", "is no address"),
        ("huge", "does not describe itself"),
        ("failing", "answered with status 503"),
        ("open", "asks for no login"),
    ],
)
async def test_a_lie_ends_the_login(liar: str, lie: str, problem: str) -> None:
    with pytest.raises(McpLoginFailed, match=problem):
        await find_endpoints(HTTP, at(f"{liar}/{lie}/mcp"))


async def test_redirects_are_not_followed(liar: str) -> None:
    found = await find_endpoints(HTTP, at(f"{liar}/moved/mcp"))
    assert (found.issuer, found.resource) == (liar, None), "as if nobody had told: the server itself is asked"


async def test_a_server_of_the_first_kind_logs_people_in_itself() -> None:
    with serving_logins(tells=False) as server:
        found = await find_endpoints(HTTP, at(server.url))
    assert found.token == server.url.replace("/mcp", "/token") and found.resource is None
