"""What a program gives up before it looks at what nobody trusts."""

import os
import resource
import sys
from collections.abc import Mapping
from contextlib import nullcontext, suppress


def give_up(cpu_s: int, memory_bytes: int, uid: int | None) -> None:
    """Keep only a part of time and memory; no files, no processes, and no root."""
    wanted: Mapping[int, int] = {
        resource.RLIMIT_CPU: cpu_s,
        resource.RLIMIT_AS: memory_bytes,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_NPROC: 0,
        resource.RLIMIT_CORE: 0,
    }
    for kind, limit in wanted.items():
        highest = resource.getrlimit(kind)[1]
        lower = limit if highest == resource.RLIM_INFINITY else min(limit, highest)
        with nullcontext() if sys.platform == "linux" else suppress(ValueError):  # others do not know all of them
            resource.setrlimit(kind, (lower, lower))
    if uid is not None:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
