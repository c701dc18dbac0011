"""Requests written by hand, for no client would send them."""

import asyncio
from collections.abc import AsyncIterator

BOUNDARY = "simple"
HEADERS = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}


def part(filename: str | bytes, content: bytes = b"content", field: str = "files") -> bytes:
    """One file of a body; its name goes as it is."""
    name = filename if isinstance(filename, bytes) else filename.encode(errors="surrogatepass")
    disposition = b'Content-Disposition: form-data; name="%s"; filename="%s"' % (field.encode(), name)
    return b"--%s\r\n%s\r\n\r\n%s\r\n" % (BOUNDARY.encode(), disposition, content)


def body(*parts: bytes) -> bytes:
    """A whole body."""
    return b"".join(parts) + f"--{BOUNDARY}--\r\n".encode()


async def pieces(*all_pieces: bytes) -> AsyncIterator[bytes]:
    """A body whose length nobody tells."""
    for piece in all_pieces:
        yield piece


async def exchange(port: int, request: bytes) -> bytes:
    """What a server answers to raw bytes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request)
        await writer.drain()
        async with asyncio.timeout(10):
            return await reader.read(65536)
    finally:
        writer.close()
        await writer.wait_closed()


def raw_request(thread_id: str, content: bytes, length: int) -> bytes:
    """A request whose length is what somebody says it is."""
    lines = [
        f"POST /api/threads/{thread_id}/uploads HTTP/1.1",
        "Host: 127.0.0.1",
        f"Content-Type: {HEADERS['Content-Type']}",
        f"Content-Length: {length}",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + content
