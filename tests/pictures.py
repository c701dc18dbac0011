"""Images for tests, made without a library."""

import struct
import zlib


def png(width: int, height: int, said_width: int | None = None) -> bytes:
    """Return a grey PNG; `said_width` is a false width in its header."""
    header = struct.pack(">IIBBBBB", said_width or width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress(b"".join(b"\0" + b"\x80" * width for _ in range(height)))
    chunks = ((b"IHDR", header), (b"IDAT", rows), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
