"""The log of every run: appended in memory, committed in groups, published only once committed."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

from langchain_core.messages import BaseMessage

from deerflow.domain.errors import RunLost, StorageUnavailable
from deerflow.domain.events import FINAL_EVENT, EventName, StreamEvent
from deerflow.domain.runs import RunRecord, RunStatus
from deerflow.persistence.admission import Finish, finish_run
from deerflow.persistence.database import Database
from deerflow.persistence.events import STATEMENT_LIMIT, Change, LoggedEvent, T, insert_with, nothing_else
from deerflow.runtime.pieces import Piece
from deerflow.runtime.stream_bridge.bridge import StreamBridge
from deerflow.runtime.waiting import happens_within, surely, wholly

logger = logging.getLogger(__name__)

PACE_S = 0.03
"""How long an event may wait for others to be written with: bounds the cost of tokens however many runs there are."""
RETRY_S = 1.0


class Journal:
    """Writes the events of all runs of this process."""

    def __init__(self, database: Database, bridge: StreamBridge) -> None:
        self._database = database
        self._bridge = bridge
        self._waiting: list[Entry] = []
        self._hurry = asyncio.Event()
        self._taking = asyncio.Lock()
        self._writer: asyncio.Task[None] | None = None

    def open(self, run: RunRecord, last_seq: int = 0, lost: Callable[[], None] = lambda: None) -> "RunLog":
        """The log of a run this process is to carry on; `lost` is called when it finds that another one does."""
        return RunLog(run, self, last_seq, lost)

    def add(self, entry: "Entry", *, urgent: bool = False) -> None:
        """Have `entry` written soon, or at once."""
        self._waiting.append(entry)
        if urgent:
            self._hurry.set()
        if self._writer is None:
            self._writer = asyncio.create_task(self._write_groups())

    async def commit(self, make: Callable[[], "Entry"], also: Change[T]) -> T:
        """Write an event so that it survives a power failure, behind all that came before it in its run.

        What is `also` to be changed is changed in the same transaction. The event is made, and so has its number, only
        when its turn to be written comes: one with a later number would reach readers before it otherwise.

        Raises:
            StorageUnavailable: the database refuses.
            RunLost: another process has taken the run over.
        """
        async with self._taking:
            last = make()
            rest = self._take_rest(last.run_id)
            try:
                # A caller that is told to stop meanwhile must not keep readers from what is in the log.
                return await wholly(self._write([entry.seal() for entry in (*rest, last)], also))
            except StorageUnavailable:
                self._waiting = [*rest, *self._waiting]
                raise

    async def _write(self, events: Sequence[LoggedEvent], also: Change[T]) -> T:
        result = await self._database.write(partial(insert_with, events=events, also=also))
        self._publish(events)
        return result

    async def finish(
        self, run: RunRecord, make: Callable[[], "Entry"], status: RunStatus, error: str | None, also: Change[None]
    ) -> Finish:
        """Commit the rest of a run's events together with its final status, unless it has one already.

        What is `also` to be kept of it is kept in the same transaction.

        Raises:
            StorageUnavailable: the database refuses; the run stays unfinished.
        """
        async with self._taking:  # a group with earlier events of this run may be on its way
            last = make()
            events = [entry.seal() for entry in (*self._take_rest(last.run_id), last)]
        change = partial(finish_run, run=run, events=events, status=status, error=error, also=also)
        finish = await surely(self._database.write(change))
        if finish.is_recorded:
            self._publish(events)
            self._bridge.publish_end(run.run_id)
        return finish

    def _take_rest(self, run_id: str) -> Sequence["Entry"]:
        rest = [entry for entry in self._waiting if entry.run_id == run_id]
        self._waiting = [entry for entry in self._waiting if entry.run_id != run_id]
        return rest

    async def aclose(self) -> None:
        """Stop writing. Runs are finished before, so that nothing is waiting but what the database refused."""
        if self._writer is not None:
            self._writer.cancel()
            await asyncio.wait({self._writer})

    async def _write_groups(self) -> None:
        while self._waiting:
            await happens_within(self._hurry, PACE_S)
            try:
                await self._write_group()
            except StorageUnavailable as problem:
                logger.error("%d events cannot be written yet: %s", len(self._waiting), problem)
                await asyncio.sleep(RETRY_S)
        self._writer = None

    async def _write_group(self) -> None:
        async with self._taking:
            self._hurry.clear()
            entries, self._waiting = self._waiting[:STATEMENT_LIMIT], self._waiting[STATEMENT_LIMIT:]
            if not entries:
                return
            group = [entry.seal() for entry in entries]
            try:
                lost = await self._database.append(group)
            except StorageUnavailable:
                # A full disk may have room again: a log must not have gaps, so nothing is dropped.
                self._waiting = [*entries, *self._waiting]
                raise
            if lost:  # they are somebody else's: look at once which of ours still are
                self._bridge.told.set()
            self._publish([logged for logged in group if logged.run_id not in lost])

    def _publish(self, group: Sequence[LoggedEvent]) -> None:
        by_run: dict[str, list[StreamEvent]] = {}
        for logged in group:
            by_run.setdefault(logged.run_id, []).append(logged.event)
        for run_id, events in by_run.items():
            self._bridge.publish(run_id, events)


class RunLog:
    """One run's log: numbers its events."""

    def __init__(self, run: RunRecord, journal: Journal, last_seq: int, lost: Callable[[], None]) -> None:
        self.run_id = run.run_id
        self._run = run
        self._journal = journal
        self._seq = last_seq
        self._lost = lost
        self.outcomes: dict[tuple[str | None, str], object] = {}
        """What the calls of the step under way have led to, by the message that made them and their ids there."""
        self._newest: Entry | None = None
        self._speaking: str | None = None

    def append(self, event: EventName, data: bytes) -> None:
        """Add an event; it reaches readers when it is committed."""
        self._journal.add(self._next(event, data))

    def append_piece(self, message: BaseMessage, metadata: Mapping[str, object]) -> None:
        """Add a piece of a message: to the newest event if that can take it, at once if it is a message's first."""
        if self._newest is not None and self._newest.takes(message):
            return
        self._journal.add(self._next("messages", Piece(message, metadata)), urgent=message.id != self._speaking)
        self._speaking = message.id

    async def commit(self, event: EventName, data: bytes, also: Change[T]) -> T:
        """Add an event that survives a power failure once this returns, together with what is `also` changed."""
        try:
            return await self._journal.commit(partial(self._next, event, data), also)
        except RunLost:
            self._lost()
            raise

    async def finish(self, status: RunStatus, error: str | None = None, also: Change[None] = nothing_else) -> Finish:
        """Add the final event, set the final status and do what is `also` to be done, in one transaction."""
        return await self._journal.finish(self._run, partial(self._next, FINAL_EVENT, b"null"), status, error, also)

    def _next(self, event: EventName, content: bytes | Piece) -> "Entry":
        self._seq += 1
        self._newest = Entry(self.run_id, self._seq, event, content, self._run.attempt)
        return self._newest


@dataclass(slots=True)
class Entry:
    """An event that has its number. Until it is sealed for writing, a piece of a message may grow."""

    run_id: str
    seq: int
    event: EventName
    content: bytes | Piece
    attempt: int
    created_at: datetime = field(default_factory=lambda: datetime.now(UTC))

    def takes(self, message: BaseMessage) -> bool:
        """Whether `message` became part of this entry."""
        return isinstance(self.content, Piece) and self.content.take(message)

    def seal(self) -> LoggedEvent:
        """The event as it will be from now on."""
        if isinstance(self.content, Piece):
            self.content = self.content.to_json()
        return LoggedEvent(self.run_id, StreamEvent(self.seq, self.event, self.content), self.created_at, self.attempt)
