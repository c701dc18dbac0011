"""Tokens for MCP servers: kept, renewed before they end, and by one caller for all who wait."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from uuid import uuid4

from deerflow.community.web.http import Trust
from deerflow.config.extensions import McpServerConfig
from deerflow.domain.errors import McpLoginFailed
from deerflow.mcp.auth import LoginNeeded
from deerflow.mcp.login_words import LoginStatus, Servers, login_kind
from deerflow.mcp.logins import OPERATOR, Login, LoginStore, Tokens, settings_of
from deerflow.mcp.oauth_grants import by_credentials, by_refresh, fields_of
from deerflow.mcp.oauth_http import TIMEOUT_S, OAuthHttp, Refused
from deerflow.mcp.vault import KeyLost

SKEW_S = 60.0
LEASE = timedelta(seconds=2 * TIMEOUT_S)
LOOK_AGAIN_S = 0.1
AT_ONCE_S = 5.0
"""A token refused so soon after it was got is not refused for its age: another one would not do either."""
UNKNOWN_CLIENT = frozenset({"invalid_client", "unauthorized_client"})

Clock = Callable[[], datetime]


@dataclass(slots=True)
class Errand:
    """A new token that is to be fetched."""

    owner: str
    server: str
    config: McpServerConfig
    unwanted: str | None = None
    """A header that the server does not take any more, however long its token was to live."""
    claim: str = field(default_factory=lambda: uuid4().hex)


class ServerTokens:
    """Knows what goes into the `Authorization` header of requests to MCP servers."""

    def __init__(
        self, servers: Servers, store: LoginStore, now: Clock | None = None, trust: Trust | None = None
    ) -> None:
        self._servers = servers
        self._store = store
        self._now: Clock = now or (lambda: datetime.now(UTC))
        self._trust = trust or Trust()
        self._challenging: set[str] = set()
        self._under_way: dict[tuple[str, str], asyncio.Task[str]] = {}

    async def open(self) -> None:
        """Find out at which servers people have logged in: the configuration need not say so."""
        self._challenging.update(await self._store.places())

    def is_personal(self, server: str) -> bool:
        """Whether each user has a login of their own, as far as it is known."""
        config = self._servers().get(server)
        kind = login_kind(config) if config is not None else "none"
        return kind == "personal" and (wants_login(config) or server in self._challenging)

    async def header(self, server: str, user_id: str) -> str | None:
        """The value of the header; None when the server wants none beyond its configured ones.

        Raises:
            LoginNeeded: The user has to log in first.
            McpLoginFailed: No token can be had; the text says why.
        """
        config = self._servers().get(server)
        if config is None or (kind := login_kind(config)) == "none":
            return None
        owner = user_id if kind == "personal" else OPERATOR
        login = await self._load(owner, server, config)
        tokens = login.tokens if login is not None else None
        if kind == "personal" and tokens is None:
            if login is None and not self.is_personal(server):
                return None
            raise login_needed(server)
        if kind == "personal":
            self._challenging.add(server)
        if tokens is not None and tokens.is_fresh(self._now(), skew_of(config)):
            return tokens.header
        try:
            return await self._renew(Errand(owner, server, config))
        except McpLoginFailed:
            if tokens is not None and tokens.is_fresh(self._now()):
                return tokens.header
            raise

    async def rejected(self, server: str, user_id: str, header: str | None, challenge: str | None) -> bool:
        """Told of a 401: what was sent, and `WWW-Authenticate`. Whether it is worth asking `header` again."""
        config = self._servers().get(server)
        if config is None or (kind := login_kind(config)) == "none":
            return False
        if kind == "personal":
            self._challenging.add(server)
        if header is None:
            return False
        with suppress(LoginNeeded, McpLoginFailed):
            owner = user_id if kind == "personal" else OPERATOR
            return await self._renew(Errand(owner, server, config, unwanted=header)) != header
        return False

    async def status(self, server: str, user_id: str) -> LoginStatus:
        """How things stand with a user's login at a server."""
        config = self._servers().get(server)
        kind = login_kind(config) if config is not None else "none"
        if config is None or kind == "none":
            return LoginStatus("none", "not_needed")
        try:
            kept = await self._store.load(OPERATOR if kind == "server" else user_id, server)
        except KeyLost:
            return LoginStatus(kind, "expired_key")
        login = kept if kept is not None and kept.settings == settings_of(config) else None
        if login is None or login.tokens is None:
            needs = kind == "personal" and (login is not None or self.is_personal(server))
            return LoginStatus(kind, "needs_login" if needs else "not_needed")
        tokens, issuer = login.tokens, login.endpoints.issuer if login.endpoints else None
        return LoginStatus(kind, "logged_in", tokens.expires_at, tokens.scope, issuer, login.since)

    async def aclose(self) -> None:
        """Let what is being fetched come in: a refresh token may be worth nothing once it was used."""
        if self._under_way:
            _, late = await asyncio.wait(self._under_way.values(), timeout=TIMEOUT_S)
            for task in late:
                task.cancel()

    async def _load(self, owner: str, server: str, config: McpServerConfig) -> Login | None:
        """What is kept and belongs to this configuration."""
        try:
            login = await self._store.load(owner, server)
        except KeyLost:
            if owner == OPERATOR:
                return None
            raise login_needed(server) from None
        return login if login is not None and login.settings == settings_of(config) else None

    async def _renew(self, errand: Errand) -> str:
        """A header with a new token. Whoever waits may go: the errand is carried out all the same."""
        key = errand.owner, errand.server
        if key not in self._under_way:
            task = asyncio.create_task(self._carry_out(errand))
            self._under_way[key] = task
            task.add_done_callback(lambda done: self._forget(key, done))
        return await asyncio.shield(self._under_way[key])

    def _forget(self, key: tuple[str, str], done: asyncio.Task[str]) -> None:
        self._under_way.pop(key, None)
        if not done.cancelled():
            done.exception()  # whoever waited has got it, or nobody waits any more

    async def _carry_out(self, errand: Errand) -> str:
        """Fetch a token, as the only one of all processes; where another has just done so, theirs is taken."""
        login = await self._claimed(errand)
        if login is not None and (header := self._usable(errand, login)) is not None:
            await self._settle(errand, None)
            return header
        renewed: Login | None = None
        try:
            renewed = await self._fetch(errand, login)
        finally:
            is_kept = await self._settle(errand, renewed)
        if renewed.tokens is None:
            raise login_needed(errand.server)
        if not is_kept and (await self._load(errand.owner, errand.server, errand.config)) is None:
            raise login_needed(errand.server)  # it was forgotten meanwhile
        return renewed.tokens.header

    async def _claimed(self, errand: Errand) -> Login | None:
        """The login as it is once we are the one who may renew it."""
        try:
            async with asyncio.timeout(LEASE.total_seconds() + 1):
                while isinstance(login := await self._claim(errand), bool):  # noqa: ASYNC110
                    # Another process, perhaps on another machine, is at it; it cannot wake us, but its claim ends.
                    await asyncio.sleep(LOOK_AGAIN_S)
        except TimeoutError:
            raise McpLoginFailed(f"no token for {errand.server!r} in time: others kept fetching one") from None
        if login is None or login.settings == settings_of(errand.config):
            return login
        return None

    async def _claim(self, errand: Errand) -> Login | None | bool:
        try:
            return await self._store.claim(errand.owner, errand.server, errand.claim, self._now(), LEASE)
        except KeyLost:
            return None

    async def _settle(self, errand: Errand, login: Login | None) -> bool:
        return await self._store.settle(errand.owner, errand.server, errand.claim, login, self._now())

    def _usable(self, errand: Errand, login: Login) -> str | None:
        """The header of a login that needs no renewing."""
        tokens = login.tokens
        if tokens is None or not tokens.is_fresh(self._now(), skew_of(errand.config)):
            return None
        return tokens.header if tokens.header != errand.unwanted else None

    async def _fetch(self, errand: Errand, login: Login | None) -> Login:
        """The login with new tokens, or without any where a person has to log in.

        Raises:
            LoginNeeded: There is nothing to renew.
            McpLoginFailed: No token can be had at the moment, or what is configured is not taken.
        """
        http = OAuthHttp(errand.config.allow_private_addresses, self._trust)
        if errand.owner != OPERATOR:
            return await self._refresh(http, errand, login)
        oauth = errand.config.oauth
        assert oauth is not None
        tokens = login.tokens if login is not None else None
        if tokens is not None and errand.unwanted == tokens.header and self._is_new(tokens):
            raise McpLoginFailed(f"{errand.server!r} does not take the tokens that its `oauth` leads to")
        held = tokens.refresh_token if tokens is not None else None
        answer = await by_credentials(http, oauth, held or oauth.refresh_token, self._now())
        if isinstance(answer, Refused):
            raise McpLoginFailed(f"{answer.text}: check `oauth` of {errand.server!r} in extensions_config.json")
        kept = answer.model_copy(update={"refresh_token": answer.refresh_token or held})
        return Login(settings=settings_of(errand.config), tokens=kept, since=self._now())

    async def _refresh(self, http: OAuthHttp, errand: Errand, login: Login | None) -> Login:
        if login is None or login.tokens is None or login.client is None or login.endpoints is None:
            raise login_needed(errand.server)
        held = login.tokens
        if held.refresh_token is None or (errand.unwanted == held.header and self._is_new(held)):
            return login.model_copy(update={"tokens": None})
        fields, now = fields_of(errand.config.oauth), self._now()
        answer = await by_refresh(http, login.endpoints, login.client, held.refresh_token, fields, now)
        if isinstance(answer, Refused):
            forgets_us = answer.status == 401 or answer.error in UNKNOWN_CLIENT
            return login.model_copy(update={"tokens": None, "client": None if forgets_us else login.client})
        kept = {"refresh_token": answer.refresh_token or held.refresh_token, "scope": answer.scope or held.scope}
        return login.model_copy(update={"tokens": answer.model_copy(update=kept)})

    def _is_new(self, tokens: Tokens) -> bool:
        return tokens.obtained_at is not None and (self._now() - tokens.obtained_at).total_seconds() < AT_ONCE_S


def wants_login(config: McpServerConfig | None) -> bool:
    """Whether the configuration says that people log in."""
    return config is not None and config.oauth is not None and config.oauth.enabled


def skew_of(config: McpServerConfig) -> float:
    """How many seconds before its end a token is renewed."""
    return SKEW_S if config.oauth is None else config.oauth.refresh_skew_seconds


def login_needed(server: str) -> LoginNeeded:
    """That a person has to log in."""
    return LoginNeeded(f"log in at the MCP server {server!r} first: in the settings of the page, under MCP servers")
