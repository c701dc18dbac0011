"""HTTP over connections that `Egress` has opened: to addresses that were checked, and to no others."""

import asyncio
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator

import h11
import httpx

from deerflow.community.web.http import Trust
from deerflow.sandbox.egress import Egress, Streams, canonical_host

CHUNK_BYTES = 64 * 1024
PORTS = {"http": 80, "https": 443}


class EgressTransport(httpx.AsyncBaseTransport):
    """One connection per request; by way of a proxy where there is one, which then is whom `Egress` has to let pass."""

    def __init__(self, egress: Egress, trust: Trust, proxy: httpx.URL | None = None) -> None:
        self._egress = egress
        self._trust = trust
        self._proxy = proxy

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Ask, and give the answer as soon as its head is there."""
        url, host = request.url, canonical_host(request.url.host)
        nearest = self._proxy or url
        streams = await self._egress.connect(canonical_host(nearest.host), nearest.port or PORTS[nearest.scheme])
        try:
            if url.scheme == "https":
                if self._proxy is not None:
                    await tunnel(streams, self._proxy, f"{host}:{url.port or PORTS[url.scheme]}")
                await streams[1].start_tls(await self._trust.context(), server_hostname=host)
            exchange = Exchange(streams)
            through = self._proxy if url.scheme == "http" else None
            head = await exchange.ask(request, through)
        except BaseException:
            streams[1].transport.abort()
            raise
        return httpx.Response(head.status_code, headers=head.headers.raw_items(), stream=exchange, request=request)


async def tunnel(streams: Streams, proxy: httpx.URL, target: str) -> None:
    """Have a proxy connect us to `target`."""
    headers = [("Host", target), *credentials(proxy)]
    wanted = h11.Connection(h11.CLIENT)
    asked = h11.Request(method="CONNECT", target=target, headers=headers)
    streams[1].write((wanted.send(asked) or b"") + (wanted.send(h11.EndOfMessage()) or b""))
    await streams[1].drain()
    try:
        head = await streams[0].readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as problem:
        raise httpx.ProxyError(f"the proxy {proxy.host} does not speak HTTP") from problem
    status = head.split(b" ", 2)[1:2]
    if status != [b"200"]:
        raise httpx.ProxyError(f"the proxy {proxy.host} does not lead to {target}: {head[:80].decode('latin-1')!r}")


def credentials(proxy: httpx.URL) -> list[tuple[str, str]]:
    """How we show a proxy who we are, if its address says so."""
    if not proxy.username:
        return []
    said = b64encode(f"{proxy.username}:{proxy.password}".encode()).decode()
    return [("Proxy-Authorization", f"Basic {said}")]


class Exchange(httpx.AsyncByteStream):
    """A request and its answer."""

    def __init__(self, streams: Streams) -> None:
        self._reader, self._writer = streams
        self._state = h11.Connection(h11.CLIENT)

    async def ask(self, request: httpx.Request, proxy: httpx.URL | None = None) -> h11.Response:
        """Send the request, to a proxy if it is to be passed on; the head of the answer."""
        headers = [(name, value) for name, value in request.headers.raw if name.lower() != b"connection"]
        more = [(name.encode(), value.encode()) for name, value in (credentials(proxy) if proxy else ())]
        target = str(request.url).encode("ascii") if proxy else request.url.raw_path
        self._send(
            h11.Request(method=request.method, target=target, headers=[*headers, *more, (b"Connection", b"close")])
        )
        assert isinstance(request.stream, httpx.AsyncByteStream)
        async for chunk in request.stream:
            if chunk:
                self._send(h11.Data(chunk))
        self._send(h11.EndOfMessage())
        await self._writer.drain()
        while not isinstance(event := await self._next(), h11.Response):
            if not isinstance(event, h11.InformationalResponse):
                raise httpx.RemoteProtocolError("the connection ended before there was an answer")
        return event

    def _send(self, event: h11.Request | h11.Data | h11.EndOfMessage) -> None:
        self._writer.write(self._state.send(event) or b"")

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
