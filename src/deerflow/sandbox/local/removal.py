"""Deleting what agents have left, whatever they did to it."""

import os
import stat
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from deerflow.sandbox.local.usage import FOLDER, OpenFolder, open_folder


def remove_folder(folder: Path) -> None:
    """Delete a folder with all that is in it, however deeply that is nested or locked. No link is followed.

    Raises:
        OSError: Something in it cannot be deleted.
    """
    with suppress(FileNotFoundError):
        above = OpenFolder(os.open(folder.parent, FOLDER | os.O_CLOEXEC))
        root = OpenFolder(open_folder(above.descriptor, folder.name))
        while folders := empty(root, root):
            for name in folders:
                empty(OpenFolder(open_folder(root.descriptor, name)), root)
                os.rmdir(name, dir_fd=root.descriptor)
        folder.rmdir()


def empty(folder: OpenFolder, root: OpenFolder) -> list[str]:
    """Delete the files in a folder and move the folders in it up to `root`, so that nothing is nested any more."""
    with os.scandir(folder.descriptor) as inside:
        names = [(each.name, stat.S_ISDIR(each.stat(follow_symlinks=False).st_mode)) for each in inside]
    for name, is_folder in names:
        if not is_folder:
            os.unlink(name, dir_fd=folder.descriptor)
        elif folder is not root:
            os.close(open_folder(folder.descriptor, name))  # one that is locked cannot be moved
            os.rename(name, uuid4().hex, src_dir_fd=folder.descriptor, dst_dir_fd=root.descriptor)
    return [name for name, is_folder in names if is_folder]
