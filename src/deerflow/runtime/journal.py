"""The log of every run: appended in memory, committed in groups, published only once committed."""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

from langchain_core.messages import BaseMessage

from deerflow.domain.errors import StorageUnavailable
from deerflow.domain.events import FINAL_EVENT, EventName, StreamEvent
from deerflow.domain.runs import RunStatus
from deerflow.persistence.admission import finish_run
from deerflow.persistence.database import Database
from deerflow.persistence.events import LoggedEvent, insert_events
from deerflow.runtime.pieces import Piece
from deerflow.runtime.stream_bridge.bridge import StreamBridge

logger = logging.getLogger(__name__)

PACE_S = 0.03
"""Pause between two groups: bounds the cost of token deltas however many runs there are. The first is not delayed."""


class Journal:
    """Writes the events of all runs of this process."""

    def __init__(self, database: Database, bridge: StreamBridge) -> None:
        self._database = database
        self._bridge = bridge
        self._waiting: list[Entry] = []
        self._writing: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()

    def open(self, run_id: str, last_seq: int = 0) -> "RunLog":
        """The log of a run this process is to carry on."""
        return RunLog(run_id, self, last_seq)

    def add(self, entry: "Entry") -> None:
        """Have `entry` written soon."""
        self._waiting.append(entry)
        self._start_writing()

    async def flush(self) -> None:
        """Return when everything added so far is committed and published.

        Raises:
            StorageUnavailable: the database refuses; what was added is kept and tried again with the next addition.
        """
        if self._waiting:
            self._start_writing()
        if self._writing is not None:
            self._hurry.set()
            await asyncio.shield(self._writing)

    async def finish(self, entry: "Entry", status: RunStatus, error: str | None) -> bool:
        """Commit a run's last event together with its final status; False when it had one already."""
        await self.flush()
        last = entry.seal()
        is_ours = await self._database.write(partial(finish_run, last=last, status=status, error=error))
        if is_ours:
            self._bridge.publish(last.run_id, [last.event])
        self._bridge.publish_end(last.run_id)
        return is_ours

    def _start_writing(self) -> None:
        if self._writing is None:
            self._writing = asyncio.create_task(self._write_groups())

    async def _write_groups(self) -> None:
        try:
            while self._waiting:
                await self._write_group()
                await self._pause()
        finally:
            self._writing = None
            self._hurry.clear()

    async def _write_group(self) -> None:
        entries, self._waiting = self._waiting, []
        group = [entry.seal() for entry in entries]
        try:
            await self._database.write(partial(insert_events, events=group), durable=False)
        except StorageUnavailable as problem:
            # A full disk may have room again: a log must not have gaps, so nothing is dropped.
            logger.error("%d events could not be written yet: %s", len(group), problem)
            self._waiting = [*entries, *self._waiting]
            raise
        self._publish(group)

    def _publish(self, group: list[LoggedEvent]) -> None:
        by_run: dict[str, list[StreamEvent]] = {}
        for logged in group:
            by_run.setdefault(logged.run_id, []).append(logged.event)
        for run_id, events in by_run.items():
            self._bridge.publish(run_id, events)

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(PACE_S):
                await self._hurry.wait()
        except TimeoutError:
            pass


class RunLog:
    """One run's log: numbers its events."""

    def __init__(self, run_id: str, journal: Journal, last_seq: int) -> None:
        self.run_id = run_id
        self._journal = journal
        self._seq = last_seq
        self._newest: Entry | None = None

    def append(self, event: EventName, data: bytes) -> None:
        """Add an event; it reaches readers when it is committed."""
        self._newest = self._next(event, data)
        self._journal.add(self._newest)

    def append_piece(self, message: BaseMessage, metadata: Mapping[str, object]) -> None:
        """Add a piece of a message, to the newest event if that is a piece of the same and still unwritten."""
        if self._newest is not None and self._newest.takes(message):
            return
        self._newest = self._next("messages", Piece(message, metadata))
        self._journal.add(self._newest)

    async def finish(self, status: RunStatus, error: str | None = None) -> bool:
        """Add the final event and set the final status, in one transaction."""
        return await self._journal.finish(self._next(FINAL_EVENT, b"null"), status, error)

    def _next(self, event: EventName, content: bytes | Piece) -> "Entry":
        self._seq += 1
        return Entry(self.run_id, self._seq, event, content)


@dataclass(slots=True)
class Entry:
    """An event that has its number. Until it is sealed for writing, a piece of a message may grow."""

    run_id: str
    seq: int
    event: EventName
    content: bytes | Piece
    created_at: datetime = field(default_factory=lambda: datetime.now(UTC))

    def takes(self, message: BaseMessage) -> bool:
        """Whether `message` became part of this entry."""
        return isinstance(self.content, Piece) and self.content.take(message)

    def seal(self) -> LoggedEvent:
        """The event as it will be from now on."""
        if isinstance(self.content, Piece):
            self.content = self.content.to_json()
        return LoggedEvent(self.run_id, StreamEvent(self.seq, self.event, self.content), self.created_at)
