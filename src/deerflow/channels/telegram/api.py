"""HTTP client of Telegram's Bot API. The token is part of every address, so no error shows one."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

import orjson

from deerflow.channels.adapter import (
    ChannelFlooded,
    ChannelLoginRefused,
    ChannelOutcomeUnknown,
    ChannelRefused,
    ChannelTaken,
)
from deerflow.channels.http import FILE_S, ChatHttp, create_form

BASE_URL = "https://api.telegram.org"
CALL_S = 30.0
"""Time limit of a request, besides the time for which it waits for updates."""


class TelegramApi:
    """Calls methods of the Bot API."""

    def __init__(self, token: str, base_url: str = BASE_URL) -> None:
        self._token = token
        self._base_url = base_url.rstrip("/")
        self._http = ChatHttp("Telegram")

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
        return await self._post(method, FILE_S, data=create_form(field, name, chunks, parameters), json=False)

    async def download(self, file_id: str) -> AsyncIterator[bytes]:
        """Yield the content of a file."""
        found = await self.call("getFile", file_id=file_id)
        address = f"{self._base_url}/file/bot{self._token}/{found['file_path']}"
        async for chunk in self._http.download(address):
            yield chunk

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def _post(self, method: str, timeout_s: float, *, data: object, json: bool) -> Any:
        headers = {"Content-Type": "application/json"} if json else {}
        address = f"{self._base_url}/bot{self._token}/{method}"
        response = await self._http.request("POST", address, timeout_s, data=data, headers=headers)
        return read_result(response.status, response.body)


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
