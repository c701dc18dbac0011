"""What browser tests stand on: a real server process, and a visitor who notes what a page should not do."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, ConsoleMessage, Page, Request

import deerflow
from tests.support import user_cache

# The same package as the tests have, wherever it was installed from.
SOURCES = str(Path(deerflow.__file__).parents[1])
DEERFLOW = [sys.executable, "-c", "from deerflow.cli.main import main; main()"]
AXE = Path(__file__).parents[2] / "web/node_modules/axe-core/axe.min.js"
PATIENCE_MS = 30_000
"""A busy machine may be slow; what never comes is told all the same."""


@dataclass(frozen=True)
class RunningServer:
    """A `deerflow serve` process."""

    url: str
    process: subprocess.Popen[str]

    @property
    def port(self) -> int:
        return int(self.url.rsplit(":", 1)[1])

    def kill(self) -> None:
        """End it as a power cut would."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(timeout=10)


@dataclass(frozen=True)
class Nursery:
    """A process from which servers are forked, so that nothing has to be imported to start one."""

    process: subprocess.Popen[str]
    home: Path
    config: Path

    @contextmanager
    def serving(self) -> Iterator[tuple[str, int]]:
        """Start a server: its address and process id. It is killed in the end, if it was not before."""
        arguments = ["serve", "--port", "0", "--config", str(self.config)]
        order = {"arguments": arguments, "environment": environment_of(self.home), "home": str(self.home)}
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(f"{json.dumps(order)}\n")
        self.process.stdin.flush()
        pid = int(self.process.stdout.readline())
        try:
            yield address_said_by(self.process, self.home / "server.log"), pid
        finally:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@contextmanager
def nursery(home: Path, config: Path) -> Iterator[Nursery]:
    """Open a nursery for servers of one home."""
    environment = {**environment_of(home), "PYTHONPATH": f"{SOURCES}:{Path(__file__).parents[2]}"}
    command = [sys.executable, "-m", "tests.e2e.nursery"]
    with subprocess.Popen(
        command, cwd=home, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        try:
            yield Nursery(process, home, config)
        finally:
            process.terminate()


@contextmanager
def serving(
    home: Path, *, port: int = 0, config: Path | None = None, program: Sequence[str] = DEERFLOW
) -> Iterator[RunningServer]:
    """Serve `home` and nothing else of this machine: without a configuration the demo model answers."""
    command = [*program, "serve", "--port", str(port), *(["--config", str(config)] if config else [])]
    log = home / "server.log"
    with (
        log.open("a") as errors,
        subprocess.Popen(
            command, cwd=home, env=environment_of(home), text=True, stdout=subprocess.PIPE, stderr=errors
        ) as process,
    ):
        try:
            yield RunningServer(address_said_by(process, log), process)
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


def address_said_by(process: subprocess.Popen[str], log: Path) -> str:
    assert process.stdout is not None
    for line in iter(process.stdout.readline, "ended\n"):
        if not line:  # the process has ended
            break
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
