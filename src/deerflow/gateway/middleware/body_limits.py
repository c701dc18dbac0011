"""Checks of requests: origin, and size, speed, content type and JSON of their bodies."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, urlsplit

import orjson
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deerflow.gateway.errors import ERRORS, error_response

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
MCP = "/mcp"
"""MCP endpoint: programs use it, and no page of another origin may, not even to read."""
API, CROSS_SITE = ("/api/", MCP), "cross-site"
CALLBACK = "/api/mcp/oauth/callback"
"""OAuth callback, which other sites may navigate to: its parameters are useless without the stored state."""
HOST = re.compile(r"(?:[\w.~%!$&'()*+,;=-]*|\[[0-9A-Fa-f:.]+\])(?::\d*)?", re.ASCII)
"""Host header: a name or an address, and a port."""
CALLBACK, SIGN_ON_CALLBACKS = "/api/mcp/oauth/callback", "/api/v1/auth/callback/"
"""OAuth callbacks, which other sites may navigate to: their parameters are useless without the stored state."""
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
    return method == "GET" and (path == CALLBACK or path.startswith(SIGN_ON_CALLBACKS)) and is_window


def parse_host(value: str) -> SplitResult | None:
    """Return a parsed host and port, or None if invalid."""
    if not HOST.fullmatch(value):  # the parser would leave out tabs, and what follows a bracket
        return None
    try:
        return urlsplit(f"//{value}")
    except ValueError:
        return None


WITHOUT_BODY = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
UPLOADS = re.compile(r"/api(?:(?:/langgraph)?/threads/[^/]+/uploads|/projects/[^/]+/files)/?")
"""Upload routes: they have limits of their own and read the body in chunks."""
LONG_NUMBER = re.compile(rb"\d{19}")
SMALLEST, LARGEST = -(2**63), 2**64 - 1
MAX_DEPTH = 64
MAX_VALUES = 100_000
"""Maximum number of values of a body: parsing and validating more takes seconds, during which nothing else happens."""
STRINGS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)', re.DOTALL)
"""Strings, of which the last may be unterminated. Possessive groups are wrong before Python 3.11.5."""
CLOSE = {"connection": "close"}
DRAIN_BYTES = 64 * 2**20
DRAIN_S = 5.0
"""How much of the body of a rejected request is read, and for how long."""


@dataclass(frozen=True, slots=True)
class BodyLimits:
    """Maximum size of a body, maximum pause and maximum total time."""

    max_bytes: int
    idle_s: float
    total_s: float


class BodyRejected(Exception):
    """Body that is not accepted."""

    def __init__(self, name: str, sentence: str) -> None:
        super().__init__(sentence)
        self.name = name


class BodyLimitMiddleware:
    """Middleware that reads the whole body within its limits before the application, and rejects invalid bodies."""

    def __init__(self, app: ASGIApp, limits: BodyLimits, exempt_paths: Collection[str] = ()) -> None:
        """Leave the bodies at `exempt_paths` unread: these routes authenticate first."""
        self._app = app
        self._limits = limits
        self._exempt_paths = exempt_paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if scope["path"] in self._exempt_paths:
            await self._app(scope, *close_if_unread(scope, receive, send))
            return
        try:
            receive_next = await self._prepare(scope, receive)
        except BodyRejected as problem:
            # The rest of the body is not read.
            refusal = error_response(ERRORS[problem.name].status, problem.name, str(problem), CLOSE)
            await refusal(scope, receive, send)
            return
        if receive_next is not None:
            await self._app(scope, *close_if_unread(scope, receive_next, send))

    async def _prepare(self, scope: Scope, receive: Receive) -> Receive | None:
        """Return the `receive` for the application; None if the client has disconnected."""
        if "\0" in scope["path"] and "/artifacts/" not in scope["path"]:  # which have a message of their own
            raise BodyRejected("NotFound", "path contains a null character")
        headers = Headers(scope=scope)
        if scope["method"] in WITHOUT_BODY or not has_body(headers):
            return receive
        if UPLOADS.fullmatch(scope["path"]):
            return self._limit_idle(receive)
        announced = headers.get("content-length", "")
        if announced.isdecimal() and int(announced[:20]) > self._limits.max_bytes:
            raise self._too_large()
        body = await self._read(receive)
        if body is None:
            return None
        if body:
            check_type(headers.get("content-type", ""))
            check_json(body)
        return replay(body, receive)

    async def _read(self, receive: Receive) -> bytes | None:
        pieces: list[bytes] = []
        size, is_more = 0, True
        until = asyncio.get_running_loop().time() + self._limits.total_s
        while is_more:
            message = await self._next(receive, until)
            if message["type"] == "http.disconnect":
                return None
            pieces.append(message.get("body", b""))
            size += len(pieces[-1])
            if size > self._limits.max_bytes:
                raise self._too_large()
            is_more = message.get("more_body", False)
        return b"".join(pieces)

    async def _next(self, receive: Receive, until: float) -> Message:
        """Return the next message, within the time limits."""
        now = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout_at(min(until, now + self._limits.idle_s)):
                return await receive()
        except TimeoutError:
            raise BodyRejected("RequestTimeout", "timeout while reading the request body") from None

    def _too_large(self) -> BodyRejected:
        most = self._limits.max_bytes / 2**20
        return BodyRejected("BodyTooLarge", f"request body is larger than {most:g} MB; see gateway.max_body_mb")

    def _limit_idle(self, receive: Receive) -> Receive:
        async def receive_next() -> Message:
            try:
                async with asyncio.timeout(self._limits.idle_s):
                    return await receive()
            except TimeoutError:
                raise HTTPException(408, "timeout while reading the request body", CLOSE) from None

        return receive_next


def has_body(headers: Headers) -> bool:
    """Return whether a body follows the headers."""
    return headers.get("content-length", "0") != "0" or "transfer-encoding" in headers


def close_if_unread(scope: Scope, receive: Receive, send: Send) -> tuple[Receive, Send]:
    """Return `receive` and `send` that close the connection if an error is returned before the body was read.

    Otherwise the server would go on taking the rest of the body, however long it is. A moderate rest is read first:
    many clients read the response only after they have sent everything.
    """
    is_read = scope["method"] in WITHOUT_BODY or not has_body(Headers(scope=scope))

    async def receive_next() -> Message:
        nonlocal is_read
        message = await receive()
        is_read = is_read or not message.get("more_body", False)
        return message

    async def drain() -> None:
        size = 0
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_S):
                while not is_read and size < DRAIN_BYTES:
                    size += len((await receive_next()).get("body", b""))

    async def send_next(message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] >= 400 and not is_read:
            await drain()
        if message["type"] == "http.response.start" and not is_read:
            message = {**message, "headers": [*message.get("headers", ()), (b"connection", b"close")]}
        await send(message)

    return receive_next, send_next


def replay(body: bytes, receive: Receive) -> Callable[[], Awaitable[Message]]:
    """Return a `receive` that returns a body already read, then further messages."""
    waiting = [body]

    async def receive_next() -> Message:
        if waiting:
            return {"type": "http.request", "body": waiting.pop(), "more_body": False}
        return await receive()

    return receive_next


def check_type(content_type: str) -> None:
    """Reject bodies without a JSON content type: HTML forms of other web sites cannot set it."""
    kind = content_type.split(";")[0].strip().lower()
    if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
        raise BodyRejected("UnsupportedMediaType", "send JSON, with the header Content-Type: application/json")


def check_json(body: bytes) -> None:
    """Reject JSON that parsers read differently or not at all, or that takes them seconds."""
    if has_too_many_values(body):
        raise BodyRejected("InvalidRequest", f"JSON body has more than {MAX_VALUES} values")
    try:
        if is_too_deep(orjson.loads(body)):
            raise BodyRejected("InvalidRequest", f"JSON body is nested deeper than {MAX_DEPTH} levels")
        if LONG_NUMBER.search(body):
            json.loads(body, parse_int=parse_int64)
    except ValueError as problem:
        raise BodyRejected("InvalidRequest", f"invalid JSON body: {problem}") from None


def has_too_many_values(body: bytes) -> bool:
    """Return whether a body has more than `MAX_VALUES` values. Most bodies are not read for this more than once."""
    if body.count(b",") + body.count(b"[") + body.count(b"{") <= MAX_VALUES:
        return False
    if body.count(b'"') - body.count(b'\\"') > 2 * MAX_VALUES:
        return True
    outside = STRINGS.sub(b"", body)
    return outside.count(b",") + outside.count(b"[") + outside.count(b"{") > MAX_VALUES


def parse_int64(digits: str) -> int:
    """Return the number, if it has at most 64 bits."""
    if len(digits) > 20 or not SMALLEST <= int(digits) <= LARGEST:
        raise ValueError("integer has more than 64 bits")
    return int(digits)


def is_too_deep(value: Any) -> bool:
    """Return whether a value is nested so deeply that recursive code may fail."""
    level = child_containers([value])
    for _ in range(MAX_DEPTH):
        level = [inner for each in level for inner in child_containers(each)]
        if not level:
            return False
    return True


def child_containers(value: dict[str, Any] | list[Any]) -> list[Any]:
    """Return the objects and arrays directly inside a value."""
    inside = value.values() if isinstance(value, dict) else value
    return [each for each in inside if isinstance(each, dict | list)]
