"""Frames of Feishu's long connection: two protobuf messages, a frame and its headers."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from deerflow.channels.adapter import ChannelUnreachable

CONTROL, DATA = 0, 1
"""Methods of frames."""
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""Wire types of protobuf."""
MAX_VARINT_BITS = 63
SEQ_ID, LOG_ID, SERVICE, METHOD, HEADER, PAYLOAD = 1, 2, 3, 4, 5, 8
UINT64 = 2**64 - 1


@dataclass(frozen=True, slots=True)
class FeishuFrame:
    """Message of the connection. Fields with other numbers are kept for the answer."""

    method: int
    headers: Mapping[str, str] = field(default_factory=dict)
    payload: bytes = b""
    service: int = 0
    seq_id: int = 0
    log_id: int = 0
    others: Sequence[tuple[int, int | bytes]] = ()

    def answer(self, payload: bytes) -> "FeishuFrame":
        """Return the frame that acknowledges this one."""
        return replace(self, payload=payload)


def encode_frame(frame: FeishuFrame) -> bytes:
    """Return the bytes of a frame."""
    out = bytearray()
    for number, value in ((SEQ_ID, frame.seq_id), (LOG_ID, frame.log_id), (SERVICE, frame.service)):
        out += encode_field(number, value)
    out += encode_field(METHOD, frame.method)
    for key, text in frame.headers.items():
        out += encode_field(HEADER, encode_field(1, key.encode()) + encode_field(2, text.encode()))
    for number, other in frame.others:
        out += encode_field(number, other)
    return bytes(out + encode_field(PAYLOAD, frame.payload) if frame.payload else out)


def decode_frame(data: bytes) -> FeishuFrame:
    """Return the frame in bytes, or raise `ChannelUnreachable`: a connection with other messages is of no use."""
    numbers = {SEQ_ID: 0, LOG_ID: 0, SERVICE: 0, METHOD: 0}
    headers: dict[str, str] = {}
    others: list[tuple[int, int | bytes]] = []
    payload = b""
    try:
        for number, value in iterate_fields(data):
            if number in numbers and isinstance(value, int):
                numbers[number] = value
            elif number == HEADER and isinstance(value, bytes):
                found = {at: text for at, text in iterate_fields(value) if isinstance(text, bytes)}
                headers[found.get(1, b"").decode()] = found.get(2, b"").decode()
            elif number == PAYLOAD and isinstance(value, bytes):
                payload = value
            else:
                others.append((number, value))
    except (IndexError, ValueError) as problem:
        raise ChannelUnreachable(f"Feishu sent a frame that cannot be read ({problem})") from None
    return FeishuFrame(
        numbers[METHOD], headers, payload, numbers[SERVICE], numbers[SEQ_ID], numbers[LOG_ID], tuple(others)
    )


def encode_field(number: int, value: int | bytes) -> bytes:
    """Return a field of a message."""
    if isinstance(value, int):
        return encode_varint(number << 3 | VARINT) + encode_varint(value)
    return encode_varint(number << 3 | BYTES) + encode_varint(len(value)) + value


def encode_varint(value: int) -> bytes:
    """Return a number in groups of seven bits; negative ones have 64 bits."""
    value &= UINT64
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def iterate_fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield number and value of the fields of a message; fields of a fixed length are left out."""
    at = 0
    while at < len(data):
        tag, at = decode_varint(data, at)
        number, kind = tag >> 3, tag & 7
        if kind == VARINT:
            value, at = decode_varint(data, at)
            yield number, value
        elif kind == BYTES:
            length, at = decode_varint(data, at)
            end = at + length
            if end > len(data):
                raise ValueError("a field is cut off")
            yield number, data[at:end]
            at = end
        elif kind in (FIXED64, FIXED32):
            at += 8 if kind == FIXED64 else 4
        else:
            raise ValueError(f"there is no wire type {kind}")


def decode_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the number at an offset, and the offset after it."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & UINT64, at
        shift += 7
        if shift > MAX_VARINT_BITS:
            raise ValueError("a number is too long")
