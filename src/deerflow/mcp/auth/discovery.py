"""Discovery of the authorization server of an MCP server (RFC 9728, RFC 8414).

The metadata models keep URLs as plain strings. Those of the `mcp` package normalize URLs, which changes what is
compared and sent, and reject a document silently where an unsafe URL has to be reported.
"""

from urllib.parse import urlsplit

import httpx
from mcp.client.auth.utils import (
    build_oauth_authorization_server_metadata_discovery_urls,
    build_protected_resource_metadata_discovery_urls,
    extract_resource_metadata_from_www_auth,
    extract_scope_from_www_auth,
    issuers_match,
)
from mcp.shared.auth_utils import check_resource_allowed

from deerflow.community.web.http import WebRequest
from deerflow.config.sections.extensions import McpServerConfig
from deerflow.domain.errors import McpLoginFailed
from deerflow.mcp.auth.http import OAuthDocument, OAuthHttp, check_url, get_host, sanitize
from deerflow.mcp.auth.token_store import OAuthEndpoints

MAX_CHALLENGE_CHARS = 8000
INITIALIZE_REQUEST = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "DeerFlow", "version": "1"}},
}


class ResourceMetadata(OAuthDocument):
    """Protected resource metadata of an MCP server."""

    resource: str
    authorization_servers: tuple[str, ...] = ()
    scopes_supported: list[str] | None = None


class AuthorizationServerMetadata(OAuthDocument):
    """Metadata of an authorization server."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    registration_endpoint: str | None = None
    scopes_supported: list[str] | None = None
    token_endpoint_auth_methods_supported: list[str] | None = None
    code_challenge_methods_supported: list[str] | None = None
    authorization_response_iss_parameter_supported: bool = False


async def find_endpoints(http: OAuthHttp, server: McpServerConfig) -> OAuthEndpoints:
    """Return the endpoints for logins at a server.

    Raises:
        McpLoginFailed: Discovery failed, or its result cannot be trusted.
    """
    assert server.url is not None
    oauth = server.oauth
    if oauth is not None and oauth.authorization_url is not None and oauth.token_url is not None:
        for url in (oauth.authorization_url, oauth.token_url):
            check_url(url)
        methods = ("client_secret_post",) if oauth.client_secret else ("none",)
        return OAuthEndpoints(
            token=oauth.token_url, authorization=oauth.authorization_url, scope=oauth.scope, auth_methods=methods
        )
    challenge = await request_challenge(http, server)
    resource = await find_resource_metadata(http, server.url, extract_resource_metadata_from_www_auth(challenge))
    issuer = resource.authorization_servers[0] if resource else get_origin(server.url)
    check_url(issuer)
    metadata = await find_server_metadata(http, issuer, is_fallback=resource is None)
    scopes = resource.scopes_supported if resource else None
    requested = extract_scope_from_www_auth(challenge) or (" ".join(scopes) if scopes else None)
    scope = (oauth.scope if oauth else None) or (sanitize(requested) if requested else None)
    return to_endpoints(metadata, resource.resource if resource else None, scope)


def to_endpoints(metadata: AuthorizationServerMetadata, resource: str | None, scope: str | None) -> OAuthEndpoints:
    """Return the endpoints of an authorization server.

    Raises:
        McpLoginFailed: An endpoint is not safe, or PKCE is not supported.
    """
    for url in (metadata.authorization_endpoint, metadata.token_endpoint, metadata.registration_endpoint):
        if url:
            check_url(url)
    if "S256" not in (metadata.code_challenge_methods_supported or ()):
        raise McpLoginFailed(f"{get_host(metadata.issuer)} does not support PKCE with S256, which a login requires")
    return OAuthEndpoints(
        token=metadata.token_endpoint,
        authorization=metadata.authorization_endpoint,
        registration=metadata.registration_endpoint,
        issuer=metadata.issuer,
        resource=resource,
        scope=scope,
        auth_methods=tuple(metadata.token_endpoint_auth_methods_supported or ("client_secret_basic",)),
        names_itself=metadata.authorization_response_iss_parameter_supported,
    )


async def request_challenge(http: OAuthHttp, server: McpServerConfig) -> httpx.Response:
    """Send a request without a token and return the status and challenge of the response."""
    assert server.url is not None
    headers = {"Accept": "application/json, text/event-stream", **server.headers}
    is_sse = server.type == "sse"
    request = WebRequest(server.url, "GET" if is_sse else "POST", headers, json=None if is_sse else INITIALIZE_REQUEST)
    response = await http.send(request)
    if response.status not in (401, 403):
        raise McpLoginFailed(f"{get_host(server.url)} requires no login: it answered with status {response.status}")
    challenge = response.headers.get("www-authenticate", "")[:MAX_CHALLENGE_CHARS]
    return httpx.Response(response.status, headers=[(b"WWW-Authenticate", challenge.encode())])


async def find_resource_metadata(http: OAuthHttp, url: str, advertised: str | None) -> ResourceMetadata | None:
    """Return the protected resource metadata of the server at `url`; None when it has none.

    Raises:
        McpLoginFailed: The metadata is for another server.
    """
    path = urlsplit(url).path.rstrip("/")
    for candidate in build_protected_resource_metadata_discovery_urls(advertised, f"{get_origin(url)}{path}"):
        metadata = await http.fetch_document(candidate, ResourceMetadata)
        if metadata is None or not metadata.authorization_servers:
            continue
        if not is_resource_of(metadata.resource, url):
            raise McpLoginFailed(f"the resource metadata of {get_host(url)} is for {metadata.resource[:200]!r}")
        return metadata
    return None


async def find_server_metadata(http: OAuthHttp, issuer: str, *, is_fallback: bool) -> AuthorizationServerMetadata:
    """Return the metadata of an authorization server.

    Raises:
        McpLoginFailed: There is none, or it names another issuer.
    """
    for url in build_oauth_authorization_server_metadata_discovery_urls(issuer, issuer):
        metadata = await http.fetch_document(url, AuthorizationServerMetadata)
        if metadata is None:
            continue
        if not issuers_match(metadata.issuer, issuer):
            raise McpLoginFailed(f"issuer mismatch: the metadata of {issuer[:200]!r} names {metadata.issuer[:200]!r}")
        return metadata
    if is_fallback:  # the first version of the MCP specification does not require metadata
        return AuthorizationServerMetadata(
            issuer=issuer,
            authorization_endpoint=f"{issuer}/authorize",
            token_endpoint=f"{issuer}/token",
            registration_endpoint=f"{issuer}/register",
            token_endpoint_auth_methods_supported=["none", "client_secret_post"],
            code_challenge_methods_supported=["S256"],
        )
    raise McpLoginFailed(f"no metadata found for the authorization server {issuer[:200]!r}")


def is_resource_of(resource: str, url: str) -> bool:
    """Return whether a token for `resource` is valid for the server at `url`: the same URL or a parent path."""
    try:
        return bool(urlsplit(resource).netloc) and check_resource_allowed(url, resource)
    except ValueError:
        return False


def get_origin(url: str) -> str:
    """Return scheme, host and port of a URL; empty when it is malformed."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return f"{parts.scheme.lower()}://{parts.netloc.lower()}"
