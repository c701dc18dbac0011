"""httpx transport over connections opened by `Egress`, that is, to checked addresses only."""

import asyncio
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator

import h11
import httpx

from deerflow.community.web.http import TlsTrust
from deerflow.sandbox.egress import Egress, Streams, canonical_host

CHUNK_BYTES = 64 * 1024
PORTS = {"http": 80, "https": 443}


class EgressTransport(httpx.AsyncBaseTransport):
    """Transport with one connection per request; with a proxy, `Egress` checks the address of the proxy."""

    def __init__(self, egress: Egress, trust: TlsTrust, proxy: httpx.URL | None = None) -> None:
        self._egress = egress
        self._trust = trust
        self._proxy = proxy

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send the request and return the response as soon as its headers are read."""
        url, host = request.url, canonical_host(request.url.host)
        peer = self._proxy or url
        streams = await self._egress.connect(canonical_host(peer.host), peer.port or PORTS[peer.scheme])
        try:
            if url.scheme == "https":
                if self._proxy is not None:
                    await open_tunnel(streams, self._proxy, f"{host}:{url.port or PORTS[url.scheme]}")
                await streams[1].start_tls(await self._trust.context(), server_hostname=host)
            exchange = HttpExchange(streams)
            through = self._proxy if url.scheme == "http" else None
            head = await exchange.send(request, through)
        except BaseException:
            streams[1].transport.abort()
            raise
        return httpx.Response(head.status_code, headers=head.headers.raw_items(), stream=exchange, request=request)


async def open_tunnel(streams: Streams, proxy: httpx.URL, target: str) -> None:
    """Ask a proxy to connect to `target`."""
    headers = [("Host", target), *make_proxy_headers(proxy)]
    connection = h11.Connection(h11.CLIENT)
    request = h11.Request(method="CONNECT", target=target, headers=headers)
    streams[1].write((connection.send(request) or b"") + (connection.send(h11.EndOfMessage()) or b""))
    await streams[1].drain()
    try:
        head = await streams[0].readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as problem:
        raise httpx.ProxyError(f"the proxy {proxy.host} does not speak HTTP") from problem
    status = head.split(b" ", 2)[1:2]
    if status != [b"200"]:
        raise httpx.ProxyError(f"the proxy {proxy.host} refused {target}: {head[:80].decode('latin-1')!r}")


def make_proxy_headers(proxy: httpx.URL) -> list[tuple[str, str]]:
    """Return the Proxy-Authorization header if the proxy URL has credentials."""
    if not proxy.username:
        return []
    encoded = b64encode(f"{proxy.username}:{proxy.password}".encode()).decode()
    return [("Proxy-Authorization", f"Basic {encoded}")]


class HttpExchange(httpx.AsyncByteStream):
    """A request and the body of its response."""

    def __init__(self, streams: Streams) -> None:
        self._reader, self._writer = streams
        self._state = h11.Connection(h11.CLIENT)

    async def send(self, request: httpx.Request, proxy: httpx.URL | None = None) -> h11.Response:
        """Send the request, to a proxy if given, and return the head of the response."""
        headers = [(name, value) for name, value in request.headers.raw if name.lower() != b"connection"]
        more = [(name.encode(), value.encode()) for name, value in (make_proxy_headers(proxy) if proxy else ())]
        target = str(request.url).encode("ascii") if proxy else request.url.raw_path
        self._write(
            h11.Request(method=request.method, target=target, headers=[*headers, *more, (b"Connection", b"close")])
        )
        assert isinstance(request.stream, httpx.AsyncByteStream)
        async for chunk in request.stream:
            if chunk:
                self._write(h11.Data(chunk))
        self._write(h11.EndOfMessage())
        await self._writer.drain()
        while not isinstance(event := await self._next(), h11.Response):
            if not isinstance(event, h11.InformationalResponse):
                raise httpx.RemoteProtocolError("the connection closed before a response")
        return event

    def _write(self, event: h11.Request | h11.Data | h11.EndOfMessage) -> None:
        self._writer.write(self._state.send(event) or b"")

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield the body."""
        while isinstance(event := await self._next(), h11.Data):
            yield bytes(event.data)

    async def aclose(self) -> None:
        """Close the connection."""
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
