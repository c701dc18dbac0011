"""Giving files to a thread without HTTP."""

import asyncio

from deerflow.domain.threads import ThreadRecord
from deerflow.domain.uploads import UploadedFile
from deerflow.harness import Harness

PIECE = 1024 * 1024


async def give(harness: Harness, thread: ThreadRecord, name: str, content: bytes) -> UploadedFile:
    """Upload a file and wait for what becomes of it."""
    async with asyncio.timeout(150), harness.uploads.receiving(thread) as reception:
        await reception.begin(name)
        for at in range(0, len(content), PIECE):
            await reception.write(content[at : at + PIECE])
        await reception.end()
        (file,) = (await harness.uploads.keep(thread, reception)).files
    return file
