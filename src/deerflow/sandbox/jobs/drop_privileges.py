"""Limits that a child process sets for itself before it parses untrusted input."""

import os
import sys
from collections.abc import Mapping
from contextlib import nullcontext, suppress

if sys.platform != "win32":
    import resource


def drop_privileges(cpu_s: int, memory_bytes: int, uid: int | None) -> None:
    """Limit CPU time and memory, forbid files and processes, and drop root. Windows has no such limits."""
    if sys.platform == "win32":
        return
    limits: Mapping[int, int] = {
        resource.RLIMIT_CPU: cpu_s,
        resource.RLIMIT_AS: memory_bytes,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_NPROC: 0,
        resource.RLIMIT_CORE: 0,
    }
    for kind, limit in limits.items():
        highest = resource.getrlimit(kind)[1]
        lower = limit if highest == resource.RLIM_INFINITY else min(limit, highest)
        with nullcontext() if sys.platform == "linux" else suppress(ValueError):  # not all exist on other systems
            resource.setrlimit(kind, (lower, lower))
    if uid is not None:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
