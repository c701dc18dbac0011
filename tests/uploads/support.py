"""Uploads to a thread without HTTP."""

import asyncio

from deerflow.domain.files import UploadedFile
from deerflow.domain.threads import ThreadRecord
from deerflow.harness import Harness

CHUNK_SIZE = 1024 * 1024


async def upload_file(harness: Harness, thread: ThreadRecord, name: str, content: bytes) -> UploadedFile:
    """Upload a file and wait for its conversion."""
    async with asyncio.timeout(150), harness.core.uploads.receive(thread) as receiver:
        await receiver.begin(name)
        for at in range(0, len(content), CHUNK_SIZE):
            await receiver.write(content[at : at + CHUNK_SIZE])
        await receiver.end()
        (file,) = (await harness.core.uploads.complete(thread, receiver)).files
    return file
