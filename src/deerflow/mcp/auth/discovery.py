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

from deerflow.community.web.http import WebRequest, WebResponse
from deerflow.config.sections.extensions import McpServerConfig
from deerflow.domain.errors import McpLoginFailed
from deerflow.mcp.auth.http import MAX_CHALLENGE_CHARS, OAuthDocument, OAuthHttp, check_url, get_host, merge_scopes
from deerflow.mcp.auth.token_store import OAuthEndpoints

PROTOCOL_VERSION = "2025-06-18"
INITIALIZE_REQUEST = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": PROTOCOL_VERSION,
        "capabilities": {},
        "clientInfo": {"name": "DeerFlow", "version": "1"},
    },
}
INITIALIZED_NOTIFICATION = {"jsonrpc": "2.0", "method": "notifications/initialized"}
LIST_REQUEST = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
SESSION_HEADER = "mcp-session-id"


class ResourceMetadata(OAuthDocument):
    """Protected resource metadata of an MCP server."""

    resource: str
    authorization_servers: tuple[str, ...] = ()
    scopes_supported: list[str] | None = None


class AuthorizationServerMetadata(OAuthDocument):
    """Metadata of an authorization server."""

    issuer: str
    authorization_endpoint: str = ""
    token_endpoint: str
    registration_endpoint: str | None = None
    scopes_supported: list[str] | None = None
    token_endpoint_auth_methods_supported: list[str] | None = None
    code_challenge_methods_supported: list[str] | None = None
    authorization_response_iss_parameter_supported: bool = False
    client_id_metadata_document_supported: bool = False


async def find_endpoints(http: OAuthHttp, server: McpServerConfig, seen: str | None = None) -> OAuthEndpoints:
    """Return the endpoints for logins of users at a server.

    `seen` is the `WWW-Authenticate` header of an earlier response, for servers that ask for a login late.

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
    challenge = await request_challenge(http, server, seen)
    if challenge is None:
        raise McpLoginFailed(f"{get_host(server.url)} requires no login")
    endpoints = await discover(http, server, challenge)
    check_browser_support(endpoints)
    return endpoints


async def find_token_endpoint(http: OAuthHttp, server: McpServerConfig) -> OAuthEndpoints:
    """Return the endpoints for tokens that are obtained with configured credentials.

    Raises:
        McpLoginFailed: Discovery failed, or its result cannot be trusted.
    """
    return await discover(http, server, await request_challenge(http, server, None) or to_challenge(""))


async def discover(http: OAuthHttp, server: McpServerConfig, challenge: httpx.Response) -> OAuthEndpoints:
    """Return the endpoints that a challenge leads to."""
    assert server.url is not None
    oauth = server.oauth
    resource = await find_resource_metadata(http, server.url, extract_resource_metadata_from_www_auth(challenge))
    issuer = resource.authorization_servers[0] if resource else get_origin(server.url)
    check_url(issuer)
    metadata = await find_server_metadata(http, issuer, is_fallback=resource is None)
    scopes = resource.scopes_supported if resource else None
    requested = extract_scope_from_www_auth(challenge) or (" ".join(scopes) if scopes else None)
    scope = (oauth.scope if oauth else None) or merge_scopes(requested)
    return to_endpoints(metadata, resource.resource if resource else None, scope)


def to_endpoints(metadata: AuthorizationServerMetadata, resource: str | None, scope: str | None) -> OAuthEndpoints:
    """Return the endpoints of an authorization server; raise `McpLoginFailed` when one of them is not safe."""
    for url in (metadata.authorization_endpoint, metadata.token_endpoint, metadata.registration_endpoint):
        if url:
            check_url(url)
    return OAuthEndpoints(
        token=metadata.token_endpoint,
        authorization=metadata.authorization_endpoint,
        registration=metadata.registration_endpoint,
        issuer=metadata.issuer,
        resource=resource,
        scope=scope,
        auth_methods=tuple(metadata.token_endpoint_auth_methods_supported or ("client_secret_basic",)),
        names_itself=metadata.authorization_response_iss_parameter_supported,
        supports_pkce="S256" in (metadata.code_challenge_methods_supported or ()),
        accepts_client_url=metadata.client_id_metadata_document_supported,
    )


def check_browser_support(endpoints: OAuthEndpoints) -> None:
    """Raise `McpLoginFailed` when users cannot log in with a browser and PKCE."""
    host = get_host(endpoints.issuer or endpoints.token)
    if not endpoints.supports_pkce:
        raise McpLoginFailed(f"{host} does not support PKCE with S256, which a login requires")
    if not endpoints.authorization:
        raise McpLoginFailed(f"{host} has no authorization endpoint, which a login requires")


async def request_challenge(http: OAuthHttp, server: McpServerConfig, seen: str | None) -> httpx.Response | None:
    """Send requests without a token and return the first challenge; None when the server requires no login.

    A server may let `initialize` pass and ask for a login afterwards, at any method. `seen` is then its challenge.
    """
    assert server.url is not None
    headers = {"Accept": "application/json, text/event-stream", **server.headers}
    if server.type == "sse":
        response = await http.send(WebRequest(server.url, "GET", headers))
        return find_challenge(response) or (to_challenge(seen) if seen is not None else None)
    response = await http.send(WebRequest(server.url, "POST", headers, json=INITIALIZE_REQUEST))
    if (challenge := find_challenge(response)) is not None or seen is not None:
        return challenge or to_challenge(seen or "")
    headers["MCP-Protocol-Version"] = PROTOCOL_VERSION
    if session := response.headers.get(SESSION_HEADER):
        headers[SESSION_HEADER] = session
    for message in (INITIALIZED_NOTIFICATION, LIST_REQUEST):
        response = await http.send(WebRequest(server.url, "POST", headers, json=message))
        if (challenge := find_challenge(response)) is not None:
            return challenge
    return None


def find_challenge(response: WebResponse) -> httpx.Response | None:
    """Return the challenge of a response that requires a login."""
    if response.status not in (401, 403):
        return None
    return to_challenge(response.headers.get("www-authenticate", ""))


def to_challenge(header: str) -> httpx.Response:
    """Return a `WWW-Authenticate` header in the form that the `mcp` package parses."""
    content = header[:MAX_CHALLENGE_CHARS].encode(errors="replace")
    return httpx.Response(httpx.codes.UNAUTHORIZED, headers=[(b"WWW-Authenticate", content)])


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
        # Servers of the first version publish the metadata of an issuer with a path at the root of their host.
        is_same = get_origin(metadata.issuer) == issuer if is_fallback else issuers_match(metadata.issuer, issuer)
        if not is_same:
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
