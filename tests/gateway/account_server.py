"""Server with accounts, and clients that behave like browsers and programs."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI
from langchain_core.language_models import BaseChatModel
from starlette.types import ASGIApp, Receive, Scope, Send

from deerflow.accounts.logins import Passwords
from deerflow.config.source import open_source
from deerflow.gateway.app import create_app
from deerflow.harness import Harness, open_harness
from deerflow.testing import ScriptedModel
from tests.support import browse

AUTH = "/api/v1/auth"
ADMIN, USER, PASSWORD = "ann@example.com", "bob@example.com", "correct horse battery"
CSRF = {"x-csrf-protection": "1"}
QUIET = {"memory": {"debounce_seconds": 3600}, "title": {"enabled": False}}
LAX, STRICT_TLS = "deerflow_session", "__Host-deerflow_session"


class FromAddress:
    """Application as it is reached from another address, which a header of the test names."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        named = dict(scope.get("headers", ())).get(b"x-test-peer")
        if named is not None:
            scope = {**scope, "client": (named.decode(), 1)}
        await self._app(scope, receive, send)


@dataclass
class AccountServer:
    """Running server, and its clients."""

    harness: Harness
    app: FastAPI
    url: str
    clients: list[httpx.AsyncClient] = field(default_factory=list)

    def browser(self, peer: str = "127.0.0.1") -> httpx.AsyncClient:
        """Return a client that sends what the page sends."""
        return self._add({"origin": self.url, "sec-fetch-site": "same-origin", "x-test-peer": peer, **CSRF})

    def program(self, token: str | None = None, peer: str = "127.0.0.1") -> httpx.AsyncClient:
        """Return a client that sends an API token."""
        return self._add({"x-test-peer": peer, **({"authorization": f"Bearer {token}"} if token else {})})

    def _add(self, headers: dict[str, str]) -> httpx.AsyncClient:
        client = httpx.AsyncClient(base_url=self.url, timeout=20, verify=False, headers=headers)
        self.clients.append(client)
        return client

    async def set_up(self, email: str = ADMIN) -> httpx.AsyncClient:
        """Create the first account and return its browser."""
        path = await self.harness.resources.accounts.create_setup_path()
        http = self.browser()
        body = {"token": path.partition("#")[2], "email": email, "password": PASSWORD}
        made = await http.post(f"{AUTH}/initialize", json=body)
        assert made.status_code == 200, made.text
        return http

    async def join(self, admin: httpx.AsyncClient, email: str = USER, role: str = "user") -> httpx.AsyncClient:
        """Invite a person, accept the invitation and return their browser."""
        token = await self.invite(admin, email, role)
        http = self.browser()
        body = {"token": token, "email": email, "password": PASSWORD}
        made = await http.post(f"{AUTH}/accept-invitation", json=body)
        assert made.status_code == 200, made.text
        return http

    async def invite(self, admin: httpx.AsyncClient, email: str | None = USER, role: str = "user") -> str:
        """Invite a person and return the secret of the link."""
        invited = await admin.post(f"{AUTH}/invitations", json={"email": email, "role": role})
        assert invited.status_code == 200, invited.text
        return str(invited.json()["path"].partition("#")[2])

    async def log_in(self, email: str = ADMIN, password: str = PASSWORD, peer: str = "127.0.0.1") -> httpx.AsyncClient:
        """Log in and return the browser."""
        http = self.browser(peer)
        done = await try_login(http, email, password)
        assert done.status_code == 200, done.text
        return http

    async def create_token(self, http: httpx.AsyncClient, scope: str = "run") -> tuple[str, str]:
        """Create an API token; return its secret and id."""
        made = await http.post(f"{AUTH}/tokens", json={"name": scope, "scope": scope})
        assert made.status_code == 200, made.text
        return made.json()["token"], made.json()["info"]["token_id"]


async def try_login(http: httpx.AsyncClient, email: str, password: str, **more: Any) -> httpx.Response:
    return await http.post(f"{AUTH}/login/local", json={"email": email, "password": password}, **more)


@asynccontextmanager
async def open_account_server(
    home: Path, model: BaseChatModel | None = None, *, requires_login: bool = True, **settings: Any
) -> AsyncIterator[AccountServer]:
    """Run a server in `home`, which may have accounts already."""
    overrides: dict[str, Any] = {**QUIET, **settings}
    source = open_source(directory=home, environment={}, overrides=overrides)
    async with open_harness(source, model or ScriptedModel.saying("Hello.")) as harness:
        app = create_app(harness, requires_login=requires_login)
        async with browse(harness, app, FromAddress) as http:
            server = AccountServer(harness, app, str(http.base_url).rstrip("/"))
            try:
                yield server
            finally:
                for client in server.clients:
                    await client.aclose()


def cheap_passwords(harness: Harness, factory: Callable[[], Passwords] = Passwords) -> None:
    """Give all services of a harness the same new limit of hashes."""
    vars(harness.resources)["_passwords"] = factory()
