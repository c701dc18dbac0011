"""Servers, programs, snapshots and installed packages, for tests of all folders."""

import asyncio
import fcntl
import hashlib
import os
import shutil
import subprocess
import sysconfig
import tomllib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from fastapi import FastAPI
from langchain_core.messages import BaseMessage, SystemMessage
from starlette.types import ASGIApp

from deerflow.gateway.app import create_app
from deerflow.gateway.middleware.request_context import HeaderTimeoutProtocol
from deerflow.harness import Harness

OpenHarness = Callable[..., AbstractAsyncContextManager[Harness]]


@asynccontextmanager
async def browse(
    harness: Harness, app: FastAPI | None = None, around: Callable[[ASGIApp], ASGIApp] = lambda app: app
) -> AsyncIterator[httpx.AsyncClient]:
    """Yield a client of a real server on a free port, whose streams arrive live; `around` wraps the application."""
    options = uvicorn.Config(
        around(app or create_app(harness)),
        port=0,
        http=HeaderTimeoutProtocol,
        ws="none",
        lifespan="off",
        proxy_headers=False,
        log_config=None,
        timeout_graceful_shutdown=1,
    )
    server = ReadyServer(options)
    serving = asyncio.create_task(server.serve())
    async with asyncio.timeout(10):
        await server.ready.wait()
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        # Without certificates: reading them takes longer than most tests.
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=10, verify=False) as client:
            yield client
    finally:
        server.leave.set()
        await serving


class ReadyServer(uvicorn.Server):
    """Server that signals when it is ready, and stops without polling."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()
        self.leave = asyncio.Event()

    async def startup(self, sockets: list[object] | None = None) -> None:
        await super().startup(sockets)  # type: ignore[arg-type]
        self.ready.set()

    async def shutdown(self, sockets: list[object] | None = None) -> None:
        for _ in range(20):  # turns of the event loop in which it sees closed connections
            await asyncio.sleep(0)
        if self.server_state.connections or self.server_state.tasks:
            await super().shutdown(sockets)  # type: ignore[arg-type]
            return
        for server in self.servers:
            server.close()
            await server.wait_closed()

    async def main_loop(self) -> None:
        """Wait for `leave` instead of polling."""
        await self.leave.wait()
        self.should_exit = True


def needs(program: str) -> str:
    """Return the path of a program; without it the test is skipped, or fails in CI."""
    found = shutil.which(program)
    if found is None and os.environ.get("CI") == "true":  # noqa: TID251
        pytest.fail(f"{program} is not installed: `make test` installs it where root")
    if found is None:
        pytest.skip(f"{program} is not installed")
    return found


def said(messages: Sequence[BaseMessage]) -> list[str]:
    """Return the texts of the visible messages, without the system prompt."""
    return [
        message.text
        for message in messages
        if not isinstance(message, SystemMessage) and not message.additional_kwargs.get("hide_from_ui")
    ]


def same_as_snapshot(name: str, text: str) -> None:
    """Compare `text` with the snapshot of that name; `make snapshots` accepts changes."""
    file = Path(__file__).parent / "snapshots" / name
    if os.environ.get("ACCEPT_SNAPSHOTS") == "1":  # noqa: TID251
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert file.exists(), f"there is no snapshot {name}: look at what the test shows, then run `make snapshots`"
    assert text == file.read_text(encoding="utf-8"), f"{name} has changed: if that is meant, run `make snapshots`"


def user_cache() -> Path:
    """Return the folder of files that are kept between test sessions."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")  # noqa: TID251


@cache
def dependencies() -> Mapping[str, Any]:
    """Return `dependencies.toml`, which lists everything that tests fetch or build."""
    return tomllib.loads((Path(__file__).parent / "dependencies.toml").read_text(encoding="utf-8"))


def install_once(name: str, commands: Callable[[Path], Sequence[Sequence[str | Path]]]) -> Path:
    """Return a folder in the user's cache that the commands have filled; the first process runs them."""
    folder = user_cache() / "deerflow-tests" / name
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / ".complete").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            for command in commands(folder):
                done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
                assert done.returncode == 0, f"{name} could not be installed:\n{done.stdout}{done.stderr}"
            (folder / ".complete").touch()
    return folder


def install_program(wanted: str, name: str) -> Path:
    """Return a program of a PyPI package (`package==version`), which has an environment of its own."""
    uv = Path(sysconfig.get_path("scripts"), "uv")
    folder = install_once(
        f"{wanted.replace('==', '-')}-compiled",
        lambda place: [
            [uv, "venv", "-q", "--relocatable", "--allow-existing", place],
            [uv, "pip", "install", "-q", "--compile-bytecode", f"--python={place}/bin/python", wanted],
        ],
    )
    return folder / "bin" / name


def key_of(*parts: str) -> str:
    """Return a short hash of these parts."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


@contextmanager
def mount_disk(folder: Path, megabytes: int) -> Iterator[Path]:
    """Create a folder that is a small disk in memory; needs root."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def fill_disk(file: Path) -> None:
    """Write to a file until there is no byte left on its disk."""
    with file.open("wb", buffering=0) as content:
        for size in (2**20, 4096, 1):
            with suppress(OSError):
                while True:
                    content.write(b"x" * size)
