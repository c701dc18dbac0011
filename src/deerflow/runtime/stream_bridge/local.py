"""Protocol of stream bridges, and the one within a process: readers that keep up need no query."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from deerflow.domain.runs import FINAL_EVENT, RunEvent

HEARTBEAT_S = 15.0
ALL_PROCESSES = "*"
"""In place of the name of a process."""


class StreamBridge(Protocol):
    """Notifies readers. It holds nothing that is not in the event log."""

    woken: asyncio.Event
    """Set when another process wants this one to look at what it is to do."""

    def open(self, run_id: str, last_seq: int) -> None:
        """Expect more events of a run whose log ends with `last_seq`, all from this process."""

    def publish(self, run_id: str, events: Sequence[RunEvent]) -> None:
        """Notify readers of committed events, in order."""

    def publish_end(self, run_id: str) -> None:
        """Notify readers that this process adds no more events to the run."""

    def publish_run(self, thread_id: str) -> None:
        """Notify those who watch a thread that it has a new run."""

    def watch(self, thread_id: str, *, heartbeat_interval: float = HEARTBEAT_S) -> AsyncGenerator[bool]:
        """Yield True when a thread may have a new run, for the first time at once, and False as a heartbeat."""

    def tell(self, process: str) -> None:
        """Wake a process, or all with `ALL_PROCESSES`, to check its pending requests."""

    def reader_count(self) -> int:
        """Return the number of readers in this process."""

    def start_closing(self) -> None:
        """Disconnect readers as soon as this process has nothing more for them."""

    def subscribe(
        self, run_id: str, *, last_event_id: int = 0, heartbeat_interval: float = HEARTBEAT_S
    ) -> AsyncGenerator[Sequence[RunEvent]]:
        """Yield all events after `last_event_id` in groups, up to the last. An empty group is a heartbeat."""


TAIL = 256
THREADS = "thread:"
"""Prefix of a thread among the ids of runs that readers wait for."""
GROUP = 500

ReadLog = Callable[[str, int, int], Awaitable[Sequence[RunEvent]]]
"""(run id, after which seq, how many at most) → what the log holds."""
IsUnfinished = Callable[[str], Awaitable[bool]]
"""run id → whether more may come of it, from whatever process."""


@dataclass(slots=True, eq=False)
class LiveRun:
    """Newest committed events of a run that this process executes."""

    begins_after: int = 0
    """Number of events in the log before the first of the tail."""
    tail: deque[RunEvent] = field(default_factory=lambda: deque(maxlen=TAIL))

    def after(self, seq: int) -> Sequence[RunEvent] | None:
        """Return the events after `seq`, or None if only the log has them."""
        newest = self.tail[-1].seq if self.tail else self.begins_after
        if newest <= seq:
            return ()
        if not self.tail or self.tail[0].seq > seq + 1:
            return None
        return [event for event in self.tail if event.seq > seq]


@dataclass(slots=True, eq=False)
class Wakeup:
    """Event for one waiting reader, in less than half of the memory of `asyncio.Event` with a timeout."""

    is_set: bool = False
    waiter: asyncio.Future[bool] | None = None

    def set(self) -> None:
        """Wake the reader, now or when it waits next."""
        self.is_set = True
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(True)

    def clear(self) -> None:
        """Forget earlier calls of `set`."""
        self.is_set = False

    async def wait(self, seconds: float) -> bool:
        """Wait for `set` and return whether it was called in time."""
        if self.is_set:
            return True
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[bool] = loop.create_future()
        self.waiter = waiter
        timer = loop.call_later(seconds, finish_waiting, waiter)
        try:
            return await waiter
        finally:
            timer.cancel()
            self.waiter = None


def finish_waiting(waiter: asyncio.Future[bool]) -> None:
    """End a wait whose time is over."""
    if not waiter.done():
        waiter.set_result(False)


async def cannot_grow(run_id: str) -> bool:
    """Return False: no other process can add to a run."""
    return False


class MemoryStreamBridge:
    """In-process bridge. Memory per run is bounded by `TAIL` events; a slow reader costs a query, not memory.

    Runs of other processes are read from the log, at every heartbeat and after each `wake`.
    """

    def __init__(self, read_log: ReadLog, is_unfinished: IsUnfinished = cannot_grow) -> None:
        self.woken = asyncio.Event()
        self._read_log = read_log
        self._is_unfinished = is_unfinished
        self._live: dict[str, LiveRun] = {}
        self._readers: dict[str, set[Wakeup]] = {}
        self._is_closing = False

    def open(self, run_id: str, last_seq: int) -> None:
        self._live.setdefault(run_id, LiveRun(last_seq))

    def publish(self, run_id: str, events: Sequence[RunEvent]) -> None:
        run = self._live.get(run_id)
        if run is not None:
            run.tail.extend(events)
        self.wake(run_id)

    def publish_end(self, run_id: str) -> None:
        self._live.pop(run_id, None)
        self.wake(run_id)

    def publish_run(self, thread_id: str) -> None:
        self.wake(THREADS + thread_id)

    async def watch(self, thread_id: str, *, heartbeat_interval: float = HEARTBEAT_S) -> AsyncGenerator[bool]:
        key, news, is_new = THREADS + thread_id, Wakeup(), True
        self._readers.setdefault(key, set()).add(news)
        try:
            while not self._is_closing:
                news.clear()
                yield is_new
                is_new = await news.wait(heartbeat_interval)
        finally:
            self._leave(key, news)

    def tell(self, process: str) -> None:
        """Do nothing: there is no other process."""

    def reader_count(self) -> int:
        return sum(map(len, self._readers.values()))

    def start_closing(self) -> None:
        self._is_closing = True
        self.wake_all()

    def wake(self, run_id: str) -> None:
        """Wake all readers of a run."""
        for reader in self._readers.get(run_id, ()):
            reader.set()

    def wake_all(self) -> None:
        """Wake all readers."""
        for run_id in self._readers:
            self.wake(run_id)

    def is_live(self, run_id: str) -> bool:
        """Return whether this process executes the run."""
        return run_id in self._live

    async def subscribe(
        self, run_id: str, *, last_event_id: int = 0, heartbeat_interval: float = HEARTBEAT_S
    ) -> AsyncGenerator[Sequence[RunEvent]]:
        seq, run = last_event_id, None
        news = Wakeup()
        self._readers.setdefault(run_id, set()).add(news)
        try:
            while True:
                news.clear()
                run = self._live.get(run_id, run)  # one that has just ended may still have something to say
                events = await self._after(run_id, run, seq)
                if events:
                    yield events
                    seq = events[-1].seq
                if events is None or (events and events[-1].event == FINAL_EVENT):
                    return
                if not events and not await news.wait(heartbeat_interval):
                    yield ()
        finally:
            self._leave(run_id, news)

    async def _after(self, run_id: str, run: LiveRun | None, seq: int) -> Sequence[RunEvent] | None:
        """Return the events after `seq`, or None if no more will come."""
        events = run.after(seq) if run else None
        if events is None or not (events or run_id in self._live):
            events = await self._read_log(run_id, seq, GROUP)
        if events or run_id in self._live:
            return events
        if self._is_closing:
            return None
        if await self._is_unfinished(run_id):
            return ()
        # It may have ended since the log was read.
        return await self._read_log(run_id, seq, GROUP) or None

    def _leave(self, run_id: str, news: Wakeup) -> None:
        readers = self._readers[run_id]
        readers.discard(news)
        if not readers:
            del self._readers[run_id]
