"""Jobs and services that run inside a sandbox, and child processes that parse untrusted input."""

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress

if sys.platform != "win32":
    import resource


async def run_child(arguments: Sequence[str], sent: bytes, wall_s: float, max_result: int) -> bytes:
    """Run a Python program on `sent` and return its output; empty if it fails, times out or prints too much.

    The child has no environment variables and no user packages, and drops its own privileges.
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
            output = await read_bounded(process.stdout, max_result)
            return output if await process.wait() == 0 else b""
    except TimeoutError:
        return b""
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def read_bounded(stream: asyncio.StreamReader, limit: int) -> bytes:
    """Read a stream to its end; return nothing if it is longer than `limit`."""
    read = bytearray()
    while chunk := await stream.read(1 << 16):
        read += chunk
        if len(read) > limit:
            return b""
    return bytes(read)


def drop_privileges(cpu_s: int, memory_bytes: int, uid: int | None) -> None:
    """Limit CPU time and memory, forbid files and processes, and drop root. Windows has no such limits."""
    if sys.platform == "win32":
        return
    limits: Mapping[int, int] = {
        resource.RLIMIT_CPU: cpu_s,
        resource.RLIMIT_AS: memory_bytes,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_NPROC: 0,
        resource.RLIMIT_CORE: 0,
    }
    for kind, limit in limits.items():
        highest = resource.getrlimit(kind)[1]
        lower = limit if highest == resource.RLIM_INFINITY else min(limit, highest)
        with nullcontext() if sys.platform == "linux" else suppress(ValueError):  # not all exist on other systems
            resource.setrlimit(kind, (lower, lower))
    if uid is not None:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
