"""Files of threads: had, bundled, edited, and what runs did to them."""

import asyncio
import mimetypes
from collections.abc import AsyncGenerator, Generator, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any
from uuid import uuid4

from deerflow.client.faces import Session
from deerflow.domain.changes import FileChange
from deerflow.domain.errors import NotFound
from deerflow.domain.files import OUTPUTS
from deerflow.domain.principal import LOCAL_USER
from deerflow.domain.runs import RunRecord
from deerflow.sandbox.opened import Readable
from deerflow.tools.builtins.view_image_tool import recognise

PIECE = 1024 * 1024


async def get_artifact(session: Session, thread_id: str, path: str) -> tuple[bytes, str]:
    """A file of a thread and its media type; `path` is as the agent says it, e.g. `/mnt/user-data/outputs/plan.md`.

    Raises:
        NotFound: there is no such thread.
        FileProblem: the file cannot be had.
    """
    file = await opened(session, thread_id, path)
    content = await asyncio.to_thread(lambda: b"".join(pieces_of(file)))
    return content, recognise(content) or mimetypes.guess_type(path)[0] or "application/octet-stream"


async def get_thumbnail(session: Session, thread_id: str, path: str, size: int = 256) -> bytes:
    """A small WebP of a picture of a thread, whose longer side has about `size` pixels.

    Raises:
        NotFound: there is no such thread.
        FileProblem: there is no such file, or no picture can be made of it; the text says why.
    """
    drawn = await session.harness.artifacts.thumbnail(thread_id, LOCAL_USER, absolute(path), size)
    return drawn.read(0, drawn.size)


async def stream_artifact(session: Session, thread_id: str, path: str) -> AsyncGenerator[bytes]:
    """A file of a thread piece by piece, however large it is.

    Raises:
        NotFound: there is no such thread.
        FileProblem: the file cannot be had.
    """
    pieces = pieces_of(await opened(session, thread_id, path))
    try:
        while piece := await asyncio.to_thread(next, pieces, b""):
            yield piece
    finally:
        await asyncio.to_thread(pieces.close)


async def download_artifact(session: Session, thread_id: str, path: str, to: str | Path) -> int:
    """Save a file of a thread on this machine, whole or not at all; how many bytes it has.

    Raises:
        NotFound: there is no such thread.
        FileProblem: the file cannot be had.
    """
    file = await opened(session, thread_id, path)
    return await asyncio.to_thread(save, pieces_of(file), Path(to))


async def download_artifacts(
    session: Session, thread_id: str, to: str | Path, paths: Sequence[str] = (OUTPUTS,)
) -> int:
    """Save files and folders of a thread as one zip file on this machine; how many bytes it has.

    Raises:
        NotFound: there is no such thread.
        FileProblem: some of the files are not there; they are named.
        TooLarge: they are too many, or too large.
    """
    bundle = await session.harness.artifacts.bundle(thread_id, LOCAL_USER, [absolute(path) for path in paths])
    return await asyncio.to_thread(save, bundle.pieces(), Path(to))


async def edit_artifact(
    session: Session, thread_id: str, path: str, content: str, expected_sha256: str | None = None
) -> dict[str, Any]:
    """Replace a text file of a thread; its `path`, `sha256` and `size`.

    Args:
        thread_id: The thread.
        path: As the agent says it, in `outputs` or `workspace`.
        content: The new text; line endings stay as they are.
        expected_sha256: The hash of the content that was edited. None makes a new file.

    Raises:
        NotFound: there is no such thread.
        Conflict: the file is another one by now; the text says its hash.
    """
    edited = await session.harness.artifacts.edit(thread_id, LOCAL_USER, absolute(path), content, expected_sha256)
    return asdict(edited)


async def get_workspace_changes(
    session: Session, thread_id: str, run_id: str | None = None, *, include_diff: bool = True
) -> dict[str, Any]:
    """What a run did to the files of its thread, the latest one unless another is named.

    Raises:
        NotFound: there is no such thread or run.
    """
    run = await find_run(session, thread_id, run_id)
    found = await session.harness.artifacts.changes_of(run)
    counts = {status: getattr(found, status) for status in ("added", "changed", "removed", "renamed")}
    return {
        "thread_id": thread_id,
        "run_id": run.run_id,
        "is_final": run.status.is_final,
        "counts": counts,
        "files": [show_change(each, with_diff=include_diff) for each in found.files],
        "is_truncated": len(found.files) < found.total,
        "problem": found.problem,
    }


def show_change(change: FileChange, *, with_diff: bool) -> dict[str, Any]:
    """A changed file in the shape of the HTTP API."""
    return asdict(change) if with_diff else {**asdict(change), "diff": None}


async def find_run(session: Session, thread_id: str, run_id: str | None) -> RunRecord:
    """A run of a thread, the latest if none is named."""
    if run_id is not None:
        return await session.harness.runs.get(thread_id, run_id, LOCAL_USER)
    await session.harness.threads.get(thread_id, LOCAL_USER)
    latest = await session.harness.runs.list_by_thread(thread_id, LOCAL_USER, limit=1)
    if not latest:
        raise NotFound(f"thread {thread_id!r} has no runs")
    return latest[0]


async def opened(session: Session, thread_id: str, path: str) -> Readable:
    """A file of a thread, open."""
    return await session.harness.artifacts.open(thread_id, LOCAL_USER, absolute(path))


def absolute(path: str) -> str:
    """A path as the agent says it, with or without its first slash."""
    return f"/{path.removeprefix('/')}"


def pieces_of(file: Readable) -> Generator[bytes]:
    """The content of an open file, which is closed in the end."""
    try:
        place = 0
        while piece := file.read(place, PIECE):
            place += len(piece)
            yield piece
    finally:
        file.close()


def save(pieces: Iterable[bytes], to: Path) -> int:
    """Write a file of this machine, which is there only when it is whole; how many bytes it has."""
    unfinished = to.with_name(f".{to.name[:200]}.{uuid4().hex[:8]}.part")
    try:
        with unfinished.open("xb") as file:
            size = sum(file.write(piece) for piece in pieces)
        unfinished.replace(to)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    return size
