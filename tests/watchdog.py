"""Watchdog of event loops: finds code of DeerFlow that holds the loop, during which a server answers nobody.

It watches the loops of the test process, and those of servers that the tests start as processes, which append their
problems to a file.
"""

import asyncio
import faulthandler
import gc
import os
import re
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, NamedTuple

LIMIT_S = 0.1
PERIOD_S = 0.02
SOURCE = str(Path(__file__).parents[1] / "src" / "deerflow")
TESTING = str(Path(SOURCE) / "testing")
EXEMPT = frozenset({"open_harness", "open_core", "open_source", "create_app", "_execute_child", "_adjust_thread_count"})
"""Functions before there is a server, and starts of processes and threads, which wait for a CPU for those."""
LOOP_FILES = ("uvloop/__init__.py", "asyncio/base_events.py")
"""Files of the functions that run an event loop; what called these is no part of a callback."""
BLOCKING_CLIENT = str(Path(SOURCE) / "client" / "session.py")
"""The synchronous client, which blocks its caller by design."""


FRAME = re.compile(r'File "(.*)", line (\d+) in (.*)')


class Frame(NamedTuple):
    """Place in the code that a thread executes."""

    file: str
    line: str
    function: str


@dataclass(frozen=True, slots=True)
class ThreadTimes:
    """Seconds for which a thread has had a CPU, how often it got one, and whether it waits in a system call.

    A thread that waits outside of a system call waits for memory that the system reads from a busy disk.
    """

    cpu_s: float = 0.0
    slices: int = -1
    is_waiting: bool = False

    @classmethod
    def read(cls, thread: int) -> "ThreadTimes":
        """Return the times of a thread; nothing where the system does not tell."""
        task = Path(f"/proc/self/task/{thread}")
        try:
            cpu, _, slices = (task / "schedstat").read_text().split()
            state = (task / "stat").read_text().rpartition(")")[2].split()[0]
            is_page_fault = (task / "syscall").read_text().startswith("-1 ")
        except (OSError, ValueError):
            return cls()
        return cls(int(cpu) / 1e9, int(slices), state in "SD" and not is_page_fault)


@dataclass(slots=True)
class GarbageCollection:
    """Time that collections have taken: the heap of a test run is many times that of a server."""

    ended_s: float = 0.0
    started: float | None = None

    def note(self, phase: str, _info: dict[str, int]) -> None:
        """Count the time of a collection; the interpreter calls this at its start and stop."""
        if phase == "start":
            self.started = time.monotonic()
        elif self.started is not None:
            self.ended_s += time.monotonic() - self.started
            self.started = None

    @property
    def seconds(self) -> float:
        """Return the time of all collections, also of one whose end the interpreter is just about to tell."""
        started = self.started
        return self.ended_s + (0.0 if started is None else time.monotonic() - started)


@dataclass(slots=True)
class RunningCallback:
    """Callback that an event loop runs now."""

    thread: int
    native_thread: int
    started: float
    first: "ThreadTimes | None" = None
    """Times of the thread when it was looked at first."""
    waiting: "tuple[int, float] | None" = None
    """Number of times the thread had a CPU, and since when it has not had one, because it waits."""
    is_reported: bool = False


@dataclass(slots=True)
class Watchdog:
    """Looks at the callbacks of all event loops of this process, from a thread of its own.

    A callback holds the loop if it uses the CPU for too long, or waits for too long without being woken. The wait for a
    CPU that other processes have does not count, nor that for the interpreter, which wakes its waiters every 5 ms.
    """

    running: dict[int, RunningCallback] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    reports: list[Path] = field(default_factory=list)
    """Files to which servers in other processes append their problems."""
    report: "Callable[[str], object] | None" = None
    """Takes each problem, instead of the list."""
    dump: IO[bytes] = field(default_factory=TemporaryFile)
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
        gc.callbacks.insert(0, self.collecting.note)
        self._start_thread()

    async def observe_loop(self, main: Awaitable[Any]) -> Any:
        """Run the main coroutine of a server and observe its event loop, of any kind, by a callback in short periods.

        Everything that runs between two of them counts, also garbage collections: the heap is that of a server.
        """
        loop, thread, native_thread = asyncio.get_running_loop(), threading.get_ident(), threading.get_native_id()

        def beat() -> None:
            nonlocal timer
            self.running[thread] = RunningCallback(thread, native_thread, time.monotonic() + PERIOD_S)
            timer = loop.call_later(PERIOD_S, beat)

        timer = loop.call_soon(beat)
        self._start_thread()
        try:
            return await main
        finally:
            timer.cancel()
            self.running.clear()

    def take_problems(self) -> list[str]:
        """Return the problems since the last call, also those of other processes."""
        found, self.problems[:] = list(self.problems), []
        for path in self.reports:
            if text := path.read_text():
                os.truncate(path, 0)
                found.append(text)
        return found

    def _start_thread(self) -> None:
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()

    def _watch(self) -> None:
        never = threading.Event()
        while not never.wait(PERIOD_S):
            now = time.monotonic()
            for callback in list(self.running.values()):
                if now - callback.started > PERIOD_S:
                    self._look(callback, now)

    def _look(self, callback: RunningCallback, now: float) -> None:
        frames = self._read_stack(callback.thread)
        if not is_ours(frames):
            callback.waiting = None
            return
        times = ThreadTimes.read(callback.native_thread)
        times = replace(times, cpu_s=times.cpu_s - self.collecting.seconds)
        callback.first = first = callback.first or times
        if not times.is_waiting:
            callback.waiting = None
        elif callback.waiting is None or callback.waiting[0] != times.slices:
            callback.waiting = times.slices, now
        waited_s = now - callback.waiting[1] if callback.waiting else 0.0
        if max(times.cpu_s - first.cpu_s, waited_s) > LIMIT_S and not callback.is_reported:
            callback.is_reported = True
            own = [each for each in frames[6:] if each.file.startswith(SOURCE)]
            stack = "\n".join(f"  {each.file}:{each.line} in {each.function}" for each in (*frames[:6], *own))
            report = self.report or self.problems.append
            report(f"the event loop was held for more than {LIMIT_S * 1000:.0f} ms in\n{stack}")

    def _read_stack(self, thread: int) -> list[Frame]:
        """Return what a thread executes, innermost first.

        The interpreter can crash if one thread follows the frames of another that goes on meanwhile; `faulthandler`
        writes them while no other thread runs.
        """
        self.dump.seek(0)
        self.dump.truncate()
        faulthandler.dump_traceback(self.dump, all_threads=True)
        self.dump.seek(0)
        _, _, stack = self.dump.read().decode(errors="replace").partition(f"hread 0x{thread:016x} ")
        frames = (Frame(*found.groups()) for found in FRAME.finditer(stack.partition("\n\n")[0]))
        return list(takewhile(lambda frame: not frame.file.endswith(LOOP_FILES), frames))


def is_ours(frames: Sequence[Frame]) -> bool:
    """Return whether the code that runs belongs to a server that has been started."""
    if any(each.function in EXEMPT or each.file == BLOCKING_CLIENT for each in frames):
        return False
    return any(each.file.startswith(SOURCE) and not each.file.startswith(TESTING) for each in frames)


WATCHDOG = Watchdog()
