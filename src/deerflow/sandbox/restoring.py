"""Makes the files of a thread what they were before a run, whatever the sandbox does to them meanwhile."""

import errno
import logging
import os
import shutil
import stat
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from deerflow.domain.files import UPLOADS
from deerflow.sandbox.copies import EMPTY, Manifest, copy_from
from deerflow.sandbox.files import MAKE_FILE, STAGED, UNFINISHED
from deerflow.sandbox.places import AREAS
from deerflow.sandbox.tree import CLOSED, FOLDER, Entry, opened, walk_tree

logger = logging.getLogger(__name__)

ARRIVING = f"{AREAS[UPLOADS]}/{STAGED}"
"""How the paths of uploads begin that are still coming."""


class Restorer:
    """Makes the files what a manifest says they were."""

    def __init__(self, contents: Path, user_data: Path, before: Manifest) -> None:
        self._contents = contents
        self._user_data = user_data
        self._before = before
        self._failed: list[str] = []

    def restore(self) -> Sequence[str]:
        """Remove what was added, then put back what was changed or removed; the paths for which that failed."""
        now = {found.path: found.entry for found in walk_tree(self._user_data, tuple(AREAS.values()))}
        for path in self._added(now):
            del now[path]
            if path.rpartition("/")[0] in now or path.count("/") == 1:  # else it went with the folder it was in
                self._attempt(path, self._remove)
        touched = [
            path
            for path in sorted(self._before.entries)
            if path not in now or not self._before.is_untouched(path, now[path])
        ]
        for path in touched:  # a folder comes before what is in it
            self._attempt(path, self._put_back)
        for path in reversed(touched):  # only now, as some folders let nobody write into them
            if self._before.entries[path][0].is_folder:
                self._attempt(path, self._set_rights)
        return self._failed

    def _added(self, now: Mapping[str, Entry]) -> Sequence[str]:
        """What was not there, or was something else, from the top down."""
        before = self._before.entries
        unseen = tuple(f"{path}/" for path, (entry, _) in before.items() if entry.target == CLOSED)
        kinds = {path: stat.S_IFMT(entry.mode) for path, (entry, _) in before.items()}
        added = (path for path, entry in now.items() if kinds.get(path) != stat.S_IFMT(entry.mode))
        return sorted(path for path in added if not path.startswith((*unseen, ARRIVING)))

    def _attempt(self, path: str, step: Callable[[int, str, str], None]) -> None:
        """Take a step at a path; note when it fails."""
        above, _, name = path.rpartition("/")
        try:
            with opened(self._user_data, above) as folder:
                step(folder, name, path)
        except (OSError, RecursionError) as problem:
            logger.warning("%r could not be made what it was: %s", path, problem)
            self._failed.append(path)

    def _remove(self, folder: int, name: str, path: str) -> None:
        try:
            os.unlink(name, dir_fd=folder)
        except IsADirectoryError:
            shutil.rmtree(name, dir_fd=folder)

    def _put_back(self, folder: int, name: str, path: str) -> None:
        entry, content = self._before.entries[path]
        if entry.is_folder:
            with suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=folder)
        elif entry.is_link:
            self._put_link(folder, name, entry)
        elif content is None:
            raise OSError(errno.ENODATA, "no copy of it was kept")
        else:
            self._put_file(folder, name, entry, content)

    def _put_link(self, folder: int, name: str, entry: Entry) -> None:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)
        os.symlink(entry.target, name, dir_fd=folder)
        os.chown(name, entry.uid, entry.gid, dir_fd=folder, follow_symlinks=False)

    def _put_file(self, folder: int, name: str, entry: Entry, content: str) -> None:
        unfinished = f"{UNFINISHED}{uuid4().hex}"
        target = os.open(unfinished, MAKE_FILE, 0o600, dir_fd=folder)
        try:
            if content != EMPTY:
                copy_from(self._contents / content, target)
            set_rights(target, entry)
            os.utime(target, ns=(entry.mtime_ns, entry.mtime_ns))
            os.rename(unfinished, name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError:
            os.unlink(unfinished, dir_fd=folder)
            raise
        finally:
            os.close(target)

    def _set_rights(self, folder: int, name: str, path: str) -> None:
        inner = os.open(name, FOLDER, dir_fd=folder)
        try:
            set_rights(inner, self._before.entries[path][0])
        finally:
            os.close(inner)


def set_rights(descriptor: int, entry: Entry) -> None:
    """Have a file or folder belong to whom it belonged, with the rights it had."""
    status = os.fstat(descriptor)
    if (status.st_uid, status.st_gid) != (entry.uid, entry.gid):
        os.fchown(descriptor, entry.uid, entry.gid)
    os.fchmod(descriptor, stat.S_IMODE(entry.mode))
