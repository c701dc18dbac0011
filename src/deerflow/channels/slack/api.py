"""Client of Slack's Web API. Nothing is repeated here: a message that is sent twice is shown twice."""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from deerflow.channels.adapter import (
    ChannelError,
    ChannelFlooded,
    ChannelLoginRefused,
    ChannelOutcomeUnknown,
    ChannelRefused,
    ChannelUnreachable,
)

BASE_URL = "https://slack.com/api/"
CALL_S = 30.0
FILE_S = 300.0
KEEP_ALIVE_S = 15.0
"""Time for which an idle connection is used again. A request on one that the server has just closed may be lost."""
CHUNK = 64 * 1024
DEFAULT_RETRY_S = 30.0
BAD_LOGIN = frozenset(
    {"invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired", "not_allowed_token_type"}
)
FAILED = frozenset({"internal_error", "fatal_error", "service_unavailable", "request_timeout"})
"""Errors after which a request may have been carried out."""


class SlackApi:
    """Calls methods of the Web API, none before the time at which Slack wants it again."""

    def __init__(self, bot_token: str, app_token: str, base_url: str = BASE_URL) -> None:
        self._bot_token = bot_token
        self._app_token = app_token
        self._base_url = base_url.rstrip("/") + "/"
        self._session: aiohttp.ClientSession | None = None
        self._due: dict[str, float] = {}
        """Times before which methods may not be called, by method."""

    async def call(self, method: str, **parameters: object) -> Mapping[str, Any]:
        """Call a method that takes JSON, and return its response.

        Raises:
            ChannelError: It has failed; the class says what is known of it.
        """
        return await self._call(method, json={key: each for key, each in parameters.items() if each is not None})

    async def read(self, method: str, **parameters: object) -> Mapping[str, Any]:
        """Call a method that takes parameters of a form only, and return its response."""
        return await self._call(method, params={key: each for key, each in parameters.items() if each is not None})

    async def open_connection(self) -> str:
        """Return the address of a new WebSocket, which works once, within seconds."""
        headers = {"Authorization": f"Bearer {self._app_token}"}
        opened = await self._call("apps.connections.open", headers=headers)
        return str(opened["url"])

    async def connect(self, url: str, heartbeat_s: float) -> aiohttp.ClientWebSocketResponse:
        """Connect to a WebSocket."""
        try:
            return await self._open().ws_connect(
                url, heartbeat=heartbeat_s, timeout=aiohttp.ClientWSTimeout(ws_close=1.0)
            )
        except (aiohttp.ClientError, TimeoutError, OSError) as problem:
            raise ChannelUnreachable(f"Slack cannot be reached ({type(problem).__name__})") from None

    async def upload(self, url: str, size: int, chunks: AsyncIterator[bytes]) -> None:
        """Send the content of a file to an address that Slack has given."""
        headers = {"Content-Length": str(size), "Content-Type": "application/octet-stream"}
        timeout = aiohttp.ClientTimeout(FILE_S)
        try:
            async with self._open().post(url, data=chunks, headers=headers, timeout=timeout) as response:
                if response.status != 200:
                    raise ChannelRefused(f"the file was not accepted: HTTP {response.status}")
        except (aiohttp.ClientError, TimeoutError, OSError) as problem:
            raise ChannelUnreachable(f"the upload was cut off ({type(problem).__name__})") from None

    async def download(self, url: str, is_page: bool = False) -> AsyncIterator[bytes]:
        """Yield the content of a private file; `is_page` is True if it is HTML."""
        if not self._is_own(url):
            raise ChannelRefused("the file is not on a server of Slack")
        headers = {"Authorization": f"Bearer {self._bot_token}"}
        timeout = aiohttp.ClientTimeout(FILE_S)
        try:
            async with self._open().get(url, headers=headers, timeout=timeout, allow_redirects=False) as response:
                # Slack answers with a page to log in if the scope files:read is missing.
                if response.status != 200 or (response.content_type == "text/html" and not is_page):
                    raise ChannelRefused(f"the file cannot be downloaded: HTTP {response.status}")
                async for chunk in response.content.iter_chunked(CHUNK):
                    yield chunk
        except (aiohttp.ClientError, TimeoutError, OSError) as problem:
            raise ChannelUnreachable(f"the download was cut off ({type(problem).__name__})") from None

    async def aclose(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _call(self, method: str, **given: Any) -> Mapping[str, Any]:
        now = asyncio.get_running_loop().time()
        if self._due.get(method, now) > now:
            raise ChannelFlooded(f"Slack wants no {method} yet", self._due[method] - now)
        try:
            response = await self._client().api_call(method, **given)
        except SlackApiError as refused:
            problem = read_problem(method, refused)
            if isinstance(problem, ChannelFlooded):
                self._due[method] = asyncio.get_running_loop().time() + problem.retry_after_s
            raise problem from None
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as unreachable:
            raise ChannelUnreachable(f"Slack cannot be reached ({type(unreachable).__name__})") from None
        except (aiohttp.ClientError, TimeoutError, OSError) as lost:
            raise ChannelOutcomeUnknown(f"the connection to Slack was cut off ({type(lost).__name__})") from None
        found = response.data
        return found if isinstance(found, dict) else {}

    def _is_own(self, url: str) -> bool:
        """Return whether an address may have the token."""
        parts, own = urlsplit(url), urlsplit(self._base_url)
        if (parts.scheme, parts.netloc) == (own.scheme, own.netloc):
            return True
        return parts.scheme == "https" and (parts.hostname or "").endswith(".slack.com")

    def _client(self) -> AsyncWebClient:
        """Return a client of the SDK that repeats no request by itself."""
        return AsyncWebClient(
            self._bot_token, base_url=self._base_url, session=self._open(), retry_handlers=[], logger=quiet_logger()
        )

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(keepalive_timeout=KEEP_ALIVE_S, limit=0)
            self._session = aiohttp.ClientSession(
                connector=connector, timeout=aiohttp.ClientTimeout(CALL_S), trust_env=True
            )
        return self._session


def read_problem(method: str, refused: SlackApiError) -> ChannelError:
    """Return what an error of the SDK says."""
    response = refused.response
    status, data = getattr(response, "status_code", getattr(response, "status", 0)), getattr(response, "data", None)
    code = str(data.get("error") or "") if isinstance(data, dict) else ""
    if status == 429 or code == "ratelimited":
        return ChannelFlooded(f"Slack wants no {method} now", read_retry_after(response.headers))
    if code in BAD_LOGIN:
        return ChannelLoginRefused(f"Slack does not accept the token: {code}")
    if status >= 500 or code in FAILED or not code:
        return ChannelOutcomeUnknown(f"Slack has failed: {code or f'HTTP {status}'}")
    return ChannelRefused(f"{method}: {code}")


def read_retry_after(headers: Mapping[str, str]) -> float:
    """Return the seconds for which Slack wants no request."""
    try:
        return max(1.0, float(headers["Retry-After"]))
    except (KeyError, ValueError):
        return DEFAULT_RETRY_S


def quiet_logger() -> logging.Logger:
    """Return a logger for the SDK, which else prepares a log line of every request and drops it."""
    logger = logging.getLogger(f"{__name__}.sdk")
    logger.setLevel(logging.WARNING)
    return logger
