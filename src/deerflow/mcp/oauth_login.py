"""Logins in a browser: authorization code with PKCE, for servers that we may never have heard of before."""

import secrets
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from urllib.parse import urlencode, urlsplit

import orjson
from pydantic import ValidationError

from deerflow.community.web.http import Ask, Trust
from deerflow.config.extensions import McpServerConfig
from deerflow.domain.errors import InvalidRequest, McpLoginFailed, NotFound
from deerflow.mcp.login_words import CameBack, Finished, Servers, Started, login_kind
from deerflow.mcp.logins import AuthMethod, Begun, ClientCard, Endpoints, Login, LoginStore, settings_of
from deerflow.mcp.oauth_discovery import find_endpoints, is_same_issuer
from deerflow.mcp.oauth_grants import by_code, fields_of
from deerflow.mcp.oauth_http import Document, OAuthHttp, Refused, host_in, plain, refusal_in
from deerflow.mcp.tokens import Clock

GOOD_FOR = timedelta(minutes=10)
CLIENT_NAME = "DeerFlow"


class RegisteredClient(Document):
    """Who we are to an authorization server that takes new clients by itself."""

    client_id: str
    client_secret: str | None = None
    token_endpoint_auth_method: str | None = None


class BrowserLogins:
    """Sends people to log in at MCP servers, and keeps what they bring back."""

    def __init__(
        self, servers: Servers, store: LoginStore, now: Clock | None = None, trust: Trust | None = None
    ) -> None:
        self._servers = servers
        self._store = store
        self._now: Clock = now or (lambda: datetime.now(UTC))
        self._trust = trust or Trust()

    async def start(self, server: str, user_id: str, redirect_uri: str, return_to: str | None = None) -> Started:
        """Begin a login.

        Raises:
            NotFound: There is no such server.
            InvalidRequest: Nobody logs in there.
            McpLoginFailed: It cannot be found out where to log in, or we are not taken there.
        """
        config = self._server(server)
        http = OAuthHttp(config.allow_private_addresses, self._trust)
        endpoints = await find_endpoints(http, config)
        client = await introduce(http, config, endpoints, redirect_uri)
        verifier, state = secrets.token_urlsafe(64), secrets.token_urlsafe(32)
        begun = Begun(
            server=server,
            settings=settings_of(config),
            verifier=verifier,
            client=client,
            endpoints=endpoints,
            redirect_uri=redirect_uri,
            return_to=return_to,
        )
        now = self._now()
        await self._store.begin(user_id, state, begun, now, now + GOOD_FOR)
        return Started(login_address(begun, state, config), now + GOOD_FOR)

    async def finish(self, user_id: str, back: CameBack) -> Finished:
        """Keep what a person brings back from logging in. A state is good once, for the one who began, for a while.

        Raises:
            McpLoginFailed: Nobody began this login, or somebody else did, or it is over.
        """
        begun = await self._store.take(user_id, back.state, self._now())
        if begun is None:
            raise McpLoginFailed("this login is over, was used already, or was begun by somebody else: begin it again")
        try:
            await self._keep(user_id, begun, back)
        except McpLoginFailed as problem:
            return Finished(begun.server, begun.return_to, str(problem))
        return Finished(begun.server, begun.return_to)

    async def _keep(self, user_id: str, begun: Begun, back: CameBack) -> None:
        config = self._servers().get(begun.server)
        if config is None or settings_of(config) != begun.settings:
            raise McpLoginFailed(f"the entry of {begun.server!r} has changed meanwhile: begin again")
        check_issuer(begun.endpoints, back.issuer)
        if back.error is not None:
            raise McpLoginFailed(f"{host_in(begun.endpoints.authorization)} did not let you in: {plain(back.error)}")
        if not back.code:
            raise McpLoginFailed("the browser came back without a code")
        http = OAuthHttp(config.allow_private_addresses, self._trust)
        answer = await by_code(http, begun, back.code, fields_of(config.oauth), self._now())
        if isinstance(answer, Refused):
            raise McpLoginFailed(answer.text)
        tokens = answer.model_copy(update={"scope": answer.scope or begun.endpoints.scope})
        now = self._now()
        login = Login(settings=begun.settings, tokens=tokens, client=begun.client, endpoints=begun.endpoints, since=now)
        await self._store.save(user_id, begun.server, login, now)

    def _server(self, name: str) -> McpServerConfig:
        config = self._servers().get(name)
        if config is None:
            raise NotFound(f"no MCP server {name!r}")
        if login_kind(config) != "personal":
            raise InvalidRequest(f"nobody logs in at {name!r}: it is a command, or has credentials of its own")
        return config


def check_issuer(endpoints: Endpoints, named: str | None) -> None:
    """Raise `McpLoginFailed` when another server than ours sent the person back."""
    if endpoints.issuer is None or (named is None and not endpoints.names_itself):
        return
    if named is None or not is_same_issuer(named, endpoints.issuer):
        raise McpLoginFailed(f"the answer does not come from {endpoints.issuer!r}, where the login began")


async def introduce(http: OAuthHttp, config: McpServerConfig, endpoints: Endpoints, redirect_uri: str) -> ClientCard:
    """Who we are to an authorization server: as configured, or as it registers us now.

    Raises:
        McpLoginFailed: It does not take us.
    """
    oauth = config.oauth
    if oauth is not None and oauth.client_id:
        method = method_for(endpoints) if oauth.client_secret else "none"
        return ClientCard(
            client_id=oauth.client_id, client_secret=oauth.client_secret, auth_method=method, redirect_uri=redirect_uri
        )
    if endpoints.registration is None:
        raise McpLoginFailed(
            f"{host_in(endpoints.authorization)} takes no new clients by itself: register one there with the "
            f"redirect address {redirect_uri}, and write its `client_id` into `oauth` of the server"
        )
    wanted: dict[str, object] = {
        "client_name": CLIENT_NAME,
        "redirect_uris": [redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none" if "none" in endpoints.auth_methods else method_for(endpoints),
    }
    if endpoints.scope:
        wanted["scope"] = endpoints.scope
    return await register(http, endpoints, wanted, redirect_uri)


async def register(
    http: OAuthHttp, endpoints: Endpoints, wanted: Mapping[str, object], redirect_uri: str
) -> ClientCard:
    """Have an authorization server know us."""
    assert endpoints.registration is not None
    reply = await http.send(Ask(endpoints.registration, "POST", {"Accept": "application/json"}, json=wanted))
    if reply.status not in (200, 201):
        raise McpLoginFailed(f"we are not taken as a client: {refusal_in(endpoints.registration, reply).text}")
    try:
        said = RegisteredClient.model_validate(orjson.loads(reply.body))
    except (ValidationError, orjson.JSONDecodeError):
        raise McpLoginFailed(f"{host_in(endpoints.registration)} gave us no client_id") from None
    agreed = said.token_endpoint_auth_method or wanted["token_endpoint_auth_method"]
    return ClientCard(
        client_id=said.client_id,
        client_secret=said.client_secret,
        auth_method=as_method(str(agreed)),
        redirect_uri=redirect_uri,
        issuer=endpoints.issuer,
    )


def method_for(endpoints: Endpoints) -> AuthMethod:
    """How we show a secret to a token endpoint."""
    return "client_secret_post" if "client_secret_post" in endpoints.auth_methods else "client_secret_basic"


def as_method(name: str) -> AuthMethod:
    """One of the ways we know."""
    if name == "none":
        return "none"
    return "client_secret_basic" if name == "client_secret_basic" else "client_secret_post"


def login_address(begun: Begun, state: str, config: McpServerConfig) -> str:
    """Where somebody is to log in."""
    endpoints = begun.endpoints
    said = {
        "response_type": "code",
        "client_id": begun.client.client_id,
        "redirect_uri": begun.redirect_uri,
        "state": state,
        "code_challenge": urlsafe_b64encode(sha256(begun.verifier.encode()).digest()).rstrip(b"=").decode(),
        "code_challenge_method": "S256",
        "scope": endpoints.scope,
        "resource": endpoints.resource,
        "audience": config.oauth.audience if config.oauth is not None else None,
    }
    query = urlencode({name: value for name, value in said.items() if value is not None})
    separator = "&" if urlsplit(endpoints.authorization).query else "?"
    return f"{endpoints.authorization}{separator}{query}"
