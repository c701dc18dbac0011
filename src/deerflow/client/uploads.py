"""Files a program gives to a thread."""

import asyncio
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO

from deerflow.client.faces import Session
from deerflow.domain.errors import InvalidRequest
from deerflow.domain.principal import LOCAL_USER
from deerflow.uploads.reception import Reception
from deerflow.uploads.shapes import show_list, show_received

CHUNK = 1024 * 1024


async def upload_files(session: Session, thread_id: str, files: Sequence[str | PathLike[str]]) -> dict[str, Any]:
    """Give files of this machine to a thread; documents become Markdown beside them.

    Raises:
        NotFound: there is no such thread.
        TooLarge: there are too many, or they are too large.
        InvalidRequest: one of them cannot be read.
    """
    harness = session.harness
    thread = await harness.threads.get(thread_id, LOCAL_USER)
    try:
        async with harness.uploads.receiving(thread) as reception:
            for file in map(Path, files):
                await take_in(file, reception)
            received = await harness.uploads.keep(thread, reception)
    finally:
        await harness.threads.confirm(thread_id, LOCAL_USER)
    return show_received(received, thread_id)


async def list_uploads(session: Session, thread_id: str) -> dict[str, Any]:
    """The uploads of a thread, newest first.

    Raises:
        NotFound: there is no such thread.
    """
    thread = await session.harness.threads.get(thread_id, LOCAL_USER)
    return show_list(await session.harness.uploads.list(thread.owner, thread_id), thread_id)


async def delete_upload(session: Session, thread_id: str, filename: str) -> dict[str, Any]:
    """Remove an upload, with the Markdown made from it.

    Raises:
        NotFound: there is no such thread, or no such upload.
    """
    thread = await session.harness.threads.get(thread_id, LOCAL_USER)
    await session.harness.uploads.delete(thread.owner, thread_id, filename)
    return {"success": True, "message": f"deleted {filename!r}"}


async def take_in(path: Path, reception: Reception) -> None:
    """Hand a file on, piece by piece."""
    try:
        file: BinaryIO = await asyncio.to_thread(path.open, "rb")
    except OSError as problem:
        raise InvalidRequest(f"{str(path)!r} cannot be read: {(problem.strerror or str(problem)).lower()}") from None
    with file:
        await reception.begin(path.name)
        while piece := await asyncio.to_thread(file.read, CHUNK):
            await reception.write(piece)
        await reception.end()
