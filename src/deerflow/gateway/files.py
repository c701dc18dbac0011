"""Files as HTTP answers: streamed from what was opened, and never in a form that could act as the user."""

import asyncio
import codecs
import re
from collections.abc import AsyncIterator, Mapping
from email.utils import format_datetime
from pathlib import PurePosixPath
from urllib.parse import quote

from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from deerflow.gateway.errors import error_response
from deerflow.gateway.ranges import Conditions, NotSatisfiable, Part, entity_tag, is_known, wanted_part
from deerflow.sandbox.opened import Readable
from deerflow.tools.builtins.view_image_tool import recognise

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "sandbox; default-src 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
TEXT = "text/plain; charset=utf-8"
BYTES = "application/octet-stream"
LOOKED_AT = 64 * 1024
PIECE = 256 * 1024
MARKUP = frozenset(
    {".htm", ".html", ".shtml", ".xht", ".xhtml", ".svg", ".svgz", ".xml", ".xsl", ".xslt", ".mht", ".mhtml"}
)
NOT_TEXT = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")


async def file_response(
    file: Readable, conditions: Conditions, *, download: bool = False, only_headers: bool = False
) -> Response:
    """A file, or what a client still lacks of it. The file is closed when the answer has been given."""
    etag = entity_tag(file.tag, is_settled=file.is_settled)
    try:
        beginning = await asyncio.to_thread(file.read, 0, LOOKED_AT)
    except BaseException:
        file.close()
        raise
    headers = {
        **headers_of(file.name, None if download else harmless_type(file.name, beginning)),
        "ETag": etag,
        "Last-Modified": format_datetime(file.modified_at, usegmt=True),
        "Accept-Ranges": "bytes",
    }
    if is_known(conditions, etag):
        file.close()
        kept = ("ETag", "Last-Modified", *HEADERS)
        return Response(status_code=304, headers={name: headers[name] for name in kept})
    if only_headers:
        file.close()
        return Response(headers={**headers, "Content-Length": str(file.size)})
    try:
        part = wanted_part(conditions, etag, file.size)
    except NotSatisfiable:
        file.close()
        return unsatisfiable(file.size)
    return StreamedFile(file, part, headers)


def unsatisfiable(size: int) -> Response:
    """The answer to somebody who wants a part that is not there."""
    answer = error_response(416, "RangeNotSatisfiable", f"the file has {size} bytes, and none in that range")
    answer.headers.update({"Content-Range": f"bytes */{size}", **HEADERS})
    return answer


class StreamedFile(StreamingResponse):
    """A file, or a part of it, read piece by piece as the client takes it."""

    def __init__(self, file: Readable, part: Part | None, headers: Mapping[str, str]) -> None:
        self._file = file
        self._part = part or Part(0, file.size)
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
        """Send what there is; a file that has become shorter breaks the connection off instead of pretending."""
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
            piece = await asyncio.to_thread(self._file.read, place, min(PIECE, self._part.end - place))
            if not piece:
                return
            place += len(piece)
            yield piece


def headers_of(name: str, shown_as: str | None) -> dict[str, str]:
    """What a browser has to know of a file that nobody vouches for; shown in place only under a harmless type."""
    place = "inline" if shown_as else "attachment"
    disposition = f"{place}; filename*=UTF-8''{quote(name, safe='')}"
    return {**HEADERS, "Content-Type": shown_as or BYTES, "Content-Disposition": disposition}


def harmless_type(name: str, beginning: bytes) -> str | None:
    """The type under which a browser may show the file: what its content is, unless its name asks for more."""
    if PurePosixPath(name).suffix.lower() in MARKUP:
        return None
    return recognise(beginning) or (TEXT if is_text(beginning) else None)


def is_text(beginning: bytes) -> bool:
    """Whether a file that begins so can be read by people; a character may be cut off at the end."""
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(beginning)
    except UnicodeDecodeError:
        return False
    return not NOT_TEXT.search(text)
