"""OAuth logins at remote MCP servers: tokens for requests, logins in a browser, and their status."""

import asyncio
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from deerflow.community.web.http import TlsTrust
from deerflow.config.sections.extensions import McpServerConfig
from deerflow.domain.errors import InvalidRequest, McpLoginFailed, NotFound
from deerflow.mcp.auth.http import MAX_CHALLENGE_CHARS, OAuthHttp, merge_scopes
from deerflow.mcp.auth.token_store import OPERATOR, OAuthEndpoints, StoredLogin, TokenStore, settings_digest
from deerflow.mcp.auth.tokens import (
    Clock,
    LoginCallback,
    LoginRedirect,
    LoginRequired,
    LoginResult,
    LoginStart,
    LoginStatus,
    Renewal,
    SeenChallenge,
    ServerConfigs,
    TokenRenewer,
    get_login_kind,
    get_refresh_skew,
    login_required,
)
from deerflow.persistence.encryption import DecryptionError

if TYPE_CHECKING:
    from deerflow.mcp.auth.login import BrowserLogin


class OAuthService:
    """Stores logins in the database, refreshes their tokens, and creates logins in a browser."""

    def __init__(
        self, servers: ServerConfigs, store: TokenStore, now: Clock | None = None, trust: TlsTrust | None = None
    ) -> None:
        self._servers = servers
        self._store = store
        self._now: Clock = now or (lambda: datetime.now(UTC))
        self._trust = trust or TlsTrust()
        self._renewer = TokenRenewer(store, self._now, self._trust, find_token_endpoint)
        self._with_logins: set[str] = set()
        self._seen: dict[tuple[str, str], SeenChallenge] = {}
        """Last challenge for each user and server."""
        self._is_open = False

    async def open(self) -> None:
        """Read, once, at which servers users have logged in: the configuration need not declare it."""
        if not self._is_open:
            self._is_open = True
            self._with_logins.update(await self._store.list_servers())

    async def aclose(self) -> None:
        """Wait for refreshes in progress: a refresh token may be invalid once it was used."""
        await self._renewer.aclose()

    def is_personal(self, server: str) -> bool:
        """Return whether each user has their own login, as far as known."""
        config = self._servers.current.get(server)
        if config is None or get_login_kind(config) != "personal":
            return False
        return has_oauth(config) or server in self._with_logins

    async def header(self, server: str, user_id: str) -> str | None:
        """Return the header value; None when the server needs none beyond its configured headers.

        Raises:
            LoginRequired: The user has to log in first.
            McpLoginFailed: No token is available; the text says why.
        """
        config = self._servers.current.get(server)
        if config is None or (kind := get_login_kind(config)) == "none":
            return None
        await self.open()
        owner = user_id if kind == "personal" else OPERATOR
        login = await self._renewer.load(owner, server, config)
        tokens = login.tokens if login is not None else None
        if kind == "personal" and tokens is None:
            if login is None and not self.is_personal(server):
                return None
            raise login_required(server)
        if kind == "personal":
            self._with_logins.add(server)
        if tokens is not None and tokens.is_fresh(self._now(), get_refresh_skew(config)):
            return tokens.header
        try:
            return await self._renewer.renew(Renewal(owner, server, config))
        except McpLoginFailed:
            if tokens is not None and tokens.is_fresh(self._now()):
                return tokens.header
            raise

    async def rejected(self, server: str, user_id: str, header: str | None, challenge: str | None) -> bool:
        """Handle a 401 response to `header` with `WWW-Authenticate`. Return whether to retry with a new `header`."""
        config = self._servers.current.get(server)
        if config is None or (kind := get_login_kind(config)) == "none":
            return False
        if kind == "personal":
            self._with_logins.add(server)
            self._remember(user_id, server, SeenChallenge(settings_digest(config), challenge or ""))
        if header is None:
            return False
        with suppress(LoginRequired, McpLoginFailed):
            owner = user_id if kind == "personal" else OPERATOR
            return await self._renewer.renew(Renewal(owner, server, config, rejected=header)) != header
        return False

    async def lacks_scope(self, server: str, user_id: str, challenge: str, scope: str | None) -> None:
        """Handle a 403 response whose `WWW-Authenticate` says that the token lacks `scope`.

        Raises:
            LoginRequired: The user has to log in again, which requests the wider scope.
            McpLoginFailed: A new login would not help.
        """
        config = self._servers.current.get(server)
        if config is None or (kind := get_login_kind(config)) == "none" or has_own_credentials(config):
            return
        wanted = merge_scopes(scope)
        if kind == "server":
            raise McpLoginFailed(f"{server!r} requires the scope {wanted!r}: add it to `scope` in `oauth` of its entry")
        login = await self._renewer.load(user_id, server, config)
        requested = login.endpoints.scope if login is not None and login.endpoints is not None else None
        # A login that has asked for this scope before would get the same answer again.
        if login is not None and not set((wanted or "").split()) - set((requested or "").split()):
            raise McpLoginFailed(f"{server!r} refuses the request, although the login has requested {requested!r}")
        self._with_logins.add(server)
        seen = SeenChallenge(settings_digest(config), challenge, merge_scopes(requested, wanted))
        self._remember(user_id, server, seen)
        raise LoginRequired(
            f"log in again at the MCP server {server!r}, which requires the scope {wanted!r}: on the page, under Tools"
        )

    def _remember(self, user_id: str, server: str, seen: SeenChallenge) -> None:
        former = self._find_seen(user_id, server, seen.settings)
        scope = merge_scopes(former.scope if former is not None else None, seen.scope)
        self._seen[user_id, server] = replace(seen, header=seen.header[:MAX_CHALLENGE_CHARS], scope=scope)

    def _find_seen(self, user_id: str, server: str, settings: str) -> SeenChallenge | None:
        seen = self._seen.get((user_id, server))
        return seen if seen is not None and seen.settings == settings else None

    async def status(self, server: str, user_id: str) -> LoginStatus:
        """Return the status of a user's login at a server."""
        config = self._servers.current.get(server)
        kind = get_login_kind(config) if config is not None else "none"
        if config is None or kind == "none":
            return LoginStatus("none", "not_needed")
        await self.open()
        try:
            stored = await self._store.load(OPERATOR if kind == "server" else user_id, server)
        except DecryptionError:
            return LoginStatus(kind, "expired_key")
        login = stored if stored is not None and stored.settings == settings_digest(config) else None
        if login is None or login.tokens is None:
            needs_login = kind == "personal" and (login is not None or self.is_personal(server))
            return LoginStatus(kind, "needs_login" if needs_login else "not_needed")
        tokens, issuer = login.tokens, login.endpoints.issuer if login.endpoints else None
        seen = self._find_seen(user_id, server, login.settings) if kind == "personal" else None
        if seen is not None and seen.scope is not None:  # the login works, but not for everything
            return LoginStatus(kind, "needs_login", tokens.expires_at, seen.scope, issuer, login.since)
        return LoginStatus(kind, "logged_in", tokens.expires_at, tokens.scope, issuer, login.since)

    async def start(self, server: str, user_id: str, redirect: LoginRedirect) -> LoginStart:
        """Start a login in a browser.

        Raises:
            NotFound: The server does not exist.
            InvalidRequest: The server has no user logins.
            McpLoginFailed: Discovery or client registration failed.
        """
        config = self._servers.current.get(server)
        if config is None:
            raise NotFound(f"no MCP server {server!r}")
        if get_login_kind(config) != "personal":
            raise InvalidRequest(f"{server!r} has no user logins: it is a command, or has its own credentials")
        login = await self._browser_login(config)
        return await login.start(user_id, server, redirect, self._find_seen(user_id, server, settings_digest(config)))

    async def finish(self, user_id: str, callback: LoginCallback) -> LoginResult:
        """Complete a login after the redirect. A state is valid once, for the user who started, for a limited time.

        Raises:
            McpLoginFailed: The state is unknown, used, expired, or of another user.
        """
        pending = await self._store.pop_pending(user_id, callback.state, self._now())
        if pending is None:
            raise McpLoginFailed("login expired, already used, or started by another user; start it again")
        try:
            config = self._servers.current.get(pending.server)
            if config is None or settings_digest(config) != pending.settings:
                raise McpLoginFailed(f"the entry of {pending.server!r} has changed meanwhile; start the login again")
            login = await self._browser_login(config)
            tokens = await login.exchange(pending, callback)
        except McpLoginFailed as problem:
            return LoginResult(pending.server, pending.return_to, str(problem))
        now = self._now()
        stored = StoredLogin(
            settings=pending.settings, tokens=tokens, client=pending.client, endpoints=pending.endpoints, since=now
        )
        await self._store.save(user_id, pending.server, stored, now)
        self._seen.pop((user_id, pending.server), None)
        return LoginResult(pending.server, pending.return_to)

    async def forget(self, user_id: str, server: str) -> None:
        """Delete a user's login at a server."""
        self._seen.pop((user_id, server), None)
        await self._store.forget(user_id, server)

    async def forget_server(self, server: str) -> None:
        """Delete all logins at a server."""
        await self._store.forget_server(server)

    async def _browser_login(self, config: McpServerConfig) -> "BrowserLogin":
        await asyncio.to_thread(preload_login)
        from deerflow.mcp.auth.login import BrowserLogin

        http = OAuthHttp(config.allow_private_addresses, self._trust)
        return BrowserLogin(config, http, self._store, self._now)


async def find_token_endpoint(http: OAuthHttp, config: McpServerConfig) -> OAuthEndpoints:
    """Return the endpoints for tokens that are obtained with configured credentials, by discovery."""
    await asyncio.to_thread(preload_login)
    from deerflow.mcp.auth import discovery

    return await discovery.find_token_endpoint(http, config)


def preload_login() -> None:
    """Import the browser login. It uses the `mcp` library, which takes long to import."""
    import deerflow.mcp.auth.login  # noqa: F401


def has_own_credentials(config: McpServerConfig) -> bool:
    """Return whether the entry has a header with credentials, so that no user logs in."""
    return any(name.lower() == "authorization" for name in config.headers)


def has_oauth(config: McpServerConfig) -> bool:
    """Return whether the configuration declares logins."""
    return config.oauth is not None and config.oauth.enabled
