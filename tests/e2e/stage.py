"""What browser tests stand on: a real server process, and a visitor who notes what a page should not do."""

import atexit
import json
import os
import re
import secrets
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, TextIO

import pytest
from playwright.async_api import Browser, ConsoleMessage, Page, Request

import deerflow
from tests.browser import PATIENCE_MS
from tests.support import user_cache

# The same package as the tests have, wherever it was installed from.
SOURCES = str(Path(deerflow.__file__).parents[1])
DEERFLOW = [sys.executable, "-c", "from deerflow.cli.main import main; main()"]
AXE = Path(__file__).parents[2] / "web/node_modules/axe-core/axe.min.js"
END_LIMIT_S = 30


class Forked:
    """A process that was forked from the warm one, by its handle: its number may be another's once it has ended."""

    def __init__(self, pid: int, said: TextIO) -> None:
        """`said`: what it prints."""
        self.pid = pid
        self.stdout = said
        self._handle = os.pidfd_open(pid)

    def send_signal(self, number: int) -> None:
        """Send a signal, if it is still there."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._handle, number)

    def wait(self, timeout: float) -> None:
        """Wait for its end."""
        if not select.select([self._handle], [], [], timeout)[0]:
            pytest.fail(f"the server has not ended within {timeout:g} s")

    def close(self) -> None:
        """Have it end, if it has not, and forget it."""
        self.send_signal(signal.SIGTERM)
        self.wait(END_LIMIT_S)
        os.close(self._handle)
        self.stdout.close()


@dataclass(frozen=True)
class RunningServer:
    """A `deerflow serve` process."""

    url: str
    process: "subprocess.Popen[str] | Forked"

    @property
    def port(self) -> int:
        return int(self.url.rsplit(":", 1)[1])

    def kill(self) -> None:
        """End it as a power cut would."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(timeout=10)


@cache
def warm_process() -> subprocess.Popen[str]:
    """A process from which servers are forked, so that nothing has to be imported to start one."""
    environment = {"PATH": os.defpath, "PYTHONPATH": f"{SOURCES}:{Path(__file__).parents[2]}"}
    command = [sys.executable, "-m", "tests.e2e.nursery"]
    process = subprocess.Popen(command, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    atexit.register(process.wait)
    atexit.register(process.kill)
    return process


def fork(home: Path, arguments: Sequence[str]) -> Forked:
    """Start the `deerflow` command in a process of its own."""
    warm, mouth = warm_process(), home / f"said-{secrets.token_hex(4)}"
    os.mkfifo(mouth)
    ear = os.open(mouth, os.O_RDONLY | os.O_NONBLOCK)  # before the order: whoever opens the other end finds it open
    order = {"arguments": arguments, "environment": environment_of(home), "home": str(home), "said": str(mouth)}
    assert warm.stdin is not None and warm.stdout is not None
    warm.stdin.write(f"{json.dumps(order)}\n")
    warm.stdin.flush()
    pid = int(warm.stdout.readline())
    os.set_blocking(ear, True)
    mouth.unlink()
    return Forked(pid, os.fdopen(ear, encoding="utf-8"))


@dataclass(frozen=True)
class Nursery:
    """Servers of one home, which are killed."""

    home: Path
    config: Path

    @contextmanager
    def serving(self) -> Iterator[tuple[str, int]]:
        """Start a server: its address and process id. It is killed in the end, if it was not before."""
        with closing(fork(self.home, ["serve", "--port", "0", "--config", str(self.config)])) as forked:
            try:
                yield address_said_by(forked.stdout, self.home / "server.log"), forked.pid
            finally:
                forked.send_signal(signal.SIGKILL)


@contextmanager
def serving(
    home: Path, *, port: int = 0, config: Path | None = None, program: Sequence[str] = ()
) -> Iterator[RunningServer]:
    """Serve `home` and nothing else of this machine: without a configuration the demo model answers.

    With a `program` it is started as people start it.
    """
    arguments = ["serve", "--port", str(port), *(["--config", str(config)] if config else [])]
    log = home / "server.log"
    if not program:
        with closing(fork(home, arguments)) as forked:
            yield RunningServer(address_said_by(forked.stdout, log), forked)
        return
    with (
        log.open("a") as errors,
        subprocess.Popen(
            [*program, *arguments], cwd=home, env=environment_of(home), text=True, stdout=subprocess.PIPE, stderr=errors
        ) as process,
    ):
        assert process.stdout is not None
        try:
            yield RunningServer(address_said_by(process.stdout, log), process)
        finally:
            process.terminate()


def environment_of(home: Path) -> dict[str, str]:
    """The variables of a server that knows nothing else of this machine."""
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "PYTHONPATH": SOURCES,
        "HOME": str(home),
        "DEER_FLOW_HOME": str(home),
        # The Python environment of commands is used where there is one; no server of a test builds it.
        "XDG_CACHE_HOME": str(user_cache()),
        "UV_OFFLINE": "1",
    }


def address_said_by(said: TextIO, log: Path) -> str:
    """Where a server is, as it says when it can be reached."""
    for line in said:
        if found := re.search(r"http://[\d.]+:\d+", line):
            return found[0]
    pytest.fail(f"the server did not start:\n{log.read_text()}")


@dataclass
class Visitor:
    """Opens pages and notes every console error and every request to another origin."""

    browser: Browser
    faults: list[str] = field(default_factory=list)
    tolerated: str = "(?!)"  # what the console may say: a browser reports each refused connection there

    async def open(self, url: str, **options: Any) -> Page:
        settings = {"viewport": {"width": 1280, "height": 800}, "locale": "en-US"} | options
        context = await self.browser.new_context(**settings)
        context.set_default_timeout(PATIENCE_MS)
        page = await context.new_page()
        origin = "/".join(url.split("/")[:3])
        page.on("console", self._note_console)
        page.on("pageerror", lambda error: self.faults.append(f"script error: {error}"))
        page.on("request", lambda request: self._note_request(request, origin))
        await page.goto(url)
        return page

    def _note_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not re.search(self.tolerated, message.text):
            self.faults.append(f"console {message.type}: {message.text} ({message.location.get('url')})")

    def _note_request(self, request: Request, origin: str) -> None:
        if not request.url.startswith((f"{origin}/", "data:", "blob:")):
            self.faults.append(f"request to elsewhere: {request.url}")


async def serious_violations(page: Page) -> list[str]:
    """What axe finds that keeps people from using the page."""
    await page.evaluate(AXE.read_text())
    found = await page.evaluate("axe.run({ resultTypes: ['violations'] })")
    return [
        f"{violation['id']}: {json.dumps([node['target'] for node in violation['nodes']])}"
        for violation in found["violations"]
        if violation["impact"] in ("serious", "critical")
    ]
