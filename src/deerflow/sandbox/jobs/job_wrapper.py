"""Wrapper of every sandbox job: set limits, then run the script.

It runs inside the sandbox: it is passed as text and never imported.
"""

import importlib.util
import os
import resource
import sys
import time
from pathlib import Path
from types import TracebackType

MISSING_PACKAGE, OUT_OF_MEMORY = 97, 98
NICE = 5
ATTEMPTS, PAUSE_S = 6, 0.05


def report_exception(kind: type[BaseException], problem: BaseException, trace: TracebackType | None) -> None:
    """Print the exception that ended the job to standard output: standard error is discarded."""
    if issubclass(kind, MemoryError):
        os._exit(OUT_OF_MEMORY)
    sys.stdout.write(f"\n{kind.__name__}: {problem}"[:1000])


memory, file_size, packages, script, *sys.argv[1:] = sys.argv[1:]
if any(importlib.util.find_spec(name) is None for name in packages.split(",") if name):
    sys.exit(MISSING_PACKAGE)
os.nice(NICE)
for _ in range(ATTEMPTS):
    try:  # with autogroup scheduling, nice values apply only within a session
        Path("/proc/self/autogroup").write_text(str(NICE))
        break
    except BlockingIOError:  # the kernel accepts ten changes a second, of all users together
        time.sleep(PAUSE_S)
    except OSError:
        break
for kind, requested in ((resource.RLIMIT_DATA, int(memory)), (resource.RLIMIT_FSIZE, int(file_size))):
    hard_limit = resource.getrlimit(kind)[1]
    limit = requested if hard_limit == resource.RLIM_INFINITY else min(requested, hard_limit)
    resource.setrlimit(kind, (limit, limit))
sys.excepthook = report_exception
exec(compile(script, "job", "exec"), {"__name__": "__main__"})
