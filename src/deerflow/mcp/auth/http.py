"""HTTP requests to authorization servers: checked URLs, limited time and size, token requests, no secrets in errors."""

import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from ipaddress import ip_address
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

import orjson
from pydantic import BaseModel, ConfigDict, ValidationError

from deerflow.community.web.egress_transport import EgressTransport
from deerflow.community.web.http import HttpClient, TlsTrust, WebProblem, WebRequest, WebResponse
from deerflow.config.sections.extensions import OAuthConfig
from deerflow.domain.errors import McpLoginFailed
from deerflow.mcp.auth.token_store import AuthMethod, OAuthClient, OAuthEndpoints, PendingAuthorization, TokenSet
from deerflow.sandbox.egress import Egress

TIMEOUT_S = 15.0
MAX_BYTES = 1_000_000
MAX_QUOTED_CHARS = 200
MAX_CHALLENGE_CHARS = 8000
MAX_SCOPE_CHARS = 4000
NETWORK_HINT = '; set "allow_private_addresses": true for the server if it is in your own network'
TOKEN = re.compile(r"[\x21-\x7e]{1,16384}")
SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")
SCHEME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}")
MAX_LIFETIME_S = 10 * 366 * 24 * 3600.0

Model = TypeVar("Model", bound=BaseModel)


class OAuthDocument(BaseModel):
    """Response of an authorization server; unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True, coerce_numbers_to_str=True)


class OAuthErrorBody(OAuthDocument):
    """Error response of a token endpoint."""

    error: str = ""
    error_description: str | None = None


@dataclass(frozen=True, slots=True)
class TokenRefusal:
    """Refused request."""

    status: int
    error: str
    text: str


@dataclass(frozen=True, slots=True)
class OAuthHttp:
    """HTTP client for the authorization server of one MCP server."""

    allow_private: bool = False
    trust: TlsTrust = field(default_factory=TlsTrust)

    async def send(self, request: WebRequest) -> WebResponse:
        """Return the response to a request; redirects are not followed.

        Raises:
            McpLoginFailed: There is no response, or the URL is not allowed.
        """
        check_url(request.url)
        egress = Egress(is_allowed=lambda _: True) if self.allow_private else Egress()
        http = HttpClient(TIMEOUT_S, MAX_BYTES, EgressTransport(egress, self.trust), self.trust)
        try:
            return await http.send(request)
        except WebProblem as problem:
            hint = "" if self.allow_private else NETWORK_HINT
            raise McpLoginFailed(f"{get_host(request.url)}: {problem}{hint}") from problem

    async def fetch_document(self, url: str, document: type[Model]) -> Model | None:
        """Return the document at `url`; None when there is none of that type.

        Raises:
            McpLoginFailed: The server cannot be reached or fails.
        """
        reply = await self.send(WebRequest(url, headers={"Accept": "application/json"}))
        if reply.status == 429 or reply.status >= 500:
            raise McpLoginFailed(f"{get_host(url)} answered with status {reply.status}; try again later")
        if reply.status != 200:
            return None
        try:
            return document.model_validate_json(reply.body)
        except ValidationError:
            return None

    async def post_form(
        self, url: str, form: Mapping[str, str], headers: Mapping[str, str] | None = None
    ) -> bytes | TokenRefusal:
        """Post a form to a token endpoint and return the body, or the refusal.

        Raises:
            McpLoginFailed: The server cannot be reached or fails.
        """
        reply = await self.send(WebRequest(url, "POST", {"Accept": "application/json", **(headers or {})}, form=form))
        if reply.status in (200, 201):
            return reply.body
        if reply.status == 429 or not 400 <= reply.status < 500:
            raise McpLoginFailed(f"{get_host(url)} answered with status {reply.status}")
        return read_refusal(url, reply)


def read_refusal(url: str, reply: WebResponse) -> TokenRefusal:
    """Return the error of a response. Other parts of the response are not repeated: they may contain secrets."""
    try:
        body = OAuthErrorBody.model_validate_json(reply.body)
    except ValidationError:
        body = OAuthErrorBody()
    error = sanitize(body.error) or f"status {reply.status}"
    return TokenRefusal(reply.status, error, f"{get_host(url)} refused: {error}")


def check_url(url: str) -> None:
    """Raise `McpLoginFailed` unless secrets may be sent to this URL: https, or http to this machine."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        _ = parts.port
    except ValueError:
        raise McpLoginFailed(f"invalid URL {url[:MAX_QUOTED_CHARS]!r}") from None
    if parts.username is not None or not host:
        raise McpLoginFailed(f"invalid authorization server URL {host or url[:MAX_QUOTED_CHARS]!r}")
    if parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host)):
        return
    raise McpLoginFailed(f"the authorization server {host!r} does not use https, so no secrets are sent to it")


def is_loopback(host: str) -> bool:
    """Return whether a host name or address is this machine, without resolving it."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower().rstrip(".") == "localhost"


def get_host(url: str) -> str:
    """Return the host of a URL for messages."""
    try:
        return urlsplit(url).hostname or "?"
    except ValueError:
        return "?"


def sanitize(text: str) -> str:
    """Return untrusted text for use in a message: printable and short."""
    return "".join(character if character.isprintable() else " " for character in text)[:MAX_QUOTED_CHARS].strip()


def merge_scopes(*scopes: str | None) -> str | None:
    """Return the scopes of several lists, each once and without malformed ones; None when there are none."""
    found = dict.fromkeys(scope for listed in scopes if listed for scope in listed.split() if SCOPE.fullmatch(scope))
    merged = ""
    for scope in found:
        if len(merged) + 1 + len(scope) > MAX_SCOPE_CHARS:
            break
        merged = f"{merged} {scope}" if merged else scope
    return merged or None


@dataclass(frozen=True, slots=True)
class TokenFields:
    """Names of the fields in a token response."""

    token: str = "access_token"
    token_type: str = "token_type"
    lifetime: str = "expires_in"
    default_type: str = "Bearer"


def get_token_fields(oauth: OAuthConfig | None) -> TokenFields:
    """Return the configured field names of token responses."""
    if oauth is None:
        return TokenFields()
    return TokenFields(oauth.token_field, oauth.token_type_field, oauth.expires_in_field, oauth.default_token_type)


async def request_with_credentials(
    http: OAuthHttp,
    oauth: OAuthConfig,
    endpoints: OAuthEndpoints,
    method: AuthMethod,
    refresh_token: str | None,
    now: datetime,
) -> TokenSet | TokenRefusal:
    """Request tokens with the configured client credentials or refresh token."""
    body = {
        "grant_type": oauth.grant_type,
        "refresh_token": refresh_token if oauth.grant_type == "refresh_token" else None,
        "scope": oauth.scope or endpoints.scope,
        "audience": oauth.audience,
        "resource": endpoints.resource,
        **oauth.extra_token_params,
    }
    form: Mapping[str, str] = {name: value for name, value in body.items() if value is not None}
    headers: Mapping[str, str] = {}
    if oauth.client_id is not None:
        client = OAuthClient(client_id=oauth.client_id, client_secret=oauth.client_secret, auth_method=method)
        form, headers = authenticate_client(form, client)
    return await request_tokens(http, endpoints.token, form, headers, get_token_fields(oauth), now)


async def refresh_tokens(
    http: OAuthHttp,
    endpoints: OAuthEndpoints,
    client: OAuthClient,
    refresh_token: str,
    fields: TokenFields,
    now: datetime,
) -> TokenSet | TokenRefusal:
    """Request new tokens with a refresh token."""
    form = {"grant_type": "refresh_token", "refresh_token": refresh_token}
    if endpoints.resource is not None:
        form["resource"] = endpoints.resource
    return await request_tokens(http, endpoints.token, *authenticate_client(form, client), fields, now)


async def exchange_code(
    http: OAuthHttp, pending: PendingAuthorization, code: str, fields: TokenFields, now: datetime
) -> TokenSet | TokenRefusal:
    """Exchange an authorization code for tokens."""
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": pending.redirect_uri,
        "code_verifier": pending.verifier,
    }
    if pending.endpoints.resource is not None:
        form["resource"] = pending.endpoints.resource
    return await request_tokens(http, pending.endpoints.token, *authenticate_client(form, pending.client), fields, now)


def authenticate_client(form: Mapping[str, str], client: OAuthClient) -> tuple[dict[str, str], dict[str, str]]:
    """Return the form and headers with the client authentication that was agreed."""
    identified = {**form, "client_id": client.client_id}
    if client.client_secret is None or client.auth_method == "none":
        return identified, {}
    if client.auth_method == "client_secret_post":
        return {**identified, "client_secret": client.client_secret}, {}
    pair = f"{quote(client.client_id, safe='')}:{quote(client.client_secret, safe='')}"
    return identified, {"Authorization": f"Basic {b64encode(pair.encode()).decode()}"}


async def request_tokens(
    http: OAuthHttp,
    url: str,
    form: Mapping[str, str],
    headers: Mapping[str, str],
    fields: TokenFields,
    now: datetime,
) -> TokenSet | TokenRefusal:
    """Post a form to a token endpoint and return the tokens."""
    answer = await http.post_form(url, form, headers)
    if isinstance(answer, TokenRefusal):
        return answer
    try:
        body = orjson.loads(answer)
    except orjson.JSONDecodeError:
        body = None
    if not isinstance(body, dict):
        raise McpLoginFailed(f"{get_host(url)} returned an invalid token response")
    return parse_tokens(body, fields, now, get_host(url))


def parse_tokens(body: Mapping[str, Any], fields: TokenFields, now: datetime, host: str) -> TokenSet:
    """Return the tokens in a response.

    Raises:
        McpLoginFailed: There is no token that can be used in a header.
    """
    token, token_type = body.get(fields.token), body.get(fields.token_type) or fields.default_type
    if not isinstance(token, str) or not TOKEN.fullmatch(token):
        raise McpLoginFailed(f"{host} returned no valid token in {fields.token!r}")
    if not isinstance(token_type, str) or not SCHEME.fullmatch(token_type):
        raise McpLoginFailed(f"{host} returned a token of an unknown type")
    refresh, scope = body.get("refresh_token"), body.get("scope")
    return TokenSet(
        access_token=token,
        token_type="Bearer" if token_type.lower() == "bearer" else token_type,
        expires_at=compute_expiry(body.get(fields.lifetime), now),
        refresh_token=refresh if isinstance(refresh, str) and refresh else None,
        scope=scope if isinstance(scope, str) else None,
        obtained_at=now,
    )


def compute_expiry(lifetime: Any, now: datetime) -> datetime | None:
    """Return when a token with this lifetime in seconds expires; None when unknown."""
    try:
        seconds = float(lifetime)
    except (TypeError, ValueError):
        return None
    if seconds != seconds:  # not a number
        return None
    return now + timedelta(seconds=min(max(seconds, 0.0), MAX_LIFETIME_S))
