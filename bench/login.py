"""CPU time that the login adds to a request: the same requests to a server without and with accounts."""

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from _table import Row, record
from starlette.types import ASGIApp, Message, Scope

from deerflow.accounts.model import ClientInfo
from deerflow.config.source import open_source
from deerflow.domain.identity import LOCAL_USER
from deerflow.gateway.app import create_app
from deerflow.harness import Harness, open_harness
from deerflow.testing import ScriptedModel

REQUESTS, ROUNDS = 300, 9
MOST_MS = 0.3
PATH = "/api/threads/t"
SETTINGS = {"log_level": "error", "memory": {"debounce_seconds": 3600}}
Headers = Sequence[tuple[bytes, bytes]]


def main() -> int:
    """Measure in turns, and compare the medians."""
    times = asyncio.run(measure())
    floor = statistics.median(times["no account"])
    missed, rows = False, []
    for name in ("session cookie", "API token"):
        ratio = statistics.median(times[name]) / floor
        added = statistics.median(times[name]) - floor
        missed |= added > MOST_MS
        print(f"{name:16} {added:6.3f} ms more   {ratio:5.2f} × {floor:.3f} ms   bar ≤ {MOST_MS} ms")
        rows += [
            Row(f"{name}: CPU of a request against none", "ratio", ratio, "×"),
            Row(f"{name}: CPU added to a request", "figure", added, "ms", bar=MOST_MS),
        ]
    record(rows)
    return int(missed)


async def measure() -> dict[str, list[float]]:
    """Return the CPU milliseconds of a request in each round, by kind."""
    times: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as open_home, tempfile.TemporaryDirectory() as home:
        async with start(Path(open_home)) as free, start(Path(home)) as guarded:
            cookie, token = await log_in(guarded)
            without, within = create_app(free), create_app(guarded)
            kinds: dict[str, Callable[[], tuple[ASGIApp, Headers]]] = {
                "no account": lambda: (without, ()),
                "session cookie": lambda: (within, cookie),
                "API token": lambda: (within, token),
            }
            for harness in (free, guarded):
                await harness.threads.create(LOCAL_USER, "t", {}, may_exist=False)
            for _ in range(ROUNDS):
                for name, of_kind in kinds.items():
                    times.setdefault(name, []).append(await one_round(*of_kind()))
    return times


def start(home: Path):  # type: ignore[no-untyped-def]  # the type of a context manager of the harness
    """Open a harness in a folder of its own."""
    source = open_source(directory=home, environment={}, overrides=SETTINGS)
    return open_harness(source, ScriptedModel.saying("Hi."))


async def log_in(harness: Harness) -> tuple[Headers, Headers]:
    """Return the headers of a session and of an API token."""
    password = "correct horse battery"
    await harness.resources.accounts.add("ann@example.com", password, "admin")
    session = await harness.resources.logins.log_in("ann@example.com", password, ClientInfo("127.0.0.1"))
    token = await harness.resources.logins.create_token(LOCAL_USER, "bench", "run", None)
    return (
        [(b"cookie", f"deerflow_session={session.secret}".encode())],
        [(b"authorization", f"Bearer {token.secret}".encode())],
    )


async def one_round(app: ASGIApp, headers: Headers) -> float:
    """Return the CPU milliseconds of a request."""
    await request(app, headers)
    began = time.process_time()
    for _ in range(REQUESTS):
        await request(app, headers)
    return (time.process_time() - began) / REQUESTS * 1000


async def request(app: ASGIApp, headers: Headers) -> None:
    """Send a request to an application, without a network."""
    scope: Scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": PATH,
        "raw_path": PATH.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(b"host", b"127.0.0.1"), *headers],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
        "state": {},
    }
    sent: list[Message] = []
    leaving = asyncio.Event()

    async def receive() -> Message:
        if sent:
            await leaving.wait()
        sent.append({})
        return {"type": "http.request", "body": b"", "more_body": False}

    status: list[int] = []

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            status.append(message["status"])

    await app(scope, receive, send)
    if status != [200]:
        raise SystemExit(f"the request was answered with {status}")


if __name__ == "__main__":
    sys.exit(main())
