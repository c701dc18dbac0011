"""Starting and ending real `deerflow` processes."""

import atexit
import json
import os
import re
import secrets
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory
from typing import TextIO

import pytest

import deerflow
from tests.support import user_cache
from tests.watchdog import WATCHDOG

# The package that the tests import, wherever it is installed.
SOURCES = str(Path(deerflow.__file__).parents[1])
DEERFLOW = [sys.executable, "-c", "from deerflow.cli.main import main; main()"]
EXIT_TIMEOUT_S = 30
COMMAND_TIMEOUT_S = 60


class ForkedProcess:
    """A process of the fork server, identified by a pidfd because process ids are reused."""

    def __init__(self, pid: int, output: TextIO, status: Path) -> None:
        self.pid = pid
        self.stdout = output
        self._handle = os.pidfd_open(pid)
        self._status = status

    def send_signal(self, number: int) -> None:
        """Send a signal if the process still exists."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._handle, number)

    def wait(self, timeout: float) -> int:
        """Wait until the process has ended and return its exit code, as a negative number if it was killed."""
        if not select.select([self._handle], [], [], timeout)[0]:
            pytest.fail(f"the process has not ended within {timeout:g} s")
        return int(self._status.read_text()) if self._status.exists() else -signal.SIGKILL

    def close(self) -> None:
        """Terminate the process if it still runs, and release its resources."""
        self.send_signal(signal.SIGTERM)
        self.wait(EXIT_TIMEOUT_S)
        os.close(self._handle)
        self.stdout.close()


@dataclass(frozen=True)
class RunningServer:
    """A `deerflow serve` process."""

    url: str
    process: "subprocess.Popen[str] | ForkedProcess"

    @property
    def port(self) -> int:
        return int(self.url.rsplit(":", 1)[1])

    def kill(self) -> None:
        """Kill the process without a shutdown."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(timeout=10)


@cache
def start_fork_server() -> subprocess.Popen[str]:
    """Start the fork server once; servers forked from it need no imports."""
    environment = {"PATH": os.defpath, "PYTHONPATH": f"{SOURCES}:{Path(__file__).parents[2]}"}
    with NamedTemporaryFile(prefix="deerflow-watchdog-", delete=False) as file:
        report = Path(file.name)
    atexit.register(report.unlink)
    WATCHDOG.reports.append(report)
    command = [sys.executable, "-m", "tests.e2e.fork_server", str(report)]
    process = subprocess.Popen(command, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    atexit.register(process.wait)
    atexit.register(process.kill)
    return process


def fork_deerflow(home: Path, arguments: Sequence[str]) -> ForkedProcess:
    """Run the `deerflow` command in a process of the fork server, with standard error in `server.log`."""
    name = secrets.token_hex(4)
    pipe, status = home / f"output-{name}", home / f"status-{name}"
    os.mkfifo(pipe)
    # Before the request, so that opening the other end does not block.
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    files = {"input": os.devnull, "output": str(pipe), "errors": "server.log", "status": str(status)}
    pid = send_request(arguments, server_environment(home), home, files)
    os.set_blocking(reader, True)
    pipe.unlink()
    return ForkedProcess(pid, os.fdopen(reader, encoding="utf-8"), status)


def run_deerflow(
    *arguments: str, folder: Path, environment: Mapping[str, str], stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run the `deerflow` command in a process of the fork server until it ends, and return its output."""
    with TemporaryDirectory(prefix="deerflow-test-") as scratch:
        paths = {name: Path(scratch) / name for name in ("input", "output", "errors", "status")}
        paths["input"].write_text(stdin)
        paths["output"].touch()
        pid = send_request(arguments, environment, folder, {name: str(path) for name, path in paths.items()})
        with closing(ForkedProcess(pid, paths["output"].open(encoding="utf-8"), paths["status"])) as process:
            code = process.wait(COMMAND_TIMEOUT_S)
            return subprocess.CompletedProcess(arguments, code, process.stdout.read(), paths["errors"].read_text())


def send_request(
    arguments: Sequence[str], environment: Mapping[str, str], folder: Path, files: Mapping[str, str]
) -> int:
    """Let the fork server start a process and return its id."""
    fork_server = start_fork_server()
    request = {"arguments": arguments, "environment": environment, "folder": str(folder), **files}
    assert fork_server.stdin is not None and fork_server.stdout is not None
    fork_server.stdin.write(f"{json.dumps(request)}\n")
    fork_server.stdin.flush()
    return int(fork_server.stdout.readline())


@dataclass(frozen=True)
class ServerLauncher:
    """Starts servers of one home folder and kills them."""

    home: Path
    config: Path

    @contextmanager
    def start(self) -> Iterator[tuple[str, int]]:
        """Start a server and return its address and process id. It is killed at the end."""
        with closing(fork_deerflow(self.home, ["serve", "--port", "0", "--config", str(self.config)])) as forked:
            try:
                yield read_address(forked.stdout, self.home / "server.log"), forked.pid
            finally:
                forked.send_signal(signal.SIGKILL)


@contextmanager
def serve(
    home: Path, *, port: int = 0, config: Path | None = None, program: Sequence[str] = ()
) -> Iterator[RunningServer]:
    """Start a server of `home`; without a configuration it has the demo model.

    `program` is the command to start instead of using the fork server.
    """
    arguments = ["serve", "--port", str(port), *(["--config", str(config)] if config else [])]
    log = home / "server.log"
    if not program:
        with closing(fork_deerflow(home, arguments)) as forked:
            yield RunningServer(read_address(forked.stdout, log), forked)
        return
    with (
        log.open("a") as errors,
        subprocess.Popen(
            [*program, *arguments],
            cwd=home,
            env=server_environment(home),
            text=True,
            stdout=subprocess.PIPE,
            stderr=errors,
        ) as process,
    ):
        assert process.stdout is not None
        try:
            yield RunningServer(read_address(process.stdout, log), process)
        finally:
            process.terminate()


def server_environment(home: Path) -> dict[str, str]:
    """Return environment variables of a server without settings of this machine."""
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "PYTHONPATH": SOURCES,
        "HOME": str(home),
        "DEER_FLOW_HOME": str(home),
        # An existing toolbox is used; servers of tests do not build it.
        "XDG_CACHE_HOME": str(user_cache()),
        "UV_OFFLINE": "1",
    }


def read_address(output: TextIO, log: Path) -> str:
    """Read the address that a server prints when it is ready."""
    for line in output:
        if found := re.search(r"http://[\d.]+:\d+", line):
            return found[0]
    pytest.fail(f"the server did not start:\n{log.read_text()}")
