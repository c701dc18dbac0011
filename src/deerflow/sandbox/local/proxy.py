"""The HTTP proxy through which a sandbox reaches the hosts on a list, and nobody else.

It tunnels TLS and forwards plain HTTP. Nothing a client sends is passed on as it came: a plain request is taken apart
and written anew, and a tunnel begins with a TLS greeting to the host it was opened for.
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
    greeted_host,
)

logger = logging.getLogger(__name__)

CHUNK_BYTES = 64 * 1024
MAX_HELLO_BYTES = 16 * 1024
LINGER_S = 2.0
ACCEPT_AGAIN_AFTER_S = 1.0

HTTPS_PORT, HTTP_PORT = 443, 80
METHODS = frozenset({b"GET", b"HEAD", b"POST", b"PUT", b"PATCH", b"DELETE", b"OPTIONS"})
# Lines that end in CR LF, continue no line before them and hold no control characters.
HEAD = re.compile(rb"(?:[!-~][\t -~\x80-\xff]*\r\n)+\r\n")
AUTHORITY = r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+))(?::([1-9][0-9]{0,4}))?"
CONNECT_TARGET = re.compile(AUTHORITY)
HTTP_TARGET = re.compile(rf"(?i:http)://{AUTHORITY}((?:[/?][!-\"$-~]*)?)")
# What concerns one connection, or is written anew, is not passed on.
HOP = frozenset({b"connection", b"keep-alive", b"te", b"trailer", b"upgrade", b"expect", b"host"}) | frozenset(
    {b"proxy-connection", b"proxy-authorization", b"proxy-authenticate", b"proxy-authentication-info"}
)
FRAMING = frozenset({b"content-length", b"transfer-encoding"})

TLS_HANDSHAKE = 22
ACCESS_DENIED = bytes((21, 3, 3, 0, 2, 2, 49))
"""The fatal alert that TLS clients print as "access denied"."""


@dataclass(frozen=True, slots=True)
class ProxyLimits:
    """How much one sandbox may ask of its proxy."""

    connections: int = 64
    """So many at a time; more wait to be accepted."""
    head_bytes: int = 32 * 1024
    head_s: float = 15.0
    idle_s: float = 120.0
    total_s: float = 3600.0
    connection_bytes: int = 4 * 1024**3
    """So much may one connection carry, both ways together."""


class Refusal(Exception):
    """A request that is answered by the proxy itself; the sentence is written for the model."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class LimitReached(OSError):
    """A connection has carried all it may."""


@dataclass(frozen=True, slots=True)
class Target:
    """What a request asks for; tunnels have no path."""

    host: str
    port: int
    path: str = ""


async def serve_proxy(
    listener: socket.socket, allowed: AllowedHosts, egress: Egress, limits: ProxyLimits = ProxyLimits()
) -> "Proxy":
    """Answer on a listening socket, which the proxy owns from now on, until it is closed."""
    listener.setblocking(False)
    proxy = Proxy(listener, allowed, egress, limits)
    proxy.tasks.add(asyncio.create_task(proxy.accept()))
    return proxy


@dataclass(frozen=True, slots=True)
class Proxy:
    """One proxy at work for one sandbox."""

    listener: socket.socket
    allowed: AllowedHosts
    egress: Egress
    limits: ProxyLimits
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def aclose(self) -> None:
        """Cut all connections and let go of the socket."""
        ending = tuple(self.tasks)
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)
        self.listener.close()

    async def accept(self) -> None:
        """Serve whoever connects. At the limit the kernel keeps them waiting, which costs us nothing."""
        free = asyncio.Semaphore(self.limits.connections)
        while True:
            await free.acquire()
            accepted = await self._accept_one()
            task = asyncio.create_task(self._serve(accepted))
            self.tasks.add(task)
            task.add_done_callback(self._forget)
            task.add_done_callback(lambda _: free.release())

    async def _accept_one(self) -> socket.socket:
        while True:
            try:
                return (await asyncio.get_running_loop().sock_accept(self.listener))[0]
            except OSError:
                logger.warning("the proxy of a sandbox cannot accept a connection", exc_info=True)
                await asyncio.sleep(ACCEPT_AGAIN_AFTER_S)

    def _forget(self, task: asyncio.Task[None]) -> None:
        self.tasks.discard(task)
        if not task.cancelled() and (failure := task.exception()):
            logger.error("a connection through the proxy failed", exc_info=failure)

    async def _serve(self, accepted: socket.socket) -> None:
        try:
            client = await asyncio.open_connection(sock=accepted, limit=self.limits.head_bytes)
            async with closing(client, self.limits.idle_s), asyncio.timeout(self.limits.total_s):
                await self._exchange(client)
        except* (OSError, h11.ProtocolError, EgressRefused) as ended:
            logger.debug("a connection through the proxy ended early: %r", ended.exceptions)

    async def _exchange(self, client: Streams) -> None:
        http = h11.Connection(h11.SERVER, max_incomplete_event_size=self.limits.head_bytes)
        try:
            request = await read_request(client[0], http, self.limits)
            target = self._check(read_target(request))
            upstream = await self._connect(target)
        except Refusal as refusal:
            await refuse(client, refusal)
            return
        async with closing(upstream, self.limits.idle_s), asyncio.timeout(self.limits.idle_s) as idle:
            meter = Meter(self.limits.connection_bytes, self.limits.idle_s, idle)
            if request.method == b"CONNECT":
                await self._tunnel(client, upstream, target.host, meter)
            else:
                origin = h11.Connection(h11.CLIENT, max_incomplete_event_size=self.limits.head_bytes)
                await forward(request, target, Wire(http, client, meter), Wire(origin, upstream, meter))

    def _check(self, target: Target) -> Target:
        """The target, in its canonical spelling, if this sandbox may reach it."""
        try:
            host = canonical_host(target.host)
        except EgressRefused as refused:
            raise Refusal(403, f"{refused}; this sandbox reaches only: {self.allowed}") from None
        if not self.allowed.allow(host):
            raise Refusal(403, f"{host} is not on the list; this sandbox reaches only: {self.allowed}")
        port = HTTP_PORT if target.path else HTTPS_PORT
        if target.port != port:
            raise Refusal(403, f"this sandbox reaches {host} by https at port 443 and by http at port 80 alone")
        return Target(host, port, target.path)

    async def _connect(self, target: Target) -> Streams:
        try:
            return await self.egress.connect(target.host, target.port)
        except EgressRefused as refused:
            raise Refusal(403, str(refused)) from refused
        except EgressFailed as failed:
            raise Refusal(502, str(failed)) from failed

    async def _tunnel(self, client: Streams, upstream: Streams, host: str, meter: "Meter") -> None:
        client[1].write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        try:
            async with asyncio.timeout(self.limits.head_s):
                greeting = await read_greeting(client[0], host)
        except EgressRefused:
            client[1].write(ACCESS_DENIED)
            await linger(client)
            raise
        upstream[1].write(greeting)
        async with asyncio.TaskGroup() as both:
            both.create_task(pump(client[0], upstream[1], meter))
            both.create_task(pump(upstream[0], client[1], meter))


async def read_request(reader: asyncio.StreamReader, http: h11.Connection, limits: ProxyLimits) -> h11.Request:
    """The head of the one request a connection may make."""
    try:
        async with asyncio.timeout(limits.head_s):
            head = await reader.readuntil(b"\r\n\r\n")
    except TimeoutError:
        raise Refusal(408, f"the request took longer than {limits.head_s:g} s") from None
    except asyncio.LimitOverrunError:
        raise Refusal(431, f"the head of the request is longer than {limits.head_bytes} bytes") from None
    except asyncio.IncompleteReadError:
        raise Refusal(400, "the request ends early") from None
    if not HEAD.fullmatch(head):
        raise Refusal(400, "the head of the request is malformed")
    http.receive_data(head)
    try:
        request = http.next_event()
    except h11.RemoteProtocolError as wrong:
        raise Refusal(wrong.error_status_hint, f"the request is malformed: {wrong}") from None
    if not isinstance(request, h11.Request) or request.http_version not in (b"1.0", b"1.1"):
        raise Refusal(400, "the request is not one of HTTP/1.0 or HTTP/1.1")
    return request


def read_target(request: h11.Request) -> Target:
    """Where a request leads, if it is one that a proxy answers and that everybody reads alike."""
    framing = FRAMING & {name for name, _ in request.headers}
    target = request.target.decode("ascii")
    if request.method == b"CONNECT":
        match = CONNECT_TARGET.fullmatch(target)
        if match is None or match[3] is None or framing:
            raise Refusal(400, "a tunnel is asked for by CONNECT host:443, without a body")
        return Target(match[1] or match[2], int(match[3]))
    if request.method not in METHODS:
        raise Refusal(405, f"the method {request.method.decode('ascii')} is not passed on")
    if len(framing) > 1:
        raise Refusal(400, "a request has Content-Length or Transfer-Encoding, not both")
    match = HTTP_TARGET.fullmatch(target)
    if match is None:
        raise Refusal(400, "a proxy is asked for http://host/path, and for https by CONNECT")
    path = match[4] if match[4].startswith("/") else f"/{match[4]}"
    return Target(match[1] or match[2], int(match[3] or HTTP_PORT), path)


async def refuse(client: Streams, refusal: Refusal) -> None:
    """Answer in place of the host."""
    sentence = " ".join(str(refusal).split()).encode("ascii", "backslashreplace")
    # As the reason too, for of a failed CONNECT most clients show nothing else.
    head = b"HTTP/1.1 %d %b\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nConnection: close\r\n\r\n"
    client[1].write(head % (refusal.status, sentence, len(sentence) + 1) + sentence + b"\n")
    await linger(client)


async def linger(client: Streams) -> None:
    """Hear the client out for a moment: hung up on, it might lose our last words."""
    reader, writer = client
    end(writer)
    with suppress(TimeoutError):
        async with asyncio.timeout(LINGER_S):
            while await reader.read(CHUNK_BYTES):
                pass


@asynccontextmanager
async def closing(streams: Streams, limit_s: float) -> AsyncIterator[None]:
    """Close a connection in the end: in order where all went well, else at once."""
    writer = streams[1]
    try:
        yield
        writer.close()
        async with asyncio.timeout(limit_s):
            await writer.wait_closed()
    finally:
        writer.transport.abort()


@dataclass(slots=True)
class Meter:
    """Counts what a connection carries, and puts off its end while it carries something."""

    bytes_left: int
    idle_s: float
    idle: asyncio.Timeout

    def count(self, size: int) -> None:
        self.bytes_left -= size
        if self.bytes_left < 0:
            raise LimitReached("the connection has carried all it may")
        if not self.idle.expired():
            self.idle.reschedule(asyncio.get_running_loop().time() + self.idle_s)


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, meter: Meter) -> None:
    """Carry bytes one way until they end; what goes the other way has an end of its own."""
    with suppress(ConnectionError):
        while chunk := await reader.read(CHUNK_BYTES):
            meter.count(len(chunk))
            writer.write(chunk)
            await writer.drain()
    end(writer)


def end(writer: asyncio.StreamWriter) -> None:
    """Say that all is said."""
    if not writer.is_closing():
        writer.write_eof()


@dataclass(frozen=True, slots=True)
class Wire:
    """One side of a plain exchange: its bytes, and what they say."""

    http: h11.Connection
    streams: Streams
    meter: Meter

    async def receive(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        while (event := self.http.next_event()) is h11.NEED_DATA:
            self.http.receive_data(await self.streams[0].read(CHUNK_BYTES))
        return event

    async def send(self, event: h11.Event) -> None:
        data = self.http.send(event) or b""
        self.meter.count(len(data))
        self.streams[1].write(data)
        await self.streams[1].drain()
        await asyncio.sleep(0)  # a body in the smallest of pieces must not keep everybody else waiting


async def forward(request: h11.Request, target: Target, client: Wire, origin: Wire) -> None:
    """Ask the origin what the client asked for, and hand back its answer."""
    host = f"[{target.host}]" if ":" in target.host else target.host
    headers = [(b"Host", host.encode("ascii")), *end_to_end(request)]
    await origin.send(h11.Request(method=request.method, target=target.path, headers=headers))
    async with asyncio.TaskGroup() as both:
        sending = both.create_task(send_body(client, origin))
        await answer(client, origin)
        sending.cancel()


def end_to_end(message: h11.Request | h11.Response) -> list[tuple[bytes, bytes]]:
    """The headers that are meant for the other end, which is told that there is one exchange per connection."""
    named = {
        name.strip().lower() for key, value in message.headers if key == b"connection" for name in value.split(b",")
    }
    dropped = HOP | (named - FRAMING)
    kept = [(name, value) for name, value in message.headers.raw_items() if name.lower() not in dropped]
    return [*kept, (b"Connection", b"close")]


async def send_body(client: Wire, origin: Wire) -> None:
    """Pass on the body of a request, in a framing of our own and without trailers."""
    if client.http.they_are_waiting_for_100_continue:
        await client.send(h11.InformationalResponse(status_code=100, headers=[]))
    with suppress(ConnectionError):  # an origin may have heard enough; what it said is passed on by `answer`
        while isinstance(piece := await client.receive(), h11.Data):
            await origin.send(piece)
        await origin.send(h11.EndOfMessage())


async def answer(client: Wire, origin: Wire) -> None:
    """Pass on the answer of the origin."""
    try:
        while isinstance(response := await origin.receive(), h11.InformationalResponse):
            pass
    except (h11.RemoteProtocolError, ConnectionError):
        response = h11.ConnectionClosed()
    if not isinstance(response, h11.Response):
        await refuse(client.streams, Refusal(502, "the host did not answer in HTTP"))
        return
    headers = end_to_end(response)
    await client.send(h11.Response(status_code=response.status_code, reason=response.reason, headers=headers))
    while isinstance(piece := await origin.receive(), h11.Data):
        await client.send(piece)
    await client.send(h11.EndOfMessage())


async def read_greeting(reader: asyncio.StreamReader, host: str) -> bytes:
    """The bytes of the TLS greeting that opens a tunnel to `host`.

    Raises:
        EgressRefused: It is none, or one for another host, openly or encrypted.
    """
    raw, message = bytearray(), bytearray()
    while len(message) < 4 or len(message) < 4 + int.from_bytes(message[1:4]):
        try:
            record = await reader.readexactly(5)
            size = int.from_bytes(record[3:])
            if record[:2] != bytes((TLS_HANDSHAKE, 3)) or not 0 < size <= MAX_HELLO_BYTES - len(raw):
                raise EgressRefused("the tunnel does not begin with TLS")
            payload = await reader.readexactly(size)
        except asyncio.IncompleteReadError:
            raise EgressRefused("the tunnel ends before it began") from None
        raw += record + payload
        message += payload
    name = greeted_host(bytes(message))
    if name is not None and name != host:
        raise EgressRefused(f"the tunnel to {host} begins with a greeting to {name}")
    return bytes(raw)
