"""A thread's folders, one at a time, as people look into them."""

from datetime import UTC, datetime

from deerflow.domain.files import USER_DATA, Folder, FolderEntry
from deerflow.sandbox.files import LocalThreadFiles

MAX_ENTRIES = 1000
NEVER = datetime.fromtimestamp(0, UTC)


async def look_into(files: LocalThreadFiles, path: str) -> Folder:
    """What is in a folder; the one above the three folders of a thread holds just these.

    Raises:
        FileProblem: There is no such folder.
    """
    if path.rstrip("/") == USER_DATA:
        return Folder(USER_DATA, [FolderEntry(place.path, True, 0, NEVER) for place in files.places])
    return await files.folder(path, MAX_ENTRIES)
