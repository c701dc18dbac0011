"""Request ids and metrics, the end of requests whose client is gone, and the HTTP protocol with limits for headers."""

import asyncio
import re
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from functools import partial
from http import HTTPStatus
from typing import Protocol

import orjson
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from deerflow.domain.identity import new_id
from deerflow.gateway.errors import ERRORS, REQUEST_ID
from deerflow.tracing.logs import Metrics, add_log_context

VALID_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
THREAD_PATH = re.compile(r"/threads/([A-Za-z0-9_-]{1,64})(?:/runs/([A-Za-z0-9-]{1,64}))?(?:/|$)")
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
READING_ACTIONS = frozenset({"search", "count", "history", "checkpoint", "namespaces"})
"""Last parts of the paths of POST requests that only read."""
NO_ROUTE = "(none)"
STREAM_GUARD = "deerflow.stream_guard"
"""Key of the scope under which the `receive` of an event stream is left, if its session or token may be revoked."""
EVENT_STREAM = "deerflow.event_stream"
"""Key of the scope under which a route leaves the body of an event stream to the outermost middleware."""
FRAMEWORK_KEYS = "fastapi"
"""Beginning of the keys of FastAPI, such as its exit stacks, which are closed when a route returns."""
END: Message = {"type": "http.response.body", "body": b"", "more_body": False}
"""Last message of a response."""
END_S = 0.5
"""Time for the last message of a response to a client that may not read."""
CLIENT_CLOSED = 499
"""Status under which requests are counted whose client disconnected before the response."""


class RequestContextMiddleware:
    """Outermost middleware: assigns the request id and counts the request."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = scope["request_id"] = get_request_id(Headers(scope=scope))
        recorder = ResponseRecorder(request_id)
        with add_log_context(request=request_id, **extract_ids(scope["path"])):
            try:
                await self._app(scope, receive, partial(recorder.send, send))
                if (frames := scope.pop(EVENT_STREAM, None)) is not None:
                    for key in [key for key in scope if key.startswith(FRAMEWORK_KEYS)]:
                        del scope[key]  # the server keeps the scope for as long as the response is sent
                    await send_guarded(scope.pop(STREAM_GUARD, None), frames, receive, send)
            except BaseException:
                recorder.status = recorder.status or 500
                raise
            finally:
                self._count(scope, recorder)

    def _count(self, scope: Scope, recorder: "ResponseRecorder") -> None:
        method = scope["method"] if scope["method"] in METHODS else "OTHER"
        route = getattr(scope.get("route"), "path", NO_ROUTE)
        self._metrics.requests.labels(method, route, str(recorder.status or CLIENT_CLOSED)).inc()
        self._metrics.request_seconds.labels(method, route).observe(recorder.seconds())


class StreamGuard(Protocol):
    """Connection of an event stream that ends when its session or token is revoked."""

    async def receive(self) -> Message:
        """Return the next message; a disconnect after the revocation."""

    def close(self) -> None:
        """Note that the stream has ended."""


async def send_guarded(guard: StreamGuard | None, frames: AsyncGenerator[bytes], receive: Receive, send: Send) -> None:
    """Send the body of a response that ends when its session or token is revoked, if it has one."""
    try:
        await send_stream(frames, receive if guard is None else guard.receive, send)
    finally:
        if guard is not None:
            guard.close()


async def send_stream(frames: AsyncGenerator[bytes], receive: Receive, send: Send) -> None:
    """Send the body of a response until its end, or until the client disconnects."""
    sending, is_gone = asyncio.current_task(), False

    async def wait_for_disconnect() -> None:
        nonlocal is_gone
        while (await receive())["type"] != "http.disconnect":
            pass
        is_gone = True
        if sending is not None:
            sending.cancel()

    watching = asyncio.create_task(wait_for_disconnect())
    try:
        async with aclosing(frames):
            async for piece in frames:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send(END)
    except asyncio.CancelledError:
        if not is_gone or sending is None or sending.uncancel():
            raise
        with suppress(TimeoutError):  # the connection is still open if the session was revoked
            async with asyncio.timeout(END_S):
                await send(END)
    finally:
        watching.cancel()


class AbandonedRequestMiddleware:
    """Cancels a request that only reads when its client disconnects before the response begins.

    Others go on: what they change must not be left half done.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not only_reads(scope):
            await self._app(scope, receive, send)
            return
        first = [await receive()]  # the whole body, which has been read before

        async def receive_next() -> Message:
            return first.pop() if first else await receive()

        is_gone = False
        task = asyncio.current_task()

        async def wait_for_disconnect() -> None:
            nonlocal is_gone
            while (await receive())["type"] != "http.disconnect":
                pass
            is_gone = True
            if task is not None:
                task.cancel()

        watching = asyncio.create_task(wait_for_disconnect())

        async def send_next(message: Message) -> None:
            watching.cancel()  # streaming responses notice a disconnect by themselves
            await send(message)

        try:
            await self._app(scope, receive_next, send_next)
        except asyncio.CancelledError:
            if not is_gone or task is None or task.uncancel():
                raise
        finally:
            watching.cancel()


def only_reads(scope: Scope) -> bool:
    """Return whether a request changes nothing."""
    return scope["method"] in ("GET", "HEAD") or (
        scope["method"] == "POST" and scope["path"].rpartition("/")[2] in READING_ACTIONS
    )


class ResponseRecorder:
    """Status and time of a response."""

    def __init__(self, request_id: str) -> None:
        self.status = 0
        self._request_id = request_id
        self._started = time.perf_counter()
        self._responded: float | None = None

    async def send(self, send: Send, message: Message) -> None:
        """Send a message of the response; add the request id to its headers."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self._responded = time.perf_counter()
            MutableHeaders(scope=message)[REQUEST_ID] = self._request_id
        await send(message)

    def seconds(self) -> float:
        """Return the time from the request to the start of the response."""
        return (self._responded or time.perf_counter()) - self._started


def get_request_id(headers: Headers) -> str:
    """Return the request id of the client if it is valid, or a new one."""
    given = headers.get(REQUEST_ID, "")
    return given if VALID_ID.fullmatch(given) else new_id()


def extract_ids(path: str) -> dict[str, str]:
    """Return the thread id and run id in a path."""
    found = THREAD_PATH.search(path)
    return {name: id_ for name, id_ in zip(("thread", "run"), found.groups(), strict=True) if id_} if found else {}


HEADER_TIMEOUT_S = 15.0
MAX_HEADER_BYTES = 64 * 1024


class HeaderTimeoutProtocol(HttpToolsProtocol):
    """Protocol that closes connections whose headers arrive too slowly or are too large."""

    header_timeout_s = HEADER_TIMEOUT_S
    _header_timer: asyncio.TimerHandle | None = None
    _header_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start_header_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_header_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._header_timer is not None:  # the data contains headers, perhaps with the start of a body
            self._header_bytes += data.find(b"\r\n\r\n") if b"\r\n\r\n" in data else len(data)
            if self._header_bytes > MAX_HEADER_BYTES:
                self._send_error("HeadersTooLarge", f"request headers are larger than {MAX_HEADER_BYTES} bytes")
                return
        super().data_received(data)

    def on_message_begin(self) -> None:
        self._start_header_timer()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._stop_header_timer()
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        self._send_error("BadRequest", msg)

    def _start_header_timer(self) -> None:
        if self._header_timer is None:
            self._header_bytes = 0
            self._header_timer = self.loop.call_later(self.header_timeout_s, self._time_out)

    def _stop_header_timer(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _time_out(self) -> None:
        self._send_error("RequestTimeout", "timeout while reading the request headers")

    def _send_error(self, name: str, sentence: str) -> None:
        """Send an error response and close the connection."""
        self._stop_header_timer()
        if self.transport.is_closing():
            return
        status = HTTPStatus(ERRORS[name].status)
        body = orjson.dumps({"detail": sentence, "error": name})
        head = [
            f"HTTP/1.1 {status.value} {status.phrase}",
            "content-type: application/json",
            f"content-length: {len(body)}",
            "connection: close",
        ]
        self.transport.write("\r\n".join([*head, "", ""]).encode() + body)
        self.transport.close()
