"""Restore a thread's files from a snapshot, and copy them to a new thread, safe against concurrent changes."""

import errno
import logging
import os
import shutil
import stat
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from deerflow.config.loader.files import O_CLOEXEC, O_NOFOLLOW
from deerflow.domain.errors import FileProblem
from deerflow.domain.files import UPLOADS
from deerflow.sandbox.files.files import CREATE_FLAGS, READ_FLAGS, TEMPORARY_PREFIX, UPLOAD_PREFIX
from deerflow.sandbox.files.mounts import AREAS, make_folder
from deerflow.sandbox.files.traversal import FOLDER_FLAGS, UNREADABLE, FileStat, TreeEntry, open_subfolder, walk_tree
from deerflow.sandbox.snapshots.copies import NO_CONTENT, SnapshotManifest, copy_content, copy_from

logger = logging.getLogger(__name__)

PENDING_UPLOADS = f"{AREAS[UPLOADS]}/{UPLOAD_PREFIX}"
"""Path prefix of unfinished uploads."""


class Restorer:
    """Restores the files described by a manifest."""

    def __init__(self, contents: Path, user_data: Path, before: SnapshotManifest) -> None:
        self._contents = contents
        self._user_data = user_data
        self._before = before
        self._failed: list[str] = []

    def restore(self) -> Sequence[str]:
        """Remove added entries, then restore changed and removed ones; return the paths that failed."""
        now = {found.path: found.stat for found in walk_tree(self._user_data, tuple(AREAS.values()))}
        for path in self._added(now):
            del now[path]
            if path.rpartition("/")[0] in now or path.count("/") == 1:  # else it was removed with its folder
                self._attempt(path, self._remove)
        touched = [
            path
            for path in sorted(self._before.entries)
            if path not in now or not self._before.is_untouched(path, now[path])
        ]
        for path in touched:  # folders come before their content
            self._attempt(path, self._restore_entry)
        for path in reversed(touched):  # last, because some folders are read-only
            if self._before.entries[path][0].is_folder:
                self._attempt(path, self._set_permissions)
        return self._failed

    def _added(self, now: Mapping[str, FileStat]) -> Sequence[str]:
        """Return the paths that were added or have another file type, parents first."""
        before = self._before.entries
        unseen = tuple(f"{path}/" for path, (entry, _) in before.items() if entry.target == UNREADABLE)
        kinds = {path: stat.S_IFMT(entry.mode) for path, (entry, _) in before.items()}
        added = (path for path, entry in now.items() if kinds.get(path) != stat.S_IFMT(entry.mode))
        return sorted(path for path in added if not path.startswith((*unseen, PENDING_UPLOADS)))

    def _attempt(self, path: str, step: Callable[[int, str, str], None]) -> None:
        """Run a step at a path and record a failure."""
        above, _, name = path.rpartition("/")
        try:
            with open_subfolder(self._user_data, above) as folder:
                step(folder, name, path)
        except (OSError, RecursionError) as problem:
            logger.warning("could not restore %r: %s", path, problem)
            self._failed.append(path)

    def _remove(self, folder: int, name: str, path: str) -> None:
        try:
            os.unlink(name, dir_fd=folder)
        except IsADirectoryError:
            shutil.rmtree(name, dir_fd=folder)

    def _restore_entry(self, folder: int, name: str, path: str) -> None:
        entry, content = self._before.entries[path]
        if entry.is_folder:
            with suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=folder)
        elif entry.is_link:
            self._restore_link(folder, name, entry)
        elif content is None:
            raise OSError(errno.ENODATA, "no copy was saved")
        else:
            self._restore_file(folder, name, entry, content)

    def _restore_link(self, folder: int, name: str, entry: FileStat) -> None:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)
        os.symlink(entry.target, name, dir_fd=folder)
        os.chown(name, entry.uid, entry.gid, dir_fd=folder, follow_symlinks=False)

    def _restore_file(self, folder: int, name: str, entry: FileStat, content: str) -> None:
        unfinished = f"{TEMPORARY_PREFIX}{uuid4().hex}"
        target = os.open(unfinished, CREATE_FLAGS, 0o600, dir_fd=folder)
        try:
            if content != NO_CONTENT:
                copy_from(self._contents / content, target)
            set_permissions(target, entry)
            os.utime(target, ns=(entry.mtime_ns, entry.mtime_ns))
            os.rename(unfinished, name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError:
            os.unlink(unfinished, dir_fd=folder)
            raise
        finally:
            os.close(target)

    def _set_permissions(self, folder: int, name: str, path: str) -> None:
        inner = os.open(name, FOLDER_FLAGS, dir_fd=folder)
        try:
            set_permissions(inner, self._before.entries[path][0])
        finally:
            os.close(inner)


def set_permissions(descriptor: int, entry: FileStat) -> None:
    """Set owner and mode of an open file or folder."""
    status = os.fstat(descriptor)
    if (status.st_uid, status.st_gid) != (entry.uid, entry.gid):
        os.fchown(descriptor, entry.uid, entry.gid)
    os.fchmod(descriptor, stat.S_IMODE(entry.mode))


UNAVAILABLE = (FileNotFoundError, PermissionError, NotADirectoryError)
"""Errors of a file that was removed, replaced, or is not permitted."""


def copy_tree(source: Path, target: Path, owner: int | None) -> None:
    """Copy the files of a thread to the folders of a new, unused thread.

    Raises:
        FileProblem: The disk is full or cannot be written.
    """
    areas = tuple(AREAS.values())
    for area in areas:
        make_folder(target / area, owner)
    if not source.is_dir():
        return
    folders: list[TreeEntry] = []
    try:
        for found in walk_copyable(source, areas):
            with open_subfolder(target, found.path.rpartition("/")[0]) as folder:
                copy_entry(found, folder)
            if found.stat.is_folder:
                folders.append(found)
        for found in reversed(folders):  # last, because some folders are read-only
            with open_subfolder(target, found.path) as folder:
                set_permissions(folder, found.stat)
    except OSError as problem:
        raise FileProblem(f"the files cannot be copied: {(problem.strerror or str(problem)).lower()}") from problem


def walk_copyable(source: Path, areas: tuple[str, ...]) -> Iterator[TreeEntry]:
    """Yield the entries to copy. Files with links elsewhere are skipped: they may not belong to the sandbox."""
    names = Counter(found.stat.inode for found in walk_tree(source, areas) if found.links > 1 and found.stat.is_file)
    for found in walk_tree(source, areas):
        is_known = not found.stat.is_file or found.links == 1 or names[found.stat.inode] >= found.links
        if is_known and not found.name.startswith(TEMPORARY_PREFIX) and not found.path.startswith(PENDING_UPLOADS):
            yield found


def copy_entry(found: TreeEntry, folder: int) -> None:
    """Create a copy of an entry in `folder`."""
    entry = found.stat
    if entry.is_folder:
        os.mkdir(found.name, 0o700, dir_fd=folder)
    elif entry.is_link:
        os.symlink(entry.target, found.name, dir_fd=folder)
        os.chown(found.name, entry.uid, entry.gid, dir_fd=folder, follow_symlinks=False)
    elif entry.is_file:
        copy_file(found, folder)


def copy_file(found: TreeEntry, folder: int) -> None:
    """Create a copy of a file in `folder`, with its permissions and modification time."""
    try:
        source = os.open(found.name, READ_FLAGS | O_NOFOLLOW | O_CLOEXEC, dir_fd=found.folder)
    except UNAVAILABLE as problem:
        logger.warning("skipped %r while copying files: %s", found.path, problem)
        return
    try:
        status = os.fstat(source)
        if not stat.S_ISREG(status.st_mode):
            return
        target = os.open(found.name, CREATE_FLAGS, 0o600, dir_fd=folder)
        try:
            copy_content(source, target, status.st_size)
            set_permissions(target, found.stat)
            os.utime(target, ns=(found.stat.mtime_ns, found.stat.mtime_ns))
        finally:
            os.close(target)
    finally:
        os.close(source)
