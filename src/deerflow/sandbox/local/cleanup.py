"""Temporary folders of servers: creation, removal, and cleanup after servers that were killed."""

import os
import re
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from deerflow.config.loader.files import O_CLOEXEC
from deerflow.sandbox.local.usage import FOLDER_FLAGS, OpenFolder, open_folder

NAME = re.compile(r"deerflow-(?:stage|etc|service)-(\d+)-.*")


def make_temporary_folder(kind: str) -> Path:
    """Create a temporary folder whose name contains the process id of its owner."""
    return Path(tempfile.mkdtemp(prefix=f"deerflow-{kind}-{os.getpid()}-"))


def remove_stale_folders() -> None:
    """Remove our temporary folders whose processes have exited."""
    for folder in Path(tempfile.gettempdir()).glob("deerflow-*"):
        found = NAME.fullmatch(folder.name)
        if found and not Path("/proc", found[1]).exists() and is_owned(folder):
            shutil.rmtree(folder, ignore_errors=True)


def is_owned(folder: Path) -> bool:
    """Return True if a folder belongs to our user; another server may have just removed it."""
    try:
        return folder.lstat().st_uid == os.geteuid()
    except FileNotFoundError:
        return False


def remove_folder(folder: Path) -> None:
    """Delete a folder and its content, even if it is deeply nested or read-only. No link is followed.

    Raises:
        OSError: Something cannot be deleted.
    """
    with suppress(FileNotFoundError):
        above = OpenFolder(os.open(folder.parent, FOLDER_FLAGS | O_CLOEXEC))
        root = OpenFolder(open_folder(above.descriptor, folder.name))
        while folders := flatten_folder(root, root):
            for name in folders:
                flatten_folder(OpenFolder(open_folder(root.descriptor, name)), root)
                os.rmdir(name, dir_fd=root.descriptor)
        folder.rmdir()


def flatten_folder(folder: OpenFolder, root: OpenFolder) -> list[str]:
    """Delete the files in a folder, move its subfolders up to `root` and return their names."""
    with os.scandir(folder.descriptor) as inside:
        names = [(each.name, stat.S_ISDIR(each.stat(follow_symlinks=False).st_mode)) for each in inside]
    for name, is_folder in names:
        if not is_folder:
            os.unlink(name, dir_fd=folder.descriptor)
        elif folder is not root:
            os.close(open_folder(folder.descriptor, name))  # makes it writable: others cannot be moved
            os.rename(name, uuid4().hex, src_dir_fd=folder.descriptor, dst_dir_fd=root.descriptor)
    return [name for name, is_folder in names if is_folder]
