"""Files of a thread on this machine, read and written so that nothing a sandbox does to them leads outside.

Whoever runs in the sandbox may swap any folder or file for a link at any moment. So no path is looked up as a whole, or
twice: the kernel walks it below the place it belongs to, and what is checked is the descriptor that is read.
"""

import asyncio
import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path, PurePosixPath
from uuid import uuid4

from deerflow.domain.errors import FileProblem
from deerflow.domain.files import FileEntry, Folder, FolderEntry
from deerflow.sandbox.beneath import open_beneath
from deerflow.sandbox.places import Place, Spot, file_owner, find_spot, is_text, make_folder, user_data_places
from deerflow.sandbox.tree import IGNORED

MAX_READ_BYTES = 256 * 1024 * 1024
MAX_LISTED = 10_000
MAX_DEPTH = 32

FOLDER = os.O_RDONLY | os.O_DIRECTORY
# Opening a pipe would otherwise wait for somebody at its other end.
READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY
APPEND = os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_NOCTTY
MAKE_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
UNFINISHED = ".deerflow-unfinished-"
STAGED = ".upload-"
"""How the names of files begin that are still being written: by us, or by whoever uploads them."""

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
    """The files in `places`, whose folders are made when first written to. What is made belongs to `owner`."""

    places: tuple[Place, ...]
    owner: int | None = None

    async def stat(self, path: str) -> FileEntry:
        """What is known of a file."""
        return await asyncio.to_thread(stat_file, find_spot(self.places, path))

    async def read(self, path: str, limit: int | None = None) -> bytes:
        """The content of a file, or its first `limit` bytes."""
        return await asyncio.to_thread(read_file, find_spot(self.places, path), limit)

    async def write(self, path: str, content: bytes) -> None:
        """Make a file, or replace it as a whole; missing folders are made."""
        await asyncio.to_thread(write_file, find_spot(self.places, path), content, self.owner)

    async def append(self, path: str, content: bytes) -> None:
        """Add to the end of a file, which is made if there is none."""
        await asyncio.to_thread(append_to_file, find_spot(self.places, path), content, self.owner)

    async def list(self, folder: str) -> Sequence[FileEntry]:
        """All files in `folder` and the folders in it, by path."""
        return await asyncio.to_thread(list_files, find_spot(self.places, folder))

    async def folder(self, path: str, limit: int) -> Folder:
        """What is in a folder itself, at most `limit` files and folders of it."""
        return await asyncio.to_thread(list_folder, find_spot(self.places, path), limit)

    async def tree(self, folder: str, depth: int) -> Sequence[str]:
        """What is in `folder`, `depth` levels deep; folders end in `/`."""
        return await asyncio.to_thread(list_tree, find_spot(self.places, folder), depth)


def thread_files(folder: Path) -> LocalThreadFiles:
    """The files of a thread that are kept in `folder`."""
    return LocalThreadFiles(user_data_places(folder), file_owner())


def stat_file(spot: Spot) -> FileEntry:
    """What is known of a file."""
    with explaining(spot), opened(spot, os.O_PATH) as descriptor:
        return entry(spot.path, check_regular(os.fstat(descriptor), spot))


def read_file(spot: Spot, limit: int | None = None) -> bytes:
    """The content of a file, or its first `limit` bytes."""
    with explaining(spot), opened(spot, READ) as descriptor:
        check_regular(os.fstat(descriptor), spot)
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            content = file.read(MAX_READ_BYTES + 1 if limit is None else limit)
    if len(content) > MAX_READ_BYTES:
        raise FileProblem(f"{spot.path!r} has more than {MAX_READ_BYTES // 1024**2} MB; read only a part of it")
    return content


def write_file(spot: Spot, content: bytes, owner: int | None = None) -> None:
    """Make a file, or replace it as a whole; missing folders are made."""
    with explaining(spot), opened_for_writing(spot, owner) as (folder, name):
        mode = mode_of_replaced(folder, name, spot)
        temporary = f"{UNFINISHED}{uuid4().hex}"
        try:
            with os.fdopen(os.open(temporary, MAKE_FILE, mode, dir_fd=folder), "wb") as file:
                give_to(owner, file.fileno())
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError:
            with suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=folder)
            raise


def remove_file(spot: Spot) -> None:
    """Remove a regular file."""
    with explaining(spot), opened(Spot(spot.place, spot.names[:-1]), FOLDER) as folder:
        check_regular(os.stat(spot.names[-1], dir_fd=folder, follow_symlinks=False), spot)
        os.unlink(spot.names[-1], dir_fd=folder)


def append_to_file(spot: Spot, content: bytes, owner: int | None = None) -> None:
    """Add to the end of a file, which is made if there is none."""
    with explaining(spot):
        refuse_read_only(spot)
        try:
            with opened(spot, APPEND) as descriptor, os.fdopen(descriptor, "ab", closefd=False) as file:
                check_regular(os.fstat(descriptor), spot)
                file.write(content)
            return
        except FileNotFoundError:
            pass
    write_file(spot, content, owner)


def list_files(spot: Spot) -> Sequence[FileEntry]:
    """All files in a folder and the folders in it, by path."""
    found: list[FileEntry] = []
    for path, status in walk(spot, MAX_DEPTH):
        if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
            continue
        found.append(entry(path, status))
        if len(found) > MAX_LISTED:
            raise FileProblem(f"there are more than {MAX_LISTED} files in {spot.path!r}; list a folder in it")
    return sorted(found, key=lambda each: each.path)


def list_folder(spot: Spot, limit: int) -> Folder:
    """What is in a folder itself, at most `limit` files and folders of it; links are neither.

    Folders that programs make again by themselves are left out: people look for what was made for them.
    """
    found: list[FolderEntry] = []
    for path, status in islice(walk(spot, 1), MAX_LISTED):
        is_folder = stat.S_ISDIR(status.st_mode) and PurePosixPath(path).name not in IGNORED
        if is_folder or (stat.S_ISREG(status.st_mode) and status.st_nlink == 1):
            file = entry(path, status)
            found.append(FolderEntry(path, is_folder, 0 if is_folder else file.size, file.modified_at))
    found.sort(key=lambda each: (not each.is_folder, each.path))
    return Folder(spot.path, found[:limit], len(found) > limit)


def list_tree(spot: Spot, depth: int) -> Sequence[str]:
    """What is in a folder, `depth` levels deep; folders end in `/`."""
    found: list[str] = []
    for path, status in walk(spot, depth):
        found.append(f"{path}/" if stat.S_ISDIR(status.st_mode) else path)
        if len(found) > MAX_LISTED:
            raise FileProblem(f"there are more than {MAX_LISTED} files in {spot.path!r}; list a folder in it")
    return sorted(found)


class NoSuchFile(FileProblem):
    """There is nothing at the path."""


@contextmanager
def explaining(spot: Spot) -> Iterator[None]:
    """Turn what the system says about a file into words for the model."""
    try:
        yield
    except OSError as error:
        reason = REASONS.get(error.errno or 0) or (error.strerror or "it cannot be used").lower()
        kind = NoSuchFile if error.errno == errno.ENOENT else FileProblem
        raise kind(f"{spot.path!r} cannot be used: {reason}") from None


@contextmanager
def opened(spot: Spot, flags: int) -> Iterator[int]:
    """A descriptor of what is at a spot, closed in the end."""
    root = os.open(spot.place.folder, FOLDER | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        descriptor = open_beneath(root, spot.below, flags)
    finally:
        os.close(root)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def opened_for_writing(spot: Spot, owner: int | None) -> Iterator[tuple[int, str]]:
    """A descriptor of the folder of a file, which is made where it is missing, and the name of the file in it."""
    refuse_read_only(spot)
    if not spot.names:
        raise OSError(errno.EISDIR, "is a folder")
    *above, name = spot.names
    make_folder(spot.place.folder, owner)
    for number in range(len(above)):
        with suppress(FileExistsError), opened(Spot(spot.place, tuple(above[:number])), FOLDER) as folder:
            os.mkdir(above[number], 0o755, dir_fd=folder)
            made = os.open(above[number], FOLDER | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            give_to(owner, made)
            os.close(made)
    with opened(Spot(spot.place, tuple(above)), FOLDER) as folder:
        yield folder, name


def refuse_read_only(spot: Spot) -> None:
    """Let nothing be written where the agent may only read."""
    if spot.place.read_only:
        raise OSError(errno.EROFS, "is read-only")


def give_to(owner: int | None, descriptor: int) -> None:
    """Have a file or folder belong to `owner`."""
    if owner is not None:
        os.fchown(descriptor, owner, owner)


def check_regular(status: os.stat_result, spot: Spot) -> os.stat_result:
    """Let only regular files pass that have no second name, which might be one outside."""
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, "is a folder")
    if stat.S_ISLNK(status.st_mode):
        raise OSError(errno.ELOOP, "is a link")
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.ENXIO, "is not a regular file")
    if status.st_nlink > 1:  # none: it was replaced after it was opened, and what was opened is whole
        raise FileProblem(f"{spot.path!r} is a hard link; copy it to a file of its own first")
    return status


def mode_of_replaced(folder: int, name: str, spot: Spot) -> int:
    """The permissions of the file that is to be replaced, or of a new one. Only a regular file is replaced."""
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return 0o644
    return stat.S_IMODE(check_regular(status, spot).st_mode) & 0o777


def walk(spot: Spot, depth: int) -> Iterator[tuple[str, os.stat_result]]:
    """Files and folders below a folder; no link is followed, and names that are no text are passed over."""
    try:
        with explaining(spot), opened(spot, FOLDER) as descriptor:
            yield from walk_in(descriptor, spot.path, depth)
    except NoSuchFile:
        if spot.names:
            raise  # the folders of a thread are made when first written to, others have to be there


def walk_in(folder: int, path: str, depth: int) -> Iterator[tuple[str, os.stat_result]]:
    """What `walk` finds in an open folder."""
    with os.scandir(folder) as inside:
        for each in inside:
            if not is_text(each.name) or each.name.startswith((UNFINISHED, STAGED)):
                continue
            below = f"{path}/{each.name}"
            with suppress(OSError):  # what vanished, turned into a link or is not for us
                yield below, each.stat(follow_symlinks=False)
                if depth > 1 and each.is_dir(follow_symlinks=False):
                    yield from walk_inner(folder, each.name, below, depth - 1)


def walk_inner(folder: int, name: str, path: str, depth: int) -> Iterator[tuple[str, os.stat_result]]:
    """What `walk` finds in the folder called `name` in an open one."""
    descriptor = os.open(name, FOLDER | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        yield from walk_in(descriptor, path, depth)
    finally:
        os.close(descriptor)


def entry(path: str, status: os.stat_result) -> FileEntry:
    """What `status` says about the file at `path`."""
    return FileEntry(path, status.st_size, modified_at(status))


def modified_at(status: os.stat_result) -> datetime:
    """When a file was last changed; an agent may have set a time that no calendar has."""
    try:
        return datetime.fromtimestamp(status.st_mtime, UTC)
    except (ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(0, UTC)
