"""Standard input and output for a protocol: whatever else prints goes to standard error."""

import asyncio
import os
import sys

STDOUT, STDERR = 1, 2
MOST_BYTES = 50 * 1024 * 1024
"""So long may one message be: pictures and whole files come in one."""


def claim_output() -> int:
    """A descriptor that leads where standard output led; what is printed from now on goes to standard error."""
    sys.stdout.flush()
    kept = os.dup(STDOUT)
    os.dup2(STDERR, STDOUT)
    return kept


async def open_streams(output: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """What comes in on standard input, and what goes out by `output`."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=MOST_BYTES)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    pipe = os.fdopen(output, "wb", buffering=0)
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), pipe
    )
    return reader, asyncio.StreamWriter(transport, protocol, None, loop)
