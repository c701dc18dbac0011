"""`deerflow serve`: the web page, the API and the runs on one port."""

import asyncio
import ctypes
import errno
import gc
import ipaddress
import logging
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from math import ceil
from pathlib import Path
from types import FrameType
from typing import Annotated, TextIO

import typer
import uvicorn

from deerflow.config.source import ConfigSource, open_source
from deerflow.domain.errors import ConfigError
from deerflow.gateway.app import create_app
from deerflow.gateway.mcp_endpoint import McpEndpoint
from deerflow.gateway.middleware.body_limits import LOOPBACK
from deerflow.gateway.middleware.request_context import HeaderTimeoutProtocol
from deerflow.harness import Harness, open_harness
from deerflow.persistence.queries import channels as rows
from deerflow.runtime.background import log_task_exception, run_unless_unavailable, wait_for_event
from deerflow.tracing.logs import start_logging

if sys.platform == "win32":
    run_loop = asyncio.run
else:
    from uvloop import run as run_loop

logger = logging.getLogger(__name__)

GRACE_S = 2
CHANNELS_POLL_S = 30.0
"""Time after which a server notices the first chat app that was connected on the page of another one."""
BACKLOG = 2048
SIGNALS = (signal.SIGINT, signal.SIGTERM)
GC_THRESHOLDS = (2000, 5, 5)
"""New objects before a collection, and collections before one of an older generation.

Most objects are freed by reference counting. Those of a run that wait for the collector are 160, and take up to 2 MB.
"""
M_ARENA_MAX = -8
"""Number of the setting in `malloc.h` of glibc."""


def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Port to listen on; 0 picks a free one.")] = None,
    config: Annotated[Path | None, typer.Option(help="Configuration file.")] = None,
    allow_remote: Annotated[
        bool,
        typer.Option(
            help="Serve any host name and require a login, for example behind a proxy. Other addresses imply it."
        ),
    ] = False,
) -> None:
    """Serve the web page and the API."""
    limit_malloc_arenas()
    source = open_source(config)
    settings = source.current.config
    start_logging(settings.log_level, settings.logging.format, redact=source.redact)
    address = host or settings.server.host
    allow_remote = allow_remote or not is_loopback(address)
    listener = listen(address, settings.server.port if port is None else port)
    try:
        with suppress(KeyboardInterrupt):
            run_loop(run_server(source, listener, allow_remote))
    finally:
        discard_unwritable(sys.stdout)
        discard_unwritable(sys.stderr)


def limit_malloc_arenas() -> None:
    """Let all threads allocate from one arena, where the C library is glibc.

    It gives each thread one of its own otherwise, and the memory that one has freed is of no use to the others. Python
    objects are not affected: the interpreter has its own allocator for small ones, and threads hold the GIL.
    """
    if sys.platform == "linux":
        with suppress(AttributeError):  # other C libraries do not have this function
            ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1)


async def run_server(source: ConfigSource, listener: socket.socket, allow_remote: bool) -> None:
    """Serve until a signal arrives, then close everything."""
    async with open_harness(source, on_import=gc.freeze) as harness:
        app = create_app(harness, hosts=None if allow_remote else LOOPBACK, requires_login=allow_remote)
        # Objects created at start live as long as the process; the collector need not scan them. Neither need it scan
        # those that come with the first run: a full collection would block the event loop for 60 ms.
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLDS)
        options = uvicorn.Config(
            app,
            http=HeaderTimeoutProtocol,
            ws="none",
            log_config=None,
            access_log=False,
            lifespan="off",
            proxy_headers=False,  # those of `server.trusted_proxies` are read where they are needed
        )
        announcement = format_announcement(harness, listener)
        if allow_remote and not await harness.resources.accounts.exist():
            announcement += await format_setup_link(harness, listener)
        server = AnnouncedServer(options, announcement, harness, app.state.mcp_endpoint)
        preparing = asyncio.create_task(harness.core.sandboxes.prepare())
        preparing.add_done_callback(log_failure)
        try:
            async with open_used_channels(harness, app.state.channels_changed):
                await server.serve(sockets=[listener])
        finally:
            preparing.cancel()
            await asyncio.wait({preparing})


@asynccontextmanager
async def open_used_channels(harness: Harness, changed: asyncio.Event) -> AsyncIterator[None]:
    """Connect to chat apps as soon as there is one. Without any, nothing of them is imported."""
    keeping = asyncio.create_task(keep_channels(harness, changed), name="chat apps")
    keeping.add_done_callback(log_task_exception)
    try:
        yield
    finally:
        keeping.cancel()
        await asyncio.wait({keeping})


async def keep_channels(harness: Harness, changed: asyncio.Event) -> None:
    """Wait for the first chat app, in `config.yaml` or connected on the page, then keep all connected."""
    if not harness.core.source.current.config.channels.is_used:
        while not await run_unless_unavailable(lambda: harness.core.database.look_up(rows.has_saved_channels)):
            await wait_for_event(changed, CHANNELS_POLL_S)
            changed.clear()
    from deerflow.channels.service import open_channels

    async with open_channels(harness, changed):
        await asyncio.Event().wait()


def log_failure(task: "asyncio.Task[None]") -> None:
    """Log the failure of a background task."""
    if not task.cancelled() and (problem := task.exception()):
        logger.error("sandbox preparation failed", exc_info=problem)


class AnnouncedServer(uvicorn.Server):
    """Server that prints its address when it is ready, and lets runs finish before it stops."""

    def __init__(self, config: uvicorn.Config, announcement: str, harness: Harness, mcp_endpoint: McpEndpoint) -> None:
        super().__init__(config)
        self._announcement = announcement
        self._harness = harness
        self._mcp_endpoint = mcp_endpoint
        self._draining: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        print_line(self._announcement)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop accepting requests; keep event streams open until their runs have ended or are handed over."""
        drain_s = self._harness.core.source.refresh().config.runs.drain_seconds
        self.config.timeout_graceful_shutdown = ceil(drain_s + GRACE_S)
        self._draining = asyncio.create_task(self._drain(drain_s))
        await super().shutdown(sockets)
        await asyncio.wait({self._draining})

    async def _drain(self, drain_s: float) -> None:
        """Wait for active runs, then close the MCP sessions that would stay open otherwise."""
        try:
            await self._harness.runs.aclose(drain_s)
        finally:
            await self._mcp_endpoint.aclose()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle signals without raising them again at the end, as uvicorn does: there is more to close."""
        if sys.platform == "win32":  # its event loops have no signal handlers
            with super().capture_signals():
                yield
            return
        loop = asyncio.get_running_loop()
        # A closed terminal ends the server as well, unless it was started with `nohup`.
        is_immune = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        handled = SIGNALS if is_immune else (*SIGNALS, signal.SIGHUP)
        for number in handled:
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in handled:
                loop.remove_signal_handler(number)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._harness.runs.start_closing()
        if self._draining is not None:  # a second signal skips the drain
            self._draining.cancel()
        super().handle_exit(sig, frame)


def print_line(line: str) -> None:
    """Print to standard output, which may be a full disk or a closed pipe."""
    try:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
    except OSError as problem:
        logger.warning("cannot write to standard output: %s", problem)


def discard_unwritable(stream: TextIO) -> None:
    """Discard what cannot be written: Python would try again when it ends, and end with an error."""
    try:
        stream.flush()
    except OSError:
        with Path(os.devnull).open("wb") as nothing:
            os.dup2(nothing.fileno(), stream.fileno())


def format_announcement(harness: Harness, listener: socket.socket) -> str:
    """Return the line with the address and the default model."""
    model = harness.core.agents.catalog.default
    name = model.display_name or model.name
    return f"DeerFlow is running at {format_url(listener)}  (model: {name}; press Ctrl+C to stop)"


async def format_setup_link(harness: Harness, listener: socket.socket) -> str:
    """Return lines with the link with which the first account is made."""
    path = await harness.resources.accounts.create_setup_path()
    base = harness.core.source.current.config.gateway.public_url or format_url(listener)
    return f"\nCreate the first account here; the link works once:\n{base}{path}"


def format_url(listener: socket.socket) -> str:
    """Return the URL of a listening socket."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket.

    Raises:
        ConfigError: the address is not available.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family, backlog=BACKLOG)
    except OSError as problem:
        raise ConfigError(explain_listen_error(problem, host, port)) from problem


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach `host`."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def explain_listen_error(problem: OSError, host: str, port: int) -> str:
    """Return the reason why a socket cannot listen, and advice."""
    if problem.errno == errno.EADDRINUSE:
        return f"port {port} is in use; stop the program that uses it, or choose another: make start PORT={port + 1}"
    if problem.errno == errno.EACCES:
        return f"port {port} needs privileges; choose one above 1023"
    return f"cannot listen on {host!r}, port {port}: {problem.strerror or problem}"
