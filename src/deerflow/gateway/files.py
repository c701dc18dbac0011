"""Files over HTTP: responses with ranges and conditional requests (RFC 9110), and streamed multipart uploads."""

import asyncio
import codecs
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from email.utils import format_datetime
from pathlib import PurePosixPath
from urllib.parse import quote, unquote_to_bytes

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from deerflow.domain.errors import InvalidRequest, TooSlow
from deerflow.gateway.errors import error_response
from deerflow.sandbox.file_access import ReadableFile
from deerflow.tools.builtins import detect_image_type

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


SINGLE_RANGE = re.compile(r"bytes=[ \t]*([0-9]*)[ \t]*-[ \t]*([0-9]*)[ \t]*", re.IGNORECASE)
ETAG = re.compile(r'(?:W/)?"[\x21\x23-\x7e\x80-\xff]*"')
MAX_DIGITS = 19
"""More digits than any file size has."""


class NotSatisfiable(Exception):
    """Requested range is outside the file."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """Conditional headers of a request."""

    range: str | None = None
    if_range: str | None = None
    if_none_match: str | None = None


@dataclass(frozen=True, slots=True)
class ByteRange:
    """Bytes of a file from `begin` to `end` (exclusive)."""

    begin: int
    end: int


def format_etag(tag: str, *, is_settled: bool) -> str:
    """Return an ETag; a weak one if the content may change without changing the tag."""
    return f'"{tag}"' if is_settled else f'W/"{tag}"'


def is_not_modified(conditions: Conditions, etag: str) -> bool:
    """Return whether the client has the current content."""
    if conditions.if_none_match is None:
        return False
    if conditions.if_none_match.strip() == "*":
        return True
    return etag.removeprefix("W/") in {each.removeprefix("W/") for each in ETAG.findall(conditions.if_none_match)}


def parse_range(conditions: Conditions, etag: str, size: int) -> ByteRange | None:
    """Return the requested range; None means the whole file.

    Several ranges and invalid ones are answered with the whole file, as the standard allows: a client that requests
    many small or overlapping ranges gets no more than one file.

    Raises:
        NotSatisfiable: the file ends before the range begins.
    """
    if conditions.range is None or not matches_if_range(conditions.if_range, etag):
        return None
    found = SINGLE_RANGE.fullmatch(conditions.range.strip())
    if found is None or found.groups() == ("", ""):
        return None
    first, last = (parse_number(each) for each in found.groups())
    if first is None:
        if not last or not size:
            raise NotSatisfiable
        return ByteRange(max(size - last, 0), size)
    if last is not None and last < first:
        return None
    if first >= size:
        raise NotSatisfiable
    return ByteRange(first, size if last is None else min(last + 1, size))


def matches_if_range(if_range: str | None, etag: str) -> bool:
    """Return whether a range may be sent; only a strong ETag can match, a date cannot."""
    return if_range is None or (if_range.strip() == etag and not etag.startswith("W/"))


def parse_number(digits: str) -> int | None:
    """Return the number, or None without digits. Numbers larger than any file size are capped: parsing is slow."""
    if not digits:
        return None
    short = digits.lstrip("0") or "0"
    return int(short) if len(short) <= MAX_DIGITS else 10**MAX_DIGITS


HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "sandbox; default-src 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
TEXT = "text/plain; charset=utf-8"
BYTES = "application/octet-stream"
SNIFF_BYTES = 64 * 1024
CHUNK_SIZE = 256 * 1024
MARKUP = frozenset(
    {".htm", ".html", ".shtml", ".xht", ".xhtml", ".svg", ".svgz", ".xml", ".xsl", ".xslt", ".mht", ".mhtml"}
)
MEDIA = (
    (re.compile(rb"ID3|\xff[\xe2\xe3\xf2\xf3\xfa\xfb]", re.S), "audio/mpeg"),
    (re.compile(rb"RIFF....WAVE", re.S), "audio/wav"),
    (re.compile(rb"OggS", re.S), "audio/ogg"),
    (re.compile(rb"fLaC", re.S), "audio/flac"),
    (re.compile(rb"....ftypM4A", re.S), "audio/mp4"),
    (re.compile(rb"....ftyp", re.S), "video/mp4"),
    (re.compile(rb"\x1a\x45\xdf\xa3", re.S), "video/webm"),
)
"""First bytes of sound and video files. They stay attachments: only players of the page use the type."""
NOT_TEXT = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")


async def file_response(
    file: ReadableFile, conditions: Conditions, *, download: bool = False, only_headers: bool = False
) -> Response:
    """Return a file, a range of it, or 304. The file is closed after the response."""
    etag = format_etag(file.tag, is_settled=file.is_settled)
    try:
        beginning = await asyncio.to_thread(file.read, 0, SNIFF_BYTES)
    except BaseException:
        file.close()
        raise
    headers = {
        **file_headers(file.name, None if download else find_safe_type(file.name, beginning), find_media(beginning)),
        "ETag": etag,
        "Last-Modified": format_datetime(file.modified_at, usegmt=True),
        "Accept-Ranges": "bytes",
    }
    if is_not_modified(conditions, etag):
        file.close()
        kept = ("ETag", "Last-Modified", *HEADERS)
        return Response(status_code=304, headers={name: headers[name] for name in kept})
    if only_headers:
        file.close()
        return Response(headers={**headers, "Content-Length": str(file.size)})
    try:
        part = parse_range(conditions, etag, file.size)
    except NotSatisfiable:
        file.close()
        return range_not_satisfiable(file.size)
    return StreamedFile(file, part, headers)


def range_not_satisfiable(size: int) -> Response:
    """Return the response for a range outside the file."""
    answer = error_response(416, "RangeNotSatisfiable", f"range is outside the file, which has {size} bytes")
    answer.headers.update({"Content-Range": f"bytes */{size}", **HEADERS})
    return answer


class StreamedFile(StreamingResponse):
    """Response that streams a file, or a range of it, in chunks."""

    def __init__(self, file: ReadableFile, part: ByteRange | None, headers: Mapping[str, str]) -> None:
        self._file = file
        self._part = part or ByteRange(0, file.size)
        more = {"Content-Length": str(self._part.end - self._part.begin)}
        if part is not None:
            more["Content-Range"] = f"bytes {part.begin}-{part.end - 1}/{file.size}"
        super().__init__(self._pieces(), 200 if part is None else 206, {**headers, **more})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._file.close()

    async def stream_response(self, send: Send) -> None:
        """Send the content; if the file has become shorter, close the connection without an end of the body."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        sent = 0
        async for piece in self.body_iterator:
            assert isinstance(piece, bytes)
            sent += len(piece)
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        if sent == self._part.end - self._part.begin:
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _pieces(self) -> AsyncIterator[bytes]:
        place = self._part.begin
        while place < self._part.end:
            piece = await asyncio.to_thread(self._file.read, place, min(CHUNK_SIZE, self._part.end - place))
            if not piece:
                return
            place += len(piece)
            yield piece


def file_headers(name: str, safe_type: str | None, other_type: str | None = None) -> dict[str, str]:
    """Return the headers of an untrusted file; it is shown inline only with a safe media type."""
    place = "inline" if safe_type else "attachment"
    disposition = f"{place}; filename*=UTF-8''{quote(name, safe='')}"
    return {**HEADERS, "Content-Type": safe_type or other_type or BYTES, "Content-Disposition": disposition}


def find_media(beginning: bytes) -> str | None:
    """Return the media type of a sound or video, by its first bytes."""
    return next((media_type for pattern, media_type in MEDIA if pattern.match(beginning)), None)


def find_safe_type(name: str, beginning: bytes) -> str | None:
    """Return the media type with which a browser may show the file inline, or None."""
    if PurePosixPath(name).suffix.lower() in MARKUP:
        return None
    return detect_image_type(beginning) or (TEXT if is_text(beginning) else None)


def is_text(beginning: bytes) -> bool:
    """Return whether a file that starts with these bytes is text; the last character may be incomplete."""
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(beginning)
    except UnicodeDecodeError:
        return False
    return not NOT_TEXT.search(text)
