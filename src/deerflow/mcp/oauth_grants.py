"""What is asked of token endpoints, and what they answer."""

import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

import orjson

from deerflow.config.extensions import OAuthConfig
from deerflow.domain.errors import McpLoginFailed
from deerflow.mcp.logins import Begun, ClientCard, Endpoints, Tokens
from deerflow.mcp.oauth_http import OAuthHttp, Refused, host_in

TOKEN = re.compile(r"[\x21-\x7e]{1,16384}")
SCHEME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}")
LONGEST_S = 10 * 366 * 24 * 3600.0


@dataclass(frozen=True, slots=True)
class TokenFields:
    """What the parts of an answer are called."""

    token: str = "access_token"
    kind: str = "token_type"
    lifetime: str = "expires_in"
    default_kind: str = "Bearer"


def fields_of(oauth: OAuthConfig | None) -> TokenFields:
    """What the configuration says the parts of an answer are called."""
    if oauth is None:
        return TokenFields()
    return TokenFields(oauth.token_field, oauth.token_type_field, oauth.expires_in_field, oauth.default_token_type)


async def by_credentials(
    http: OAuthHttp, oauth: OAuthConfig, refresh_token: str | None, now: datetime
) -> Tokens | Refused:
    """Tokens for what the configuration holds: a client's own credentials, or a refresh token."""
    assert oauth.token_url is not None
    said = {
        "grant_type": oauth.grant_type,
        "client_id": oauth.client_id,
        "client_secret": oauth.client_secret,
        "refresh_token": refresh_token if oauth.grant_type == "refresh_token" else None,
        "scope": oauth.scope,
        "audience": oauth.audience,
        **oauth.extra_token_params,
    }
    form = {name: value for name, value in said.items() if value is not None}
    return await ask(http, oauth.token_url, form, {}, fields_of(oauth), now)


async def by_refresh(
    http: OAuthHttp, endpoints: Endpoints, client: ClientCard, refresh_token: str, fields: TokenFields, now: datetime
) -> Tokens | Refused:
    """New tokens for somebody who has logged in."""
    form = {"grant_type": "refresh_token", "refresh_token": refresh_token}
    if endpoints.resource is not None:
        form["resource"] = endpoints.resource
    return await ask(http, endpoints.token, *introduced(form, client), fields, now)


async def by_code(http: OAuthHttp, begun: Begun, code: str, fields: TokenFields, now: datetime) -> Tokens | Refused:
    """Tokens for somebody who comes back from logging in."""
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": begun.redirect_uri,
        "code_verifier": begun.verifier,
    }
    if begun.endpoints.resource is not None:
        form["resource"] = begun.endpoints.resource
    return await ask(http, begun.endpoints.token, *introduced(form, begun.client), fields, now)


def introduced(form: Mapping[str, str], client: ClientCard) -> tuple[dict[str, str], dict[str, str]]:
    """A form that says who we are, in the way that was agreed, and the headers to it."""
    named = {**form, "client_id": client.client_id}
    if client.client_secret is None or client.auth_method == "none":
        return named, {}
    if client.auth_method == "client_secret_post":
        return {**named, "client_secret": client.client_secret}, {}
    pair = f"{quote(client.client_id, safe='')}:{quote(client.client_secret, safe='')}"
    return named, {"Authorization": f"Basic {b64encode(pair.encode()).decode()}"}


async def ask(
    http: OAuthHttp,
    url: str,
    form: Mapping[str, str],
    headers: Mapping[str, str],
    fields: TokenFields,
    now: datetime,
) -> Tokens | Refused:
    """What a token endpoint gives for a form."""
    answer = await http.post(url, form, headers)
    if isinstance(answer, Refused):
        return answer
    try:
        said = orjson.loads(answer)
    except orjson.JSONDecodeError:
        said = None
    if not isinstance(said, dict):
        raise McpLoginFailed(f"{host_in(url)} answered with something that is no token")
    return read_tokens(said, fields, now, host_in(url))


def read_tokens(said: Mapping[str, Any], fields: TokenFields, now: datetime, host: str) -> Tokens:
    """The tokens in an answer.

    Raises:
        McpLoginFailed: There are none that could be put into a header.
    """
    token, kind = said.get(fields.token), said.get(fields.kind) or fields.default_kind
    if not isinstance(token, str) or not TOKEN.fullmatch(token):
        raise McpLoginFailed(f"{host} answered without a token in {fields.token!r}")
    if not isinstance(kind, str) or not SCHEME.fullmatch(kind):
        raise McpLoginFailed(f"{host} answered with a token of no known type")
    refresh, scope = said.get("refresh_token"), said.get("scope")
    return Tokens(
        access_token=token,
        token_type="Bearer" if kind.lower() == "bearer" else kind,
        expires_at=end_of(said.get(fields.lifetime), now),
        refresh_token=refresh if isinstance(refresh, str) and refresh else None,
        scope=scope if isinstance(scope, str) else None,
        obtained_at=now,
    )


def end_of(lifetime: Any, now: datetime) -> datetime | None:
    """When a token ends that lives so many seconds; None when that is not said."""
    try:
        seconds = float(lifetime)
    except (TypeError, ValueError):
        return None
    if seconds != seconds:  # not a number
        return None
    return now + timedelta(seconds=min(max(seconds, 0.0), LONGEST_S))
