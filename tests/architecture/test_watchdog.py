"""The watchdog of the tests notices code that holds the event loop."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deerflow.cli import serve
from tests.e2e.fork_server import watch_event_loop
from tests.watchdog import LIMIT_S, SOURCE, WATCHDOG

TRIES = 20


def compile_function(path: str, name: str, body: str) -> Callable[..., Any]:
    """Return a function as if it stood in the file at `path`."""
    found: dict[str, Any] = {}
    exec(compile(f"def {name}(wait):\n    {body}\n", path, "exec"), found)
    function: Callable[..., Any] = found[name]
    return function


def spin(seconds: float) -> None:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


@pytest.mark.parametrize("wait", [spin, time.sleep], ids=["works", "waits"])
@pytest.mark.parametrize(
    ("file", "function", "is_noticed"),
    [
        ("runtime/some.py", "handle", True),
        ("testing/some.py", "handle", False),
        ("harness/some.py", "open_harness", False),
        ("../../tests/some.py", "handle", False),
    ],
)
async def test_only_code_of_a_running_server_is_noticed(
    wait: Callable[[float], None], file: str, function: str, is_noticed: bool
) -> None:
    hold = compile_function(str((Path(SOURCE) / file).resolve()), function, f"wait({3 * LIMIT_S})")
    found: list[str] = []
    for _ in range(TRIES if is_noticed else 1):  # on a busy machine the watchdog may be late
        done = asyncio.Event()
        asyncio.get_running_loop().call_soon(lambda done: (hold(wait), done.set()), done)
        await done.wait()
        found = [problem for problem in WATCHDOG.problems if "some.py" in problem]
        if found:
            break
    WATCHDOG.problems.clear()
    assert bool(found) is is_noticed


async def test_many_short_callbacks_are_not_noticed() -> None:
    hold = compile_function(f"{SOURCE}/runtime/some.py", "handle", "wait(0.01)")
    for _ in range(30):
        hold(spin)
        await asyncio.sleep(0)
    assert WATCHDOG.problems == []


@pytest.mark.parametrize(("wait_s", "is_noticed"), [(3 * LIMIT_S, True), (LIMIT_S / 10, False)])
async def test_server_in_a_process_of_its_own_is_watched_too(
    wait_s: float, is_noticed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = tmp_path / "report"
    monkeypatch.setattr(serve, "run_loop", serve.run_loop)
    watch_event_loop(report)
    hold = compile_function(f"{SOURCE}/runtime/some.py", "handle", f"wait({wait_s})")

    async def main() -> None:
        for _ in range(TRIES):
            await asyncio.sleep(0)  # the callbacks of the loop run in between
            hold(spin)
            if report.exists():
                break

    await asyncio.to_thread(serve.run_loop, main())
    assert report.exists() is is_noticed
    if is_noticed:
        assert "runtime/some.py:2 in handle" in await asyncio.to_thread(report.read_text)
