"""Protected MCP server and its authorization server, both of the `mcp` package."""

import secrets
import socket
import threading
import time
from base64 import b64decode
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from urllib.parse import parse_qs

import httpx
import uvicorn
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.server.fastmcp import FastMCP
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from mcp.types import TextContent
from pydantic import AnyHttpUrl, AnyUrl
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

SCOPE, WIDER_SCOPE = "tools", "write"
ROBOT, ROBOT_SECRET = "robot", "robot-secret-canary"


class LoginServer:
    """Authorization server that logs in the next configured user and counts requests."""

    def __init__(self, url: str, *, tells: bool = True) -> None:
        """`tells`: whether the MCP server says who logs people in for it, as it has had to since 2025-06."""
        self.url = url
        self.tells = tells
        self.token_lifetime_s = 3600
        self.next_user = "somebody"
        self.is_denying = False
        self.wants_basic = False
        self.request_counts: Counter[str] = Counter()
        self.forms: list[dict[str, str]] = []
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.access: dict[str, AccessToken] = {}
        self.refresh: dict[str, RefreshToken] = {}
        self.clients[ROBOT] = OAuthClientInformationFull(
            client_id=ROBOT,
            client_secret=ROBOT_SECRET,
            redirect_uris=[AnyUrl("http://localhost/nowhere")],
            token_endpoint_auth_method="client_secret_post",
        )

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self.request_counts["register"] += 1
        assert client_info.client_id is not None
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        if self.is_denying:
            return construct_redirect_uri(str(params.redirect_uri), error="access_denied", state=params.state)
        code = AuthorizationCode(
            code=secrets.token_urlsafe(16),
            scopes=params.scopes or [SCOPE],
            expires_at=time.time() + 60,
            client_id=client.client_id or "",
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
            subject=self.next_user,
        )
        self.codes[code.code] = code
        return construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        del self.codes[authorization_code.code]
        return self.issue(client.client_id or "", authorization_code.subject or "", authorization_code.resource)

    async def load_refresh_token(self, client: OAuthClientInformationFull, refresh_token: str) -> RefreshToken | None:
        return self.refresh.get(refresh_token)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        del self.refresh[refresh_token.token]  # each is good once
        return self.issue(client.client_id or "", refresh_token.subject or "", refresh_token.resource)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.access.get(token)

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        self.access.pop(token.token, None)
        self.refresh.pop(token.token, None)

    def issue(self, client_id: str, person: str, resource: str | None) -> OAuthToken:
        """New tokens for somebody."""
        token, again = f"access-canary-{secrets.token_hex(16)}", f"refresh-canary-{secrets.token_hex(16)}"
        whose = {"client_id": client_id, "scopes": [SCOPE], "subject": person, "resource": resource}
        self.access[token] = AccessToken(token=token, **whose)  # type: ignore[arg-type]
        self.refresh[again] = RefreshToken(token=again, **whose)  # type: ignore[arg-type]
        return OAuthToken(access_token=token, expires_in=self.token_lifetime_s, refresh_token=again, scope=SCOPE)

    def revoke_everything(self) -> None:
        self.access.clear()
        self.refresh.clear()

    def app(self) -> ASGIApp:
        base = AnyHttpUrl(self.url.removesuffix("/mcp"))
        server = FastMCP(
            "protected",
            auth_server_provider=self,
            auth=AuthSettings(
                issuer_url=base,
                resource_server_url=AnyHttpUrl(self.url) if self.tells else None,
                required_scopes=[SCOPE],
                client_registration_options=ClientRegistrationOptions(
                    enabled=True, valid_scopes=[SCOPE, WIDER_SCOPE], default_scopes=[SCOPE]
                ),
                validate_token_resource=False,
            ),
            stateless_http=True,
            json_response=True,
            log_level="ERROR",
        )

        @server.tool()
        def whoami() -> str:
            """Who is logged in."""
            token = get_access_token()
            return (token.subject if token else None) or "nobody"

        return self.counting(server.streamable_http_app())

    def counting(self, app: ASGIApp) -> ASGIApp:
        """Count token requests, and add the client credentials grant that the package lacks."""

        async def ask(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http" or scope["path"] != "/token":
                await app(scope, receive, send)
                return
            body = await read_body(receive)
            form = {name: values[0] for name, values in parse_qs(body.decode()).items()}
            self.request_counts[form.get("grant_type", "?")] += 1
            self.forms.append(form)
            if form.get("grant_type") == "client_credentials":
                await self.answer_program(form, Headers(scope=scope))(scope, receive, send)
                return
            await app(scope, replay_body(body), send)

        return ask

    def answer_program(self, form: dict[str, str], headers: Headers) -> JSONResponse:
        client = self.clients.get(form.get("client_id", ""))
        secret = form.get("client_secret")
        if self.wants_basic:
            _, _, given = b64decode(headers.get("authorization", "").removeprefix("Basic ")).decode().partition(":")
            secret = None if secret else given
        if client is None or client.client_secret != secret:
            return JSONResponse({"error": "invalid_client"}, 401)
        tokens = self.issue(ROBOT, "the robot", None).model_dump(exclude={"refresh_token"})
        return JSONResponse(tokens)


async def read_body(receive: Receive) -> bytes:
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    return body


def replay_body(body: bytes) -> Callable[[], Awaitable[Message]]:
    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


@contextmanager
def serving_logins(*, tells: bool = True) -> Iterator[LoginServer]:
    """Serve both on a free port in a thread."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        login = LoginServer(f"http://127.0.0.1:{listening.getsockname()[1]}/mcp", tells=tells)
        with serve_in_thread(login.app(), listening):
            yield login


@contextmanager
def serve_in_thread(app: ASGIApp, listening: socket.socket) -> Iterator[None]:
    """Serve an application in a thread."""
    server = ReadyServer(uvicorn.Config(app, log_config=None, ws="none", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, args=[[listening]])
    thread.start()
    try:
        assert server.ready.wait(10)
        yield
    finally:
        server.should_exit = True
        thread.join(10)


class ReadyServer(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()


async def follow_redirect(address: str) -> httpx.URL:
    """Open an authorization URL as a browser does and return the redirect."""
    # Without certificates: reading them holds the event loop.
    async with httpx.AsyncClient(timeout=10, verify=False) as browser:
        response = await browser.get(address)
    assert response.status_code == 302, response.text
    return httpx.URL(response.headers["location"])


async def call_whoami(url: str, header: str) -> str:
    """Return the user the server sees for this header."""
    async with (
        httpx.AsyncClient(headers={"Authorization": header}, timeout=10) as http,
        streamable_http_client(url, http_client=http) as (reading, writing, _),
        ClientSession(reading, writing) as session,
    ):
        await session.initialize()
        said = (await session.call_tool("whoami", {})).content[0]
        assert isinstance(said, TextContent)
        return said.text
