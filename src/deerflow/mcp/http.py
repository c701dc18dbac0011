"""Messages to and from a remote server, within bounds."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import httpx
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from deerflow.domain.errors import DeerFlowError
from deerflow.mcp.auth import TokenSource
from deerflow.mcp.calls import Address
from deerflow.mcp.problems import McpProblem
from deerflow.mcp.stdio import Streams
from deerflow.sandbox.conversation import MAX_MESSAGE, MB

CONNECT_S = 30.0
SILENCE_S = 3600.0
"""How long a stream of events may be silent; calls have limits of their own."""
EVENTS = "text/event-stream"
BLANK_LINES = (b"\n\n", b"\r\n\r\n", b"\r\r")
"""What ends an event."""
LEFT_TO_OTHERS = (httpx.codes.UNAUTHORIZED,)
"""Who is not let in may be with another token."""

Fail = Callable[[DeerFlowError], None]
Told = TypeVar("Told")


@asynccontextmanager
async def calling(address: Address, tokens: TokenSource, fail: Fail) -> AsyncIterator[Streams]:
    """Streams of messages from and to a remote server; `fail` is told what went wrong, for the library swallows it."""
    url = address.config.url or ""
    auth = TokenAuth(address, tokens, fail)

    def make_client(
        headers: dict[str, str] | None = None,
        timeout: httpx.Timeout | None = None,
        auth: httpx.Auth | None = None,
    ) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            headers=headers, timeout=timeout, auth=auth, transport=Bounded(httpx.AsyncHTTPTransport(), fail)
        )

    headers = dict(address.config.headers)
    if address.config.type == "sse":
        async with sse_client(url, headers, CONNECT_S, SILENCE_S, make_client, auth) as (heard, said):
            yield heard, said
        return
    timeout = httpx.Timeout(CONNECT_S, read=SILENCE_S)
    async with (
        make_client(headers, timeout, auth) as client,
        streamable_http_client(url, http_client=client) as (heard, said, _),
    ):
        yield heard, said


class TokenAuth(httpx.Auth):
    """Puts the user's token into each request, and a new one when it is refused."""

    def __init__(self, address: Address, tokens: TokenSource, fail: Fail) -> None:
        self._address = address
        self._tokens = tokens
        self._fail = fail

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        server, user_id = self._address.server, self._address.user_id
        header = self._put(request, await self._told(self._tokens.header(server, user_id)))
        response = yield request
        if response.status_code != httpx.codes.UNAUTHORIZED:
            return
        challenge = response.headers.get("www-authenticate")
        is_worth_it = await self._told(self._tokens.rejected(server, user_id, header, challenge))
        self._put(request, await self._told(self._tokens.header(server, user_id)))  # tells where a person has to log in
        if is_worth_it:
            response = yield request
        if response.status_code == httpx.codes.UNAUTHORIZED:
            self._fail(McpProblem("the server wants to know who calls, and does not take what it is told (401)"))

    async def _told(self, asking: Awaitable[Told]) -> Told:
        """What the source of tokens says; if it refuses, the session ends with its reason."""
        try:
            return await asking
        except DeerFlowError as problem:
            self._fail(problem)
            raise

    def _put(self, request: httpx.Request, header: str | None) -> str | None:
        if header is not None:
            request.headers["Authorization"] = header
        return header


class Bounded(httpx.AsyncBaseTransport):
    """Carries requests, and breaks off answers that are too large before they take up the memory."""

    def __init__(self, carrier: httpx.AsyncBaseTransport, fail: Fail, limit: int = MAX_MESSAGE) -> None:
        self._carrier = carrier
        self._fail = fail
        self._limit = limit

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        # Compressed answers could be small on the way and large here.
        request.headers["Accept-Encoding"] = "identity"
        try:
            response = await self._carrier.handle_async_request(request)
        except httpx.HTTPError as problem:
            self._fail(McpProblem(f"the server cannot be reached: {problem or type(problem).__name__}"))
            raise
        is_post = request.method == "POST"
        if is_post and response.status_code >= httpx.codes.BAD_REQUEST and response.status_code not in LEFT_TO_OTHERS:
            self._fail(McpProblem(f"the server answered with {response.status_code} {response.reason_phrase}"))
        kind = response.headers.get("content-type", "").lower()
        assert isinstance(response.stream, httpx.AsyncByteStream)
        response.stream = BoundedStream(
            response.stream, self._limit, self._fail, is_events=kind.startswith(EVENTS), is_reply=is_post
        )
        return response

    async def aclose(self) -> None:
        await self._carrier.aclose()


class BoundedStream(httpx.AsyncByteStream):
    """An answer, or a stream of events of which each is held to the limit."""

    def __init__(
        self, stream: httpx.AsyncByteStream, limit: int, fail: Fail, *, is_events: bool, is_reply: bool = False
    ) -> None:
        """`is_reply` says that the stream is to hold an answer, after which nobody reads on."""
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
                    end = max(seen.rfind(blank) + len(blank) if blank in seen else 0 for blank in BLANK_LINES)
                    size = len(seen) - end if end else size
                    tail = seen[-3:]
                    can_be_resumed = can_be_resumed or b"id:" in seen
                self._check(size)
                yield chunk
        except httpx.HTTPError as problem:
            if not can_be_resumed:
                self._fail(McpProblem(f"the connection to the server broke: {problem or type(problem).__name__}"))
            raise
        if self._is_events and self._is_reply and not can_be_resumed:
            self._fail(McpProblem("the server closed the connection before it had answered"))

    def _check(self, size: int) -> None:
        if size > self._limit:
            problem = McpProblem(
                f"the server sent a message of more than {self._limit // MB} MB, which was refused; "
                "ask it for less at once"
            )
            self._fail(problem)
            raise httpx.ReadError(str(problem))

    async def aclose(self) -> None:
        await self._stream.aclose()
