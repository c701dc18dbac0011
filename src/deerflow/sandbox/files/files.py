"""Files of a thread on this machine, protected against path traversal and races.

Commands in the sandbox may replace any folder or file by a link at any moment. So no path is resolved as a whole, or
twice: the kernel resolves it below its mount, and checks are made on the descriptor that is read.
"""

import asyncio
import errno
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path, PurePosixPath
from uuid import uuid4

from deerflow.config.loader.files import O_CLOEXEC, O_NOCTTY, O_NOFOLLOW, O_NONBLOCK, O_PATH
from deerflow.domain.errors import FileProblem, StorageUnavailable
from deerflow.domain.files import OUTPUTS, UPLOADS, WORKSPACE, FileEntry, Folder, FolderEntry
from deerflow.sandbox.files.mounts import (
    FOLDER_FLAGS,
    Mount,
    ResolvedPath,
    file_owner,
    is_encodable,
    make_folder,
    resolve_path,
    set_owner,
    user_data_mounts,
)
from deerflow.sandbox.files.traversal import IGNORED_FOLDERS, open_beneath

MAX_READ_BYTES = 256 * 1024 * 1024
MAX_LISTED = 10_000
MAX_DEPTH = 32

# Without O_NONBLOCK, opening a pipe would wait for its other end.
READ_FLAGS = os.O_RDONLY | O_NONBLOCK | O_NOCTTY
APPEND_FLAGS = os.O_WRONLY | os.O_APPEND | O_NONBLOCK | O_NOCTTY
CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | O_NOFOLLOW | O_CLOEXEC
TEMPORARY_PREFIX = ".deerflow-unfinished-"
UPLOAD_PREFIX = ".upload-"
"""Name prefixes of files that are still being written, by the server or by an upload."""

SMALL_BYTES = 64 * 1024
REASONS = {
    errno.ENOENT: "there is no such file; list the folder to see what there is",
    errno.ENOTDIR: "a part of the path is not a folder",
    errno.ELOOP: "it is a link that cannot be followed here; name the file itself",
    errno.EXDEV: "it is a link that leads outside; name a file inside",
    errno.EISDIR: "it is a folder; name a file in it",
    errno.ENAMETOOLONG: "the name is too long; choose a shorter one",
    errno.EACCES: "reading or writing it is not permitted; use another file",
    errno.EPERM: "reading or writing it is not permitted; use another file",
    errno.EROFS: "it is read-only; write to another folder",
    errno.ENOSPC: "the disk is full; delete what is no longer needed",
    errno.EDQUOT: "the disk is full; delete what is no longer needed",
    errno.ENXIO: "it is not a regular file; copy its content into one",
}


@dataclass(frozen=True, slots=True)
class LocalThreadFiles:
    """Files in `mounts`, whose folders are created on first write and owned by `owner`."""

    mounts: tuple[Mount, ...]
    owner: int | None = None

    async def stat(self, path: str) -> FileEntry:
        """Return metadata of a file."""
        return await asyncio.to_thread(stat_file, resolve_path(self.mounts, path))

    async def read(self, path: str, limit: int | None = None) -> bytes:
        """Return the content of a file, or its first `limit` bytes."""
        resolved = resolve_path(self.mounts, path)
        content = read_small_file(resolved, limit)
        return content if content is not None else await asyncio.to_thread(read_file, resolved, limit)

    async def write(self, path: str, content: bytes) -> None:
        """Create or replace a file; missing folders are created."""
        await asyncio.to_thread(write_file, resolve_path(self.mounts, path), content, self.owner)

    async def append(self, path: str, content: bytes) -> None:
        """Append to a file, which is created if missing."""
        await asyncio.to_thread(append_to_file, resolve_path(self.mounts, path), content, self.owner)

    async def list(self, folder: str) -> Sequence[FileEntry]:
        """Return all files below `folder`, sorted by path."""
        return await asyncio.to_thread(list_files, resolve_path(self.mounts, folder))

    async def folder(self, path: str, limit: int) -> Folder:
        """Return up to `limit` direct entries of a folder."""
        return await asyncio.to_thread(list_folder, resolve_path(self.mounts, path), limit)

    async def tree(self, folder: str, depth: int) -> Sequence[str]:
        """Return the paths below `folder`, `depth` levels deep; folders end in `/`."""
        return await asyncio.to_thread(list_tree, resolve_path(self.mounts, folder), depth)


def thread_files(folder: Path) -> LocalThreadFiles:
    """Return the files of a thread that are stored in `folder`."""
    return LocalThreadFiles(user_data_mounts(folder), file_owner())


def stat_file(resolved: ResolvedPath) -> FileEntry:
    """Return metadata of a file."""
    with explain_errors(resolved), open_path(resolved, O_PATH) as descriptor:
        return to_file_entry(resolved.path, check_regular(os.fstat(descriptor), resolved))


def read_file(resolved: ResolvedPath, limit: int | None = None) -> bytes:
    """Return the content of a file, or its first `limit` bytes."""
    with explain_errors(resolved), open_path(resolved, READ_FLAGS) as descriptor:
        check_regular(os.fstat(descriptor), resolved)
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            content = file.read(MAX_READ_BYTES + 1 if limit is None else limit)
    if len(content) > MAX_READ_BYTES:
        raise FileProblem(f"{resolved.path!r} has more than {MAX_READ_BYTES // 1024**2} MB; read only a part of it")
    return content


def read_small_file(resolved: ResolvedPath, limit: int | None = None) -> bytes | None:
    """Return the content of a file of the thread that is read faster than given to a thread; None for any other.

    Folders that the operator mounts may be on a network, where a read can take any time.
    """
    if resolved.mount.path not in (OUTPUTS, UPLOADS, WORKSPACE):
        return None
    with explain_errors(resolved), open_path(resolved, READ_FLAGS) as descriptor:
        status = check_regular(os.fstat(descriptor), resolved)
        if min(status.st_size, SMALL_BYTES + 1 if limit is None else limit) > SMALL_BYTES:
            return None
        content = os.read(descriptor, SMALL_BYTES + 1 if limit is None else min(limit, SMALL_BYTES + 1))
    return content if len(content) <= SMALL_BYTES else None


def write_file(resolved: ResolvedPath, content: bytes, owner: int | None = None) -> None:
    """Create or replace a file atomically; missing folders are created."""
    with explain_errors(resolved), open_parent_for_writing(resolved, owner) as (folder, name):
        mode = get_replaced_mode(folder, name, resolved)
        temporary = f"{TEMPORARY_PREFIX}{uuid4().hex}"
        try:
            with os.fdopen(os.open(temporary, CREATE_FLAGS, mode, dir_fd=folder), "wb") as file:
                set_owner(owner, file.fileno())
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError:
            with suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=folder)
            raise


def remove_file(resolved: ResolvedPath) -> None:
    """Remove a regular file."""
    with explain_errors(resolved), open_path(ResolvedPath(resolved.mount, resolved.parts[:-1]), FOLDER_FLAGS) as folder:
        check_regular(os.stat(resolved.parts[-1], dir_fd=folder, follow_symlinks=False), resolved)
        os.unlink(resolved.parts[-1], dir_fd=folder)


def append_to_file(resolved: ResolvedPath, content: bytes, owner: int | None = None) -> None:
    """Append to a file, which is created if missing."""
    with explain_errors(resolved):
        check_writable(resolved)
        try:
            with open_path(resolved, APPEND_FLAGS) as descriptor, os.fdopen(descriptor, "ab", closefd=False) as file:
                check_regular(os.fstat(descriptor), resolved)
                file.write(content)
            return
        except FileNotFoundError:
            pass
    write_file(resolved, content, owner)


def list_files(resolved: ResolvedPath) -> Sequence[FileEntry]:
    """Return all regular files below a folder, sorted by path."""
    found: list[FileEntry] = []
    for path, status in walk(resolved, MAX_DEPTH):
        if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
            continue
        found.append(to_file_entry(path, status))
        if len(found) > MAX_LISTED:
            raise FileProblem(f"there are more than {MAX_LISTED} files in {resolved.path!r}; list a folder in it")
    return sorted(found, key=lambda each: each.path)


def list_folder(resolved: ResolvedPath, limit: int) -> Folder:
    """Return up to `limit` direct files and folders of a folder; links are skipped.

    Folders that programs recreate by themselves are skipped: users look for results.
    """
    found: list[FolderEntry] = []
    for path, status in islice(walk(resolved, 1), MAX_LISTED):
        is_folder = stat.S_ISDIR(status.st_mode) and PurePosixPath(path).name not in IGNORED_FOLDERS
        if is_folder or (stat.S_ISREG(status.st_mode) and status.st_nlink == 1):
            file = to_file_entry(path, status)
            found.append(FolderEntry(path, is_folder, 0 if is_folder else file.size, file.modified_at))
    found.sort(key=lambda each: (not each.is_folder, each.path))
    return Folder(resolved.path, found[:limit], len(found) > limit)


def list_tree(resolved: ResolvedPath, depth: int) -> Sequence[str]:
    """Return the paths below a folder, `depth` levels deep; folders end in `/`."""
    found: list[str] = []
    for path, status in walk(resolved, depth):
        found.append(f"{path}/" if stat.S_ISDIR(status.st_mode) else path)
        if len(found) > MAX_LISTED:
            raise FileProblem(f"there are more than {MAX_LISTED} files in {resolved.path!r}; list a folder in it")
    return sorted(found)


class NoSuchFile(FileProblem):
    """The path does not exist."""


@contextmanager
def explain_errors(resolved: ResolvedPath) -> Iterator[None]:
    """Convert `OSError` to `FileProblem` with a text for the model."""
    try:
        yield
    except OSError as error:
        reason = REASONS.get(error.errno or 0) or (error.strerror or "it cannot be used").lower()
        kind = NoSuchFile if error.errno == errno.ENOENT else FileProblem
        raise kind(f"{resolved.path!r} cannot be used: {reason}") from None


@contextmanager
def open_path(resolved: ResolvedPath, flags: int) -> Iterator[int]:
    """Open a resolved path and yield its descriptor."""
    check_system()
    root = os.open(resolved.mount.folder, FOLDER_FLAGS | O_NOFOLLOW | O_CLOEXEC)
    try:
        descriptor = open_beneath(root, resolved.relative, flags)
    finally:
        os.close(root)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def open_parent_for_writing(resolved: ResolvedPath, owner: int | None) -> Iterator[tuple[int, str]]:
    """Yield a descriptor of the parent folder, created if missing, and the file name."""
    check_system()
    check_writable(resolved)
    if not resolved.parts:
        raise OSError(errno.EISDIR, "is a folder")
    *above, name = resolved.parts
    make_folder(resolved.mount.folder, owner)
    for number in range(len(above)):
        with (
            suppress(FileExistsError),
            open_path(ResolvedPath(resolved.mount, tuple(above[:number])), FOLDER_FLAGS) as folder,
        ):
            os.mkdir(above[number], 0o755, dir_fd=folder)
            made = os.open(above[number], FOLDER_FLAGS | O_NOFOLLOW | O_CLOEXEC, dir_fd=folder)
            set_owner(owner, made)
            os.close(made)
    with open_path(ResolvedPath(resolved.mount, tuple(above)), FOLDER_FLAGS) as folder:
        yield folder, name


def check_system() -> None:
    """Raise `StorageUnavailable` on a system that cannot open folders, on which links could lead outside."""
    if sys.platform == "win32":
        raise StorageUnavailable("threads have no files on Windows; run DeerFlow in WSL2 or in a Linux container")


def check_writable(resolved: ResolvedPath) -> None:
    """Raise an error if the mount is read-only."""
    if resolved.mount.read_only:
        raise OSError(errno.EROFS, "is read-only")


def check_regular(status: os.stat_result, resolved: ResolvedPath) -> os.stat_result:
    """Return `status` of a regular file with one link; other links could be outside the mount."""
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, "is a folder")
    if stat.S_ISLNK(status.st_mode):
        raise OSError(errno.ELOOP, "is a link")
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.ENXIO, "is not a regular file")
    if status.st_nlink > 1:  # zero is fine: the file was replaced after it was opened, and the open one is complete
        raise FileProblem(f"{resolved.path!r} is a hard link; copy it to a new file first")
    return status


def get_replaced_mode(folder: int, name: str, resolved: ResolvedPath) -> int:
    """Return the permissions of the file to replace, or those of a new file. Only regular files are replaced."""
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return 0o644
    return stat.S_IMODE(check_regular(status, resolved).st_mode) & 0o777


def walk(resolved: ResolvedPath, depth: int) -> Iterator[tuple[str, os.stat_result]]:
    """Yield files and folders below a folder; links are not followed, names that are not UTF-8 are skipped."""
    try:
        with explain_errors(resolved), open_path(resolved, FOLDER_FLAGS) as descriptor:
            yield from walk_open_folder(descriptor, resolved.path, depth)
    except NoSuchFile:
        if resolved.parts:
            raise  # the folders of a thread are created on first write, others must exist


def walk_open_folder(folder: int, path: str, depth: int) -> Iterator[tuple[str, os.stat_result]]:
    """Yield what `walk` finds in an open folder."""
    with os.scandir(folder) as inside:
        for each in inside:
            if not is_encodable(each.name) or each.name.startswith((TEMPORARY_PREFIX, UPLOAD_PREFIX)):
                continue
            below = f"{path}/{each.name}"
            with suppress(OSError):  # removed, replaced by a link, or not permitted
                yield below, each.stat(follow_symlinks=False)
                if depth > 1 and each.is_dir(follow_symlinks=False):
                    yield from walk_subfolder(folder, each.name, below, depth - 1)


def walk_subfolder(folder: int, name: str, path: str, depth: int) -> Iterator[tuple[str, os.stat_result]]:
    """Yield what `walk` finds in the subfolder `name` of an open folder."""
    descriptor = os.open(name, FOLDER_FLAGS | O_NOFOLLOW | O_CLOEXEC, dir_fd=folder)
    try:
        yield from walk_open_folder(descriptor, path, depth)
    finally:
        os.close(descriptor)


def to_file_entry(path: str, status: os.stat_result) -> FileEntry:
    """Convert `status` to a file entry."""
    return FileEntry(path, status.st_size, get_modified_at(status))


def get_modified_at(status: os.stat_result) -> datetime:
    """Return the modification time, or the epoch if an agent has set one out of range."""
    try:
        return datetime.fromtimestamp(status.st_mtime, UTC)
    except (ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(0, UTC)
