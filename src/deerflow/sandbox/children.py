"""Programs of ours that look at what nobody trusts: each is started for one input, limited, and ended."""

import asyncio
import sys
from collections.abc import Sequence
from contextlib import suppress


async def run_child(arguments: Sequence[str], sent: bytes, wall_s: float, max_result: int) -> bytes:
    """What a Python program makes of its input; nothing if it has failed, takes too long or says too much.

    It sees no variables and none of the user's packages, and gives up by itself what it does not need.
    """
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", *arguments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={"LANG": "C.UTF-8"},
        start_new_session=True,
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        async with asyncio.timeout(wall_s):
            process.stdin.write(sent)
            process.stdin.write_eof()
            output = await read_at_most(process.stdout, max_result)
            return output if await process.wait() == 0 else b""
    except TimeoutError:
        return b""
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def read_at_most(stream: asyncio.StreamReader, limit: int) -> bytes:
    """All of a stream; nothing if it is longer than `limit`."""
    read = bytearray()
    while chunk := await stream.read(1 << 16):
        read += chunk
        if len(read) > limit:
            return b""
    return bytes(read)
