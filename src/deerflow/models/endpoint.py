"""The HTTP side of a chat completions endpoint."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp

from deerflow.domain.errors import ModelRejected, ModelStreamCut, ModelTimeout, ModelUnavailable
from deerflow.models.failures import failed_response

CONNECT_TIMEOUT_S = 10.0
KEEPALIVE_S = 60.0
MAX_ERROR_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Posts requests to one address, over a connection pool for each event loop that uses it."""

    url: str
    api_key: str | None = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    silence_limit_s: float
    _sessions: dict[asyncio.AbstractEventLoop, "_OpenSession"] = field(default_factory=dict, repr=False)

    @asynccontextmanager
    async def post(self, body: bytes) -> AsyncIterator["Incoming"]:
        """The response to a request that was accepted; leaving before its end closes the connection."""
        session = await self._session()
        with self.naming_failures():
            response = await session.post(self.url, data=body, headers=self._all_headers(), allow_redirects=False)
        async with response:
            with self.naming_failures():
                await self._raise_failure(response)
            yield Incoming(self, response)

    async def aclose(self) -> None:
        """Close the connections of the running event loop; those of other loops end with their loop."""
        if opened := self._sessions.pop(asyncio.get_running_loop(), None):
            await opened.lifetime.aclose()

    @contextmanager
    def naming_failures(self, broken: type[ModelUnavailable] = ModelUnavailable) -> Iterator[None]:
        """Turn what the HTTP library raises into errors of ours."""
        try:
            yield
        except aiohttp.ConnectionTimeoutError as error:
            raise ModelUnavailable(f"no connection to {self.url} within {CONNECT_TIMEOUT_S:g} s") from error
        except TimeoutError as error:
            raise ModelTimeout(f"{self.url} was silent for {self.silence_limit_s:g} s") from error
        except aiohttp.InvalidURL as error:
            raise ModelRejected(f"base_url is not an address: {self.url!r}") from error
        except (aiohttp.ClientError, OSError, RuntimeError) as error:  # RuntimeError: closed from our side
            raise broken(f"the connection to {self.url} failed: {error or type(error).__name__}") from error

    def _all_headers(self) -> dict[str, str]:
        # Compression would make a proxy collect tokens before it sends them.
        headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        if self.api_key:
            headers["Authorization"] = f"Bearer {self.api_key}"
        return headers | dict(self.headers)

    async def _session(self) -> aiohttp.ClientSession:
        loop = asyncio.get_running_loop()
        opened = self._sessions.get(loop)
        if opened is None:
            for ended in [known for known in self._sessions if known.is_closed()]:
                del self._sessions[ended]
            lifetime = _session_lifetime(self.silence_limit_s, _proxy_for(self.url))
            opened = self._sessions[loop] = _OpenSession(lifetime, await anext(lifetime))
        return opened.session

    async def _raise_failure(self, response: aiohttp.ClientResponse) -> None:
        if response.status >= 400:
            body = await _beginning(response.content)
            if self.api_key:
                body = body.replace(self.api_key.encode(), b"[key]")
            raise failed_response(response.status, response.headers, body)
        if response.status >= 300:
            target = response.headers.get("Location", "nowhere")
            raise ModelRejected(f"{self.url} redirects to {target!r}; write that address as base_url")
        if response.content_type == "text/html":
            raise ModelRejected(f"{self.url} answered with a web page; base_url is probably wrong")


@dataclass(frozen=True, slots=True)
class Incoming:
    """A response whose body is still arriving."""

    endpoint: Endpoint
    response: aiohttp.ClientResponse

    @property
    def is_whole(self) -> bool:
        """Whether the body is one JSON document and not a stream of events."""
        return self.response.content_type == "application/json"

    @property
    def has_arrived(self) -> bool:
        """Whether nothing more will come from the network."""
        return self.response.content.is_eof()

    async def read(self) -> bytes:
        """What has arrived since the last read; waits when that is nothing, and is empty at the end."""
        with self.endpoint.naming_failures(ModelStreamCut):
            return await self.response.content.readany()

    async def rest(self, seconds: float) -> None:
        """Let more arrive, without waking up for every packet."""
        connection = self.response.connection
        transport = connection.transport if connection is not None else None
        if transport is None:
            return  # all has arrived
        transport.pause_reading()
        try:
            await asyncio.sleep(seconds)
        finally:
            if not transport.is_closing():
                transport.resume_reading()

    async def read_all(self) -> bytes:
        with self.endpoint.naming_failures(ModelStreamCut):
            return await self.response.read()


@dataclass(frozen=True, slots=True)
class _OpenSession:
    lifetime: AsyncGenerator[aiohttp.ClientSession, None]
    session: aiohttp.ClientSession


async def _beginning(content: aiohttp.StreamReader) -> bytes:
    """As much of an error as is worth reading."""
    body = b""
    while len(body) < MAX_ERROR_BYTES and (more := await content.readany()):
        body += more
    return body


async def _session_lifetime(silence_limit_s: float, proxy: str | None) -> AsyncGenerator[aiohttp.ClientSession, None]:
    """A session that ends with its event loop: `asyncio.run` closes the async generators left open."""
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S, sock_read=silence_limit_s)
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEPALIVE_S)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout, proxy=proxy) as session:
        yield session


def _proxy_for(url: str) -> str | None:
    """The proxy the environment names. aiohttp's own way would look for a password in ~/.netrc at every request."""
    target = urlsplit(url)
    if proxy_bypass(target.netloc):
        return None
    proxies = getproxies()
    return proxies.get(target.scheme) or proxies.get("all")
