"""HTTP protocol of uvicorn with limits for headers, and error responses of the usual shape."""

import asyncio
from http import HTTPStatus

import orjson
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from deerflow.gateway.errors import ERRORS

HEADER_TIMEOUT_S = 15.0
MAX_HEADER_BYTES = 64 * 1024


class HeaderTimeoutProtocol(HttpToolsProtocol):
    """Protocol that closes connections whose headers arrive too slowly or are too large."""

    header_timeout_s = HEADER_TIMEOUT_S
    _header_timer: asyncio.TimerHandle | None = None
    _header_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start_header_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_header_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._header_timer is not None:  # the data contains headers, perhaps with the start of a body
            self._header_bytes += data.find(b"\r\n\r\n") if b"\r\n\r\n" in data else len(data)
            if self._header_bytes > MAX_HEADER_BYTES:
                self._send_error("HeadersTooLarge", f"request headers are larger than {MAX_HEADER_BYTES} bytes")
                return
        super().data_received(data)

    def on_message_begin(self) -> None:
        self._start_header_timer()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._stop_header_timer()
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        self._send_error("BadRequest", msg)

    def _start_header_timer(self) -> None:
        if self._header_timer is None:
            self._header_bytes = 0
            self._header_timer = self.loop.call_later(self.header_timeout_s, self._time_out)

    def _stop_header_timer(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _time_out(self) -> None:
        self._send_error("RequestTimeout", "timeout while reading the request headers")

    def _send_error(self, name: str, sentence: str) -> None:
        """Send an error response and close the connection."""
        self._stop_header_timer()
        if self.transport.is_closing():
            return
        status = HTTPStatus(ERRORS[name].status)
        body = orjson.dumps({"detail": sentence, "error": name})
        head = [
            f"HTTP/1.1 {status.value} {status.phrase}",
            "content-type: application/json",
            f"content-length: {len(body)}",
            "connection: close",
        ]
        self.transport.write("\r\n".join([*head, "", ""]).encode() + body)
        self.transport.close()
