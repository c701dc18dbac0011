"""Hand-written multipart requests that no client would send."""

import asyncio
from collections.abc import AsyncIterator

BOUNDARY = "simple"
HEADERS = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}


def build_part(filename: str | bytes, content: bytes = b"content", field: str = "files") -> bytes:
    """Return one file part, with its name unescaped."""
    name = filename if isinstance(filename, bytes) else filename.encode(errors="surrogatepass")
    disposition = b'Content-Disposition: form-data; name="%s"; filename="%s"' % (field.encode(), name)
    return b"--%s\r\n%s\r\n\r\n%s\r\n" % (BOUNDARY.encode(), disposition, content)


def build_body(*parts: bytes) -> bytes:
    """Return a complete body."""
    return b"".join(parts) + f"--{BOUNDARY}--\r\n".encode()


async def stream_pieces(*all_pieces: bytes) -> AsyncIterator[bytes]:
    """Yield a body without a declared length."""
    for piece in all_pieces:
        yield piece


async def send_raw(port: int, request: bytes) -> bytes:
    """Send raw bytes to a server and return the response."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request)
        await writer.drain()
        async with asyncio.timeout(10):
            return await reader.read(65536)
    finally:
        writer.close()
        await writer.wait_closed()


def build_raw_request(thread_id: str, content: bytes, length: int) -> bytes:
    """Return a request with the given Content-Length."""
    lines = [
        f"POST /api/threads/{thread_id}/uploads HTTP/1.1",
        "Host: 127.0.0.1",
        f"Content-Type: {HEADERS['Content-Type']}",
        f"Content-Length: {length}",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + content
