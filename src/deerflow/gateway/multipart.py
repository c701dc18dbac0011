"""Streaming parser of multipart bodies: no file is held in memory or written to disk first."""

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import ClientDisconnect, Request

from deerflow.domain.errors import InvalidRequest, TooSlow

MAX_PARTS = 2000
EXTENDED = re.compile(rb";\s*filename\*\s*=\s*utf-8''([^;\s\"]*)", re.I)
ESCAPES = ((b"%22", b'"'), (b"%0D", b"\r"), (b"%0A", b"\n"))
"""Escapes that browsers use in file names."""


@dataclass(frozen=True, slots=True)
class PartBegins:
    """Start of a field; `filename` is None if it is not a file."""

    name: str
    filename: str | None


@dataclass(frozen=True, slots=True)
class PartData:
    """Chunk of a field."""

    data: bytes


@dataclass(frozen=True, slots=True)
class PartEnds:
    """End of a field."""


PartEvent = PartBegins | PartData | PartEnds


async def read_parts(request: Request, stall_s: float, limit_s: float) -> AsyncIterator[PartEvent]:
    """Yield the parts of a multipart body in order.

    Raises:
        InvalidRequest: the body is not multipart, or incomplete.
        TooSlow: no data arrived for `stall_s`, or the body took longer than `limit_s`.
    """
    collector = PartCollector()
    parser = open_parser(request, collector)
    body = aiter(request.stream())
    end = asyncio.get_running_loop().time() + limit_s
    while (chunk := await read_chunk(body, stall_s)) is not None:
        try:
            parser.write(chunk)
        except FormParserError as problem:
            raise InvalidRequest(f"invalid multipart body: {str(problem).lower()}") from None
        for event in collector.take():
            yield event
        if asyncio.get_running_loop().time() > end:
            raise TooSlow(f"the upload took longer than {limit_s:g} s; send less at once")
    if not collector.has_ended:
        raise InvalidRequest("the multipart body ends before its last boundary")


def open_parser(request: Request, collector: "PartCollector") -> MultipartParser:
    """Return the parser of a multipart body."""
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    boundary = options.get(b"boundary")
    if kind != b"multipart/form-data" or not boundary:
        raise InvalidRequest("send files as multipart/form-data, with a boundary")
    try:
        return MultipartParser(
            boundary,
            {
                "on_part_begin": collector.begin,
                "on_header_field": collector.add_to_field,
                "on_header_value": collector.add_to_value,
                "on_header_end": collector.end_header,
                "on_headers_finished": collector.end_headers,
                "on_part_data": collector.add_data,
                "on_part_end": collector.end_part,
                "on_end": collector.end,
            },
        )
    except FormParserError as problem:
        raise InvalidRequest(f"invalid boundary: {str(problem).lower()}") from None


async def read_chunk(body: AsyncIterator[bytes], stall_s: float) -> bytes | None:
    """Return the next chunk of a body, or None at its end."""
    try:
        async with asyncio.timeout(stall_s):
            return await anext(body, None)
    except TimeoutError:
        raise TooSlow(f"no data received for {stall_s:g} s; send it again") from None
    except ClientDisconnect:
        raise InvalidRequest("the connection was closed before the end of the body") from None


class PartCollector:
    """Callbacks of the parser; collects events until they are taken."""

    def __init__(self) -> None:
        self._events: list[PartEvent] = []
        self._parts = 0
        self._field, self._value = bytearray(), bytearray()
        self._disposition = b""
        self.has_ended = False

    def take(self) -> list[PartEvent]:
        """Return the events since the last call."""
        taken, self._events = self._events, []
        return taken

    def begin(self) -> None:
        """Begin a part."""
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise InvalidRequest(f"the multipart body has more than {MAX_PARTS} parts")
        self._disposition = b""

    def add_to_field(self, data: bytes, start: int, end: int) -> None:
        """Add a chunk of a header name."""
        self._field += data[start:end]

    def add_to_value(self, data: bytes, start: int, end: int) -> None:
        """Add a chunk of a header value."""
        self._value += data[start:end]

    def end_header(self) -> None:
        """End a header."""
        if self._field.lower() == b"content-disposition":
            self._disposition = bytes(self._value)
        self._field.clear()
        self._value.clear()

    def end_headers(self) -> None:
        """End the headers of a part."""
        _, options = parse_options_header(self._disposition)
        if b"name" not in options:
            raise InvalidRequest("a part of the multipart body has no name")
        filename = options.get(b"filename", self._extended_name())
        self._events.append(
            PartBegins(decode_name(options[b"name"]), None if filename is None else decode_name(filename))
        )

    def _extended_name(self) -> bytes | None:
        """Return a non-ASCII file name in the extended form, which some clients send against the standard."""
        found = EXTENDED.search(self._disposition)
        return unquote_to_bytes(found[1]) if found else None

    def add_data(self, data: bytes, start: int, end: int) -> None:
        """Add a chunk of the content."""
        self._events.append(PartData(data[start:end]))

    def end_part(self) -> None:
        """End a part."""
        self._events.append(PartEnds())

    def end(self) -> None:
        """End the body."""
        self.has_ended = True


def decode_name(name: bytes) -> str:
    """Return a field or file name with its escapes decoded."""
    for escaped, character in ESCAPES:
        name = name.replace(escaped, character)
    return name.decode(errors="replace")
