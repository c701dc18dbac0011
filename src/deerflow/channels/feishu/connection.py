"""Long connection to Feishu: events arrive in frames and are acknowledged when they are recorded."""

import asyncio
import base64
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

import aiohttp
import orjson

from deerflow.channels.adapter import ChannelLoginRefused, ChannelUnreachable
from deerflow.channels.feishu.api import ConnectionEndpoint, FeishuApi
from deerflow.channels.feishu.frames import CONTROL, DATA, FeishuFrame, decode_frame, encode_frame

CONNECT_S, CLOSE_S = 15.0, 2.0
MAX_GROUP = 200
"""Number of events that are acknowledged together. With small groups, runs of earlier ones delay the later ones."""
MAX_WAITING = 1000
MAX_PARTS = 1000
MISSED_PINGS = 2.5
"""Number of pings without any frame after which the connection counts as lost."""


@dataclass(frozen=True, slots=True)
class ReceivedEvent:
    """Event that is still to be acknowledged."""

    frame: FeishuFrame
    event: Mapping[str, Any]


class FeishuConnection:
    """Events of one connection in their order."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, endpoint: ConnectionEndpoint) -> None:
        self._socket = socket
        self._service = int((parse_qs(urlsplit(endpoint.url).query).get("service_id") or ["0"])[0])
        self._ping_s = endpoint.ping_s
        self._events: asyncio.Queue[ReceivedEvent | ChannelUnreachable] = asyncio.Queue(MAX_WAITING)
        self._parts: dict[str, dict[int, bytes]] = {}

    async def next_events(self) -> Sequence[ReceivedEvent]:
        """Return the events that have arrived, at least one.

        Raises:
            ChannelUnreachable: The connection is lost.
        """
        found: list[ReceivedEvent] = []
        event = await self._events.get()
        while isinstance(event, ReceivedEvent):
            found.append(event)
            if len(found) == MAX_GROUP or self._events.empty():
                return found
            event = self._events.get_nowait()
        if not found:
            raise event
        self._events.put_nowait(event)
        return found

    async def acknowledge(self, event: ReceivedEvent, answer: Mapping[str, object] | None) -> None:
        """Confirm an event, with an answer to a pressed button."""
        payload: dict[str, object] = {"code": 200, "headers": None, "data": None}
        if answer is not None:
            payload["data"] = base64.b64encode(orjson.dumps(answer)).decode()
        await self._send(event.frame.answer(orjson.dumps(payload)))

    async def read(self) -> None:
        """Read frames until the connection is lost."""
        try:
            while True:
                message = await self._socket.receive(self._ping_s * MISSED_PINGS)
                if message.type is aiohttp.WSMsgType.BINARY:
                    await self._read_frame(decode_frame(message.data))
                elif message.type is not aiohttp.WSMsgType.TEXT:
                    code = self._socket.close_code
                    raise ChannelUnreachable(f"Feishu has ended the connection (close code {code})")
        except TimeoutError:
            await self._events.put(ChannelUnreachable("Feishu does not answer pings"))
        except ChannelUnreachable as problem:
            await self._events.put(problem)

    async def ping(self) -> None:
        """Send pings until the connection is lost."""
        while True:
            try:
                await self._send(FeishuFrame(CONTROL, {"type": "ping"}, service=self._service))
            except ChannelUnreachable:
                return  # the reader has noticed
            await asyncio.sleep(self._ping_s)

    async def _send(self, frame: FeishuFrame) -> None:
        try:
            async with asyncio.timeout(CONNECT_S):
                await self._socket.send_bytes(encode_frame(frame))
        except (aiohttp.ClientError, ConnectionError, TimeoutError) as problem:
            raise ChannelUnreachable(f"the connection to Feishu is lost ({type(problem).__name__})") from None

    async def _read_frame(self, frame: FeishuFrame) -> None:
        kind = frame.headers.get("type")
        if frame.method == CONTROL and kind == "pong" and frame.payload:
            self._ping_s = float(read_json(frame.payload).get("PingInterval") or self._ping_s)
        elif frame.method == DATA and (payload := self._join(frame)) is not None:
            await self._events.put(ReceivedEvent(frame, read_json(payload)))

    def _join(self, frame: FeishuFrame) -> bytes | None:
        """Return the payload of a frame, or of all frames of its message; None if some are missing."""
        count = read_int(frame.headers.get("sum"))
        if count <= 1:
            return frame.payload
        message_id = frame.headers.get("message_id", "")
        parts = self._parts.setdefault(message_id, {})
        parts[read_int(frame.headers.get("seq"))] = frame.payload
        if len(self._parts) > MAX_PARTS:
            self._parts.pop(next(iter(self._parts)))
        if len(parts) < count:
            return None
        self._parts.pop(message_id, None)
        return b"".join(parts[at] for at in sorted(parts))


def read_json(payload: bytes) -> Mapping[str, Any]:
    """Return the object in a payload; an empty one if there is none, for an event must not end every connection."""
    try:
        value = orjson.loads(payload)
    except orjson.JSONDecodeError:
        value = None
    return value if isinstance(value, Mapping) else {}


def read_int(text: str | None) -> int:
    """Return the number in a header; 0 if there is none."""
    return int(text) if text and text.isascii() and text.isdigit() else 0


@asynccontextmanager
async def connect(api: FeishuApi) -> AsyncIterator[FeishuConnection]:
    """Open the long connection of an app, and close it at the end."""
    endpoint = await api.find_endpoint()
    try:
        async with asyncio.timeout(CONNECT_S):
            socket = await api.http.open().ws_connect(endpoint.url, max_msg_size=16 * 2**20)
    except aiohttp.WSServerHandshakeError as refused:
        headers: Mapping[str, str] = refused.headers or {}
        reason = headers.get("handshake-msg") or f"HTTP {refused.status}"
        if headers.get("handshake-status") == "403":
            raise ChannelLoginRefused(f"Feishu refuses the connection: {reason}") from None
        raise ChannelUnreachable(f"Feishu refuses the connection: {reason}") from None
    except (aiohttp.ClientError, OSError, TimeoutError) as problem:
        raise ChannelUnreachable(f"Feishu cannot be reached ({type(problem).__name__})") from None
    connection = FeishuConnection(socket, endpoint)
    tasks = [asyncio.create_task(connection.read()), asyncio.create_task(connection.ping())]
    try:
        yield connection
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                await socket.close()
