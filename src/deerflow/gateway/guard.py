"""Keeps other web sites from using a person's browser to reach the server on their machine."""

from collections.abc import Collection
from urllib.parse import SplitResult, urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from deerflow.gateway.errors import error_response

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
MCP = "/mcp"
"""Where also what only reads is asked for by programs, and never by pages of others."""
API, ELSEWHERE = ("/api/", MCP), "cross-site"
CALLBACK = "/api/mcp/oauth/callback"
"""Where other sites may send people: what they bring is good for nothing without what was agreed before."""
CHANGING = frozenset({"POST", "PUT", "PATCH", "DELETE"})


class SameSiteGuard:
    """Refuses requests made under another name than ours, or sent by a page that is not ours.

    The first stops a site whose name was pointed at 127.0.0.1 (DNS rebinding), the second a form or script of another
    site. Programs send no `Origin` and are not concerned.
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str] | None, origins: Collection[str] = ()) -> None:
        """`hosts` are the names the server goes by; None when it is open to the network on purpose.

        Pages of `origins` may do what ours may.
        """
        self._app = app
        self._hosts = hosts
        self._origins = origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            reason = self._objection(scope["method"], scope["path"], Headers(scope=scope))
            if reason is not None:
                await error_response(403, "Forbidden", reason)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _objection(self, method: str, path: str, headers: Headers) -> str | None:
        host = read_host(headers.get("host", ""))
        if host is None:
            return "the header Host names no host"
        if self._hosts is not None and host.hostname not in self._hosts:
            return f"this server does not go by the name {host.hostname!r}"
        origin = headers.get("origin")
        # Pages an agent made can send their frame anywhere, and have no origin: browsers tell where that came from.
        is_elsewhere = headers.get("sec-fetch-site") == ELSEWHERE and origin not in self._origins
        if path.startswith(API) and is_elsewhere and not comes_back(method, path, headers):
            return "pages of others may not ask for anything here"
        if (method not in CHANGING and path != MCP) or origin is None or origin in self._origins:
            return None
        page = read_host(origin.partition("://")[2])
        is_ours = page is not None and page.netloc == host.netloc
        return None if is_ours else f"pages of {origin!r} may not change anything here"


def comes_back(method: str, path: str, headers: Headers) -> bool:
    """Whether a person's browser returns from logging in elsewhere, in a window and not in a frame of some page."""
    is_window = (headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")) == ("navigate", "document")
    return method == "GET" and path == CALLBACK and is_window


def read_host(value: str) -> SplitResult | None:
    """A host and port, None when it is neither."""
    try:
        return urlsplit(f"//{value}")
    except ValueError:
        return None
