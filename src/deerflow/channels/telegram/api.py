"""HTTP client of Telegram's Bot API. The token is part of every address, so no error shows one."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

import aiohttp
import orjson

from deerflow.channels.adapter import (
    ChannelFlooded,
    ChannelLoginRefused,
    ChannelOutcomeUnknown,
    ChannelRefused,
    ChannelTaken,
    ChannelUnreachable,
)

BASE_URL = "https://api.telegram.org"
CALL_S = 30.0
"""Time limit of a request, besides the time for which it waits for updates."""
FILE_S = 300.0
KEEP_ALIVE_S = 15.0
"""Time for which an idle connection is used again. A request on one that the server has just closed may be lost."""
CHUNK = 64 * 1024
MAX_RESPONSE = 20 * 2**20


class TelegramApi:
    """Calls methods of the Bot API."""

    def __init__(self, token: str, base_url: str = BASE_URL) -> None:
        self._token = token
        self._base_url = base_url.rstrip("/")
        self._session: aiohttp.ClientSession | None = None

    async def call(self, method: str, wait_s: float = 0.0, **parameters: object) -> Any:
        """Call a method and return its result.

        Raises:
            ChannelError: It has failed; the class says what is known of it.
        """
        given = {name: value for name, value in parameters.items() if value is not None}
        return await self._post(method, wait_s + CALL_S, data=orjson.dumps(given), json=True)

    async def upload(
        self, method: str, field: str, name: str, chunks: AsyncIterator[bytes], parameters: Mapping[str, str]
    ) -> Any:
        """Call a method with a file, which is sent in chunks."""
        form = aiohttp.FormData()
        for key, value in parameters.items():
            form.add_field(key, value)
        form.add_field(field, chunks, filename=name, content_type="application/octet-stream")
        return await self._post(method, FILE_S, data=form, json=False)

    async def download(self, file_id: str) -> AsyncIterator[bytes]:
        """Yield the content of a file."""
        found = await self.call("getFile", file_id=file_id)
        address = f"{self._base_url}/file/bot{self._token}/{found['file_path']}"
        try:
            async with self._open().get(address, timeout=aiohttp.ClientTimeout(FILE_S)) as response:
                if response.status != 200:
                    raise ChannelRefused(f"the file cannot be downloaded: HTTP {response.status}")
                async for chunk in response.content.iter_chunked(CHUNK):
                    yield chunk
        except (aiohttp.ClientError, TimeoutError) as problem:
            raise ChannelUnreachable(f"the download was cut off ({type(problem).__name__})") from None

    async def aclose(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _post(self, method: str, timeout_s: float, *, data: bytes | aiohttp.FormData, json: bool) -> Any:
        headers = {"Content-Type": "application/json"} if json else {}
        address = f"{self._base_url}/bot{self._token}/{method}"
        timeout = aiohttp.ClientTimeout(timeout_s)
        try:
            async with self._open().post(address, data=data, headers=headers, timeout=timeout) as response:
                body = await read_body(response.content)
                status = response.status
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as problem:
            raise ChannelUnreachable(f"Telegram cannot be reached ({type(problem).__name__})") from None
        except (aiohttp.ClientError, TimeoutError, ConnectionError) as problem:
            reason = type(problem).__name__
            raise ChannelOutcomeUnknown(f"the connection to Telegram was cut off ({reason})") from None
        return read_result(status, body)

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(keepalive_timeout=KEEP_ALIVE_S, limit=0)
            self._session = aiohttp.ClientSession(connector=connector)
        return self._session


async def read_body(content: aiohttp.StreamReader) -> bytes:
    """Return the whole body of a response, or raise `ChannelOutcomeUnknown` if it is too large."""
    body = bytearray()
    async for chunk in content.iter_any():
        body += chunk
        if len(body) > MAX_RESPONSE:
            raise ChannelOutcomeUnknown(f"Telegram answered with more than {MAX_RESPONSE // 2**20} MB")
    return bytes(body)


def read_result(status: int, body: bytes) -> Any:
    """Return the result in a response, or raise the error that it has."""
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError:
        answer = None
    if not isinstance(answer, Mapping):
        raise ChannelOutcomeUnknown(f"Telegram answered HTTP {status} without a result")
    if answer.get("ok"):
        return answer.get("result")
    code = int(answer.get("error_code") or status)
    text = str(answer.get("description") or f"HTTP {code}")
    parameters = answer.get("parameters") or {}
    if code == 429:
        raise ChannelFlooded(text, float(parameters.get("retry_after") or 1))
    if code == 409:
        raise ChannelTaken(f"another program receives the messages of this bot: {text}")
    if code in (401, 404):
        raise ChannelLoginRefused(f"Telegram does not accept the token of the bot: {text}")
    if code >= 500:
        raise ChannelOutcomeUnknown(f"Telegram has failed: {text}")
    raise ChannelRefused(text)
