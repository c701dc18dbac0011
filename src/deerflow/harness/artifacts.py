"""The files that threads have made, for people."""

from functools import partial
from pathlib import Path

from deerflow.domain.threads import ThreadRecord
from deerflow.harness.files import snapshots_of
from deerflow.harness.ground import Ground
from deerflow.runtime.artifacts import Artifacts, Shelf
from deerflow.runtime.threads import Threads
from deerflow.sandbox.chores import Chores
from deerflow.sandbox.files import thread_files
from deerflow.sandbox.places import thread_folder, user_data_folder
from deerflow.sandbox.thumbnails import Thumbnails


def make_artifacts(ground: Ground, threads: Threads) -> Artifacts:
    """What shows the files of threads, and lets people edit them."""
    shelves = partial(shelf_of, ground.loaded.home, ground.chores)
    return Artifacts(threads, shelves, ground.locks, ground.file_changes)


def shelf_of(home: Path, chores: Chores, thread: ThreadRecord) -> Shelf:
    """The files of a thread."""
    files = thread_files(user_data_folder(home, thread.owner, thread.thread_id))
    drawn = thread_folder(home, thread.owner, thread.thread_id) / "thumbnails"
    return Shelf(files, snapshots_of(home, thread), Thumbnails(drawn, chores, thread.thread_id, thread.owner))
