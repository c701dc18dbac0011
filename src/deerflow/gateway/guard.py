"""Keeps other web sites from using a person's browser to reach the server on their machine."""

from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from deerflow.gateway.errors import error_response

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
CHANGING = frozenset({"POST", "PUT", "PATCH", "DELETE"})


class SameSiteGuard:
    """Refuses requests made under another name than ours, or sent by a page that is not ours.

    The first stops a site whose name was pointed at 127.0.0.1 (DNS rebinding), the second a form or script of another
    site. Programs send no `Origin` and are not concerned.
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str] | None) -> None:
        """`hosts` are the names the server goes by; None when it is open to the network on purpose."""
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            reason = self._objection(scope["method"], Headers(scope=scope))
            if reason is not None:
                await error_response(403, "Forbidden", reason)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _objection(self, method: str, headers: Headers) -> str | None:
        host = urlsplit(f"//{headers.get('host', '')}")
        if self._hosts is not None and host.hostname not in self._hosts:
            return f"this server does not go by the name {host.hostname!r}"
        origin = headers.get("origin")
        if method in CHANGING and origin is not None and urlsplit(origin).netloc != host.netloc:
            return f"pages of {origin!r} may not change anything here"
        return None
