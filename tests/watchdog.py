"""Watchdog of event loops: finds code of DeerFlow that holds the loop, during which a server answers nobody."""

import asyncio
import gc
import os
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Any

LIMIT_S = 0.1
BUSY_LOAD = 1.5 * (os.cpu_count() or 1)
"""Load average from which on the machine is busy and everything takes longer: processes share caches and cores."""
PERIOD_S = 0.02
SOURCE = str(Path(__file__).parents[1] / "src" / "deerflow")
TESTING = str(Path(SOURCE) / "testing")
EXEMPT = frozenset({"open_harness", "open_core", "open_source", "create_app", "_execute_child", "_adjust_thread_count"})
"""Functions before there is a server, and starts of processes and threads, which wait for a CPU for those."""
BLOCKING_CLIENT = str(Path(SOURCE) / "client" / "session.py")
"""The synchronous client, which blocks its caller by design."""


@dataclass(frozen=True, slots=True)
class ThreadTimes:
    """Seconds for which a thread has had a CPU, and for which it was ready while other processes had it."""

    cpu_s: float = 0.0
    ready_s: float = 0.0

    @classmethod
    def read(cls, thread: int) -> "ThreadTimes":
        """Return the times of a thread; 0 where the system does not tell."""
        try:
            cpu, ready, _ = Path(f"/proc/self/task/{thread}/schedstat").read_text().split()
        except (OSError, ValueError):
            return cls()
        return cls(int(cpu) / 1e9, int(ready) / 1e9)


@dataclass(slots=True)
class GarbageCollection:
    """Time that collections have taken: the heap of a test run is many times that of a server."""

    seconds: float = 0.0
    started: float = 0.0

    def note(self, phase: str, _info: dict[str, int]) -> None:
        """Count the time of a collection; the interpreter calls this at its start and stop."""
        if phase == "start":
            self.started = time.monotonic()
        else:
            self.seconds += time.monotonic() - self.started


@dataclass(slots=True)
class RunningCallback:
    """Callback that an event loop runs now."""

    thread: int
    native_thread: int
    started: float
    first: "ThreadTimes | None" = None
    """Times of the thread when it was looked at first."""
    samples: int = 0
    """Number of consecutive looks at which it was found in code of DeerFlow."""
    is_reported: bool = False


@dataclass(slots=True)
class Watchdog:
    """Looks at the callbacks of all event loops of this process, from a thread of its own.

    A callback holds the loop if it uses the CPU for too long, or if it is found waiting at several looks in a row.
    Looks that come late do not count: then other processes have the CPU, or another thread has the interpreter.
    """

    running: dict[int, RunningCallback] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    collecting: "GarbageCollection" = field(default_factory=lambda: GarbageCollection())

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
        gc.callbacks.append(self.collecting.note)
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()

    def _watch(self) -> None:
        never, before = threading.Event(), time.monotonic()
        while not never.wait(PERIOD_S):
            now = time.monotonic()
            is_late, before = now - before > 1.5 * PERIOD_S, now
            for callback in list(self.running.values()):
                if now - callback.started > PERIOD_S:
                    self._look(callback, is_late=is_late)

    def _look(self, callback: RunningCallback, *, is_late: bool) -> None:
        frame = sys._current_frames().get(callback.thread)
        if frame is None or not is_ours(frame):
            callback.samples = 0
            return
        times = ThreadTimes.read(callback.native_thread)
        times = replace(times, cpu_s=times.cpu_s - self.collecting.seconds)
        callback.first = first = callback.first or times
        callback.samples = 0 if is_late else callback.samples + 1
        busy = max(1.0, os.getloadavg()[0] / BUSY_LOAD)
        # On a busy machine nobody can tell a wait from the wait for a CPU, one's own or another thread's.
        found_s = callback.samples * PERIOD_S - (times.ready_s - first.ready_s) if busy == 1 else 0.0
        if max(times.cpu_s - first.cpu_s, found_s) > LIMIT_S * busy and not callback.is_reported:
            callback.is_reported = True
            frames = traceback.extract_stack(frame)
            own = [each for each in frames[:-6] if each.filename.startswith(SOURCE)]
            stack = "".join(traceback.format_list([*own, *frames[-6:]]))
            self.problems.append(f"the event loop was held for more than {LIMIT_S * 1000:.0f} ms in\n{stack}")


def is_ours(frame: FrameType) -> bool:
    """Return whether the code that runs belongs to a server that has been started."""
    names = [(each.f_code.co_filename, each.f_code.co_name) for each in walk(frame)]
    if any(name in EXEMPT or file == BLOCKING_CLIENT for file, name in names):
        return False
    return any(file.startswith(SOURCE) and not file.startswith(TESTING) for file, _ in names)


def walk(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield a frame and its callers."""
    while frame is not None:
        yield frame
        frame = frame.f_back


WATCHDOG = Watchdog()
