"""Opening files below a folder so that nothing in it leads outside."""

import ctypes
import errno
import os

OPENAT2 = 437
"""The number of the system call, the same on every machine."""
RESOLVE_NO_MAGICLINKS, RESOLVE_BENEATH = 0x02, 0x08
TRIES = 100


class HowToOpen(ctypes.Structure):
    """What the system call wants to know."""

    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


LIBC = ctypes.CDLL(None, use_errno=True)


def open_beneath(folder: int, path: str, flags: int) -> int:
    """A descriptor of what is at `path` below `folder`. Links are followed as long as they stay below.

    The kernel checks while it walks, so it does not matter who changes the folders meanwhile. Kernels before 5.6, and
    some containers, do not know that call: there each folder is opened from the one before, and no link is followed.
    """
    for _ in range(TRIES):
        how = HowToOpen(flags | os.O_CLOEXEC, 0, RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS)
        opened: int = LIBC.syscall(OPENAT2, folder, os.fsencode(path), ctypes.byref(how), ctypes.sizeof(how))
        if opened >= 0:
            return opened
        problem = ctypes.get_errno()
        if problem in (errno.ENOSYS, errno.EPERM):
            return open_step_by_step(folder, path, flags)
        if problem != errno.EAGAIN:  # something was renamed while the kernel looked
            break
    raise OSError(problem, os.strerror(problem))


def open_step_by_step(folder: int, path: str, flags: int) -> int:
    """The same without the help of the kernel, and without links."""
    *folders, name = path.split("/")
    if ".." in (*folders, name):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
    descriptor = os.dup(folder)
    try:
        for each in folders:
            inner = os.open(each, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=descriptor)
    finally:
        os.close(descriptor)
