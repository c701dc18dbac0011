"""Writer of checkpoints in a SQLite file: in groups, on the event loop, together with the events of the journal."""

import asyncio
import logging
import sqlite3
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deerflow.domain.errors import StorageUnavailable
from deerflow.persistence.engine.database import translate_driver_errors
from deerflow.persistence.engine.schema import DatabaseFile
from deerflow.persistence.engine.sqlite import (
    BUSY_TIMEOUT_S,
    CACHE_SIZE,
    Appender,
    InsertStatement,
    execute_all,
)

logger = logging.getLogger(__name__)

DELAY_S = 0.03
"""Maximum delay of a row, the same as that of an event in the journal."""
RETRY_S = 1.0
MAX_BYTES_ON_LOOP = 256 * 1024
"""Rows beyond this size are written in a thread: they would hold the event loop for a millisecond and more."""
MAX_UNMERGED_BYTES = 4 * 1024 * 1024
"""Size of the write-ahead log from which on it is merged into the file."""


@dataclass(frozen=True, slots=True)
class PendingRows:
    """Rows to write together, and the run that writes them."""

    inserts: Sequence[InsertStatement]
    run_id: str | None = None

    @property
    def size(self) -> int:
        """Bytes of the values."""
        return sum(len(value) for _, values in self.inserts for value in values if isinstance(value, bytes))


def merge_log(connection: sqlite3.Connection) -> None:
    """Merge the write-ahead log into the file."""
    # All rows are read: no transaction of the connection can be committed while the statement is in progress.
    connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()


class CheckpointInserter:
    """Writes rows a little later: with the next events of the journal, before a read, or after `DELAY_S`.

    Rows are written on the event loop, all that wait in one transaction, and in a thread if that may take longer. A
    commit waits for no disk: checkpoints must survive the process and need not survive a power failure. Rows that
    cannot be written stay and are tried again, and nothing is added to them meanwhile.
    """

    def __init__(self, file: Path, guard: DatabaseFile) -> None:
        self.file = file
        self._guard = guard
        self._appender = Appender(file)
        # Without `check_same_thread`, because any thread of the pool may use it; the lock lets in one at a time.
        self._connection = sqlite3.connect(file, BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
        for setting in ("synchronous=NORMAL", "secure_delete=ON", CACHE_SIZE):
            self._connection.execute(f"PRAGMA {setting}")
        self._lock = asyncio.Lock()
        self._waiting: list[PendingRows] = []
        self._waiting_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._problem: StorageUnavailable | None = None
        self._refused: dict[str | None, sqlite3.Error] = {}
        self._unmerged_bytes = 0

    def add(self, *inserts: InsertStatement, run_id: str | None = None) -> None:
        """Write rows soon; `flush` tells that they are committed.

        Raises:
            StorageUnavailable: Earlier rows cannot be written at present.
            sqlite3.Error: The database has refused earlier rows of the run.
        """
        if self._problem is not None:
            raise self._problem
        self._raise_refused(run_id)
        rows = PendingRows(inserts, run_id)
        self._waiting.append(rows)
        self._waiting_bytes += rows.size
        self._start_timer(DELAY_S)

    async def insert(self, *inserts: InsertStatement) -> None:
        """Write rows; they are committed when this returns.

        Raises:
            StorageUnavailable: They cannot be written at present.
            sqlite3.Error: The database refuses them.
        """
        self.add(*inserts)
        rows = self._waiting[-1]
        try:
            await self.flush()
        except StorageUnavailable:  # the caller gets the error, and may try again
            self._waiting = [each for each in self._waiting if each is not rows]
            self._waiting_bytes = sum(each.size for each in self._waiting)
            if not self._waiting:
                self._problem = None
            raise
        self._raise_refused(None)

    async def flush_for_reading(self) -> None:
        """Write the rows that wait, if that is possible: what was written before can be read in any case."""
        with suppress(StorageUnavailable):
            await self.flush()

    def peek(self) -> Sequence[InsertStatement] | None:
        """Return the rows that wait, None if they have to be written by `flush`.

        Raises:
            StorageUnavailable: The file was moved away.
        """
        if not self._waiting:
            return ()
        try:
            self._guard.check()
        except StorageUnavailable as problem:
            self._postpone(problem)
            raise
        if self._lock.locked() or self._waiting_bytes > MAX_BYTES_ON_LOOP:
            return None
        return [insert for rows in self._waiting for insert in rows.inserts]

    def mark_written(self) -> None:
        """Forget the rows that wait: they are committed."""
        self._problem = None
        self._unmerged_bytes += self._waiting_bytes
        self._waiting, self._waiting_bytes = [], 0
        if self._unmerged_bytes > MAX_UNMERGED_BYTES:
            self._unmerged_bytes = 0
            self._start(self._merge_log())

    async def flush(self) -> None:
        """Write the rows that wait; they are committed when this returns.

        Raises:
            StorageUnavailable: They cannot be written; they stay, and are tried again.
        """
        if not self._waiting:
            return
        inserts = self.peek()
        with suppress(sqlite3.Error):  # one of the rows is refused: the thread writes each alone
            if inserts is not None and self._appender.append(*inserts):
                self.mark_written()
                return
        # A cancelled caller must not let a second thread use the connection.
        await asyncio.shield(self._start(self._write_in_thread()))

    async def aclose(self) -> None:
        """Write what waits, and close the connections."""
        await self._flush_in_background()
        if self._timer is not None:
            self._timer.cancel()
        while self._tasks:
            await asyncio.wait(self._tasks)
        self._appender.close()
        self._connection.close()

    async def _write_in_thread(self) -> None:
        """Write all rows in one transaction; if one is refused, each alone, so that it takes no other along."""
        async with self._lock:
            is_alone = False
            while self._waiting:
                group = self._waiting[: 1 if is_alone else None]
                try:
                    with translate_driver_errors():
                        self._guard.check()
                        inserts = [insert for rows in group for insert in rows.inserts]
                        await asyncio.to_thread(execute_all, self._connection, inserts)
                except StorageUnavailable as problem:
                    self._postpone(problem)
                    raise
                except sqlite3.Error as problem:
                    if len(group) > 1:
                        is_alone = True
                        continue
                    logger.error("a checkpoint of run %s was refused: %s", group[0].run_id, problem)
                    self._refused[group[0].run_id] = problem
                done = set(map(id, group))
                self._waiting = [each for each in self._waiting if id(each) not in done]
            self.mark_written()

    def _raise_refused(self, run_id: str | None) -> None:
        if (refused := self._refused.pop(run_id, None)) is not None:
            raise refused

    def _postpone(self, problem: StorageUnavailable) -> None:
        self._problem = problem
        self._start_timer(RETRY_S)

    def _start_timer(self, delay_s: float) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._start_flush)

    def _start_flush(self) -> None:
        self._timer = None
        if self._waiting:
            self._start(self._flush_in_background())

    async def _flush_in_background(self) -> None:
        try:
            await self.flush()
        except StorageUnavailable as problem:
            logger.error("checkpoints could not be written yet: %s", problem)

    async def _merge_log(self) -> None:
        """Merge the write-ahead log into the file."""
        async with self._lock:
            with suppress(sqlite3.Error):  # tried again later
                await asyncio.to_thread(merge_log, self._connection)

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
