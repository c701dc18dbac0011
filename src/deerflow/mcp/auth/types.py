"""Types of OAuth logins at remote MCP servers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

from deerflow.config.sections.extensions import McpServerConfig
from deerflow.domain.errors import DeerFlowError

ServerConfigs = Callable[[], Mapping[str, McpServerConfig]]
LoginKind = Literal["none", "server", "personal"]
LoginState = Literal["not_needed", "logged_in", "needs_login", "expired_key"]


class LoginRequired(DeerFlowError):
    """The user has to log in at the server before it can be used; the text says where."""


class TokenProvider(Protocol):
    """Provides the `Authorization` header of requests to a server."""

    def is_personal(self, server: str) -> bool:
        """Return whether each user has their own login; the listing of the server is then kept per user."""
        ...

    async def header(self, server: str, user_id: str) -> str | None:
        """Return the header value; None when the server needs none beyond its configured headers.

        Raises:
            LoginRequired: The user has to log in first.
            DeerFlowError: No token is available; the text says why.
        """
        ...

    async def rejected(self, server: str, user_id: str, header: str | None, challenge: str | None) -> bool:
        """Handle a 401 response to `header` with `WWW-Authenticate`. Return whether to retry with a new `header`.

        Raises:
            LoginRequired: The user has to log in again.
        """
        ...

    async def lacks_scope(self, server: str, user_id: str, challenge: str, scope: str | None) -> None:
        """Handle a 403 response whose `WWW-Authenticate` says that the token lacks `scope`.

        Raises:
            LoginRequired: The user has to log in again, which requests the wider scope.
            DeerFlowError: A new login would not help; the text says why.
        """
        ...


@dataclass(frozen=True, slots=True)
class SeenChallenge:
    """Challenge in a response of a server, which the next login starts from."""

    settings: str
    """Digest of the settings of the server at that time."""
    header: str
    scope: str | None = None
    """Scope that the login has to request besides; None when no scope was missing."""


@dataclass(frozen=True, slots=True)
class LoginRedirect:
    """URLs of this server in a login."""

    uri: str
    return_to: str | None = None
    """Page to which the browser is sent at the end."""
    client_url: str | None = None
    """URL of the client metadata document; None when other machines cannot fetch it."""


CLIENT_NAME = "DeerFlow"


def describe_client(redirect_uri: str) -> dict[str, object]:
    """Return the metadata of this client, for registrations and the metadata document."""
    return {
        "client_name": CLIENT_NAME,
        "redirect_uris": [redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
    }


@dataclass(frozen=True, slots=True)
class LoginStatus:
    """Status of a login; contains no secrets."""

    kind: LoginKind
    state: LoginState
    expires_at: datetime | None = None
    scope: str | None = None
    issuer: str | None = None
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class LoginStart:
    """URL at which the user logs in, and the time until which the login is valid."""

    authorization_url: str
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class LoginCallback:
    """Query parameters of the redirect after a login."""

    state: str
    code: str | None = None
    error: str | None = None
    issuer: str | None = None


@dataclass(frozen=True, slots=True)
class LoginResult:
    """Result of a login."""

    server: str
    return_to: str | None
    problem: str | None = None


def get_login_kind(config: McpServerConfig) -> LoginKind:
    """Return the kind of login a server uses."""
    if config.type == "stdio" or (config.oauth is not None and not config.oauth.enabled):
        return "none"
    if config.oauth is not None and config.oauth.grant_type != "authorization_code":
        return "server"
    return "personal"
