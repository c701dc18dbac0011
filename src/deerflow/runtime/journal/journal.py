"""Journal: event log of all runs, buffered in memory, committed in groups and published after the commit."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

from langchain_core.messages import BaseMessage

from deerflow.domain.errors import DeerFlowError, EventRefused, RunLost, StorageUnavailable
from deerflow.domain.runs import FINAL_EVENT, EventName, RunEvent, RunRecord, RunStatus
from deerflow.persistence.engine.database import Database
from deerflow.persistence.queries.events import MAX_ROWS, LoggedEvent, T, WriteFunction, do_nothing, insert_events_with
from deerflow.persistence.queries.transactions import RunFinish, finish_run
from deerflow.runtime.background import complete_before_cancel, log_task_exception, shield_until_done, wait_for_event
from deerflow.runtime.journal.serialization import ChunkBuffer, has_text
from deerflow.runtime.stream_bridge.local import StreamBridge

logger = logging.getLogger(__name__)

PACE_S = 0.03
"""Maximum delay of an event in a group commit: bounds the cost per token, however many runs are active."""
RETRY_S = 1.0
UNSERIALIZABLE = b'{"type":"unserializable_event"}'
"""Custom event in place of one that cannot be serialized."""
REFUSED = b'{"type":"refused_event"}'
"""Custom event in place of one whose transaction the database refused: its number is taken."""
MAX_TRIES = 2
"""Number of times that an event is written alone before it is taken to be refused."""


class Journal:
    """Writes the events of all runs of this process."""

    def __init__(
        self, database: Database, bridge: StreamBridge, on_written: Callable[[float], object] = lambda _: None
    ) -> None:
        """`on_written` is called with the seconds that a group of events took."""
        self._database = database
        self._bridge = bridge
        self._on_written = on_written
        self._waiting: list[JournalEntry] = []
        self._hurry = asyncio.Event()
        self._written_at = 0.0
        self._taking = asyncio.Lock()
        self._writer: asyncio.Task[None] | None = None

    def open(
        self,
        run: RunRecord,
        last_seq: int = 0,
        lost: Callable[[], None] = lambda: None,
        refused: Callable[[], object] = lambda: None,
    ) -> "RunLog":
        """Return the log of a run of this process.

        `lost` is called when another process has taken it over, `refused` when one of its events cannot be recorded.
        """
        return RunLog(run, self, last_seq, lost, refused)

    def add(self, entry: "JournalEntry") -> None:
        """Write `entry` with the next group."""
        self._waiting.append(entry)
        self._start_writer()

    def hurry(self, *, is_first: bool) -> None:
        """Write the next group at once for the first text of a message, and for more if `PACE_S` has passed."""
        if is_first or asyncio.get_running_loop().time() - self._written_at >= PACE_S:
            self._hurry.set()

    def _start_writer(self) -> None:
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write_groups(), name="the writer of the journal")
            self._writer.add_done_callback(log_task_exception)

    async def commit(self, make: Callable[[], "JournalEntry"], also: WriteFunction[T]) -> T:
        """Write an event durably, after all earlier events of its run.

        `also` is applied in the same transaction. The event gets its number only when it is written: otherwise a later
        event could reach readers first.

        Raises:
            StorageUnavailable: the database refuses.
            EventRefused: it refuses this event, or an earlier one of the run.
            RunLost: another process has taken over the run.
        """
        return await self._write_with_rest(make, lambda events: self._commit(events, also))

    async def write(self, make: Callable[[], "JournalEntry"]) -> None:
        """Write an event, after all earlier events of its run. It survives this process, but not a power failure.

        Raises:
            StorageUnavailable: the database refuses.
            EventRefused: it refuses this event, or an earlier one of the run.
            RunLost: another process has taken over the run.
        """
        await self._write_with_rest(make, self._append)

    async def _write_with_rest(
        self, make: Callable[[], "JournalEntry"], write: Callable[[Sequence[LoggedEvent]], Coroutine[Any, Any, T]]
    ) -> T:
        async with self._taking:
            last = make()
            rest = self._take_rest(last.run_id)
            try:
                # A cancelled caller must not keep readers from events that are in the log.
                return await complete_before_cancel(write([entry.seal() for entry in (*rest, last)]))
            except RunLost:
                raise
            except Exception as problem:
                # Neither the earlier events nor the number of this one may be missing in the log.
                last.void()
                self._waiting = [*rest, last, *self._waiting]
                self._start_writer()
                if isinstance(problem, DeerFlowError):
                    raise
                raise EventRefused(describe_refusal(problem)) from problem

    async def _append(self, events: Sequence[LoggedEvent]) -> None:
        if len(events) > MAX_ROWS:
            return await self._commit(events, do_nothing)
        if await self._database.append(events):
            raise RunLost(f"run {events[-1].run_id!r} was taken over by another process")
        return self._publish(events)

    async def discard(self, run_id: str) -> None:
        """Drop the events of a run that are not written yet: another attempt at it numbers its own."""
        async with self._taking:
            self._take_rest(run_id)

    async def _commit(self, events: Sequence[LoggedEvent], also: WriteFunction[T]) -> T:
        result = await self._database.write(partial(insert_events_with, events=events, also=also))
        self._publish(events)
        return result

    async def finish(
        self,
        run: RunRecord,
        make: Callable[[], "JournalEntry"],
        status: RunStatus,
        error: str | None,
        also: WriteFunction[None],
    ) -> RunFinish:
        """Commit the remaining events of a run with its final status, unless it already has one.

        `also` is applied in the same transaction.

        Raises:
            StorageUnavailable: the database refuses; the run stays unfinished.
            EventRefused: it refuses one of the remaining events, which is replaced by a note; the run stays unfinished.
        """
        async with self._taking:  # a group with earlier events of this run may be on its way
            last = make()
            rest = self._take_rest(last.run_id)
            events = [entry.seal() for entry in (*rest, last)]
        change = partial(finish_run, run=run, events=events, status=status, error=error, also=also)
        try:
            finish = await shield_until_done(self._database.write(change))
        except (StorageUnavailable, RunLost):
            raise
        except Exception:
            last.void()
            async with self._taking:
                await self._write_parts([*rest, last])
            if last.log.refusal is None:  # the events are not the cause
                raise
            raise last.log.refusal from None
        if finish.is_recorded:
            self._publish(events)
            self._bridge.publish_end(run.run_id)
        return finish

    def _take_rest(self, run_id: str) -> Sequence["JournalEntry"]:
        rest = [entry for entry in self._waiting if entry.run_id == run_id]
        self._waiting = [entry for entry in self._waiting if entry.run_id != run_id]
        return rest

    async def aclose(self) -> None:
        """Stop writing. Runs are finished before, so only events that the database refused can be left."""
        if self._writer is not None:
            self._writer.cancel()
            await asyncio.wait({self._writer})

    async def _write_groups(self) -> None:
        while self._waiting:
            await wait_for_event(self._hurry, PACE_S)
            try:
                await self._write_group()
            except StorageUnavailable as problem:
                logger.error("%d events could not be written yet: %s", len(self._waiting), problem)
                await asyncio.sleep(RETRY_S)
            except Exception:  # readers of all runs wait for the writer
                logger.exception("%d events could not be written yet", len(self._waiting))
                await asyncio.sleep(RETRY_S)
        self._writer = None

    async def _write_group(self) -> None:
        clock = asyncio.get_running_loop().time
        began = clock()
        async with self._taking:
            self._hurry.clear()
            self._written_at = clock()
            entries, self._waiting = self._waiting[:MAX_ROWS], self._waiting[MAX_ROWS:]
            if entries:
                await self._write_parts(entries)
                self._on_written(clock() - began)

    async def _write_parts(self, entries: "Sequence[JournalEntry]") -> None:
        """Write entries together; if they are refused, in halves down to the one that is the cause."""
        parts = [entries]
        while parts:
            part = parts[0]
            try:
                await self._write_part(part)
            except StorageUnavailable:
                # Nothing is dropped, for a log must not have gaps: a full disk may have room again later.
                self._waiting = [*(entry for left in parts for entry in left), *self._waiting]
                raise
            except Exception as problem:  # noqa: BLE001  # one run must not hold up the others
                if len(part) > 1:
                    logger.error("%d events were refused and are written in parts: %s", len(part), problem)
                    parts[:1] = [part[: len(part) // 2], part[len(part) // 2 :]]
                elif not part[0].is_worth_another_try(problem):
                    parts = self._drop_run(part[0], parts)
            else:
                parts.pop(0)

    async def _write_part(self, entries: "Sequence[JournalEntry]") -> None:
        group = [entry.seal() for entry in entries]
        lost = await self._database.append(group)
        if lost:  # taken over by another process: check at once which runs are still ours
            self._bridge.woken.set()
        self._publish([logged for logged in group if logged.run_id not in lost])

    def _drop_run(
        self, entry: "JournalEntry", parts: "Sequence[Sequence[JournalEntry]]"
    ) -> "list[Sequence[JournalEntry]]":
        """Drop what waits of a run to whose log nothing can be added; return the parts without it."""
        entry.log.close()
        self._take_rest(entry.run_id)
        others = ([each for each in part if each.run_id != entry.run_id] for part in parts)
        return [part for part in others if part]

    def _publish(self, group: Sequence[LoggedEvent]) -> None:
        by_run: dict[str, list[RunEvent]] = {}
        for logged in group:
            by_run.setdefault(logged.run_id, []).append(logged.event)
        for run_id, events in by_run.items():
            self._bridge.publish(run_id, events)


class RunLog:
    """Event log of one run; numbers its events."""

    def __init__(
        self,
        run: RunRecord,
        journal: Journal,
        last_seq: int,
        lost: Callable[[], None],
        refused: Callable[[], object],
    ) -> None:
        self.run_id = run.run_id
        self.refusal: EventRefused | None = None
        """Set when an event of this run cannot be recorded: the run has to end with this error."""
        self._is_closed = False
        self._run = run
        self._journal = journal
        self._seq = last_seq
        self._lost = lost
        self._refused = refused
        self.outcomes: dict[tuple[str | None, str], object] = {}
        """Results of the calls of the current step, by message id and call id."""
        self.call_ms: dict[str, int] = {}
        """Durations of the calls of the current step, by call id, in milliseconds."""
        self._newest: JournalEntry | None = None
        self._speaking: str | None = None

    def append(self, event: EventName, data: bytes) -> None:
        """Append an event; readers get it after the commit."""
        self._add(self._next(event, data))

    def append_chunk(self, message: BaseMessage, metadata: Mapping[str, object]) -> None:
        """Append a message chunk, merged into the newest event if possible; text is written as soon as possible."""
        if self._newest is None or not self._newest.takes(message):
            self._add(self._next("messages", ChunkBuffer(message, metadata)))
        if has_text(message):  # clients of models have already collected it for a while
            self._journal.hurry(is_first=message.id != self._speaking)
            self._speaking = message.id

    async def commit(self, event: EventName, data: bytes, also: WriteFunction[T]) -> T:
        """Append an event durably and apply `also` in the same transaction."""
        self._check_open()
        try:
            return await self._journal.commit(partial(self._next, event, data), also)
        except RunLost:
            self._lost()
            raise

    async def write(self, event: EventName, data: bytes) -> None:
        """Append an event that survives this process when this returns."""
        self._check_open()
        try:
            await self._journal.write(partial(self._next, event, data))
        except RunLost:
            self._lost()
            raise

    async def finish(
        self, status: RunStatus, error: str | None = None, also: WriteFunction[None] = do_nothing
    ) -> RunFinish:
        """Append the final event, set the final status and apply `also`, in one transaction."""
        self._check_open()
        last = partial(self._next, FINAL_EVENT, b"null")
        finish = await self._journal.finish(self._run, last, status, error, also)
        self.close()
        return finish

    def refuse(self, problem: Exception) -> None:
        """Note that an event cannot be recorded, and tell the owner of the run."""
        if self.refusal is None:
            logger.error("an event of run %s was refused", self.run_id, exc_info=problem)
            self.refusal = EventRefused(describe_refusal(problem))
            self._refused()

    def close(self) -> None:
        """Accept no more events: the run has ended, or one could not be written and later ones would leave a gap."""
        self._is_closed = True

    def _check_open(self) -> None:
        if self._is_closed:
            raise self.refusal or RunLost(f"run {self.run_id!r} has ended")

    def _add(self, entry: "JournalEntry") -> None:
        if not self._is_closed:
            self._journal.add(entry)

    def _next(self, event: EventName, content: bytes | ChunkBuffer) -> "JournalEntry":
        self._seq += 1
        self._newest = JournalEntry(self, self._seq, event, content, self._run.attempt)
        return self._newest


def describe_refusal(problem: Exception) -> str:
    """Return the text of an `EventRefused`; that of the database may quote what users wrote."""
    return f"an event of the run could not be recorded: the database refused it with {type(problem).__name__}"


@dataclass(slots=True)
class JournalEntry:
    """Numbered event. A message chunk may still grow until the entry is written."""

    log: RunLog
    seq: int
    event: EventName
    content: bytes | ChunkBuffer
    attempt: int
    created_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    tries: int = 0

    @property
    def run_id(self) -> str:
        """Run of the event."""
        return self.log.run_id

    def takes(self, message: BaseMessage) -> bool:
        """Merge `message` if possible. Return whether it was merged."""
        return isinstance(self.content, ChunkBuffer) and self.content.take(message)

    def void(self) -> None:
        """Replace the content by a note: the number is taken, so that there is no gap."""
        self.event, self.content, self.tries = "custom", REFUSED, 0

    def is_worth_another_try(self, problem: Exception) -> bool:
        """Count a failure to write this entry alone. Its content is replaced by a note, which may fail as well."""
        self.tries += 1
        if self.tries < MAX_TRIES:
            return True
        self.log.refuse(problem)
        if self.content is REFUSED:
            return False
        self.void()
        return True

    def seal(self) -> LoggedEvent:
        """Return the event in its final form. What cannot be serialized is replaced by a note, so there is no gap."""
        if isinstance(self.content, ChunkBuffer):
            try:
                self.content = self.content.to_json()
            except Exception:
                logger.exception("event %d of run %s cannot be serialized", self.seq, self.run_id)
                self.event, self.content = "custom", UNSERIALIZABLE
        return LoggedEvent(self.run_id, RunEvent(self.seq, self.event, self.content), self.created_at, self.attempt)
