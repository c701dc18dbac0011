"""How readers of a run learn that its log has grown."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Protocol

from deerflow.domain.events import StreamEvent

HEARTBEAT_S = 15.0
EVERYBODY = "*"
"""In place of the name of a process."""


class StreamBridge(Protocol):
    """Wakes readers. It keeps nothing that is not in the log."""

    told: asyncio.Event
    """Set when another process wants this one to look at what it is to do."""

    def open(self, run_id: str, last_seq: int) -> None:
        """Expect more events of a run whose log ends with `last_seq` now, all of them from this process."""

    def publish(self, run_id: str, events: Sequence[StreamEvent]) -> None:
        """Tell readers of events that have just been committed, in order."""

    def publish_end(self, run_id: str) -> None:
        """Tell readers that this process adds nothing more to the run."""

    def tell(self, process: str) -> None:
        """Have a process, or `EVERYBODY`, look at what it is to do."""

    def reader_count(self) -> int:
        """How many readers there are in this process."""

    def begin_closing(self) -> None:
        """Send readers away as soon as this process has nothing more for them."""

    def subscribe(
        self, run_id: str, *, last_event_id: int = 0, heartbeat_interval: float = HEARTBEAT_S
    ) -> AsyncGenerator[Sequence[StreamEvent]]:
        """Every event after `last_event_id`, in groups as they come, up to the last. An empty group is a heartbeat."""
