"""OpenID provider whose answers a test chooses, and a browser that logs in there."""

import asyncio
import json
import time
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from secrets import token_urlsafe
from typing import Any
from urllib.parse import urlencode, urlsplit

import httpx
import uvicorn
from joserfc import jwk, jwt
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from tests.gateway.account_server import AUTH
from tests.support import ReadyServer

CLIENT, CLIENT_SECRET = "deerflow", "a client secret"
PERSON = {"sub": "person-1", "email": "cat@example.com", "email_verified": True}

Answer = Callable[[dict[str, Any]], Response | None]


def make_key(kid: str) -> jwk.ECKey:
    return jwk.ECKey.generate_key("P-256", {"kid": kid, "use": "sig", "alg": "ES256"})


@dataclass
class OpenIdProvider:
    """Provider that behaves, unless a test changes a part of it."""

    url: str = ""
    person: dict[str, Any] = field(default_factory=lambda: dict(PERSON))
    claims: dict[str, Any] = field(default_factory=dict)
    """Claims of the ID token that differ; None: left out."""
    metadata: dict[str, Any] = field(default_factory=dict)
    user_info: dict[str, Any] | None = None
    key: jwk.ECKey = field(default_factory=lambda: make_key("one"))
    published: list[dict[str, Any]] | None = None
    sign: Callable[[dict[str, Any]], str] | None = None
    answer_token: Answer = lambda tokens: None
    response: dict[str, str | None] = field(default_factory=dict)
    """Parameters of the authorization response that differ."""
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    is_stalled: bool = False
    released: asyncio.Event = field(default_factory=asyncio.Event)

    def recover(self) -> None:
        """Behave again, with the same address and key."""
        vars(self).update(vars(OpenIdProvider(self.url, key=self.key, released=self.released)))

    def config(self, **more: Any) -> dict[str, Any]:
        """Return the settings with which a server uses this provider."""
        base = {"issuer": self.url, "client_id": CLIENT, "client_secret": CLIENT_SECRET, "label": "Example Inc."}
        return {**base, "allowed_domains": ["example.com"], **more}

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/.well-known/openid-configuration", self.describe),
                Route("/authorize", self.authorize),
                Route("/token", self.exchange, methods=["POST"]),
                Route("/keys", self.list_keys),
                Route("/userinfo", self.describe_user),
            ]
        )

    async def describe(self, request: Request) -> Response:
        stated = {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/keys",
            "userinfo_endpoint": f"{self.url}/userinfo",
            "authorization_response_iss_parameter_supported": True,
        }
        return JSONResponse({**stated, **self.metadata})

    async def authorize(self, request: Request) -> Response:
        asked = dict(request.query_params)
        code = token_urlsafe(16)
        self.codes[code] = asked
        answer = {"code": code, "state": asked["state"], "iss": self.url, **self.response}
        given = {name: value for name, value in answer.items() if value is not None}
        return RedirectResponse(f"{asked['redirect_uri']}?{urlencode(given)}", 303)

    async def exchange(self, request: Request) -> Response:
        if self.is_stalled:
            await self.released.wait()
        form = dict(await request.form())
        asked = self.codes.pop(str(form.get("code")), None)
        verifier = str(form.get("code_verifier", "")).encode()
        challenge = urlsafe_b64encode(sha256(verifier).digest()).rstrip(b"=").decode()
        if asked is None or challenge != asked["code_challenge"] or form["redirect_uri"] != asked["redirect_uri"]:
            return JSONResponse({"error": "invalid_grant"}, 400)
        now = int(time.time())
        claims = {"iss": self.url, "aud": CLIENT, "iat": now, "exp": now + 300, "nonce": asked["nonce"]}
        claims = {**claims, **self.person, **self.claims}
        claims = {name: value for name, value in claims.items() if value is not None}
        signed = self.sign(claims) if self.sign else self.sign_with(self.key, claims)
        tokens = {"id_token": signed, "access_token": "access", "token_type": "Bearer"}
        return self.answer_token(tokens) or JSONResponse(tokens)

    @staticmethod
    def sign_with(key: Any, claims: dict[str, Any], **header: Any) -> str:
        head = {"alg": "ES256", "kid": "one", **header}
        return jwt.encode(head, claims, key, algorithms=[head["alg"]])

    async def list_keys(self, request: Request) -> Response:
        return JSONResponse({"keys": [self.key.as_dict(private=False)] if self.published is None else self.published})

    async def describe_user(self, request: Request) -> Response:
        assert request.headers["authorization"] == "Bearer access"
        return JSONResponse(self.user_info or self.person)


@asynccontextmanager
async def run_provider() -> AsyncIterator[OpenIdProvider]:
    """Serve a provider on a free port."""
    provider = OpenIdProvider()
    server = ReadyServer(uvicorn.Config(provider.app(), port=0, ws="none", lifespan="off", log_config=None))
    serving = asyncio.create_task(server.serve())
    async with asyncio.timeout(10):
        await server.ready.wait()
    provider.url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    try:
        yield provider
    finally:
        provider.released.set()
        server.leave.set()
        await serving


async def begin(http: httpx.AsyncClient, name: str = "company", **params: str) -> str:
    """Begin a login and return the address at which the provider sends the browser back."""
    started = await http.get(f"{AUTH}/oauth/{name}", params=params)
    assert started.status_code == 303, started.text
    return await visit(http, started.headers["location"])


async def visit(http: httpx.AsyncClient, url: str) -> str:
    """Open a page of the provider and return where it sends the browser."""
    back = await http.get(url, headers={"cookie": ""})
    assert back.status_code == 303, back.text
    return str(back.headers["location"])


async def log_in_there(http: httpx.AsyncClient, name: str = "company", **params: str) -> httpx.Response:
    """Log in at a provider and return the last response of the server."""
    return await http.get(await begin(http, name, **params))


def problem_of(response: httpx.Response) -> str:
    """Return the reason that the page shows; empty if the login has succeeded."""
    assert response.status_code == 303, response.text
    location = urlsplit(response.headers["location"])
    assert not location.netloc
    return location.query.removeprefix("problem=") if location.query.startswith("problem=") else ""


def encode_unsigned(claims: dict[str, Any], signature: bytes = b"") -> str:
    """Return a token with the algorithm `none`."""
    parts = (json.dumps({"alg": "none", "typ": "JWT"}).encode(), json.dumps(claims).encode(), signature)
    return ".".join(urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)
