"""Program that imports and starts DeerFlow as on another operating system: `other_system.py win32 FOLDER`.

Everything is imported once, so that the libraries are there. Then the names that the other system lacks are removed,
and DeerFlow is imported again.
"""

import asyncio
import errno
import fcntl
import importlib
import json
import os
import pkgutil
import signal
import sys
import types
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import deerflow

PROGRAMS = frozenset(
    {
        "deerflow.__main__",
        "deerflow.sandbox.draw_thumbnail",
        "deerflow.sandbox.jobs.job_wrapper",
        "deerflow.sandbox.local.launcher.server",
    }
)
"""Programs for child processes, most of them on Linux only, which are never imported."""
POSIX_MODULES = frozenset({"fcntl", "grp", "pty", "pwd", "readline", "resource", "syslog", "termios", "tty", "uvloop"})
LINUX_NAMES = ("O_PATH", "O_TMPFILE", "memfd_create", "pidfd_open", "sched_getaffinity", "setresuid", "setresgid")
POSIX_NAMES = (
    *("O_CLOEXEC", "O_DIRECTORY", "O_NOCTTY", "O_NOFOLLOW", "O_NONBLOCK", "O_SYNC", "ST_RDONLY", "WNOHANG"),
    *("chown", "fchmod", "fchown", "fork", "getegid", "geteuid", "getgid", "getpgid", "getuid", "killpg", "lchown"),
    *("mkfifo", "nice", "pread", "sendfile", "setgroups", "setsid", "statvfs", "sysconf", "uname"),
)
POSIX_SIGNALS = ("SIGALRM", "SIGCHLD", "SIGHUP", "SIGKILL", "SIGPIPE", "SIGQUIT", "SIGUSR1", "SIGUSR2")


class MissingModules(MetaPathFinder):
    """Finder for which some modules do not exist."""

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names

    def find_spec(self, name: str, path: Sequence[str] | None, target: object = None) -> ModuleSpec | None:
        if name in self._names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None


def list_modules() -> list[str]:
    found = pkgutil.walk_packages(deerflow.__path__, "deerflow.")
    return sorted({module.name for module in found} - PROGRAMS)


def change_system(system: str) -> None:
    """Remove what the other system lacks, and forget the modules of DeerFlow."""
    missing = POSIX_MODULES if system == "win32" else frozenset[str]()
    for name in [name for name in sys.modules if name.partition(".")[0] in {"deerflow", *missing}]:
        del sys.modules[name]
    sys.meta_path.insert(0, MissingModules(missing))
    names = (*LINUX_NAMES, *POSIX_NAMES) if system == "win32" else LINUX_NAMES
    for name in names:
        if hasattr(os, name):
            delattr(os, name)
    if system == "win32":
        for name in POSIX_SIGNALS:
            delattr(signal, name)
        sys.modules["msvcrt"] = create_msvcrt()
        forbid_folder_descriptors()
    sys.platform = system


def create_msvcrt() -> types.ModuleType:
    """Return the locks of the C library of Windows."""
    module: Any = types.ModuleType("msvcrt")
    module.LK_NBLCK, module.LK_UNLCK = 2, 0

    def locking(descriptor: int, mode: int, size: int) -> None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_UN if mode == module.LK_UNLCK else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OSError(errno.EDEADLK, "resource deadlock avoided") from None

    module.locking = locking
    return module


def forbid_folder_descriptors() -> None:
    """Let `os.open` reject folders and `dir_fd`, as on Windows."""
    open_file = os.open

    def open_as_on_windows(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if dir_fd is not None:
            raise NotImplementedError("dir_fd unavailable on this platform")
        if Path(os.fsdecode(path)).is_dir():
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return open_file(path, flags, mode)

    os.open = open_as_on_windows


async def serve(folder: Path) -> None:
    """Start the server and print what a run, an upload and the check of the sandbox have shown."""
    import httpx

    from deerflow.cli import serve as cli
    from deerflow.config.source import open_source
    from deerflow.gateway.app import create_app
    from deerflow.harness import open_harness
    from deerflow.testing import ScriptedModel, calling

    assert (cli.run_loop is asyncio.run) == (sys.platform == "win32")
    model = ScriptedModel.saying(
        calling("bash", description="look", command="echo hello from the sandbox"),
        calling("write_file", description="write", path="/mnt/user-data/outputs/a.txt", content="written"),
        calling("read_file", description="read", path="/mnt/user-data/outputs/a.txt"),
        "Done.",
    )
    settings = {"sandbox": {"toolbox": {"enabled": False}}}
    source = open_source(directory=folder, environment={}, overrides=settings)
    async with open_harness(source, model) as harness:
        transport = httpx.ASGITransport(create_app(harness))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=30) as http:
            health = await http.get("/health")
            body = {"input": {"messages": [{"role": "user", "content": "Go."}]}}
            done = await http.post("/api/threads/t/runs/wait", json=body)
            upload = await http.post("/api/threads/t/uploads", files={"files": ("a.txt", b"text")})
        report = await harness.core.sandboxes.open()
    seen = {
        "health": health.status_code,
        "answer": done.json()["messages"][-1]["content"],
        "tools": [message["content"] for message in done.json()["messages"] if message["type"] == "tool"],
        "upload": upload.status_code,
        "problem_of_upload": upload.text,
        "tier": report.tier,
        "problem": report.problem,
        "remedy": report.remedy,
    }
    sys.stdout.write(json.dumps(seen) + "\n")


def main(system: str, folder: str) -> None:
    for name in list_modules():
        importlib.import_module(name)
    change_system(system)
    for name in list_modules():
        importlib.import_module(name)
    asyncio.run(serve(Path(folder)))


if __name__ == "__main__":
    main(*sys.argv[1:])
