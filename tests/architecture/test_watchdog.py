"""The watchdog of the tests notices code that holds the event loop."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

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
    wait: Callable[[float], None], file: str, function: str, is_noticed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.watchdog.BUSY_LOAD", 1_000)
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
