"""Socket Mode of Slack: envelopes over a WebSocket, acknowledged when they are recorded."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

import aiohttp
import orjson

from deerflow.channels.adapter import ChannelLoginRefused, ChannelUnreachable
from deerflow.channels.slack.api import SlackApi

HEARTBEAT_S = 20.0
"""Time between two pings. A connection without answer to one is closed."""
MAX_GROUP = 20
"""Envelopes that are recorded together: few, since none is acknowledged before all of them are recorded."""
MAX_WAITING = 1000
SHORT_S = 10.0
"""Life of a connection after whose end the next one waits, like after a failure."""
LEAVING = frozenset({"warning", "refresh_requested"})
"""Reasons for which Slack ends a connection as a matter of routine."""

Envelope = Mapping[str, Any]


class SlackSocket:
    """Connection of Socket Mode, renewed when Slack asks for it."""

    def __init__(self, api: SlackApi) -> None:
        self._api = api
        self._url: str | None = None

    async def prepare(self) -> None:
        """Get the address of the next connection, which shows that the token for it is valid."""
        self._url = await self._api.open_connection()

    async def receive(self) -> AsyncGenerator[Sequence[Envelope]]:
        """Yield envelopes in their order, and an empty group when connected. Asking for more acknowledges them.

        Raises:
            ChannelError: The connection has ended.
        """
        loop = asyncio.get_running_loop()
        while True:
            url, self._url = self._url or await self._api.open_connection(), None
            began = loop.time()
            socket = await self._api.connect(url, HEARTBEAT_S)
            try:
                async with aclosing(self._read(socket)) as groups:
                    async for group in groups:
                        yield group
            finally:
                await socket.close()
            if loop.time() - began < SHORT_S:
                raise ChannelUnreachable("Slack has ended the connection at once")

    async def _read(self, socket: aiohttp.ClientWebSocketResponse) -> AsyncGenerator[Sequence[Envelope]]:
        """Yield the envelopes of one connection until Slack wants another one."""
        waiting: asyncio.Queue[Envelope | None] = asyncio.Queue(MAX_WAITING)
        reader = asyncio.create_task(read_envelopes(socket, waiting), name="socket of Slack")
        try:
            while True:
                group, is_over = await take_group(waiting)
                kinds = {str(each.get("type")) for each in group}
                found = [each for each in group if each.get("envelope_id")]
                if found or "hello" in kinds:
                    yield found
                    await acknowledge(socket, found)
                leaving = next((each for each in group if each.get("type") == "disconnect"), None)
                if leaving is not None:
                    check_reason(str(leaving.get("reason")))
                    return
                if is_over:
                    raise ChannelUnreachable(f"Slack has closed the connection (code {socket.close_code})")
        finally:
            reader.cancel()


async def take_group(waiting: "asyncio.Queue[Envelope | None]") -> tuple[Sequence[Envelope], bool]:
    """Wait for an envelope and return it with those that have arrived, and whether it was the end."""
    group: list[Envelope] = []
    each = await waiting.get()
    while each is not None:
        group.append(each)
        if waiting.empty() or len(group) == MAX_GROUP:
            return group, False
        each = waiting.get_nowait()
    return group, True


async def read_envelopes(socket: aiohttp.ClientWebSocketResponse, waiting: "asyncio.Queue[Envelope | None]") -> None:
    """Put what arrives into a queue, and None at the end. Pings are answered meanwhile."""
    async for message in socket:
        if message.type is not aiohttp.WSMsgType.TEXT:
            continue
        try:
            envelope = orjson.loads(message.data)
        except orjson.JSONDecodeError:
            continue
        if isinstance(envelope, dict):
            await waiting.put(envelope)
    await waiting.put(None)


async def acknowledge(socket: aiohttp.ClientWebSocketResponse, envelopes: Sequence[Envelope]) -> None:
    """Confirm envelopes. If the connection has ended, Slack sends them again on the next one."""
    try:
        for each in envelopes:
            await socket.send_str(orjson.dumps({"envelope_id": each["envelope_id"]}).decode())
    except (aiohttp.ClientError, ConnectionError):
        return


def check_reason(reason: str) -> None:
    """Raise the error for a reason to end a connection, unless another one may follow at once."""
    if reason == "link_disabled":
        raise ChannelLoginRefused("Socket Mode is switched off in the settings of the Slack app")
    if reason not in LEAVING:
        raise ChannelUnreachable(f"Slack has ended the connection: {reason}")
