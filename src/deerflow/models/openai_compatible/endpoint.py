"""HTTP client of a chat completions endpoint."""

import asyncio
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from ipaddress import IPv6Address, IPv6Network, ip_address
from socket import AF_UNSPEC, AddressFamily
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.http_exceptions import HttpProcessingError

from deerflow.config.loader.validation import is_redactable
from deerflow.domain.errors import AddressRefused, ModelRejected, ModelStreamCut, ModelTimeout, ModelUnavailable
from deerflow.models.openai_compatible.vendors import ResponseMeter, make_response_error

CONNECT_TIMEOUT_S = 10.0
KEEPALIVE_S = 60.0
MAX_ERROR_BYTES = 64 * 1024
NAT64 = IPv6Network("64:ff9b::/96")


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Endpoint:
    """Posts requests to one URL, with a connection pool for each event loop."""

    url: str
    api_key: str | None = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    read_timeout_s: float
    is_public_only: bool = False
    """True: the host must have public addresses only, each time that it is resolved."""
    _sessions: dict[asyncio.AbstractEventLoop, "_OpenSession"] = field(default_factory=dict, repr=False)

    @asynccontextmanager
    async def post(self, body: bytes) -> AsyncIterator["EndpointResponse"]:
        """Send a request and yield its response; leaving early closes the connection."""
        session = await self._get_session()
        with self.translate_errors():
            response = await session.post(self.url, data=body, headers=self._build_headers(), allow_redirects=False)
        async with response:
            with self.translate_errors():
                await self._raise_failure(response)
            yield EndpointResponse(self, response)

    async def aclose(self) -> None:
        """Close the connections of the running event loop; those of other loops end with their loop."""
        if opened := self._sessions.pop(asyncio.get_running_loop(), None):
            await opened.lifetime.aclose()

    @contextmanager
    def translate_errors(self, broken: type[ModelUnavailable] = ModelUnavailable) -> Iterator[None]:
        """Translate errors of the HTTP library into model errors."""
        try:
            yield
        except aiohttp.ConnectionTimeoutError as error:
            raise ModelUnavailable(f"no connection to {self.url} within {CONNECT_TIMEOUT_S:g} s") from error
        except TimeoutError as error:
            raise ModelTimeout(f"{self.url} sent no data for {self.read_timeout_s:g} s") from error
        except AddressRefused as error:
            raise ModelRejected(str(error)) from error
        except aiohttp.InvalidURL as error:
            raise ModelRejected(f"base_url is not a URL: {self.url!r}") from error
        except (aiohttp.ClientError, HttpProcessingError, OSError, RuntimeError) as error:
            # RuntimeError: closed from our side
            raise broken(f"the connection to {self.url} failed: {error or type(error).__name__}") from error

    def _build_headers(self) -> dict[str, str]:
        # Compression would make a proxy buffer tokens before it sends them.
        headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        if self.api_key:
            headers["Authorization"] = f"Bearer {self.api_key}"
        return headers | dict(self.headers)

    async def _get_session(self) -> aiohttp.ClientSession:
        loop = asyncio.get_running_loop()
        opened = self._sessions.get(loop)
        if opened is None:
            for ended in [known for known in self._sessions if known.is_closed()]:
                del self._sessions[ended]
            lifetime = _keep_session(self.read_timeout_s, find_proxy(self.url), self.is_public_only)
            opened = self._sessions[loop] = _OpenSession(lifetime, await anext(lifetime))
            # It keeps the session, which the garbage collector would else finalize before its generator closes it.
            weakref.finalize(self, _end_session, loop, lifetime).atexit = False
        return opened.session

    async def _raise_failure(self, response: aiohttp.ClientResponse) -> None:
        if response.status >= 400:
            body = await _read_error_body(response.content)
            if self.api_key and is_redactable(self.api_key):
                body = body.replace(self.api_key.encode(), b"[key]")
            raise make_response_error(response.status, response.headers, body)
        if response.status >= 300:
            target = response.headers.get("Location", "nowhere")
            raise ModelRejected(f"{self.url} redirects to {target!r}; use that URL as base_url")
        if response.content_type == "text/html":
            raise ModelRejected(f"{self.url} returned a web page; base_url is probably wrong")


@dataclass(frozen=True, slots=True)
class EndpointResponse:
    """A response whose body is still being received."""

    endpoint: Endpoint
    response: aiohttp.ClientResponse
    meter: ResponseMeter = field(default_factory=ResponseMeter)

    @property
    def is_json(self) -> bool:
        """Return True if the body is a JSON document and not an event stream."""
        return self.response.content_type == "application/json"

    @property
    def is_complete(self) -> bool:
        """Return True if the body was received completely."""
        return self.response.content.is_eof()

    async def read(self) -> bytes:
        """Wait for data and return what was received since the last call; empty at the end.

        Raises:
            ModelResponseTooLarge: The response, or an event of it, is too large.
        """
        return await self._read(self.meter)

    async def pause(self, seconds: float) -> None:
        """Let data accumulate for some time without waking up for every packet."""
        connection = self.response.connection
        transport = connection.transport if connection is not None else None
        if transport is None:
            return  # the body is complete
        transport.pause_reading()
        try:
            await asyncio.sleep(seconds)
        finally:
            if not transport.is_closing():
                transport.resume_reading()

    async def read_all(self) -> bytes:
        """Return the complete body.

        Raises:
            ModelResponseTooLarge: It is too large.
        """
        parts, meter = [], ResponseMeter(has_events=False)
        while received := await self._read(meter):
            parts.append(received)
        return b"".join(parts)

    async def _read(self, meter: ResponseMeter) -> bytes:
        with self.endpoint.translate_errors(ModelStreamCut):
            received = await self.response.content.readany()
        meter.add(received)
        return received


@dataclass(frozen=True, slots=True)
class _OpenSession:
    lifetime: AsyncGenerator[aiohttp.ClientSession, None]
    session: aiohttp.ClientSession


async def _read_error_body(content: aiohttp.StreamReader) -> bytes:
    """Return the start of an error response."""
    body = b""
    while len(body) < MAX_ERROR_BYTES and (more := await content.readany()):
        body += more
    return body


async def _keep_session(
    read_timeout_s: float, proxy: str | None, is_public_only: bool
) -> AsyncGenerator[aiohttp.ClientSession, None]:
    """Yield a session that ends with its event loop: `asyncio.run` closes async generators that are still open."""
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S, sock_read=read_timeout_s)
    resolver = PublicResolver() if is_public_only else None
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEPALIVE_S, resolver=resolver)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout, proxy=proxy) as session:
        yield session


def _end_session(loop: asyncio.AbstractEventLoop, lifetime: AsyncGenerator[aiohttp.ClientSession, None]) -> None:
    """Close a session that has no endpoint any more, on its event loop."""

    async def close() -> None:
        await lifetime.aclose()

    with suppress(RuntimeError):  # the loop is closed, and with it the session
        loop.call_soon_threadsafe(lambda: loop.create_task(close()))


class PublicResolver(AbstractResolver):
    """Resolver that refuses hosts of private networks. The connection goes to the very addresses it has checked.

    A name can get another address after it was checked once; here, lookup and check are one step.
    """

    def __init__(self, system: AbstractResolver | None = None) -> None:
        self._system = system or aiohttp.ThreadedResolver()

    async def resolve(self, host: str, port: int = 0, family: AddressFamily = AF_UNSPEC) -> list[ResolveResult]:
        """Return the addresses of a host.

        Raises:
            AddressRefused: One of them is not public.
        """
        found = await self._system.resolve(host, port, family)
        if not all(is_global(each["host"]) for each in found):
            raise AddressRefused(f"{host} is not an address at which models may be reached")
        return found

    async def close(self) -> None:
        """Close the resolver."""
        await self._system.close()


def is_global(text: str) -> bool:
    """Return whether an address is a unicast address of the public internet, also one that IPv6 has embedded."""
    address = ip_address(text.partition("%")[0])
    if isinstance(address, IPv6Address):
        embedded = address.ipv4_mapped or address.sixtofour or (address.teredo or (None,))[0]
        if embedded is not None or address in NAT64:
            return False
    return address.is_global and not address.is_multicast


def find_proxy(url: str) -> str | None:
    """Return the proxy from the environment. aiohttp's own lookup would read ~/.netrc for every request."""
    target = urlsplit(url)
    if proxy_bypass(target.netloc):
        return None
    proxies = getproxies()
    return proxies.get(target.scheme) or proxies.get("all")
