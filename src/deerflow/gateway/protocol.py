"""HTTP as uvicorn speaks it, with limits on the headers, and refusals in the one shape of errors."""

import asyncio
from http import HTTPStatus

import orjson
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from deerflow.gateway.errors import CODES

HEADERS_S = 15.0
MOST_HEADER_BYTES = 64 * 1024


class PunctualProtocol(HttpToolsProtocol):
    """Gives up connections whose headers come too slowly or are too large."""

    headers_s = HEADERS_S
    _patience: asyncio.TimerHandle | None = None
    _header_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait_for_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._patience is not None:  # what comes now are headers, perhaps with the beginning of a body
            self._header_bytes += data.find(b"\r\n\r\n") if b"\r\n\r\n" in data else len(data)
            if self._header_bytes > MOST_HEADER_BYTES:
                self._refuse("HeadersTooLarge", f"the headers are larger than {MOST_HEADER_BYTES} bytes")
                return
        super().data_received(data)

    def on_message_begin(self) -> None:
        self._wait_for_headers()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._stop_waiting()
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        self._refuse("BadRequest", msg)

    def _wait_for_headers(self) -> None:
        if self._patience is None:
            self._header_bytes = 0
            self._patience = self.loop.call_later(self.headers_s, self._give_up)

    def _stop_waiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _give_up(self) -> None:
        self._refuse("RequestTimeout", "the headers of the request came too slowly")

    def _refuse(self, name: str, sentence: str) -> None:
        """Answer and hang up."""
        self._stop_waiting()
        if self.transport.is_closing():
            return
        status = HTTPStatus(CODES[name].status)
        body = orjson.dumps({"detail": sentence, "error": name})
        head = [
            f"HTTP/1.1 {status.value} {status.phrase}",
            "content-type: application/json",
            f"content-length: {len(body)}",
            "connection: close",
        ]
        self.transport.write("\r\n".join([*head, "", ""]).encode() + body)
        self.transport.close()
