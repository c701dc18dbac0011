"""HTTP proxy through which a sandbox reaches the allowed hosts, and no others.

It tunnels TLS and forwards plain HTTP. Client bytes are never passed on unchecked: a plain request is parsed and
written again, and a tunnel must start with a TLS ClientHello for the host it was opened for.
"""

import asyncio
import logging
import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import h11

from deerflow.sandbox.egress import (
    AllowedHosts,
    Egress,
    EgressFailed,
    EgressRefused,
    Streams,
    canonical_host,
    parse_sni,
)

logger = logging.getLogger(__name__)

CHUNK_BYTES = 64 * 1024
MAX_HELLO_BYTES = 16 * 1024
LINGER_S = 2.0
ACCEPT_RETRY_S = 1.0
HTTPS_PORT, HTTP_PORT = 443, 80
METHODS = frozenset({b"GET", b"HEAD", b"POST", b"PUT", b"PATCH", b"DELETE", b"OPTIONS"})
# Lines that end in CR LF, without folding and control characters.
REQUEST_HEAD = re.compile(rb"(?:[!-~][\t -~\x80-\xff]*\r\n)+\r\n")
AUTHORITY = r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+))(?::([1-9][0-9]{0,4}))?"
CONNECT_TARGET = re.compile(AUTHORITY)
HTTP_TARGET = re.compile(rf"(?i:http)://{AUTHORITY}((?:[/?][!-\"$-~]*)?)")
# Hop-by-hop headers, and headers that are written again, are not forwarded.
HOP_BY_HOP = frozenset({b"connection", b"keep-alive", b"te", b"trailer", b"upgrade", b"expect", b"host"}) | frozenset(
    {b"proxy-connection", b"proxy-authorization", b"proxy-authenticate", b"proxy-authentication-info"}
)
FRAMING = frozenset({b"content-length", b"transfer-encoding"})

TLS_HANDSHAKE = 22
ACCESS_DENIED = bytes((21, 3, 3, 0, 2, 2, 49))
"""Fatal TLS alert that clients show as "access denied"."""


@dataclass(frozen=True, slots=True)
class ProxyLimits:
    """Limits of one sandbox at its proxy."""

    connections: int = 64
    """Concurrent connections; more wait to be accepted."""
    head_bytes: int = 32 * 1024
    head_s: float = 15.0
    idle_s: float = 120.0
    total_s: float = 3600.0
    connection_bytes: int = 4 * 1024**3
    """Bytes of one connection, both directions together."""


class ProxyRefusal(Exception):
    """A request that the proxy answers itself; the text is written for the model."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class TrafficLimitReached(OSError):
    """The connection has reached its byte limit."""


@dataclass(frozen=True, slots=True)
class ProxyTarget:
    """Target of a request; tunnels have no path."""

    host: str
    port: int
    path: str = ""


async def serve_proxy(
    listener: socket.socket, allowed: AllowedHosts, egress: Egress, limits: ProxyLimits = ProxyLimits()
) -> "EgressProxy":
    """Serve on a listening socket until the proxy is closed; the proxy owns the socket."""
    listener.setblocking(False)
    proxy = EgressProxy(listener, allowed, egress, limits)
    proxy.tasks.add(asyncio.create_task(proxy.accept()))
    return proxy


@dataclass(frozen=True, slots=True)
class EgressProxy:
    """Proxy of one sandbox."""

    listener: socket.socket
    allowed: AllowedHosts
    egress: Egress
    limits: ProxyLimits
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def aclose(self) -> None:
        """Abort all connections and close the socket."""
        for task in (ending := tuple(self.tasks)):
            task.cancel()
        try:
            await asyncio.gather(*ending, return_exceptions=True)
        finally:
            self.listener.close()

    async def accept(self) -> None:
        """Serve connections. At the limit the kernel queues further ones, at no cost for the server."""
        free = asyncio.Semaphore(self.limits.connections)
        while True:
            await free.acquire()
            accepted = await self._accept_one()
            task = asyncio.create_task(self._serve(accepted))
            self.tasks.add(task)
            task.add_done_callback(self._discard)
            task.add_done_callback(lambda _: free.release())

    async def _accept_one(self) -> socket.socket:
        while True:
            try:
                return (await asyncio.get_running_loop().sock_accept(self.listener))[0]
            except OSError:
                logger.warning("sandbox proxy cannot accept a connection", exc_info=True)
                await asyncio.sleep(ACCEPT_RETRY_S)

    def _discard(self, task: asyncio.Task[None]) -> None:
        self.tasks.discard(task)
        if not task.cancelled() and (failure := task.exception()):
            logger.error("proxy connection failed", exc_info=failure)

    async def _serve(self, accepted: socket.socket) -> None:
        try:
            client = await asyncio.open_connection(sock=accepted, limit=self.limits.head_bytes)
            async with close_after(client, self.limits.idle_s), asyncio.timeout(self.limits.total_s):
                await self._exchange(client)
        except* (OSError, h11.ProtocolError, EgressRefused) as ended:
            logger.debug("proxy connection ended early: %r", ended.exceptions)

    async def _exchange(self, client: Streams) -> None:
        http = h11.Connection(h11.SERVER, max_incomplete_event_size=self.limits.head_bytes)
        try:
            request = await read_request(client[0], http, self.limits)
            target = self._check(parse_target(request))
            upstream = await self._connect(target)
        except ProxyRefusal as refusal:
            await send_refusal(client, refusal)
            return
        async with close_after(upstream, self.limits.idle_s), asyncio.timeout(self.limits.idle_s) as idle:
            meter = TrafficMeter(self.limits.connection_bytes, self.limits.idle_s, idle)
            if request.method == b"CONNECT":
                await self._tunnel(client, upstream, target.host, meter)
            else:
                origin = h11.Connection(h11.CLIENT, max_incomplete_event_size=self.limits.head_bytes)
                await forward(request, target, HttpPeer(http, client, meter), HttpPeer(origin, upstream, meter))

    def _check(self, target: ProxyTarget) -> ProxyTarget:
        """Return the target with its canonical host if this sandbox may reach it."""
        try:
            host = canonical_host(target.host)
        except EgressRefused as refused:
            raise ProxyRefusal(403, f"{refused}; this sandbox reaches only: {self.allowed}") from None
        if not self.allowed.allows(host):
            raise ProxyRefusal(403, f"{host} is not on the list; this sandbox reaches only: {self.allowed}")
        port = HTTP_PORT if target.path else HTTPS_PORT
        if target.port != port:
            raise ProxyRefusal(403, f"this sandbox reaches {host} only by https on port 443 and by http on port 80")
        return ProxyTarget(host, port, target.path)

    async def _connect(self, target: ProxyTarget) -> Streams:
        try:
            return await self.egress.connect(target.host, target.port)
        except EgressRefused as refused:
            raise ProxyRefusal(403, str(refused)) from refused
        except EgressFailed as failed:
            raise ProxyRefusal(502, str(failed)) from failed

    async def _tunnel(self, client: Streams, upstream: Streams, host: str, meter: "TrafficMeter") -> None:
        client[1].write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        try:
            async with asyncio.timeout(self.limits.head_s):
                client_hello = await read_client_hello(client[0], host)
        except EgressRefused:
            client[1].write(ACCESS_DENIED)
            await linger(client)
            raise
        upstream[1].write(client_hello)
        async with asyncio.TaskGroup() as both:
            both.create_task(copy_stream(client[0], upstream[1], meter))
            both.create_task(copy_stream(upstream[0], client[1], meter))


async def read_request(reader: asyncio.StreamReader, http: h11.Connection, limits: ProxyLimits) -> h11.Request:
    """Read the head of the only request of a connection."""
    try:
        async with asyncio.timeout(limits.head_s):
            head = await reader.readuntil(b"\r\n\r\n")
    except TimeoutError:
        raise ProxyRefusal(408, f"the request took longer than {limits.head_s:g} s") from None
    except asyncio.LimitOverrunError:
        raise ProxyRefusal(431, f"the head of the request is longer than {limits.head_bytes} bytes") from None
    except asyncio.IncompleteReadError:
        raise ProxyRefusal(400, "the request ends early") from None
    if not REQUEST_HEAD.fullmatch(head):
        raise ProxyRefusal(400, "the head of the request is malformed")
    http.receive_data(head)
    try:
        request = http.next_event()
    except h11.RemoteProtocolError as wrong:
        raise ProxyRefusal(wrong.error_status_hint, f"the request is malformed: {wrong}") from None
    if not isinstance(request, h11.Request) or request.http_version not in (b"1.0", b"1.1"):
        raise ProxyRefusal(400, "the request must be HTTP/1.0 or HTTP/1.1")
    return request


def parse_target(request: h11.Request) -> ProxyTarget:
    """Return the target of a request if it is unambiguous and supported by the proxy."""
    framing = FRAMING & {name for name, _ in request.headers}
    target = request.target.decode("ascii")
    if request.method == b"CONNECT":
        match = CONNECT_TARGET.fullmatch(target)
        if match is None or match[3] is None or framing:
            raise ProxyRefusal(400, "a tunnel needs CONNECT host:443 without a body")
        return ProxyTarget(match[1] or match[2], int(match[3]))
    if request.method not in METHODS:
        raise ProxyRefusal(405, f"the method {request.method.decode('ascii')} is not supported")
    if len(framing) > 1:
        raise ProxyRefusal(400, "a request has Content-Length or Transfer-Encoding, not both")
    match = HTTP_TARGET.fullmatch(target)
    if match is None:
        raise ProxyRefusal(400, "the target must be http://host/path; use CONNECT for https")
    path = match[4] if match[4].startswith("/") else f"/{match[4]}"
    return ProxyTarget(match[1] or match[2], int(match[3] or HTTP_PORT), path)


async def send_refusal(client: Streams, refusal: ProxyRefusal) -> None:
    """Send an error response in place of the host."""
    sentence = " ".join(str(refusal).split()).encode("ascii", "backslashreplace")
    # Also as the reason phrase: most clients show nothing else of a failed CONNECT.
    head = b"HTTP/1.1 %d %b\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nConnection: close\r\n\r\n"
    client[1].write(head % (refusal.status, sentence, len(sentence) + 1) + sentence + b"\n")
    await linger(client)


async def linger(client: Streams) -> None:
    """Read what the client still sends for a moment: closing at once could reset our last response."""
    reader, writer = client
    send_eof(writer)
    with suppress(TimeoutError):
        async with asyncio.timeout(LINGER_S):
            while await reader.read(CHUNK_BYTES):
                pass


@asynccontextmanager
async def close_after(streams: Streams, limit_s: float) -> AsyncIterator[None]:
    """Close a connection at the end: gracefully on success, else at once."""
    writer = streams[1]
    try:
        yield
        writer.close()
        async with asyncio.timeout(limit_s):
            await writer.wait_closed()
    finally:
        writer.transport.abort()


@dataclass(slots=True)
class TrafficMeter:
    """Byte counter of a connection that also extends its idle timeout."""

    bytes_left: int
    idle_s: float
    idle: asyncio.Timeout

    def count(self, size: int) -> None:
        """Count bytes and extend the idle timeout."""
        self.bytes_left -= size
        if self.bytes_left < 0:
            raise TrafficLimitReached("byte limit of the connection reached")
        if not self.idle.expired():
            self.idle.reschedule(asyncio.get_running_loop().time() + self.idle_s)


async def copy_stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, meter: TrafficMeter) -> None:
    """Copy bytes in one direction until the end; the other direction ends by itself."""
    with suppress(ConnectionError):
        while chunk := await reader.read(CHUNK_BYTES):
            meter.count(len(chunk))
            writer.write(chunk)
            await writer.drain()
    send_eof(writer)


def send_eof(writer: asyncio.StreamWriter) -> None:
    """Close the write side."""
    if not writer.is_closing():
        writer.write_eof()


@dataclass(frozen=True, slots=True)
class HttpPeer:
    """One side of a plain HTTP exchange: its streams and parser state."""

    http: h11.Connection
    streams: Streams
    meter: TrafficMeter

    async def receive(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        """Return the next event."""
        while (event := self.http.next_event()) is h11.NEED_DATA:
            self.http.receive_data(await self.streams[0].read(CHUNK_BYTES))
        return event

    async def send(self, event: h11.Event) -> None:
        """Send an event."""
        data = self.http.send(event) or b""
        self.meter.count(len(data))
        self.streams[1].write(data)
        await self.streams[1].drain()
        await asyncio.sleep(0)  # a body in tiny chunks must not block the event loop


async def forward(request: h11.Request, target: ProxyTarget, client: HttpPeer, origin: HttpPeer) -> None:
    """Send the client's request to the origin and the origin's response to the client."""
    host = f"[{target.host}]" if ":" in target.host else target.host
    headers = [(b"Host", host.encode("ascii")), *filter_headers(request)]
    await origin.send(h11.Request(method=request.method, target=target.path, headers=headers))
    async with asyncio.TaskGroup() as both:
        sending = both.create_task(send_body(client, origin))
        await forward_response(client, origin)
        sending.cancel()


def filter_headers(message: h11.Request | h11.Response) -> list[tuple[bytes, bytes]]:
    """Return the end-to-end headers of a message, with `Connection: close`."""
    named = {
        name.strip().lower() for key, value in message.headers if key == b"connection" for name in value.split(b",")
    }
    dropped = HOP_BY_HOP | (named - FRAMING)
    kept = [(name, value) for name, value in message.headers.raw_items() if name.lower() not in dropped]
    return [*kept, (b"Connection", b"close")]


async def send_body(client: HttpPeer, origin: HttpPeer) -> None:
    """Forward the body of a request with our own framing and without trailers."""
    if client.http.they_are_waiting_for_100_continue:
        await client.send(h11.InformationalResponse(status_code=100, headers=[]))
    with suppress(ConnectionError):  # an origin may respond early; `forward_response` sends that on
        while isinstance(data := await client.receive(), h11.Data):
            await origin.send(data)
        await origin.send(h11.EndOfMessage())


async def forward_response(client: HttpPeer, origin: HttpPeer) -> None:
    """Forward the response of the origin."""
    try:
        while isinstance(response := await origin.receive(), h11.InformationalResponse):
            pass
    except (h11.RemoteProtocolError, ConnectionError):
        response = h11.ConnectionClosed()
    if not isinstance(response, h11.Response):
        await send_refusal(client.streams, ProxyRefusal(502, "the host did not answer in HTTP"))
        return
    headers = filter_headers(response)
    await client.send(h11.Response(status_code=response.status_code, reason=response.reason, headers=headers))
    while isinstance(data := await origin.receive(), h11.Data):
        await client.send(data)
    await client.send(h11.EndOfMessage())


async def read_client_hello(reader: asyncio.StreamReader, host: str) -> bytes:
    """Read the TLS ClientHello that opens a tunnel to `host` and return its bytes.

    Raises:
        EgressRefused: It is not a ClientHello, or it is for another host, openly or encrypted.
    """
    raw, message = bytearray(), bytearray()
    while len(message) < 4 or len(message) < 4 + int.from_bytes(message[1:4]):
        try:
            record = await reader.readexactly(5)
            size = int.from_bytes(record[3:])
            if record[:2] != bytes((TLS_HANDSHAKE, 3)) or not 0 < size <= MAX_HELLO_BYTES - len(raw):
                raise EgressRefused("the tunnel does not start with TLS")
            payload = await reader.readexactly(size)
        except asyncio.IncompleteReadError:
            raise EgressRefused("CONNECT closed before TLS handshake") from None
        raw += record + payload
        message += payload
    name = parse_sni(bytes(message))
    if name is not None and name != host:
        raise EgressRefused(f"the tunnel to {host} starts with a ClientHello for {name}")
    return bytes(raw)
