"""Transports of MCP sessions with limits that those of the `mcp` package lack: processes and remote servers."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import anyio
import httpx
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.auth.utils import extract_field_from_www_auth, extract_scope_from_www_auth
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCMessage
from pydantic import ValidationError

from deerflow.domain.errors import DeerFlowError
from deerflow.mcp.auth.tokens import TokenProvider
from deerflow.mcp.session.calls import ServerAddress, SessionDependencies
from deerflow.mcp.status import McpServerError
from deerflow.sandbox.jobs.services import MAX_MESSAGE, MB, LineProtocol, ProtocolViolation, Service

CONNECT_S = 30.0
MAX_SILENCE_S = 3600.0
"""Maximum silence of an event stream; calls have their own timeouts."""
EVENT_STREAM = "text/event-stream"
EVENT_ENDS = (b"\n\n", b"\r\n\r\n", b"\r\r")
"""Byte sequences that end an event."""
INSUFFICIENT_SCOPE = "insufficient_scope"

Streams = tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]
MessageLines = LineProtocol[JSONRPCMessage]
FailureHandler = Callable[[DeerFlowError], None]
T = TypeVar("T")


@asynccontextmanager
async def connect_stdio(service: Service, lines: MessageLines, fail: FailureHandler) -> AsyncIterator[Streams]:
    """Yield the message streams of a process; `fail` is called when it violates the protocol or ends."""
    received_end, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    sent, sent_end = anyio.create_memory_object_stream[SessionMessage](0)
    tasks = {
        asyncio.create_task(receive_messages(lines, received_end, fail)),
        asyncio.create_task(send_messages(service, sent_end, fail)),
    }
    try:
        yield received, sent
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        for stream in (received_end, received, sent, sent_end):
            stream.close()


def open_line_protocol(service: Service) -> MessageLines:
    """Return the reader of a server process's messages."""
    return LineProtocol(service, parse_message, "the server")


async def receive_messages(
    lines: MessageLines, received: MemoryObjectSendStream[SessionMessage | Exception], fail: FailureHandler
) -> None:
    """Forward messages of the process."""
    async with received:
        try:
            while (message := await lines.next()) is not None:
                await received.send(SessionMessage(message))
        except ProtocolViolation as broken:
            fail(McpServerError(str(broken)))
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # the session has ended
        else:
            fail(McpServerError(lines.describe_exit()))


async def send_messages(
    service: Service, sent: MemoryObjectReceiveStream[SessionMessage], fail: FailureHandler
) -> None:
    """Write messages to the process."""
    async with sent:
        async for message in sent:
            text = message.message.model_dump_json(by_alias=True, exclude_none=True)
            try:
                await service.write(text.encode(errors="replace") + b"\n")
            except OSError:  # the process has ended; `receive_messages` reports it
                return


def parse_message(line: bytes) -> JSONRPCMessage | None:
    """Return the message in a line; None when there is none."""
    try:
        return JSONRPCMessage.model_validate(json.loads(line))
    except (ValueError, ValidationError, RecursionError):
        return None


@asynccontextmanager
async def connect_http(
    address: ServerAddress, dependencies: SessionDependencies, fail: FailureHandler
) -> AsyncIterator[Streams]:
    """Yield the message streams of a remote server; `fail` gets errors that the library swallows."""
    url = address.config.url or ""
    auth = TokenAuth(address, dependencies.tokens, fail)
    certificates = await dependencies.trust.context()

    def create_client(
        headers: dict[str, str] | None = None,
        timeout: httpx.Timeout | None = None,
        auth: httpx.Auth | None = None,
    ) -> httpx.AsyncClient:
        transport = BoundedTransport(httpx.AsyncHTTPTransport(verify=certificates), fail)
        return httpx.AsyncClient(headers=headers, timeout=timeout, auth=auth, transport=transport)

    headers = dict(address.config.headers)
    if address.config.type == "sse":
        async with sse_client(url, headers, CONNECT_S, MAX_SILENCE_S, create_client, auth) as (received, sent):
            yield received, sent
        return
    timeout = httpx.Timeout(CONNECT_S, read=MAX_SILENCE_S)
    async with (
        create_client(headers, timeout, auth) as client,
        streamable_http_client(url, http_client=client) as (received, sent, _),
    ):
        yield received, sent


class TokenAuth(httpx.Auth):
    """Adds the user's token to each request, and retries with a new one when it is rejected."""

    def __init__(self, address: ServerAddress, tokens: TokenProvider, fail: FailureHandler) -> None:
        self._address = address
        self._tokens = tokens
        self._fail = fail

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        server, user_id = self._address.server, self._address.user_id
        header = self._set_header(request, await self._fail_on_error(self._tokens.header(server, user_id)))
        response = yield request
        if not is_auth_challenge(response):
            return
        challenge = response.headers.get("www-authenticate")
        if response.status_code == httpx.codes.FORBIDDEN:
            await self._report_scope(challenge or "", response)
            return
        should_retry = await self._fail_on_error(self._tokens.rejected(server, user_id, header, challenge))
        self._set_header(
            request, await self._fail_on_error(self._tokens.header(server, user_id))
        )  # raises LoginRequired with instructions
        if should_retry:
            response = yield request
        if response.status_code == httpx.codes.UNAUTHORIZED:
            self._fail(McpServerError("the server requires authorization and rejects the configured credentials (401)"))
        elif is_auth_challenge(response):
            await self._report_scope(response.headers["www-authenticate"], response)

    async def _report_scope(self, challenge: str, response: httpx.Response) -> None:
        """End the session with an error that says how to obtain the scope the token lacks."""
        scope = extract_scope_from_www_auth(response)
        await self._fail_on_error(
            self._tokens.lacks_scope(self._address.server, self._address.user_id, challenge, scope)
        )
        self._fail(McpServerError(f"the configured credentials lack the scope {scope!r} (403)"))

    async def _fail_on_error(self, request: Awaitable[T]) -> T:
        """Return the result of the token provider; its error ends the session."""
        try:
            return await request
        except DeerFlowError as problem:
            self._fail(problem)
            raise

    def _set_header(self, request: httpx.Request, header: str | None) -> str | None:
        if header is not None:
            request.headers["Authorization"] = header
        return header


def is_auth_challenge(response: httpx.Response) -> bool:
    """Return whether `TokenAuth` handles a response: it requires a login, or one with a wider scope."""
    if response.status_code == httpx.codes.FORBIDDEN:
        return extract_field_from_www_auth(response, "error") == INSUFFICIENT_SCOPE
    return response.status_code == httpx.codes.UNAUTHORIZED


class BoundedTransport(httpx.AsyncBaseTransport):
    """Transport that aborts responses that are too large."""

    def __init__(self, transport: httpx.AsyncBaseTransport, fail: FailureHandler, limit: int = MAX_MESSAGE) -> None:
        self._transport = transport
        self._fail = fail
        self._limit = limit

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        # A compressed response could be small on the wire and large in memory.
        request.headers["Accept-Encoding"] = "identity"
        try:
            response = await self._transport.handle_async_request(request)
        except httpx.HTTPError as problem:
            self._fail(McpServerError(f"the server cannot be reached: {problem or type(problem).__name__}"))
            raise
        is_post = request.method == "POST"
        if is_post and response.status_code >= httpx.codes.BAD_REQUEST and not is_auth_challenge(response):
            self._fail(McpServerError(f"the server answered with {response.status_code} {response.reason_phrase}"))
        content_type = response.headers.get("content-type", "").lower()
        assert isinstance(response.stream, httpx.AsyncByteStream)
        response.stream = BoundedStream(
            response.stream, self._limit, self._fail, is_events=content_type.startswith(EVENT_STREAM), is_reply=is_post
        )
        return response

    async def aclose(self) -> None:
        await self._transport.aclose()


class BoundedStream(httpx.AsyncByteStream):
    """Response body, or event stream in which the limit applies to each event."""

    def __init__(
        self,
        stream: httpx.AsyncByteStream,
        limit: int,
        fail: FailureHandler,
        *,
        is_events: bool,
        is_reply: bool = False,
    ) -> None:
        """Wrap a stream. `is_reply` means that it ends with the response to a request."""
        self._stream = stream
        self._limit = limit
        self._fail = fail
        self._is_events = is_events
        self._is_reply = is_reply

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size, tail, can_be_resumed = 0, b"", False
        try:
            async for chunk in self._stream:
                size += len(chunk)
                if self._is_events:
                    seen = tail + chunk
                    end = max(
                        seen.rfind(end_mark) + len(end_mark) if end_mark in seen else 0 for end_mark in EVENT_ENDS
                    )
                    size = len(seen) - end if end else size
                    tail = seen[-3:]
                    can_be_resumed = can_be_resumed or b"id:" in seen
                self._check(size)
                yield chunk
        except httpx.HTTPError as problem:
            if not can_be_resumed:
                self._fail(McpServerError(f"the connection to the server broke: {problem or type(problem).__name__}"))
            raise
        if self._is_events and self._is_reply and not can_be_resumed:
            self._fail(McpServerError("the server closed the connection before it had answered"))

    def _check(self, size: int) -> None:
        if size > self._limit:
            problem = McpServerError(
                f"the server sent a message of more than {self._limit // MB} MB, which was refused; "
                "request less at once"
            )
            self._fail(problem)
            raise httpx.ReadError(str(problem))

    async def aclose(self) -> None:
        await self._stream.aclose()
