"""Interface of stream bridges."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Protocol

from deerflow.domain.runs import RunEvent

HEARTBEAT_S = 15.0
EVERYBODY = "*"
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
        """Wake a process, or all with `EVERYBODY`, to check its pending requests."""

    def reader_count(self) -> int:
        """Return the number of readers in this process."""

    def start_closing(self) -> None:
        """Disconnect readers as soon as this process has nothing more for them."""

    def subscribe(
        self, run_id: str, *, last_event_id: int = 0, heartbeat_interval: float = HEARTBEAT_S
    ) -> AsyncGenerator[Sequence[RunEvent]]:
        """Yield all events after `last_event_id` in groups, up to the last. An empty group is a heartbeat."""
