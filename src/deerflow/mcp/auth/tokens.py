"""Access tokens and their renewal: before they expire, and once for all callers and processes that wait."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Literal, Protocol
from uuid import uuid4

from deerflow.community.web.http import TlsTrust
from deerflow.config.sections.base import Settings
from deerflow.config.sections.extensions import McpServerConfig
from deerflow.domain.errors import DeerFlowError, McpLoginFailed
from deerflow.mcp.auth.http import (
    TIMEOUT_S,
    OAuthHttp,
    TokenRefusal,
    get_token_fields,
    refresh_tokens,
    request_with_credentials,
)
from deerflow.mcp.auth.token_store import (
    OPERATOR,
    AuthMethod,
    OAuthClient,
    OAuthEndpoints,
    StoredLogin,
    TokenSet,
    TokenStore,
    settings_digest,
)
from deerflow.persistence.encryption import DecryptionError

ServerConfigs = Settings[Mapping[str, McpServerConfig]]
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
        "application_type": "web" if redirect_uri.startswith("https:") else "native",
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


DEFAULT_SKEW_S = 60.0
LEASE = timedelta(seconds=2 * TIMEOUT_S)
POLL_S = 0.1
NEW_TOKEN_S = 5.0
"""A token rejected this soon after it was issued has not expired: another one would be rejected too."""
UNKNOWN_CLIENT_ERRORS = frozenset({"invalid_client", "unauthorized_client"})
SECRET_METHODS: tuple[AuthMethod, ...] = ("client_secret_post", "client_secret_basic")

Clock = Callable[[], datetime]
FindTokenEndpoint = Callable[[OAuthHttp, McpServerConfig], Awaitable[OAuthEndpoints]]


@dataclass(slots=True)
class Renewal:
    """Request for a new token."""

    owner: str
    server: str
    config: McpServerConfig
    rejected: str | None = None
    """Header that the server rejects, whatever the expiry of its token."""
    claim: str = field(default_factory=lambda: uuid4().hex)


class TokenRenewer:
    """Fetches new tokens; concurrent callers share one request."""

    def __init__(self, store: TokenStore, now: Clock, trust: TlsTrust, find_token_endpoint: FindTokenEndpoint) -> None:
        self._store = store
        self._now = now
        self._trust = trust
        self._find_token_endpoint = find_token_endpoint
        self._in_progress: dict[tuple[str, str], asyncio.Task[str]] = {}

    async def load(self, owner: str, server: str, config: McpServerConfig) -> StoredLogin | None:
        """Return the stored login if it belongs to this configuration.

        Raises:
            LoginRequired: The login of a user cannot be decrypted.
        """
        try:
            login = await self._store.load(owner, server)
        except DecryptionError:
            if owner == OPERATOR:
                return None
            raise login_required(server) from None
        return login if login is not None and login.settings == settings_digest(config) else None

    async def renew(self, renewal: Renewal) -> str:
        """Return a header with a new token. The renewal continues when the caller is cancelled.

        Raises:
            LoginRequired: There is nothing to renew, or the user has to log in again.
            McpLoginFailed: No token is available at the moment, or the credentials are rejected.
        """
        key = renewal.owner, renewal.server
        if key not in self._in_progress:
            task = asyncio.create_task(self._renew_exclusively(renewal))
            self._in_progress[key] = task
            task.add_done_callback(lambda done: self._on_done(key, done))
        return await asyncio.shield(self._in_progress[key])

    async def aclose(self) -> None:
        """Wait for renewals in progress."""
        if self._in_progress:
            _, late = await asyncio.wait(self._in_progress.values(), timeout=TIMEOUT_S)
            for task in late:
                task.cancel()

    def _on_done(self, key: tuple[str, str], task: asyncio.Task[str]) -> None:
        self._in_progress.pop(key, None)
        if not task.cancelled():
            task.exception()  # raised in all callers that still wait

    async def _renew_exclusively(self, renewal: Renewal) -> str:
        """Fetch a token as the only process; use the token of another process that has just done so."""
        login = await self._claim(renewal)
        if login is not None and (header := self._find_usable_header(renewal, login)) is not None:
            await self._release(renewal, None)
            return header
        renewed: StoredLogin | None = None
        try:
            renewed = await self._fetch(renewal, login)
        finally:
            is_stored = await self._release(renewal, renewed)
        if renewed.tokens is None:
            raise login_required(renewal.server)
        if not is_stored and (await self.load(renewal.owner, renewal.server, renewal.config)) is None:
            raise login_required(renewal.server)  # the login was deleted meanwhile
        return renewed.tokens.header

    async def _claim(self, renewal: Renewal) -> StoredLogin | None:
        """Return the current login once this process holds the claim to renew it."""
        try:
            async with asyncio.timeout(LEASE.total_seconds() + 1):
                while isinstance(login := await self._try_claim(renewal), bool):  # noqa: ASYNC110
                    # Another process, perhaps on another machine, holds the claim. It cannot wake us; its lease ends.
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            raise McpLoginFailed(f"timed out waiting for a token for {renewal.server!r}") from None
        if login is None or login.settings == settings_digest(renewal.config):
            return login
        return None

    async def _try_claim(self, renewal: Renewal) -> StoredLogin | None | bool:
        try:
            return await self._store.claim(renewal.owner, renewal.server, renewal.claim, self._now(), LEASE)
        except DecryptionError:
            return None

    async def _release(self, renewal: Renewal, login: StoredLogin | None) -> bool:
        return await self._store.release(renewal.owner, renewal.server, renewal.claim, login, self._now())

    def _find_usable_header(self, renewal: Renewal, login: StoredLogin) -> str | None:
        """Return the header of a login that needs no renewal."""
        tokens = login.tokens
        if tokens is None or not tokens.is_fresh(self._now(), get_refresh_skew(renewal.config)):
            return None
        return tokens.header if tokens.header != renewal.rejected else None

    async def _fetch(self, renewal: Renewal, login: StoredLogin | None) -> StoredLogin:
        """Return the login with new tokens, or without tokens when the user has to log in."""
        http = OAuthHttp(renewal.config.allow_private_addresses, self._trust)
        if renewal.owner != OPERATOR:
            return await self._refresh(http, renewal, login)
        oauth = renewal.config.oauth
        assert oauth is not None
        tokens = login.tokens if login is not None else None
        if tokens is not None and renewal.rejected == tokens.header and self._is_new(tokens):
            raise McpLoginFailed(f"{renewal.server!r} rejects the tokens obtained with its `oauth` settings")
        current = tokens.refresh_token if tokens is not None else None
        if oauth.token_url is not None:
            endpoints = OAuthEndpoints(token=oauth.token_url, auth_methods=SECRET_METHODS)
        else:
            endpoints = await self._find_token_endpoint(http, renewal.config)
        first, *others = order_auth_methods(endpoints, login)
        request = partial(request_with_credentials, http, oauth, endpoints)
        method, answer = first, await request(first, current or oauth.refresh_token, self._now())
        for other in others:
            if not is_client_rejected(answer):
                break
            again = await request(other, current or oauth.refresh_token, self._now())
            method, answer = (other, again) if not is_client_rejected(again) else (method, answer)
        if isinstance(answer, TokenRefusal):
            raise McpLoginFailed(f"{answer.text}: check `oauth` of {renewal.server!r} in extensions_config.json")
        kept = answer.model_copy(update={"refresh_token": answer.refresh_token or current})
        return StoredLogin(
            settings=settings_digest(renewal.config),
            tokens=kept,
            client=OAuthClient(client_id=oauth.client_id or "", auth_method=method),
            since=self._now(),
        )

    async def _refresh(self, http: OAuthHttp, renewal: Renewal, login: StoredLogin | None) -> StoredLogin:
        if login is None or login.tokens is None or login.client is None or login.endpoints is None:
            raise login_required(renewal.server)
        current = login.tokens
        if current.refresh_token is None or (renewal.rejected == current.header and self._is_new(current)):
            return login.model_copy(update={"tokens": None})
        fields, now = get_token_fields(renewal.config.oauth), self._now()
        answer = await refresh_tokens(http, login.endpoints, login.client, current.refresh_token, fields, now)
        if isinstance(answer, TokenRefusal):
            client = None if is_client_rejected(answer) else login.client
            return login.model_copy(update={"tokens": None, "client": client})
        kept = {"refresh_token": answer.refresh_token or current.refresh_token, "scope": answer.scope or current.scope}
        return login.model_copy(update={"tokens": answer.model_copy(update=kept)})

    def _is_new(self, tokens: TokenSet) -> bool:
        return tokens.obtained_at is not None and (self._now() - tokens.obtained_at).total_seconds() < NEW_TOKEN_S


def order_auth_methods(endpoints: OAuthEndpoints, login: StoredLogin | None) -> Sequence[AuthMethod]:
    """Return how the client secret can be sent, starting with the method that worked before."""
    supported = [method for method in SECRET_METHODS if method in endpoints.auth_methods] or ["client_secret_basic"]
    known = login.client.auth_method if login is not None and login.client is not None else None
    return sorted(supported, key=lambda method: method != known)


def is_client_rejected(answer: TokenSet | TokenRefusal) -> bool:
    """Return whether the authorization server does not accept the client as it was authenticated."""
    return isinstance(answer, TokenRefusal) and (answer.status == 401 or answer.error in UNKNOWN_CLIENT_ERRORS)


def get_refresh_skew(config: McpServerConfig) -> float:
    """Return how many seconds before its expiry a token is renewed."""
    return DEFAULT_SKEW_S if config.oauth is None else config.oauth.refresh_skew_seconds


def login_required(server: str) -> LoginRequired:
    """Return the error that the user has to log in."""
    return LoginRequired(f"log in at the MCP server {server!r} first: on the page, under Tools")
