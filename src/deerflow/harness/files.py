"""The files of threads: who uses them, and what becomes of them."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from deerflow.config.source import ConfigSource
from deerflow.domain.files import OUTPUTS, UPLOADS, WORKSPACE, FileEntry
from deerflow.domain.runs import RunRecord
from deerflow.domain.threads import ThreadRecord
from deerflow.sandbox.branching import copy_tree
from deerflow.sandbox.chores import Chores
from deerflow.sandbox.files import thread_files
from deerflow.sandbox.local.removal import remove_folder
from deerflow.sandbox.places import file_owner, thread_folder, user_data_folder
from deerflow.sandbox.sandbox_provider import SandboxProvider
from deerflow.sandbox.snapshots import Snapshots
from deerflow.uploads.uploads import Uploads


def snapshots_of(home: Path, whose: RunRecord | ThreadRecord) -> Snapshots:
    """What remembers the files of a thread, or of a run's thread."""
    folder = thread_folder(home, whose.owner, whose.thread_id) / "snapshots"
    return Snapshots(folder, user_data_folder(home, whose.owner, whose.thread_id))


@asynccontextmanager
async def open_uploads(source: ConfigSource, chores: Chores) -> AsyncIterator[Uploads]:
    """What takes in uploads; conversions under way end with it."""
    uploads = Uploads(source.current.home, lambda: source.refresh().config.uploads, chores)
    try:
        yield uploads
    finally:
        await uploads.aclose()


async def copy_files(uploads: Uploads, home: Path, thread_id: str, copy_id: str, user_id: str) -> None:
    """Give a thread the files of another."""
    source, copy = (user_data_folder(home, user_id, each) for each in (thread_id, copy_id))
    await asyncio.to_thread(copy_tree, source, copy, file_owner())
    await uploads.copy(user_id, thread_id, copy_id)


async def all_files(home: Path, thread: ThreadRecord) -> Sequence[FileEntry]:
    """What a thread has in its folders."""
    files = thread_files(user_data_folder(home, thread.owner, thread.thread_id))
    return [file for area in (UPLOADS, WORKSPACE, OUTPUTS) for file in await files.list(area)]


async def forget_thread(sandboxes: SandboxProvider, uploads: Uploads, home: Path, thread_id: str, user_id: str) -> None:
    """End what runs for a thread, and remove its files."""
    await uploads.forget(user_id, thread_id)
    await sandboxes.discard(thread_id, user_id)
    await asyncio.to_thread(remove_folder, thread_folder(home, user_id, thread_id))
