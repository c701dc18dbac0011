"""A thread's files on this machine, read and written so that nothing a sandbox does to them leads outside.

Whoever runs in the sandbox may swap any folder or file for a link at any moment. So no path is looked up as a whole, or
twice: each component is opened from the descriptor of the one before, never through a link, and what is checked is the
descriptor that is read.
"""

import asyncio
import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

from deerflow.domain.errors import FileProblem, InvalidRequest
from deerflow.domain.files import OUTPUTS, UPLOADS, USER_DATA, WORKSPACE, FileEntry
from deerflow.domain.ids import THREAD_ID, check_thread_id

AREAS = (WORKSPACE, UPLOADS, OUTPUTS)
MAX_READ_BYTES = 256 * 1024 * 1024
MAX_LISTED = 10_000
MAX_DEPTH = 32

OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Opening a pipe would otherwise wait for somebody at its other end.
OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
MAKE_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
UNFINISHED = ".deerflow-unfinished-"
"""How the names of files begin that are still being written."""

REASONS = {
    errno.ENOENT: "there is no such file; list the folder to see what there is",
    errno.ENOTDIR: "a part of the path is not a folder; links are not followed",
    errno.ELOOP: "it is a link, and links are not followed; name the file itself",
    errno.EISDIR: "it is a folder; name a file in it",
    errno.ENAMETOOLONG: "the name is too long; choose a shorter one",
    errno.EACCES: "reading or writing it is not permitted; use another file",
    errno.EPERM: "reading or writing it is not permitted; use another file",
    errno.ENOSPC: "the disk is full; delete what is no longer needed",
    errno.EDQUOT: "the disk is full; delete what is no longer needed",
    errno.ENXIO: "it is not a regular file; copy its content into one",
}


def user_data_folder(home: Path, user_id: str, thread_id: str) -> Path:
    """Where the files of a thread are kept on this machine.

    Raises:
        InvalidRequest: One of the ids could lead elsewhere.
    """
    if not THREAD_ID.fullmatch(user_id):
        raise InvalidRequest(f"a user id is 1 to 64 letters, digits, '-' or '_', not {user_id!r}")
    return home / "users" / user_id / "threads" / check_thread_id(thread_id) / "user-data"


@dataclass(frozen=True, slots=True)
class LocalThreadFiles:
    """The files below `root`, in `workspace`, `uploads` and `outputs`, which are made when first written to."""

    root: Path

    async def stat(self, path: str) -> FileEntry:
        """What is known of a file."""
        return await asyncio.to_thread(stat_file, self.root, path)

    async def read(self, path: str, limit: int | None = None) -> bytes:
        """The content of a file, or its first `limit` bytes."""
        return await asyncio.to_thread(read_file, self.root, path, limit)

    async def write(self, path: str, content: bytes) -> None:
        """Make a file, or replace it as a whole; missing folders are made."""
        await asyncio.to_thread(write_file, self.root, path, content)

    async def list(self, folder: str) -> Sequence[FileEntry]:
        """All files in `folder` and the folders in it, by path."""
        return await asyncio.to_thread(list_files, self.root, folder)


def stat_file(root: Path, path: str) -> FileEntry:
    """What is known of a file."""
    *folders, name = split(path)
    with explaining(path), opened_folder(root, folders) as folder:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        check_regular(status, path)
        return entry(path_of([*folders, name]), status)


def read_file(root: Path, path: str, limit: int | None = None) -> bytes:
    """The content of a file, or its first `limit` bytes."""
    *folders, name = split(path)
    with explaining(path), opened_folder(root, folders) as folder:
        descriptor = os.open(name, OPEN_FILE, dir_fd=folder)
        with os.fdopen(descriptor, "rb") as file:
            check_regular(os.fstat(descriptor), path)
            if limit is not None:
                return file.read(limit)
            content = file.read(MAX_READ_BYTES + 1)
    if len(content) > MAX_READ_BYTES:
        raise FileProblem(f"{path!r} has more than {MAX_READ_BYTES // 1024**2} MB; read only a part of it")
    return content


def write_file(root: Path, path: str, content: bytes) -> None:
    """Make a file, or replace it as a whole; missing folders are made."""
    *folders, name = split(path)
    with explaining(path):
        root.mkdir(parents=True, exist_ok=True)
        with opened_folder(root, folders, make=True) as folder:
            mode = mode_of_replaced(folder, name, path)
            temporary = f"{UNFINISHED}{uuid4().hex}"
            try:
                with os.fdopen(os.open(temporary, MAKE_FILE, mode, dir_fd=folder), "wb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
                os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            except OSError:
                with suppress(FileNotFoundError):
                    os.unlink(temporary, dir_fd=folder)
                raise


def list_files(root: Path, folder: str) -> Sequence[FileEntry]:
    """All files in `folder` and the folders in it, by path."""
    folders = split(folder)
    found: list[FileEntry] = []
    try:
        with explaining(folder), opened_folder(root, folders) as descriptor:
            for each in walk(descriptor, folders):
                found.append(each)
                if len(found) > MAX_LISTED:
                    raise FileProblem(f"there are more than {MAX_LISTED} files in {folder!r}; list a folder in it")
    except NoSuchFile:
        if len(folders) > 1:
            raise
        return []  # the folders of a thread are made when first written to
    return sorted(found, key=lambda each: each.path)


def split(path: str) -> list[str]:
    """The names in `path` below `/mnt/user-data`, the first of which is one of the three folders there."""
    if ".." in path.split("/"):
        raise FileProblem(f"{path!r} goes up with '..'; write the path without it")
    if not any(path == area or path.startswith(f"{area}/") for area in AREAS):
        raise FileProblem(f"{path!r} is out of reach; paths begin with {', '.join(AREAS[:-1])} or {AREAS[-1]}")
    names = [name for name in path.removeprefix(USER_DATA).split("/") if name not in ("", ".")]
    if not all(map(is_text, names)):
        raise FileProblem(f"{path!r} contains characters that no file name can have; choose another name")
    return names


def is_text(name: str) -> bool:
    """Whether a file can have this name and UTF-8 can say it; the system invents surrogates for other bytes."""
    return "\0" not in name and not any("\ud800" <= character <= "\udfff" for character in name)


def path_of(names: Sequence[str]) -> str:
    """The path of the agent's view that `split` takes apart."""
    return "/".join([USER_DATA, *names])


class NoSuchFile(FileProblem):
    """There is nothing at the path."""


@contextmanager
def explaining(path: str) -> Iterator[None]:
    """Turn what the system says about `path` into words for the model."""
    try:
        yield
    except OSError as error:
        reason = REASONS.get(error.errno or 0) or (error.strerror or "it cannot be used").lower()
        kind = NoSuchFile if error.errno == errno.ENOENT else FileProblem
        raise kind(f"{path!r} cannot be used: {reason}") from None


@contextmanager
def opened_folder(root: Path, names: Sequence[str], make: bool = False) -> Iterator[int]:
    """A descriptor of the folder that `names` lead to from `root`, closed in the end."""
    descriptor = os.open(root, OPEN_FOLDER)
    try:
        for name in names:
            inner = open_inner(descriptor, name, make)
            os.close(descriptor)
            descriptor = inner
        yield descriptor
    finally:
        os.close(descriptor)


def open_inner(folder: int, name: str, make: bool) -> int:
    """A descriptor of the folder called `name` in `folder`; what is not there is made if so wished."""
    if make:
        with suppress(FileExistsError):
            os.mkdir(name, 0o755, dir_fd=folder)
    return os.open(name, OPEN_FOLDER, dir_fd=folder)


def check_regular(status: os.stat_result, path: str) -> None:
    """Let only regular files pass that have no second name, which might be one outside."""
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, "is a folder")
    if stat.S_ISLNK(status.st_mode):
        raise OSError(errno.ELOOP, "is a link")
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.ENXIO, "is not a regular file")
    if status.st_nlink > 1:  # none: it was replaced after it was opened, and what was opened is whole
        raise FileProblem(f"{path!r} is a hard link; copy it to a file of its own first")


def mode_of_replaced(folder: int, name: str, path: str) -> int:
    """The permissions of the file that is to be replaced, or of a new one. Only a regular file is replaced."""
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return 0o644
    check_regular(status, path)
    return stat.S_IMODE(status.st_mode) & 0o777


def walk(folder: int, names: Sequence[str]) -> Iterator[FileEntry]:
    """The regular files in `folder` and below; links, pipes and names that are no text are passed over."""
    with os.scandir(folder) as inside:
        for each in inside:
            if not is_text(each.name) or each.name.startswith(UNFINISHED):
                continue
            path = [*names, each.name]
            with suppress(OSError):  # what vanished, turned into a link or is not for us
                if each.is_dir(follow_symlinks=False):
                    yield from walk_inner(folder, path)
                    continue
                status = each.stat(follow_symlinks=False)
                if stat.S_ISREG(status.st_mode) and status.st_nlink == 1:
                    yield entry(path_of(path), status)


def walk_inner(folder: int, names: Sequence[str]) -> Iterator[FileEntry]:
    """What `walk` finds in the folder whose name comes last, unless that lies too deep."""
    if len(names) > MAX_DEPTH:
        return
    descriptor = open_inner(folder, names[-1], make=False)
    try:
        yield from walk(descriptor, names)
    finally:
        os.close(descriptor)


def entry(path: str, status: os.stat_result) -> FileEntry:
    """What `status` says about the file at `path`."""
    return FileEntry(path, status.st_size, datetime.fromtimestamp(status.st_mtime, UTC))
