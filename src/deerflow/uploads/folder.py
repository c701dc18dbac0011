"""The uploads folder of a thread while files are put into it or taken out. Every method blocks.

Whoever runs in the sandbox may do anything in it meanwhile, so everything is reached through the open folder, and
names that are taken are never written through.
"""

import errno
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import BinaryIO
from uuid import uuid4

from deerflow.domain.errors import StorageUnavailable
from deerflow.sandbox.files import MAKE_FILE, STAGED, give_to, opened_for_writing
from deerflow.sandbox.places import Place, Spot
from deerflow.uploads.names import alternatives

STAGED_END = ".part"
STALE_S = 24 * 3600.0
"""What is still unfinished after so long was left by a server that died."""
MAX_TRIES = 10_000
FULL = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True, slots=True)
class UploadFolder:
    """An open folder; what is made in it belongs to `owner`."""

    descriptor: int
    owner: int | None

    def stage(self) -> tuple[str, BinaryIO]:
        """A new file under a name that nobody is shown."""
        name = staged_name()
        file = os.fdopen(os.open(name, MAKE_FILE, 0o644, dir_fd=self.descriptor), "wb", buffering=0)
        give_to(self.owner, file.fileno())
        return name, file

    def publish(self, staged: str, wanted: str) -> str:
        """Have a staged file be called as wanted, or nearly so if that name is taken; its name then."""
        check_staged(os.stat(staged, dir_fd=self.descriptor, follow_symlinks=False))
        for name in self._free(wanted):
            try:
                # Takes the name, whatever else wants it at this moment; nobody but us replaces an empty file.
                os.close(os.open(name, MAKE_FILE, 0o644, dir_fd=self.descriptor))
            except FileExistsError:
                continue
            try:
                os.rename(staged, name, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)
            except OSError:
                with suppress(OSError):  # somebody has put a folder in its place
                    self.discard(name)
                raise
            os.fsync(self.descriptor)
            return name
        raise FileExistsError(errno.EEXIST, f"too many files are called {wanted!r}")

    def discard(self, name: str) -> None:
        """Remove a file, if it is there."""
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self.descriptor)

    def clear_stale(self) -> None:
        """Remove what was left unfinished long ago."""
        with os.scandir(self.descriptor) as inside:
            for each in inside:
                with suppress(OSError):
                    is_ours = each.name.startswith(STAGED) and each.name.endswith(STAGED_END)
                    if is_ours and time.time() - each.stat(follow_symlinks=False).st_mtime > STALE_S:
                        os.unlink(each.name, dir_fd=self.descriptor)

    def _free(self, wanted: str) -> Iterator[str]:
        for _, name in zip(range(MAX_TRIES), alternatives(wanted), strict=False):
            yield name


@contextmanager
def opened_folder(place: Place, owner: int | None) -> Iterator[UploadFolder]:
    """The folder, which is made where it is missing."""
    with opened_for_writing(Spot(place, (STAGED,)), owner) as (descriptor, _):
        yield UploadFolder(descriptor, owner)


@contextmanager
def explaining_failure() -> Iterator[None]:
    """Turn what the system says into words for whoever uploads."""
    try:
        yield
    except OSError as problem:
        reason = "the disk of the server is full" if problem.errno in FULL else (problem.strerror or str(problem))
        raise StorageUnavailable(f"the upload cannot be kept: {reason.lower()}") from problem


def staged_name() -> str:
    """A name that nobody is shown, and that nobody else has."""
    return f"{STAGED}{uuid4().hex}{STAGED_END}"


def check_staged(status: os.stat_result) -> None:
    """Let only a regular file pass that has no second name."""
    if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
        raise OSError(errno.EPERM, "it was replaced while it was written")
