"""Disk usage of commands and people, which the kernel does not limit; folders and their removal."""

import asyncio
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from deerflow.config.loader.files import O_CLOEXEC, O_DIRECTORY, O_PATH
from deerflow.domain.errors import TooLarge
from deerflow.sandbox.files.mounts import AREAS, thread_folder, user_data_folder, user_folder
from deerflow.sandbox.files.traversal import open_beneath

T = TypeVar("T")

FIRST_CHECK_S = 0.25
CHECK_INTERVAL_S = 1.0
MEASUREMENT_TTL_S = 2.0
"""Age up to which a disk measurement is used for further commands, most of which are short."""
MB = 1024 * 1024
SLACK = 16 * MB
"""Growth allowed to a thread that is over its limit: it must run commands to delete files."""
RESERVE = 256 * MB
MIN_FILE_BYTES = 4096
"""Minimum count of a file: empty files use an inode, and inodes are limited."""
MAX_PATH_CHARS = 3000
FOLDER_FLAGS = os.O_RDONLY | O_DIRECTORY


FindLimit = Callable[[str], Awaitable[int | None]]
"""Returns the limit of the files of a person in bytes; None for none."""


class DiskMonitor:
    """Monitor of the total size of a thread's folders, and of all folders of its owner if they have a limit."""

    def __init__(
        self,
        folders: Sequence[Path],
        limit: int,
        reserve: int = RESERVE,
        home: Path | None = None,
        storage_limit: FindLimit | None = None,
    ) -> None:
        """Create it. `reserve` is the free disk space that is kept for others; `storage_limit` that of owners."""
        self._folders = folders
        self._limit = limit
        self._reserve = reserve
        self._owner = find_owner(home, folders) if home is not None and storage_limit is not None else None
        self._storage_limit = storage_limit
        self._personal: DiskMonitor | None = None
        self._allowed: int | None = None
        self._measured_at = 0.0

    async def wait_for_excess(self) -> str:
        """Return a message when a command has written too much; otherwise run until cancelled."""
        if time.monotonic() - self._measured_at < MEASUREMENT_TTL_S:
            await asyncio.sleep(FIRST_CHECK_S)
        while True:
            started = time.monotonic()
            used = await asyncio.to_thread(self.measure)
            self._measured_at = time.monotonic()
            if reason := self._check(used) or await self._check_owner():
                return reason
            # Measuring must not become a load itself, however many files there are.
            await asyncio.sleep(max(CHECK_INTERVAL_S, 20 * (self._measured_at - started)))

    def measure(self) -> int:
        """Return the bytes on disk of the folders."""
        return sum(map(measure_disk, self._folders))

    async def _check_owner(self) -> str | None:
        """Return a message when all files of the owner take too much."""
        if self._owner is None or self._storage_limit is None:
            return None
        limit = await self._storage_limit(self._owner.name)
        if limit is None:
            return None
        if self._personal is None or self._personal._limit != limit:
            self._personal = DiskMonitor([self._owner], limit, reserve=0)
        if self._personal._check(await asyncio.to_thread(self._personal.measure)) is None:
            return None
        return f"your files took more than your quota of {limit // MB} MB; delete what is not needed"

    def _check(self, used: int) -> str | None:
        if self._allowed is None:
            self._allowed = max(self._limit, used + SLACK)
        if used > self._allowed:
            self._allowed = used + SLACK
            return f"the files of this thread took more than {self._limit // 1024**2} MB; delete what is not needed"
        if used <= self._limit:
            self._allowed = self._limit
        else:  # deleting files does not allow writing them again
            self._allowed = min(self._allowed, used + SLACK)
        is_full = any(get_free_bytes(folder) < self._reserve for folder in self._folders[:1])
        return "the disk of this machine is almost full" if is_full else None


def find_owner(home: Path, folders: Sequence[Path]) -> Path | None:
    """Return the folder of the person whom folders of a thread belong to; None if they have no owner."""
    users = home / "users"
    return next((users / each.relative_to(users).parts[0] for each in folders if each.is_relative_to(users)), None)


async def has_no_limit(owner: str) -> int | None:
    """Return None: the person may take as much as the threads may."""
    return None


class DiskQuota:
    """Disk limit of every thread and person, for files that are written from outside of sandboxes."""

    def __init__(self, home: Path, limit: int, storage_limit: FindLimit = has_no_limit) -> None:
        self._home = home
        self._limit = limit
        self._storage_limit = storage_limit
        self._open: dict[tuple[str, str | None], ThreadSpace] = {}

    @asynccontextmanager
    async def open(self, owner: str, thread_id: str) -> AsyncIterator["DiskReservation"]:
        """Measure the files of a thread and yield a reservation. Concurrent writers share the space."""
        data = user_data_folder(self._home, owner, thread_id)
        folders = [*(data / name for name in AREAS.values()), thread_folder(self._home, owner, thread_id) / "tmp"]
        async with (
            self.open_personal(owner) as personal,
            self._share((owner, thread_id), ThreadSpace(folders, self._limit)) as space,
        ):
            yield DiskReservation(space, personal=personal)

    @asynccontextmanager
    async def open_personal(self, owner: str) -> AsyncIterator["DiskReservation | None"]:
        """Measure all files of a person and yield a reservation; None if they have no limit."""
        limit = await self._storage_limit(owner)
        if limit is None:
            yield None
            return
        folder = user_folder(self._home, owner)
        new = ThreadSpace([folder], limit, subject="person", setting="users.quotas.storage_mb")
        async with self._share((owner, None), new) as space:
            space.limit = limit  # it may have changed
            yield DiskReservation(space)

    @asynccontextmanager
    async def _share(self, key: tuple[str, str | None], new: "ThreadSpace") -> AsyncIterator["ThreadSpace"]:
        space = self._open.setdefault(key, new)
        space.writers += 1
        try:
            await space.measure()
            yield space
        finally:
            space.writers -= 1
            if not space.writers:
                self._open.pop(key, None)


@dataclass(slots=True)
class ThreadSpace:
    """Disk space of one thread."""

    folders: Sequence[Path]
    limit: int
    subject: str = "thread"
    """Owner of the files in error messages."""
    setting: str = "sandbox.limits.disk_mb"
    """Setting of the limit."""
    used: int = 0
    writers: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def measure(self) -> None:
        """Measure the space that is used."""
        async with self.lock:
            await self.update()

    async def update(self) -> None:
        """Measure the space while the lock is held, so that no other write happens meanwhile."""
        self.used = await asyncio.to_thread(lambda: sum(map(measure_disk, self.folders)))


@dataclass(slots=True)
class DiskReservation:
    """Space that one writer takes."""

    space: ThreadSpace
    taken: int = 0
    personal: "DiskReservation | None" = None
    """Reservation in the space of the person, if that is limited."""

    @asynccontextmanager
    async def take(self, size: int) -> AsyncIterator[None]:
        """Reserve space for bytes that are written inside the context, by one writer at a time.

        Raises:
            TooLarge: They do not fit.
        """
        async with self.personal.take(size) if self.personal is not None else nullcontext(), self._take(size):
            yield

    @asynccontextmanager
    async def _take(self, size: int) -> AsyncIterator[None]:
        space = self.space
        async with space.lock:
            if space.used + size > space.limit:
                await space.update()  # something may have been deleted
            if space.used + size > space.limit:
                used = max(0, space.used - self.taken)  # what is rejected will be removed
                raise TooLarge(
                    f"the files of this {space.subject} may take {space.limit // MB} MB and take {used / MB:.1f} MB "
                    f"already; delete what is not needed, or raise {space.setting}"
                )
            space.used += size
            self.taken += size
            yield


async def run_until_exceeded(
    running: Coroutine[Any, Any, T], watch: Callable[[], Coroutine[Any, Any, str]]
) -> tuple[T | None, str | None]:
    """Return the result of a command, or the reason why it was killed."""
    command, watching = asyncio.create_task(running), asyncio.create_task(watch())
    try:
        await asyncio.wait({command, watching}, return_when=asyncio.FIRST_COMPLETED)
        if command.done():
            return command.result(), None
        reason = watching.result()
        command.cancel()
        await asyncio.wait({command})
        return None, reason
    finally:
        watching.cancel()
        if not command.done():
            command.cancel()
            await asyncio.wait({command})


class OpenFolder:
    """Descriptor of a folder that is closed with the object."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def __del__(self) -> None:
        os.close(self.descriptor)


Pending = list[tuple[OpenFolder, str]]
"""Folders to measure, as paths from open folders: deep nesting must not hide files."""


def measure_disk(folder: Path) -> int:
    """Return the bytes on disk below a folder. No link is followed."""
    total, pending = 0, Pending()
    with suppress(OSError):
        pending.append((OpenFolder(os.open(folder.parent, FOLDER_FLAGS | O_CLOEXEC)), folder.name))
    while pending:
        with suppress(OSError):  # removed meanwhile
            total += measure_folder(*pending.pop(), pending)
    return total


def measure_folder(base: OpenFolder, path: str, pending: Pending) -> int:
    """Return the bytes on disk of the entries of a folder; its subfolders are added to `pending`."""
    folder = OpenFolder(open_folder(base.descriptor, path))
    base, path = (folder, ".") if len(path) > MAX_PATH_CHARS else (base, path)
    total = 0
    with os.scandir(folder.descriptor) as inside:
        for each in inside:
            with suppress(OSError):  # removed meanwhile
                status = each.stat(follow_symlinks=False)
                total += max(status.st_blocks * 512, MIN_FILE_BYTES)
                if stat.S_ISDIR(status.st_mode):
                    pending.append((base, f"{path}/{each.name}"))
    return total


def open_folder(base: int, path: str) -> int:
    """Open a folder. A folder of ours without permissions is made readable, so that nothing can be hidden in it."""
    try:
        return open_beneath(base, path, FOLDER_FLAGS)
    except PermissionError:
        closed = OpenFolder(open_beneath(base, path, O_PATH | O_DIRECTORY))
        itself = Path(f"/proc/self/fd/{closed.descriptor}")
        itself.chmod(stat.S_IMODE(itself.stat().st_mode) | stat.S_IRWXU)
        return os.open(itself, FOLDER_FLAGS | O_CLOEXEC)


def get_free_bytes(folder: Path) -> int:
    """Return the free space on the disk of a folder."""
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize


TEMPORARY_NAME = re.compile(r"deerflow-(?:stage|etc|service)-(n\d+-\d+)-.*")
PROCESS_NAME = re.compile(r"n(\d+)-(\d+)")


def name_process() -> str:
    """Return a name of this process that differs between containers: the ids of its PID namespace and its own."""
    return f"n{read_pid_namespace()}-{os.getpid()}"


def has_exited(name: str) -> bool:
    """Return whether a process has exited; False for a process of another namespace, which is not visible here."""
    found = PROCESS_NAME.fullmatch(name)
    return found is not None and int(found[1]) == read_pid_namespace() and not Path("/proc", found[2]).exists()


def read_pid_namespace() -> int:
    """Return the id of the PID namespace; 0 where there are none."""
    with suppress(OSError):
        return Path("/proc/self/ns/pid").stat().st_ino
    return 0


def make_temporary_folder(kind: str) -> Path:
    """Create a temporary folder whose name contains that of its process."""
    return Path(tempfile.mkdtemp(prefix=f"deerflow-{kind}-{name_process()}-"))


def remove_stale_folders() -> None:
    """Remove our temporary folders whose processes have exited."""
    for folder in Path(tempfile.gettempdir()).glob("deerflow-*"):
        found = TEMPORARY_NAME.fullmatch(folder.name)
        if found and has_exited(found[1]) and is_owned(folder):
            shutil.rmtree(folder, ignore_errors=True)


def is_owned(folder: Path) -> bool:
    """Return True if a folder belongs to our user; another server may have just removed it."""
    try:
        return folder.lstat().st_uid == os.geteuid()
    except FileNotFoundError:
        return False


def remove_folder(folder: Path) -> None:
    """Delete a folder and its content, even if it is deeply nested or read-only. No link is followed.

    Others may delete parts of it at the same time.

    Raises:
        OSError: Something cannot be deleted.
    """
    with suppress(FileNotFoundError):
        above = OpenFolder(os.open(folder.parent, FOLDER_FLAGS | O_CLOEXEC))
        root = OpenFolder(open_folder(above.descriptor, folder.name))
        while folders := flatten_folder(root, root):
            for name in folders:
                with suppress(FileNotFoundError):
                    flatten_folder(OpenFolder(open_folder(root.descriptor, name)), root)
                    os.rmdir(name, dir_fd=root.descriptor)
        folder.rmdir()


def flatten_folder(folder: OpenFolder, root: OpenFolder) -> list[str]:
    """Delete the files in a folder, move its subfolders up to `root` and return their names."""
    with os.scandir(folder.descriptor) as inside:
        names = [(each.name, stat.S_ISDIR(each.stat(follow_symlinks=False).st_mode)) for each in inside]
    for name, is_folder in names:
        with suppress(FileNotFoundError):
            if not is_folder:
                os.unlink(name, dir_fd=folder.descriptor)
            elif folder is not root:
                os.close(open_folder(folder.descriptor, name))  # makes it writable: others cannot be moved
                os.rename(name, uuid4().hex, src_dir_fd=folder.descriptor, dst_dir_fd=root.descriptor)
    return [name for name, is_folder in names if is_folder]
