"""The one way web tools speak HTTP: no redirects, so many seconds, so many bytes, errors with names."""

import asyncio
import ssl
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import httpx

from deerflow.community.web.problems import NotAllowed, TooSlow, Unreachable, Unreadable
from deerflow.sandbox.egress import EgressFailed, EgressRefused

ENCODINGS = {"gzip": zlib.MAX_WBITS | 16, "x-gzip": zlib.MAX_WBITS | 16, "deflate": zlib.MAX_WBITS}


@dataclass(frozen=True, slots=True)
class Ask:
    """A request."""

    url: str
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, str | int] = field(default_factory=dict)
    json: object = None
    form: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back, unpacked; a longer body is cut."""

    url: str
    status: int
    headers: httpx.Headers
    body: bytes
    is_cut: bool


class Trust:
    """The authorities that vouch for hosts; it takes a while to read them, so that is done once and in a thread."""

    def __init__(self) -> None:
        self._context: ssl.SSLContext | None = None

    async def context(self) -> ssl.SSLContext:
        """What connections are secured with."""
        if self._context is None:
            self._context = await asyncio.to_thread(httpx.create_ssl_context)
        return self._context


@dataclass(frozen=True, slots=True)
class Http:
    """Asks with a limit of time and size, by a transport that goes through `Egress`."""

    timeout_s: float
    max_bytes: int
    transport: httpx.AsyncBaseTransport
    trust: Trust = field(default_factory=Trust)
    larger: Mapping[str, int] = field(default_factory=dict)
    """How many bytes, where it is not `max_bytes`, by kind of content."""

    async def send(self, ask: Ask) -> Reply:
        """The answer to a request.

        Raises:
            TooSlow: It was not complete in time.
            NotAllowed: The address is none that may be visited.
            Unreachable: Nobody answers there, or nobody who can be trusted.
            Unreadable: It is packed in a way nobody asked for.
        """
        host = host_of(ask.url)
        try:
            async with asyncio.timeout(self.timeout_s):
                return await self._send(ask)
        except (TimeoutError, httpx.TimeoutException):
            raise TooSlow(f"{host} did not answer within {self.timeout_s:g} s; try another page, or later") from None
        except EgressRefused as refused:
            raise NotAllowed(str(refused)) from refused
        except ssl.SSLError as problem:
            raise Unreachable(f"{host} cannot be trusted: {problem}") from problem
        except (httpx.TransportError, EgressFailed, OSError) as problem:
            raise Unreachable(f"{host} cannot be reached: {problem or type(problem).__name__}") from problem

    async def _send(self, ask: Ask) -> Reply:
        trust = await self.trust.context()
        headers = {"Accept-Encoding": "gzip, deflate", **ask.headers}
        async with (
            httpx.AsyncClient(transport=self.transport, verify=trust, timeout=self.timeout_s) as client,
            client.stream(
                ask.method, ask.url, headers=headers, params=ask.params or None, json=ask.json, data=ask.form
            ) as response,
        ):
            kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
            limit = self.larger.get(kind, self.max_bytes)
            body = Unpacked(response.headers.get("content-encoding", ""), limit)
            async for chunk in response.aiter_raw():
                body.add(chunk)
                if body.is_full:
                    break
            return Reply(str(response.url), response.status_code, response.headers, body.content, body.is_full)


class Unpacked:
    """A body as it comes in, unpacked up to a limit: what a small file pretends to be is never held as a whole."""

    def __init__(self, encoding: str, limit: int) -> None:
        self._encoding = encoding.strip().lower()
        if self._encoding not in ("", "identity", *ENCODINGS):
            raise Unreadable(f"the answer is packed as {self._encoding!r}, which was not asked for")
        self._limit = limit
        self._inflater = zlib.decompressobj(ENCODINGS[self._encoding]) if self._encoding in ENCODINGS else None
        self._content = bytearray()
        self._is_complete = False

    @property
    def content(self) -> bytes:
        return bytes(self._content[: self._limit])

    @property
    def is_full(self) -> bool:
        return len(self._content) > self._limit

    def add(self, chunk: bytes) -> None:
        """Take the next piece."""
        if self._inflater is None:
            self._content += chunk[: self._room]
            return
        while chunk and not self.is_full:
            chunk = self._inflate(chunk)

    @property
    def _room(self) -> int:
        return self._limit + 1 - len(self._content)

    def _inflate(self, chunk: bytes) -> bytes:
        """Unpack a piece; what is left of it belongs to another file that follows."""
        assert self._inflater is not None
        try:
            self._content += self._inflater.decompress(chunk, self._room)
        except zlib.error as problem:
            if self._is_complete:  # what follows a file need not be another one
                return b""
            if self._encoding != "deflate" or self._content or self._inflater.eof:
                raise Unreadable(f"the answer is damaged: {problem}") from problem
            # Some servers leave out the header that the format has.
            self._encoding, self._inflater = "raw", zlib.decompressobj(-zlib.MAX_WBITS)
            return chunk
        rest = self._inflater.unused_data
        if rest:
            self._is_complete = True
            self._inflater = zlib.decompressobj(ENCODINGS.get(self._encoding, -zlib.MAX_WBITS))
        return rest


def host_of(url: str) -> str:
    """The host in the address of a page.

    Raises:
        NotAllowed: It is no such address.
    """
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as problem:
        raise NotAllowed(f"{url[:200]!r} is no address of a page: {problem}") from problem
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise NotAllowed(f"{url[:200]!r} is no address of a page; it begins with https:// or http://")
    return parsed.host
