"""Connections of a fake Feishu, and their frames. The codec is not that of the client, so each tests the other."""

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from aiohttp import web


@dataclass(slots=True, eq=False)
class FakeLink:
    """Connection; frames are sent in their order."""

    socket: web.WebSocketResponse
    transport: asyncio.Transport | None
    outgoing: asyncio.Queue[bytes] = field(default_factory=asyncio.Queue)

    async def write(self) -> None:
        """Send frames until the connection ends."""
        while not self.socket.closed:
            try:
                await self.socket.send_bytes(await self.outgoing.get())
            except ConnectionError:
                return

    async def end(self, code: int) -> None:
        """End the connection with a close code; with those that no server may send, it is cut off."""
        if code in (1005, 1006, 1015) and self.transport is not None:
            self.transport.abort()
        else:
            await self.socket.close(code=code)


def varint(value: int) -> bytes:
    """Return a number in groups of seven bits."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def block(number: int, value: bytes) -> bytes:
    """Return a field with a length."""
    return varint(number << 3 | 2) + varint(len(value)) + value


def encode(method: int, headers: Mapping[str, str], payload: bytes) -> bytes:
    """Return the bytes of a frame."""
    numbers = b"".join(varint(number << 3) + varint(value) for number, value in ((1, 1), (2, 2), (3, 9), (4, method)))
    pairs = b"".join(block(5, block(1, key.encode()) + block(2, value.encode())) for key, value in headers.items())
    return numbers + pairs + block(8, payload)


def iterate(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield number and value of the fields of a message."""
    at = 0

    def read() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at, value, shift = at + 1, value | (byte & 127) << shift, shift + 7
            if byte < 128:
                return value

    while at < len(data):
        tag = read()
        value = read()
        if tag & 7 == 2:
            at += value
            yield tag >> 3, data[at - value : at]
        else:
            yield tag >> 3, value


def decode(data: bytes) -> tuple[Mapping[str, str], bytes]:
    """Return headers and payload of a frame."""
    fields = list(iterate(data))
    pairs = [dict(iterate(value)) for number, value in fields if number == 5 and isinstance(value, bytes)]
    headers = {text(pair[1]): text(pair[2]) for pair in pairs}
    return headers, next((value for number, value in fields if number == 8 and isinstance(value, bytes)), b"")


def text(value: int | bytes) -> str:
    """Return the text of a field."""
    return value.decode() if isinstance(value, bytes) else str(value)
