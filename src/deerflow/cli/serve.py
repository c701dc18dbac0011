"""`deerflow serve`: the web page, the API and the runs on one port."""

import asyncio
import errno
import gc
import ipaddress
import logging
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from math import ceil
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer
import uvicorn
import uvloop

from deerflow.config.source import ConfigSource, open_source
from deerflow.domain.errors import ConfigError
from deerflow.gateway.app import create_app
from deerflow.gateway.guard import LOOPBACK
from deerflow.gateway.mcp_door import McpDoor
from deerflow.gateway.protocol import PunctualProtocol
from deerflow.harness import Harness, open_harness
from deerflow.tracing.logs import start_logging

logger = logging.getLogger(__name__)

GRACE_S = 2
BACKLOG = 2048
SIGNALS = (signal.SIGINT, signal.SIGTERM)
NEW_OBJECTS = 10_000
"""So many are made before the collector looks at them: most have gone by themselves by then."""


def serve(
    host: Annotated[str | None, typer.Option(help="The address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="The port; 0 takes any free one.")] = None,
    config: Annotated[Path | None, typer.Option(help="The configuration file.")] = None,
    allow_remote: Annotated[bool, typer.Option(help="Listen on other addresses than loopback, without login.")] = False,
) -> None:
    """Serve the web page and the API."""
    source = open_source(config)
    settings = source.current.config
    start_logging(settings.log_level, settings.logging.format, hide=source.hide)
    listener = listen(host or settings.server.host, settings.server.port if port is None else port, allow_remote)
    with suppress(KeyboardInterrupt):
        uvloop.run(run_server(source, listener, allow_remote))


async def run_server(source: ConfigSource, listener: socket.socket, allow_remote: bool) -> None:
    """Serve until a signal comes, then put everything away."""
    async with open_harness(source) as harness:
        app = create_app(harness, hosts=None if allow_remote else LOOPBACK)
        # What is there now stays: the collector need not look through all of it again and again.
        gc.freeze()
        # What is loaded with the first run stays too; to look through that takes 60 ms in which nobody is answered.
        gc.set_threshold(NEW_OBJECTS)
        options = uvicorn.Config(
            app, http=PunctualProtocol, ws="none", log_config=None, access_log=False, lifespan="off"
        )
        server = AnnouncedServer(options, announcement(harness, listener), harness, app.state.mcp_door)
        preparing = asyncio.create_task(harness.sandboxes.prepare())
        preparing.add_done_callback(tell_failure)
        try:
            await server.serve(sockets=[listener])
        finally:
            preparing.cancel()
            await asyncio.wait({preparing})


def tell_failure(task: "asyncio.Task[None]") -> None:
    """Log what went wrong in the background."""
    if not task.cancelled() and (problem := task.exception()):
        logger.error("preparing the sandbox failed", exc_info=problem)


class AnnouncedServer(uvicorn.Server):
    """Says where it can be reached once it can be, and lets runs end before it does."""

    def __init__(self, config: uvicorn.Config, announcement: str, harness: Harness, mcp_door: McpDoor) -> None:
        super().__init__(config)
        self._announcement = announcement
        self._harness = harness
        self._mcp_door = mcp_door
        self._draining: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        typer.echo(self._announcement)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take no more requests; readers stay until their runs have ended or are left to the next server."""
        drain_s = self._harness.source.refresh().config.runs.drain_seconds
        self.config.timeout_graceful_shutdown = ceil(drain_s + GRACE_S)
        self._draining = asyncio.create_task(self._drain(drain_s))
        await super().shutdown(sockets)
        await asyncio.wait({self._draining})

    async def _drain(self, drain_s: float) -> None:
        """Let runs end, and then those who would go on listening although nothing more is said."""
        try:
            await self._harness.runs.aclose(drain_s)
        finally:
            await self._mcp_door.aclose()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Unlike uvicorn, which in the end dies of the signal after all: there is more to put away."""
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in SIGNALS:
                loop.remove_signal_handler(number)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._harness.runs.begin_closing()
        if self._draining is not None:  # asked twice, somebody is in a hurry
            self._draining.cancel()
        super().handle_exit(sig, frame)


def announcement(harness: Harness, listener: socket.socket) -> str:
    """Where to go, and who answers there."""
    host, port = listener.getsockname()[:2]
    model = harness.agents.catalog.default
    shown = f"[{host}]" if ":" in host else host
    return f"DeerFlow is at http://{shown}:{port}  (model: {model.display_name or model.name}; Ctrl+C stops)"


def listen(host: str, port: int, allow_remote: bool) -> socket.socket:
    """A socket that listens.

    Raises:
        ConfigError: it may not or cannot; the text says what to do.
    """
    if not allow_remote and not is_loopback(host):
        raise ConfigError(
            f"{host!r} is reachable from other machines and there is no login yet; "
            "use 127.0.0.1, or --allow-remote if everyone who can reach it may use it"
        )
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family, backlog=BACKLOG)
    except OSError as problem:
        raise ConfigError(explain(problem, host, port)) from problem


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach `host`."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def explain(problem: OSError, host: str, port: int) -> str:
    """Why a socket cannot listen, and what to do."""
    if problem.errno == errno.EADDRINUSE:
        return f"port {port} is in use; stop the program that has it, or choose another: make start PORT={port + 1}"
    if problem.errno == errno.EACCES:
        return f"port {port} needs privileges; choose one above 1023"
    return f"cannot listen on {host!r}, port {port}: {problem.strerror or problem}"
