"""HTTP client of chat apps: it says of each request whether it was carried out. No error shows an address."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp

from deerflow.channels.adapter import ChannelOutcomeUnknown, ChannelRefused, ChannelUnreachable

KEEP_ALIVE_S = 15.0
"""Time for which an idle connection is used again. A request on one that the server has just closed may be lost."""
FILE_S = 300.0
CHUNK = 64 * 1024
MAX_RESPONSE = 20 * 2**20


@dataclass(frozen=True, slots=True)
class ChatResponse:
    """Response that was read whole."""

    status: int
    body: bytes
    headers: Mapping[str, str]


class ChatHttp:
    """Sends requests to one platform, which is named in errors."""

    def __init__(self, platform: str) -> None:
        self._platform = platform
        self._session: aiohttp.ClientSession | None = None

    async def request(self, method: str, address: str, timeout_s: float, **options: Any) -> ChatResponse:
        """Send a request and return the response, whatever its status.

        Raises:
            ChannelUnreachable: The request did not reach the platform.
            ChannelOutcomeUnknown: It may have been carried out.
        """
        timeout = aiohttp.ClientTimeout(timeout_s)
        try:
            async with self.open().request(method, address, timeout=timeout, **options) as response:
                body = await self._read(response.content)
                return ChatResponse(response.status, body, response.headers)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as problem:
            raise ChannelUnreachable(f"{self._platform} cannot be reached ({type(problem).__name__})") from None
        except (aiohttp.ClientError, TimeoutError, ConnectionError) as problem:
            reason = type(problem).__name__
            raise ChannelOutcomeUnknown(f"the connection to {self._platform} was cut off ({reason})") from None

    async def download(self, address: str, **options: Any) -> AsyncIterator[bytes]:
        """Yield the content of a file."""
        timeout = aiohttp.ClientTimeout(FILE_S)
        try:
            async with self.open().get(address, timeout=timeout, **options) as response:
                if response.status != 200:
                    raise ChannelRefused(f"the file cannot be downloaded: HTTP {response.status}")
                async for chunk in response.content.iter_chunked(CHUNK):
                    yield chunk
        except (aiohttp.ClientError, TimeoutError) as problem:
            raise ChannelUnreachable(f"the download was cut off ({type(problem).__name__})") from None

    def open(self) -> aiohttp.ClientSession:
        """Return the session, which is opened with the first request."""
        if self._session is None:
            connector = aiohttp.TCPConnector(keepalive_timeout=KEEP_ALIVE_S, limit=0)
            self._session = aiohttp.ClientSession(connector=connector)
        return self._session

    async def aclose(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _read(self, content: aiohttp.StreamReader) -> bytes:
        """Return the whole body of a response."""
        body = bytearray()
        async for chunk in content.iter_any():
            body += chunk
            if len(body) > MAX_RESPONSE:
                raise ChannelOutcomeUnknown(f"{self._platform} answered with more than {MAX_RESPONSE // 2**20} MB")
        return bytes(body)


def create_form(field: str, name: str, chunks: AsyncIterator[bytes], parameters: Mapping[str, str]) -> aiohttp.FormData:
    """Return a form with a file, which is sent in chunks."""
    form = aiohttp.FormData()
    for key, value in parameters.items():
        form.add_field(key, value)
    form.add_field(field, chunks, filename=name, content_type="application/octet-stream")
    return form
