"""The system calls that commands in a container cannot make, whatever the engine itself lets through."""

import errno
import platform
from collections.abc import Sequence

from deerflow.sandbox.local.seccomp import (
    ALLOW,
    ARCHITECTURE,
    ARCHITECTURES,
    EQUAL,
    FAIL,
    FIRST_ARGUMENT,
    KILL,
    LOAD,
    NUMBER,
    RETURN,
    seccomp_filter,
    step,
)

ANY_BIT = 0x45
CLONE = {"x86_64": 56, "aarch64": 220}
CLONE3 = 435
NEW_NAMESPACES = 0x7E020000


def container_filters(machine: str | None = None) -> Sequence[bytes]:
    """Programs for the kernel, all of which have to agree; none for machines whose calls we do not know."""
    machine = machine or platform.machine()
    return [seccomp_filter(machine), namespace_filter(machine)] if machine in CLONE else []


def namespace_filter(machine: str) -> bytes:
    """Refuse to make namespaces: engines differ in whether they do, and in a new one everybody is root."""
    steps = [
        step(LOAD, ARCHITECTURE),
        step(EQUAL, ARCHITECTURES[machine], 1, 0),
        step(RETURN, KILL),
        step(LOAD, NUMBER),
        step(EQUAL, CLONE3, 0, 1),
        step(RETURN, FAIL | errno.ENOSYS),  # its flags are in memory, out of our sight; callers fall back to clone
        step(EQUAL, CLONE[machine], 0, 3),
        step(LOAD, FIRST_ARGUMENT),
        step(ANY_BIT, NEW_NAMESPACES, 0, 1),
        step(RETURN, FAIL | errno.EPERM),
        step(RETURN, ALLOW),
    ]
    return b"".join(steps)
