"""Protocol servers of the agent: ACP for editors, MCP for other programs.

Protocols own standard output; everything else that prints goes to standard error.
"""

import asyncio
import os
import sys

STDOUT, STDERR = 1, 2
MAX_BYTES = 50 * 1024 * 1024
"""Maximum message size: images and whole files are sent in one message."""


def take_over_stdout() -> int:
    """Return a descriptor of the current standard output, and redirect standard output to standard error."""
    sys.stdout.flush()
    kept = os.dup(STDOUT)
    os.dup2(STDERR, STDOUT)
    return kept


async def open_stdio(output: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Return a reader of standard input and a writer to `output`."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=MAX_BYTES)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    pipe = os.fdopen(output, "wb", buffering=0)
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), pipe
    )
    return reader, asyncio.StreamWriter(transport, protocol, None, loop)
