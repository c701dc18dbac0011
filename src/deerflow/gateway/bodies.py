"""Takes in the bodies of requests: not too large, not too slow, and JSON that all its readers understand alike."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Any

import orjson
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deerflow.gateway.errors import CODES, error_response

WITHOUT_BODY = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
UPLOADS = re.compile(r"/api(?:/langgraph)?/threads/[^/]+/uploads/?")
"""Routes that take files: they have limits of their own, and read what comes piece by piece."""
LONG_NUMBER = re.compile(rb"\d{19}")
SMALLEST, LARGEST = -(2**63), 2**64 - 1
MOST_DEPTH = 64
CLOSE = {"connection": "close"}


@dataclass(frozen=True, slots=True)
class BodyLimits:
    """How large a body may be, how long it may pause, and how long it may take."""

    most_bytes: int
    idle_s: float
    total_s: float


class Refused(Exception):
    """A body that is not taken in."""

    def __init__(self, name: str, sentence: str) -> None:
        super().__init__(sentence)
        self.name = name


class BodyGuard:
    """Hands on requests whose bodies have come as a whole and can be understood; answers the others itself."""

    def __init__(self, app: ASGIApp, limits: BodyLimits, later: Collection[str] = ()) -> None:
        """The bodies at the paths `later` are left alone: who asks is found out there before anything is read."""
        self._app = app
        self._limits = limits
        self._later = later

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in self._later:
            await self._app(scope, receive, send)
            return
        try:
            hear = await self._take_in(scope, receive)
        except Refused as problem:
            # What else may come of the body is not waited for.
            refusal = error_response(CODES[problem.name].status, problem.name, str(problem), CLOSE)
            await refusal(scope, receive, send)
            return
        if hear is not None:
            await self._app(scope, hear, send)

    async def _take_in(self, scope: Scope, receive: Receive) -> Receive | None:
        """How the application hears the request; None when whoever sent it has left."""
        if "\0" in scope["path"] and "/artifacts/" not in scope["path"]:  # which say it in their own way
            raise Refused("NotFound", "there is nothing with a null character in its name")
        headers = Headers(scope=scope)
        if scope["method"] in WITHOUT_BODY or not announces_body(headers):
            return receive
        if UPLOADS.fullmatch(scope["path"]):
            return self._punctual(receive)
        announced = headers.get("content-length", "")
        if announced.isdecimal() and int(announced[:20]) > self._limits.most_bytes:
            raise self._too_large()
        body = await self._read(receive)
        if body is None:
            return None
        if body:
            check_type(headers.get("content-type", ""))
            check_json(body)
        return replaying(body, receive)

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
            if size > self._limits.most_bytes:
                raise self._too_large()
            is_more = message.get("more_body", False)
        return b"".join(pieces)

    async def _next(self, receive: Receive, until: float) -> Message:
        """What comes next, if it comes in time."""
        now = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout_at(min(until, now + self._limits.idle_s)):
                return await receive()
        except TimeoutError:
            raise Refused("RequestTimeout", "the body of the request came too slowly") from None

    def _too_large(self) -> Refused:
        most = self._limits.most_bytes / 2**20
        return Refused("BodyTooLarge", f"the body is larger than {most:g} MB; see gateway.max_body_mb")

    def _punctual(self, receive: Receive) -> Receive:
        async def hear() -> Message:
            try:
                async with asyncio.timeout(self._limits.idle_s):
                    return await receive()
            except TimeoutError:
                raise HTTPException(408, "the body of the request came too slowly", CLOSE) from None

        return hear


def announces_body(headers: Headers) -> bool:
    """Whether something comes after the headers."""
    return headers.get("content-length", "0") != "0" or "transfer-encoding" in headers


def replaying(body: bytes, receive: Receive) -> Callable[[], Awaitable[Message]]:
    """A way to hear a body that has come already, and then whatever comes."""
    waiting = [body]

    async def hear() -> Message:
        if waiting:
            return {"type": "http.request", "body": waiting.pop(), "more_body": False}
        return await receive()

    return hear


def check_type(content_type: str) -> None:
    """Refuse what is not said to be JSON: forms of other web sites cannot say so."""
    kind = content_type.split(";")[0].strip().lower()
    if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
        raise Refused("UnsupportedMediaType", "send JSON, with the header Content-Type: application/json")


def check_json(body: bytes) -> None:
    """Refuse what one reader of JSON understands otherwise than another, or not at all."""
    try:
        value = orjson.loads(body)
        if LONG_NUMBER.search(body):
            json.loads(body, parse_int=within_64_bits)
    except ValueError as problem:
        raise Refused("InvalidRequest", f"the body is not JSON as we take it: {problem}") from None
    if is_deep(value):
        raise Refused("InvalidRequest", f"the body is nested more than {MOST_DEPTH} levels deep")


def within_64_bits(digits: str) -> int:
    """The number, if everyone can hold it."""
    if len(digits) > 20 or not SMALLEST <= int(digits) <= LARGEST:
        raise ValueError("a whole number has more than 64 bits")
    return int(digits)


def is_deep(value: Any) -> bool:
    """Whether something is nested so deeply that those who look into it may fall."""
    level = parts_of([value])
    for _ in range(MOST_DEPTH):
        level = [inner for each in level for inner in parts_of(each)]
        if not level:
            return False
    return True


def parts_of(value: dict[str, Any] | list[Any]) -> list[Any]:
    """What is directly in it and may have parts itself."""
    inside = value.values() if isinstance(value, dict) else value
    return [each for each in inside if isinstance(each, dict | list)]
