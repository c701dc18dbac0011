"""Login in a browser: authorization code flow with PKCE and dynamic client registration."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from urllib.parse import urlencode, urlsplit

import orjson
from mcp.client.auth import PKCEParameters
from pydantic import ValidationError

from deerflow.community.web.http import WebRequest
from deerflow.config.sections.extensions import McpServerConfig
from deerflow.domain.errors import McpLoginFailed
from deerflow.mcp.auth.discovery import find_endpoints
from deerflow.mcp.auth.http import (
    OAuthDocument,
    OAuthHttp,
    TokenRefusal,
    exchange_code,
    get_host,
    get_token_fields,
    merge_scopes,
    read_refusal,
    sanitize,
)
from deerflow.mcp.auth.token_store import (
    AuthMethod,
    OAuthClient,
    OAuthEndpoints,
    PendingAuthorization,
    TokenSet,
    TokenStore,
    settings_digest,
)
from deerflow.mcp.auth.tokens import Clock, LoginCallback, LoginRedirect, LoginStart, SeenChallenge, describe_client

STATE_LIFETIME = timedelta(minutes=10)


class RegisteredClient(OAuthDocument):
    """Response to a dynamic client registration."""

    client_id: str
    client_secret: str | None = None
    token_endpoint_auth_method: str | None = None


@dataclass(frozen=True, slots=True)
class BrowserLogin:
    """Login of users at one MCP server."""

    config: McpServerConfig
    http: OAuthHttp
    store: TokenStore
    now: Clock

    async def start(
        self, user_id: str, server: str, redirect: LoginRedirect, seen: SeenChallenge | None = None
    ) -> LoginStart:
        """Start a login and return its authorization URL. `seen` is the challenge that led to it.

        Raises:
            McpLoginFailed: Discovery or client registration failed.
        """
        endpoints = await find_endpoints(self.http, self.config, seen.header if seen else None)
        if seen is not None and seen.scope:
            endpoints = endpoints.model_copy(update={"scope": merge_scopes(endpoints.scope, seen.scope)})
        redirect_uri = redirect.uri
        client = await get_client(self.http, self.config, endpoints, redirect)
        pkce, state = PKCEParameters.generate(), secrets.token_urlsafe(32)
        pending = PendingAuthorization(
            server=server,
            settings=settings_digest(self.config),
            verifier=pkce.code_verifier,
            client=client,
            endpoints=endpoints,
            redirect_uri=redirect_uri,
            return_to=redirect.return_to,
        )
        now = self.now()
        await self.store.add_pending(user_id, state, pending, now, now + STATE_LIFETIME)
        url = build_authorization_url(pending, state, pkce.code_challenge, self.config)
        return LoginStart(url, now + STATE_LIFETIME)

    async def exchange(self, pending: PendingAuthorization, callback: LoginCallback) -> TokenSet:
        """Exchange the authorization code for tokens.

        Raises:
            McpLoginFailed: The login was denied, the redirect is not from the issuer, or the code is rejected.
        """
        check_issuer(pending.endpoints, callback.issuer)
        if callback.error is not None:
            host = get_host(pending.endpoints.authorization)
            raise McpLoginFailed(f"{host} denied the login: {sanitize(callback.error)}")
        if not callback.code:
            raise McpLoginFailed("the redirect contains no authorization code")
        fields = get_token_fields(self.config.oauth)
        answer = await exchange_code(self.http, pending, callback.code, fields, self.now())
        if isinstance(answer, TokenRefusal):
            raise McpLoginFailed(answer.text)
        return answer.model_copy(update={"scope": answer.scope or pending.endpoints.scope})


def check_issuer(endpoints: OAuthEndpoints, issuer: str | None) -> None:
    """Raise `McpLoginFailed` when the redirect comes from another authorization server."""
    if endpoints.issuer is None or (issuer is None and not endpoints.names_itself):
        return
    if issuer != endpoints.issuer:  # compared as texts (RFC 9207)
        raise McpLoginFailed(f"the redirect does not come from {endpoints.issuer!r}, where the login was started")


async def get_client(
    http: OAuthHttp, config: McpServerConfig, endpoints: OAuthEndpoints, redirect: LoginRedirect
) -> OAuthClient:
    """Return the configured client, the client that our metadata document describes, or register one.

    Raises:
        McpLoginFailed: Registration is not supported or was refused.
    """
    oauth, redirect_uri = config.oauth, redirect.uri
    if oauth is not None and oauth.client_id:
        method = choose_auth_method(endpoints) if oauth.client_secret else "none"
        return OAuthClient(
            client_id=oauth.client_id, client_secret=oauth.client_secret, auth_method=method, redirect_uri=redirect_uri
        )
    if endpoints.accepts_client_url and redirect.client_url is not None:
        return OAuthClient(client_id=redirect.client_url, redirect_uri=redirect_uri, issuer=endpoints.issuer)
    if endpoints.registration is None:
        hint = ", or set `gateway.public_url` to an https URL" if endpoints.accepts_client_url else ""
        raise McpLoginFailed(
            f"{get_host(endpoints.authorization)} does not support dynamic client registration; register a client "
            f"there with the redirect URI {redirect_uri}, and set its `client_id` in `oauth` of the server{hint}"
        )
    metadata: dict[str, object] = {
        **describe_client(redirect_uri),
        "token_endpoint_auth_method": "none" if "none" in endpoints.auth_methods else choose_auth_method(endpoints),
    }
    if endpoints.scope:
        metadata["scope"] = endpoints.scope
    return await register_client(http, endpoints, metadata, redirect_uri)


async def register_client(
    http: OAuthHttp, endpoints: OAuthEndpoints, metadata: Mapping[str, object], redirect_uri: str
) -> OAuthClient:
    """Register a client at the authorization server."""
    assert endpoints.registration is not None
    response = await http.send(
        WebRequest(endpoints.registration, "POST", {"Accept": "application/json"}, json=metadata)
    )
    if response.status not in (200, 201):
        refusal = read_refusal(endpoints.registration, response)
        raise McpLoginFailed(f"client registration failed: {refusal.text}")
    try:
        client = RegisteredClient.model_validate(orjson.loads(response.body))
    except (ValidationError, orjson.JSONDecodeError):
        raise McpLoginFailed(f"{get_host(endpoints.registration)} returned no client_id") from None
    method = client.token_endpoint_auth_method or metadata["token_endpoint_auth_method"]
    return OAuthClient(
        client_id=client.client_id,
        client_secret=client.client_secret,
        auth_method=to_auth_method(str(method)),
        redirect_uri=redirect_uri,
        issuer=endpoints.issuer,
    )


def choose_auth_method(endpoints: OAuthEndpoints) -> AuthMethod:
    """Return how the client secret is sent to the token endpoint."""
    return "client_secret_post" if "client_secret_post" in endpoints.auth_methods else "client_secret_basic"


def to_auth_method(name: str) -> AuthMethod:
    """Return a supported authentication method."""
    if name == "none":
        return "none"
    return "client_secret_basic" if name == "client_secret_basic" else "client_secret_post"


def build_authorization_url(
    pending: PendingAuthorization, state: str, code_challenge: str, config: McpServerConfig
) -> str:
    """Return the URL at which the user logs in."""
    endpoints = pending.endpoints
    parameters = {
        "response_type": "code",
        "client_id": pending.client.client_id,
        "redirect_uri": pending.redirect_uri,
        "state": state,
        "code_challenge": code_challenge,
        "code_challenge_method": "S256",
        "scope": endpoints.scope,
        "resource": endpoints.resource,
        "audience": config.oauth.audience if config.oauth is not None else None,
    }
    query = urlencode({name: value for name, value in parameters.items() if value is not None})
    separator = "&" if urlsplit(endpoints.authorization).query else "?"
    return f"{endpoints.authorization}{separator}{query}"
