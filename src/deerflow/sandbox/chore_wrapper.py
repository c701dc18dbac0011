"""Run before every chore: takes its limits, then becomes it.

A program of the sandbox: it is handed over as text, and nothing here imports it.
"""

import importlib.util
import os
import resource
import sys
from contextlib import suppress
from pathlib import Path
from types import TracebackType

LACKING, OUT_OF_MEMORY = 97, 98
NICE = 5


def tell(kind: type[BaseException], problem: BaseException, trace: TracebackType | None) -> None:
    """Say what ended the chore; whoever started it does not hear standard error."""
    if issubclass(kind, MemoryError):
        os._exit(OUT_OF_MEMORY)
    sys.stdout.write(f"\n{kind.__name__}: {problem}"[:1000])


memory, file_size, packages, script, *sys.argv[1:] = sys.argv[1:]
if any(importlib.util.find_spec(name) is None for name in packages.split(",") if name):
    sys.exit(LACKING)
os.nice(NICE)
with suppress(OSError):  # where sessions share a machine evenly, how nice a process is counts in its own session only
    Path("/proc/self/autogroup").write_text(str(NICE))
for kind, wanted in ((resource.RLIMIT_DATA, int(memory)), (resource.RLIMIT_FSIZE, int(file_size))):
    most = resource.getrlimit(kind)[1]
    limit = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
    resource.setrlimit(kind, (limit, limit))
sys.excepthook = tell
exec(compile(script, "chore", "exec"), {"__name__": "__main__"})
