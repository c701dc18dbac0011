"""A bridge within one process: wakes readers, and spares those that keep up a query."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from deerflow.domain.events import FINAL_EVENT, StreamEvent
from deerflow.runtime.stream_bridge.bridge import HEARTBEAT_S
from deerflow.runtime.waiting import happens_within

TAIL = 256
GROUP = 500

ReadLog = Callable[[str, int, int], Awaitable[Sequence[StreamEvent]]]
"""(run id, after which seq, how many at most) → what the log holds."""


@dataclass(slots=True, eq=False)
class LiveRun:
    """The newest committed events of a run this process carries out, and the readers waiting for more."""

    begins_after: int = 0
    """So many events were in the log before the first of the tail."""
    tail: deque[StreamEvent] = field(default_factory=lambda: deque(maxlen=TAIL))
    readers: set[asyncio.Event] = field(default_factory=set)
    is_over: bool = False

    def after(self, seq: int) -> Sequence[StreamEvent] | None:
        """Events after `seq`; None when only the log reaches back that far."""
        newest = self.tail[-1].seq if self.tail else self.begins_after
        if newest <= seq:
            return ()
        if not self.tail or self.tail[0].seq > seq + 1:
            return None
        return [event for event in self.tail if event.seq > seq]

    def wake(self) -> None:
        """Have every reader look again."""
        for reader in self.readers:
            reader.set()

    async def changes_within(self, seconds: float) -> bool:
        """Whether there was anything new in time."""
        news = asyncio.Event()
        self.readers.add(news)
        try:
            return await happens_within(news, seconds)
        finally:
            self.readers.discard(news)


class MemoryStreamBridge:
    """Memory per run is bounded by `TAIL` events; a slow reader costs a query, not memory."""

    def __init__(self, read_log: ReadLog) -> None:
        self._read_log = read_log
        self._live: dict[str, LiveRun] = {}

    def open(self, run_id: str, last_seq: int) -> None:
        self._live.setdefault(run_id, LiveRun(last_seq))

    def publish(self, run_id: str, events: Sequence[StreamEvent]) -> None:
        run = self._live.setdefault(run_id, LiveRun())
        run.tail.extend(events)
        run.wake()

    def publish_end(self, run_id: str) -> None:
        run = self._live.pop(run_id, None)
        if run is not None:
            run.is_over = True
            run.wake()

    async def subscribe(
        self, run_id: str, *, last_event_id: int = 0, heartbeat_interval: float = HEARTBEAT_S
    ) -> AsyncGenerator[Sequence[StreamEvent]]:
        seq = last_event_id
        run = self._live.get(run_id)
        while True:
            events = run.after(seq) if run else None
            if events is None:
                events = await self._read_log(run_id, seq, GROUP)
            if events:
                yield events
                seq = events[-1].seq
                if events[-1].event == FINAL_EVENT:
                    return
            elif run is None or run.is_over:  # nothing more in the log, and nobody here adds to it
                return
            elif not await run.changes_within(heartbeat_interval):
                yield ()
