"""What is said about logins at MCP servers, and what can be done with them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

from deerflow.config.extensions import McpServerConfig
from deerflow.mcp.auth import TokenSource

Servers = Callable[[], Mapping[str, McpServerConfig]]
LoginKind = Literal["none", "server", "personal"]
LoginState = Literal["not_needed", "logged_in", "needs_login", "expired_key"]


@dataclass(frozen=True, slots=True)
class LoginStatus:
    """How things stand with a login; nothing in it is secret."""

    kind: LoginKind
    state: LoginState
    expires_at: datetime | None = None
    scope: str | None = None
    issuer: str | None = None
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class Started:
    """Where somebody is to log in, and until when."""

    authorization_url: str
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class CameBack:
    """What a person's browser brings back from logging in."""

    state: str
    code: str | None = None
    error: str | None = None
    issuer: str | None = None


@dataclass(frozen=True, slots=True)
class Finished:
    """How a login ended."""

    server: str
    return_to: str | None
    problem: str | None = None


class LoginDesk(TokenSource, Protocol):
    """All that can be done with logins."""

    async def open(self) -> None:
        """Find out at which servers people have logged in."""
        ...

    async def aclose(self) -> None:
        """Let what is being fetched come in."""
        ...

    async def status(self, server: str, user_id: str) -> LoginStatus:
        """How things stand with a user's login at a server."""
        ...

    async def start(self, server: str, user_id: str, redirect_uri: str, return_to: str | None = None) -> Started:
        """Begin a login in a browser.

        Raises:
            NotFound: There is no such server.
            InvalidRequest: Nobody logs in there.
            McpLoginFailed: It cannot be found out where to log in, or we are not taken there.
        """
        ...

    async def finish(self, user_id: str, back: CameBack) -> Finished:
        """Keep what a person brings back from logging in.

        Raises:
            McpLoginFailed: Nobody began this login, or somebody else did, or it is over.
        """
        ...

    async def forget(self, user_id: str, server: str) -> None:
        """Forget a user's login at a server."""
        ...

    async def forget_server(self, server: str) -> None:
        """Forget everybody's logins at a server."""
        ...


def login_kind(config: McpServerConfig) -> LoginKind:
    """Whose login a server takes."""
    if config.type == "stdio" or (config.oauth is not None and not config.oauth.enabled):
        return "none"
    if config.oauth is not None and config.oauth.grant_type != "authorization_code":
        return "server"
    return "personal"
