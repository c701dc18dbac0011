"""HTTP client of Feishu's open platform, with the token of the app."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from deerflow.channels.adapter import (
    ChannelError,
    ChannelFlooded,
    ChannelLoginRefused,
    ChannelOutcomeUnknown,
    ChannelRefused,
    ChannelUnreachable,
)
from deerflow.channels.http import FILE_S, ChatHttp, ChatResponse, create_form

CALL_S = 30.0
TOKEN_MARGIN_S = 300.0
"""Time before its end at which a token is replaced."""
INVALID_TOKEN = frozenset({99991661, 99991663, 99991664, 99991665, 99991668})
FLOODED = frozenset({99991400, 11232, 11233, 11247, 230020})
RESET_HEADER = "x-ogw-ratelimit-reset"
SYSTEM_BUSY, INTERNAL_ERROR = 1, 1000040343
PING_S = 120.0


class FeishuRefused(ChannelRefused):
    """Feishu refused a request, with a code."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{message} ({code})")
        self.code = code


@dataclass(frozen=True, slots=True)
class ConnectionEndpoint:
    """Address of the long connection, for one use, and the time between pings."""

    url: str
    ping_s: float


class FeishuApi:
    """Calls methods of the open platform as an app."""

    def __init__(
        self, app_id: str, app_secret: str, base_url: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.app_id = app_id
        self.http = ChatHttp("Feishu")
        self._secret = app_secret
        self._base_url = base_url.rstrip("/")
        self._clock = clock
        self._token = ""
        self._token_ends_at = float("-inf")
        self._token_lock = asyncio.Lock()

    async def call(self, method: str, path: str, body: Mapping[str, object] | None = None, **query: str) -> Any:
        """Call a method and return the data of its response.

        Raises:
            ChannelError: It has failed; the class says what is known of it.
        """
        data = None if body is None else orjson.dumps(body)
        return await self._call(method, path, CALL_S, lambda: {"data": data, "params": query}, is_json=True)

    async def upload(
        self, path: str, field: str, name: str, chunks: AsyncIterator[bytes], parameters: Mapping[str, str]
    ) -> Any:
        """Call a method with a file, which is sent in chunks."""
        await self._get_token()  # chunks can be read once only, so the token has to be valid
        form = create_form(field, name, chunks, parameters)
        return await self._call("POST", path, FILE_S, lambda: {"data": form}, is_json=False)

    async def download(self, path: str, **query: str) -> AsyncIterator[bytes]:
        """Yield the content of a file."""
        headers = {"Authorization": f"Bearer {await self._get_token()}"}
        async for chunk in self.http.download(self._base_url + path, params=query, headers=headers):
            yield chunk

    async def find_endpoint(self) -> ConnectionEndpoint:
        """Return where the long connection is to be opened."""
        body = orjson.dumps({"AppID": self.app_id, "AppSecret": self._secret})
        headers = {"Content-Type": "application/json", "locale": "en"}
        address = f"{self._base_url}/callback/ws/endpoint"
        try:
            response = await self.http.request("POST", address, CALL_S, data=body, headers=headers)
            answer = read_answer(response)
        except FeishuRefused as refused:
            if refused.code in (SYSTEM_BUSY, INTERNAL_ERROR):
                raise ChannelUnreachable(f"Feishu opens no connection: {refused}") from None
            raise ChannelLoginRefused(f"Feishu opens no connection for the app: {refused}") from None
        config = answer["data"].get("ClientConfig") or {}
        return ConnectionEndpoint(str(answer["data"]["URL"]), float(config.get("PingInterval") or PING_S))

    async def aclose(self) -> None:
        """Close the connections."""
        await self.http.aclose()

    async def _call(
        self, method: str, path: str, timeout_s: float, options: Callable[[], dict[str, Any]], *, is_json: bool
    ) -> Any:
        tries = 0
        while True:
            tries += 1
            headers = {"Authorization": f"Bearer {await self._get_token()}"}
            if is_json:
                headers["Content-Type"] = "application/json; charset=utf-8"
            address = self._base_url + path
            response = await self.http.request(method, address, timeout_s, headers=headers, **options())
            try:
                answer = read_answer(response)
                return answer.get("data", answer)
            except FeishuRefused as refused:
                if refused.code not in INVALID_TOKEN:
                    raise
                self._token_ends_at = float("-inf")
                if tries > 1 or not is_json:
                    raise ChannelUnreachable(f"Feishu does not accept its own token: {refused}") from None

    async def _get_token(self) -> str:
        """Return the token of the app, which is asked for again before it ends."""
        async with self._token_lock:
            if self._clock() < self._token_ends_at:
                return self._token
            body = orjson.dumps({"app_id": self.app_id, "app_secret": self._secret})
            address = f"{self._base_url}/open-apis/auth/v3/tenant_access_token/internal"
            headers = {"Content-Type": "application/json"}
            try:
                answer = read_answer(await self.http.request("POST", address, CALL_S, data=body, headers=headers))
            except FeishuRefused as refused:
                raise ChannelLoginRefused(f"Feishu does not accept app_id and app_secret: {refused}") from None
            except ChannelOutcomeUnknown as problem:  # of the token, not of the request that needs it
                raise ChannelUnreachable(str(problem)) from None
            self._token = str(answer["tenant_access_token"])
            self._token_ends_at = self._clock() + max(float(answer.get("expire") or 0) - TOKEN_MARGIN_S, 1.0)
            return self._token


def read_answer(response: ChatResponse) -> Mapping[str, Any]:
    """Return the answer in a response, or raise the error that it has."""
    try:
        answer = orjson.loads(response.body)
    except orjson.JSONDecodeError:
        answer = None
    if response.status == 429 or (isinstance(answer, Mapping) and answer.get("code") in FLOODED):
        raise ChannelFlooded("Feishu wants fewer requests", read_reset(response.headers))
    if not isinstance(answer, Mapping) or not isinstance(answer.get("code"), int) or response.status >= 500:
        raise read_failure(response)
    if answer["code"]:
        raise FeishuRefused(answer["code"], str(answer.get("msg") or f"HTTP {response.status}"))
    return answer


def read_failure(response: ChatResponse) -> ChannelError:
    """Return the error of a response that is not one of the platform."""
    return ChannelOutcomeUnknown(f"Feishu answered HTTP {response.status} without a result")


def read_reset(headers: Mapping[str, str]) -> float:
    """Return the time that Feishu wants no request; one second if it does not say."""
    try:
        return max(float(headers.get(RESET_HEADER, "1")), 0.1)
    except ValueError:
        return 1.0
