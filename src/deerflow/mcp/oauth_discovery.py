"""Finds out where people log in for an MCP server: the server tells who vouches for it, and that one tells the rest."""

import re
from collections.abc import Sequence
from urllib.parse import urlsplit

from deerflow.community.web.http import Ask
from deerflow.config.extensions import McpServerConfig
from deerflow.domain.errors import McpLoginFailed
from deerflow.mcp.logins import Endpoints
from deerflow.mcp.oauth_http import Document, OAuthHttp, check_address, host_in, plain

RESOURCE_PLACE = "/.well-known/oauth-protected-resource"
OAUTH_PLACE, OPENID_PLACE = "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"
CHALLENGE_FIELD = re.compile(r"([A-Za-z_]{1,40})=(?:\"([^\"]{0,2000})\"|([^\s,\"]{1,2000}))")
MAX_CHALLENGE = 8000
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "DeerFlow", "version": "1"}},
}


class ResourceDocument(Document):
    """What an MCP server says about who logs people in for it."""

    resource: str
    authorization_servers: tuple[str, ...] = ()
    scopes_supported: list[str] | None = None


class ServerDocument(Document):
    """What an authorization server says about itself."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    registration_endpoint: str | None = None
    scopes_supported: list[str] | None = None
    token_endpoint_auth_methods_supported: list[str] | None = None
    code_challenge_methods_supported: list[str] | None = None
    authorization_response_iss_parameter_supported: bool = False


async def find_endpoints(http: OAuthHttp, server: McpServerConfig) -> Endpoints:
    """Where people log in for a server.

    Raises:
        McpLoginFailed: It does not tell, or what it tells cannot be trusted.
    """
    assert server.url is not None
    oauth = server.oauth
    if oauth is not None and oauth.authorization_url is not None and oauth.token_url is not None:
        for address in (oauth.authorization_url, oauth.token_url):
            check_address(address)
        methods = ("client_secret_post",) if oauth.client_secret else ("none",)
        return Endpoints(
            token=oauth.token_url, authorization=oauth.authorization_url, scope=oauth.scope, auth_methods=methods
        )
    challenge = await ask_for_challenge(http, server)
    resource = await find_resource(http, server.url, challenge.get("resource_metadata"))
    issuer = resource.authorization_servers[0] if resource else origin_of(server.url)
    check_address(issuer)
    document = await find_document(http, issuer, is_guess=resource is None)
    scopes = resource.scopes_supported if resource else None
    asked = challenge.get("scope") or (" ".join(scopes) if scopes else None)
    scope = (oauth.scope if oauth else None) or (plain(asked) if asked else None)
    return endpoints_in(document, resource.resource if resource else None, scope)


def endpoints_in(document: ServerDocument, resource: str | None, scope: str | None) -> Endpoints:
    """What is needed of the description of an authorization server.

    Raises:
        McpLoginFailed: Its endpoints may not be used, or it cannot protect a code on its way.
    """
    named = (document.authorization_endpoint, document.token_endpoint, document.registration_endpoint)
    for address in filter(None, named):
        check_address(address)
    if "S256" not in (document.code_challenge_methods_supported or ()):
        raise McpLoginFailed(f"{host_in(document.issuer)} offers no PKCE with S256, without which a login is not safe")
    return Endpoints(
        token=document.token_endpoint,
        authorization=document.authorization_endpoint,
        registration=document.registration_endpoint,
        issuer=document.issuer,
        resource=resource,
        scope=scope,
        auth_methods=tuple(document.token_endpoint_auth_methods_supported or ("client_secret_basic",)),
        names_itself=document.authorization_response_iss_parameter_supported,
    )


async def ask_for_challenge(http: OAuthHttp, server: McpServerConfig) -> dict[str, str]:
    """What a server says to somebody it does not know."""
    assert server.url is not None
    headers = {"Accept": "application/json, text/event-stream", **server.headers}
    is_sse = server.type == "sse"
    ask = Ask(server.url, "GET" if is_sse else "POST", headers, json=None if is_sse else HELLO)
    reply = await http.send(ask)
    if reply.status not in (401, 403):
        raise McpLoginFailed(f"{host_in(server.url)} asks for no login: it answered with status {reply.status}")
    return read_challenge(reply.headers.get("www-authenticate", ""))


def read_challenge(header: str) -> dict[str, str]:
    """The fields of a `WWW-Authenticate` header."""
    found = CHALLENGE_FIELD.findall(header[:MAX_CHALLENGE])
    return {name.lower(): quoted or bare for name, quoted, bare in found}


async def find_resource(http: OAuthHttp, url: str, told: str | None) -> ResourceDocument | None:
    """Who logs people in for the server at `url`; None when it is one of those that do not tell.

    Raises:
        McpLoginFailed: It speaks for another server.
    """
    origin, path = origin_of(url), urlsplit(url).path.rstrip("/")
    places = [told, f"{origin}{RESOURCE_PLACE}{path}" if path else None, f"{origin}{RESOURCE_PLACE}"]
    for place in filter(None, places):
        found = await http.find(place, ResourceDocument)
        if found is None or not found.authorization_servers:
            continue
        if not covers(found.resource, url):
            raise McpLoginFailed(f"{host_in(url)} says that its login is for {found.resource[:200]!r}, which it is not")
        return found
    return None


async def find_document(http: OAuthHttp, issuer: str, *, is_guess: bool) -> ServerDocument:
    """How an authorization server describes itself.

    Raises:
        McpLoginFailed: It does not, or calls itself by another name.
    """
    for place in document_places(issuer):
        found = await http.find(place, ServerDocument)
        if found is None:
            continue
        if not is_same_issuer(found.issuer, issuer):
            raise McpLoginFailed(f"the authorization server {issuer[:200]!r} calls itself {found.issuer[:200]!r}")
        return found
    if is_guess:  # servers of the first version of the protocol need not describe themselves
        return ServerDocument(
            issuer=issuer,
            authorization_endpoint=f"{issuer}/authorize",
            token_endpoint=f"{issuer}/token",
            registration_endpoint=f"{issuer}/register",
            token_endpoint_auth_methods_supported=["none", "client_secret_post"],
            code_challenge_methods_supported=["S256"],
        )
    raise McpLoginFailed(f"the authorization server {issuer[:200]!r} does not describe itself")


def document_places(issuer: str) -> Sequence[str]:
    """Where an authorization server may describe itself, in the order in which they are to be tried."""
    origin, path = origin_of(issuer), urlsplit(issuer).path.rstrip("/")
    if not path:
        return [f"{origin}{OAUTH_PLACE}", f"{origin}{OPENID_PLACE}"]
    return [f"{origin}{OAUTH_PLACE}{path}", f"{origin}{OPENID_PLACE}{path}", f"{origin}{path}{OPENID_PLACE}"]


def covers(resource: str, url: str) -> bool:
    """Whether what is for `resource` is for the server at `url` too: the same place, or above it."""
    if not origin_of(resource) or origin_of(resource) != origin_of(url):
        return False
    above, below = (f"{urlsplit(each).path.rstrip('/')}/" for each in (resource, url))
    return below.startswith(above)


def is_same_issuer(one: str, other: str) -> bool:
    """Whether two names of an issuer are the same; one without a path may end with a slash or not."""
    if one == other:
        return True
    return one.rstrip("/") == other.rstrip("/") == origin_of(one)


def origin_of(url: str) -> str:
    """Scheme, host and port of an address; empty when it is none."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return f"{parts.scheme.lower()}://{parts.netloc.lower()}"
