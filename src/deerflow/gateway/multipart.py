"""The parts of a multipart body while it comes, so that no file is held in memory or written elsewhere first."""

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
"""What browsers write in place of characters that would end a name."""


@dataclass(frozen=True, slots=True)
class PartBegins:
    """A field comes next; `filename` is None when it is no file."""

    name: str
    filename: str | None


@dataclass(frozen=True, slots=True)
class PartData:
    """More of the field."""

    data: bytes


@dataclass(frozen=True, slots=True)
class PartEnds:
    """The field is whole."""


PartEvent = PartBegins | PartData | PartEnds


async def read_parts(request: Request, stall_s: float, limit_s: float) -> AsyncIterator[PartEvent]:
    """What a request brings, in the order it comes.

    Raises:
        InvalidRequest: It is no multipart body, or not a whole one.
        TooSlow: Nothing came for `stall_s`, or not everything within `limit_s`.
    """
    gathered = Gathered()
    parser = open_parser(request, gathered)
    body = aiter(request.stream())
    end = asyncio.get_running_loop().time() + limit_s
    while (chunk := await next_chunk(body, stall_s)) is not None:
        try:
            parser.write(chunk)
        except FormParserError as problem:
            raise InvalidRequest(f"the multipart body cannot be understood: {str(problem).lower()}") from None
        for event in gathered.take():
            yield event
        if asyncio.get_running_loop().time() > end:
            raise TooSlow(f"the upload took longer than {limit_s:g} s; send less at once")
    if not gathered.has_ended:
        raise InvalidRequest("the multipart body ends before its last boundary")


def open_parser(request: Request, gathered: "Gathered") -> MultipartParser:
    """What takes a body apart."""
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    boundary = options.get(b"boundary")
    if kind != b"multipart/form-data" or not boundary:
        raise InvalidRequest("send files as multipart/form-data, with a boundary")
    try:
        return MultipartParser(
            boundary,
            {
                "on_part_begin": gathered.begin,
                "on_header_field": gathered.add_to_field,
                "on_header_value": gathered.add_to_value,
                "on_header_end": gathered.end_header,
                "on_headers_finished": gathered.end_headers,
                "on_part_data": gathered.add_data,
                "on_part_end": gathered.end_part,
                "on_end": gathered.end,
            },
        )
    except FormParserError as problem:
        raise InvalidRequest(f"the boundary cannot be used: {str(problem).lower()}") from None


async def next_chunk(body: AsyncIterator[bytes], stall_s: float) -> bytes | None:
    """The next piece of a body, None when there is no more."""
    try:
        async with asyncio.timeout(stall_s):
            return await anext(body, None)
    except TimeoutError:
        raise TooSlow(f"nothing came for {stall_s:g} s; send it again") from None
    except ClientDisconnect:
        raise InvalidRequest("the connection ended before everything had come") from None


class Gathered:
    """What the parser has found and nobody has dealt with yet."""

    def __init__(self) -> None:
        self._events: list[PartEvent] = []
        self._parts = 0
        self._field, self._value = bytearray(), bytearray()
        self._disposition = b""
        self.has_ended = False

    def take(self) -> list[PartEvent]:
        """What has been found since this was last asked."""
        taken, self._events = self._events, []
        return taken

    def begin(self) -> None:
        """A part comes next."""
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise InvalidRequest(f"the multipart body has more than {MAX_PARTS} parts")
        self._disposition = b""

    def add_to_field(self, data: bytes, start: int, end: int) -> None:
        """More of the name of a header."""
        self._field += data[start:end]

    def add_to_value(self, data: bytes, start: int, end: int) -> None:
        """More of the value of a header."""
        self._value += data[start:end]

    def end_header(self) -> None:
        """A header is whole."""
        if self._field.lower() == b"content-disposition":
            self._disposition = bytes(self._value)
        self._field.clear()
        self._value.clear()

    def end_headers(self) -> None:
        """The content comes next."""
        _, options = parse_options_header(self._disposition)
        if b"name" not in options:
            raise InvalidRequest("a part of the multipart body has no name")
        filename = options.get(b"filename", self._extended_name())
        self._events.append(PartBegins(to_text(options[b"name"]), None if filename is None else to_text(filename)))

    def _extended_name(self) -> bytes | None:
        """A name that is no ASCII, as some clients write it, though the standard for forms says they should not."""
        found = EXTENDED.search(self._disposition)
        return unquote_to_bytes(found[1]) if found else None

    def add_data(self, data: bytes, start: int, end: int) -> None:
        """More of the content."""
        self._events.append(PartData(data[start:end]))

    def end_part(self) -> None:
        """The part is whole."""
        self._events.append(PartEnds())

    def end(self) -> None:
        """The body is whole."""
        self.has_ended = True


def to_text(name: bytes) -> str:
    """A name as its sender meant it."""
    for escaped, character in ESCAPES:
        name = name.replace(escaped, character)
    return name.decode(errors="replace")
