"""HTTP over connections that `Egress` has opened: to addresses that were checked, and to no others."""

import ssl
from collections.abc import AsyncIterator

import h11
import httpx

from deerflow.community.web.http import Trust
from deerflow.sandbox.egress import Egress, Streams, canonical_host

CHUNK_BYTES = 64 * 1024
PORTS = {"http": 80, "https": 443}


class EgressTransport(httpx.AsyncBaseTransport):
    """One connection per request."""

    def __init__(self, egress: Egress, trust: Trust) -> None:
        self._egress = egress
        self._trust = trust

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Ask, and give the answer as soon as its head is there."""
        url, host = request.url, canonical_host(request.url.host)
        streams = await self._egress.connect(host, url.port or PORTS[url.scheme])
        try:
            if url.scheme == "https":
                await streams[1].start_tls(await self._trust.context(), server_hostname=host)
            exchange = Exchange(streams)
            head = await exchange.ask(request)
        except BaseException:
            streams[1].transport.abort()
            raise
        return httpx.Response(head.status_code, headers=head.headers.raw_items(), stream=exchange, request=request)


class Exchange(httpx.AsyncByteStream):
    """A request and its answer."""

    def __init__(self, streams: Streams) -> None:
        self._reader, self._writer = streams
        self._state = h11.Connection(h11.CLIENT)

    async def ask(self, request: httpx.Request) -> h11.Response:
        """Send the request; the head of the answer."""
        headers = [(name, value) for name, value in request.headers.raw if name.lower() != b"connection"]
        head = h11.Request(
            method=request.method, target=request.url.raw_path, headers=[*headers, (b"Connection", b"close")]
        )
        self._writer.write(self._state.send(head) or b"")
        assert isinstance(request.stream, httpx.AsyncByteStream)
        async for piece in request.stream:
            self._writer.write(self._state.send(h11.Data(data=piece)) or b"")
            await self._writer.drain()
        self._writer.write(self._state.send(h11.EndOfMessage()) or b"")
        await self._writer.drain()
        while not isinstance(event := await self._next(), h11.Response):
            if not isinstance(event, h11.InformationalResponse):
                raise httpx.RemoteProtocolError("the connection ended before there was an answer")
        return event

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """The body."""
        while isinstance(event := await self._next(), h11.Data):
            yield bytes(event.data)

    async def aclose(self) -> None:
        """Hang up."""
        self._writer.transport.abort()

    async def _next(self) -> object:
        try:
            while (event := self._state.next_event()) is h11.NEED_DATA:
                self._state.receive_data(await self._reader.read(CHUNK_BYTES))
        except h11.RemoteProtocolError as problem:
            raise httpx.RemoteProtocolError(str(problem)) from problem
        except ssl.SSLError as problem:
            raise httpx.ReadError(str(problem)) from problem
        return event
