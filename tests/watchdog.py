"""Watchdog of event loops: finds code of DeerFlow that holds the loop, during which a server answers nobody."""

import asyncio
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

LIMIT_S = 0.1
PERIOD_S = 0.02
SOURCE = str(Path(__file__).parents[1] / "src" / "deerflow")
TESTING = str(Path(SOURCE) / "testing")
STARTUP = frozenset({"open_harness", "open_core", "open_source", "create_app"})
"""Functions during which there is no server yet."""


@dataclass(slots=True)
class RunningCallback:
    """Callback that an event loop runs now."""

    thread: int
    native_thread: int
    started: float
    waited: float | None = None
    """Seconds for which the thread had waited for a CPU when it was looked at first."""
    samples: int = 0
    stack: str = ""


@dataclass(slots=True)
class Watchdog:
    """Looks at the callbacks of all event loops of this process, from a thread of its own."""

    running: dict[int, RunningCallback] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def start(self) -> None:
        """Observe every callback from now on."""
        run, running, ident, native = asyncio.Handle._run, self.running, threading.get_ident, threading.get_native_id

        def observed(handle: Any) -> None:
            thread = ident()
            outer = running.get(thread)  # a loop inside a callback of another one
            running[thread] = RunningCallback(thread, native(), time.monotonic())
            try:
                run(handle)
            finally:
                if outer is None:
                    running.pop(thread, None)
                else:
                    running[thread] = outer

        asyncio.Handle._run = observed  # type: ignore[method-assign]
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()

    def _watch(self) -> None:
        never = threading.Event()
        while not never.wait(PERIOD_S):
            now = time.monotonic()
            for callback in list(self.running.values()):
                if now - callback.started > PERIOD_S:
                    self._look(callback, now)

    def _look(self, callback: RunningCallback, now: float) -> None:
        frame = sys._current_frames().get(callback.thread)
        if frame is None or not is_ours(frame):
            return
        callback.samples += 1
        waited = read_cpu_wait(callback.native_thread)
        if callback.waited is None:
            callback.waited, callback.started = waited, now - PERIOD_S
        held = now - callback.started - (waited - callback.waited)
        # Several looks: a process that was suspended as a whole has one.
        if held > LIMIT_S and callback.samples * PERIOD_S >= LIMIT_S and not callback.stack:
            frames = traceback.extract_stack(frame)
            own = [each for each in frames[:-6] if each.filename.startswith(SOURCE)]
            callback.stack = "".join(traceback.format_list([*own, *frames[-6:]]))
            self.problems.append(f"the event loop was held for more than {LIMIT_S * 1000:.0f} ms in\n{callback.stack}")


def is_ours(frame: FrameType) -> bool:
    """Return whether the code that runs belongs to a server that has been started."""
    names = [(each.f_code.co_filename, each.f_code.co_name) for each in walk(frame)]
    if any(name in STARTUP for _, name in names):
        return False
    return any(file.startswith(SOURCE) and not file.startswith(TESTING) for file, _ in names)


def walk(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield a frame and its callers."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def read_cpu_wait(thread: int) -> float:
    """Return the seconds for which a thread was ready to run, but other processes had the CPU."""
    try:
        return int(Path(f"/proc/self/task/{thread}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0


WATCHDOG = Watchdog()
