"""Protection against requests of other web sites through the user's browser."""

from collections.abc import Collection
from urllib.parse import SplitResult, urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from deerflow.gateway.errors import error_response

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
MCP = "/mcp"
"""MCP endpoint: programs use it, and no page of another origin may, not even to read."""
API, CROSS_SITE = ("/api/", MCP), "cross-site"
CALLBACK = "/api/mcp/oauth/callback"
"""OAuth callback, which other sites may navigate to: its parameters are useless without the stored state."""
UNSAFE_METHODS = frozenset({"POST", "PUT", "PATCH", "DELETE"})


class SameOriginMiddleware:
    """Middleware that rejects requests for unknown hosts and of pages of other origins.

    The first stops a site whose name resolves to 127.0.0.1 (DNS rebinding), the second a form or script of another
    site. Programs send no `Origin` and are not affected.
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str] | None, origins: Collection[str] = ()) -> None:
        """Allow the host names `hosts`, None for any, and pages of `origins`."""
        self._app = app
        self._hosts = hosts
        self._origins = origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            # Which of them counts would differ between this server and a proxy before it.
            if sum(name == b"host" for name, _ in scope["headers"]) > 1:
                await error_response(400, "BadRequest", "request has more than one Host header")(scope, receive, send)
                return
            reason = self._find_violation(scope["method"], scope["path"], Headers(scope=scope))
            if reason is not None:
                await error_response(403, "Forbidden", reason)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _find_violation(self, method: str, path: str, headers: Headers) -> str | None:
        host = parse_host(headers.get("host", ""))
        if host is None:
            return "invalid Host header"
        if self._hosts is not None and host.hostname not in self._hosts:
            return f"host {host.hostname!r} not allowed"
        origin = headers.get("origin")
        # Pages made by an agent can navigate their frame and have no origin; browsers send `Sec-Fetch-Site`.
        is_cross_site = headers.get("sec-fetch-site") == CROSS_SITE and origin not in self._origins
        if path.startswith(API) and is_cross_site and not is_oauth_callback(method, path, headers):
            return "cross-site request blocked"
        if (method not in UNSAFE_METHODS and path != MCP) or origin is None or origin in self._origins:
            return None
        page = parse_host(origin.partition("://")[2])
        is_ours = page is not None and page.netloc == host.netloc
        return None if is_ours else f"cross-origin request from {origin!r} blocked"


def is_oauth_callback(method: str, path: str, headers: Headers) -> bool:
    """Return whether a browser returns from an OAuth login, in a window and not in a frame."""
    is_window = (headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")) == ("navigate", "document")
    return method == "GET" and path == CALLBACK and is_window


def parse_host(value: str) -> SplitResult | None:
    """Return a parsed host and port, or None if invalid."""
    try:
        return urlsplit(f"//{value}")
    except ValueError:
        return None
