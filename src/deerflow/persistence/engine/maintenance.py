"""Maintenance of SQLite files: removal of deleted content, check and repair."""

import asyncio
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from deerflow.domain.errors import StorageUnavailable
from deerflow.persistence.engine.database import DatabaseLocation
from deerflow.persistence.engine.schema import SCHEMA_VERSION, locate_id_file
from deerflow.persistence.engine.sqlite import locate_checkpoints

PURGE_LOCK_TIMEOUT_S = 5.0
CHECKPOINT_TIMEOUT_S = 0.25
"""Wait for readers of an old snapshot. Writers have to wait as long, so it is short and repeated."""
TRUNCATE_TIMEOUT_S = 5.0
RETRY_S = 0.05
MAX_BUSY_BYTES = 16 * 2**20
"""Size of the files up to which they are rewritten while runs are active: that takes a tenth of a second."""
MAX_POSTPONED_S = 900.0
"""Time after which the files are rewritten although runs are active, which have to wait."""


class Purger:
    """Removal of deleted content from the files of a SQLite database.

    `secure_delete` overwrites freed rows and pages with zeros. When SQLite splits or merges pages, however, it leaves
    copies of the moved rows in unused parts of pages; only `VACUUM` removes those. Concurrent calls share one rewrite.
    Writes wait meanwhile, so a rewrite of large files is postponed while there is other work.
    """

    def __init__(self, location: DatabaseLocation, is_busy: Callable[[], bool] = lambda: False) -> None:
        """`is_busy` returns whether there is work that would have to wait."""
        self._files = [location, locate_checkpoints(location)] if isinstance(location, Path) else []
        self._is_busy = is_busy
        self._postponed_since: float | None = None
        self._lock = asyncio.Lock()
        self._requested = 0
        self._completed = 0

    async def purge(self) -> bool:
        """Rewrite the database files; return False when another connection prevents it, or when it is postponed.

        Does nothing for PostgreSQL, which reclaims space by itself.

        Raises:
            StorageUnavailable: A file cannot be rewritten.
        """
        if self._is_postponed():
            return False
        self._requested += 1
        request = self._requested
        async with self._lock:
            if self._completed >= request:  # by a rewrite that began after this call
                return True
            covered = self._requested
            done = [await rewrite(file) for file in self._files if file.exists()]  # each, whatever the others return
            if not all(done):
                return False
            self._completed = covered
            return True

    def _is_postponed(self) -> bool:
        logs = [file.with_name(f"{file.name}-wal") for file in self._files]
        size = sum(file.stat().st_size for file in (*self._files, *logs) if file.exists())
        if size <= MAX_BUSY_BYTES or not self._is_busy():
            self._postponed_since = None
            return False
        now = time.monotonic()
        if self._postponed_since is None:
            self._postponed_since = now
        return now - self._postponed_since < MAX_POSTPONED_S


async def rewrite(file: Path) -> bool:
    """Rewrite one database file in a thread; return False when another connection prevents it."""
    with closing(sqlite3.connect(file, isolation_level=None, check_same_thread=False)) as connection:
        work = asyncio.ensure_future(asyncio.to_thread(vacuum, connection))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            connection.interrupt()
            await asyncio.wait({work})
            raise


def vacuum(connection: sqlite3.Connection) -> bool:
    """Run `VACUUM` and empty the write-ahead log; return False when another connection prevents it.

    Raises:
        StorageUnavailable: The file is damaged, or the disk is full.
    """
    try:
        connection.execute("PRAGMA synchronous=NORMAL")
        if not truncate_log(connection):
            return False
        connection.execute(f"PRAGMA busy_timeout={int(PURGE_LOCK_TIMEOUT_S * 1000)}")
        connection.execute("VACUUM")
        return truncate_log(connection)
    except sqlite3.DatabaseError as problem:
        if problem.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return False
        raise StorageUnavailable(f"cannot remove deleted data from the database: {problem}") from problem


def truncate_log(connection: sqlite3.Connection) -> bool:
    """Move the write-ahead log into the database file and empty it; return False when a reader prevents it."""
    connection.execute(f"PRAGMA busy_timeout={int(CHECKPOINT_TIMEOUT_S * 1000)}")
    deadline = time.monotonic() + TRUNCATE_TIMEOUT_S
    while time.monotonic() < deadline:
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)")  # most of the work, during which writers do not wait
        busy: int = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        if not busy:
            return True
        time.sleep(RETRY_S)  # another connection may be running a checkpoint, for which SQLite does not wait
    return False


MAX_PROBLEMS = 20
MAX_PROBES = 200_000
"""Number of failed reads after which the rest of a damaged table is given up."""
MAX_ROW_ID = 2**63 - 1
FIND_GAPS = "SELECT run_id, max(seq) - count(*) FROM run_events GROUP BY run_id HAVING max(seq) <> count(*)"
Row = tuple[Any, ...]


def check_file(file: Path) -> Sequence[str]:
    """Return the problems of a SQLite file: damage, rows without the rows they refer to, gaps in event logs."""
    if not file.exists():
        return [f"{file} does not exist"]
    try:
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            found = [row[0] for row in connection.execute(f"PRAGMA integrity_check({MAX_PROBLEMS})") if row[0] != "ok"]
            orphans = connection.execute("PRAGMA foreign_key_check").fetchmany(MAX_PROBLEMS)
            found += [f"a row of {table} refers to a missing row of {parent}" for table, _, parent, _ in orphans]
            if has_table(connection, "run_events"):
                gaps = connection.execute(FIND_GAPS).fetchmany(MAX_PROBLEMS)
                found += [f"{missing} events of run {run_id} are missing" for run_id, missing in gaps]
    except sqlite3.DatabaseError as problem:
        return [str(problem)]
    return found


@dataclass(slots=True)
class Repair:
    """Result of a repair: rows per table, and the copy of the damaged file."""

    copy: Path
    kept: dict[str, int] = field(default_factory=dict)
    incomplete: list[str] = field(default_factory=list)
    """Tables of which a part could not be read."""


def repair_file(file: Path) -> Repair:
    """Replace a damaged SQLite file by a new one with all rows that can be read; keep a copy of the damaged one.

    No program may use the file meanwhile.

    Raises:
        StorageUnavailable: Nothing can be read, or the new file cannot be written. The file is then unchanged.
    """
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S-%f")
    done = Repair(file.with_name(f"{file.name}.damaged-{stamp}"))
    draft = file.with_name(f"{file.name}.repair-{stamp}")
    try:
        for suffix in ("", "-wal"):
            with suppress(FileNotFoundError):
                shutil.copy2(f"{file}{suffix}", f"{done.copy}{suffix}")
        with closing(sqlite3.connect(done.copy)) as source, closing(sqlite3.connect(draft)) as target:
            copy_readable_rows(source, target, done)
            restore_markers(file, target)
            target.commit()
    except (OSError, sqlite3.Error) as problem:
        draft.unlink(missing_ok=True)
        raise StorageUnavailable(f"{str(file)!r} cannot be repaired: {problem}; restore a backup") from problem
    draft.replace(file)
    for suffix in ("-wal", "-shm"):
        Path(f"{file}{suffix}").unlink(missing_ok=True)
    return done


def copy_readable_rows(source: sqlite3.Connection, target: sqlite3.Connection, done: Repair) -> None:
    """Create the schema of `source` in `target` and copy what can be read; delete rows whose parent row is lost."""
    schema = source.execute("SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    virtual = {name for kind, name, sql in schema if kind == "table" and sql.upper().startswith("CREATE VIRTUAL")}
    shadows = {name for _, name, _ in schema for each in virtual if name.startswith(f"{each}_")}
    tables = [name for kind, name, _ in schema if kind == "table" and name not in shadows and name[:7] != "sqlite_"]
    # Indexes come before rows: of two rows that break a unique index, the first is kept.
    for _, name, sql in sorted(schema, key=lambda each: each[0] != "table"):
        if name not in shadows and name[:7] != "sqlite_":
            target.execute(sql)
    tables.sort(key=lambda name: name == "run_events")  # read by run
    for name in tables:
        if name in virtual:
            rows = read_rows(source, f"{name}_content", done, name)
            insert = f"INSERT OR IGNORE INTO {quote(name)} (rowid, terms) VALUES (?, ?)"
            done.kept[name] = sum(target.execute(insert, row[1:3]).rowcount for row in rows)
            continue
        run_ids = [row[0] for row in target.execute("SELECT run_id FROM runs")] if name == "run_events" else None
        rows = read_rows(source, name, done, name) if run_ids is None else read_run_events(source, run_ids, done)
        width = len(source.execute(f"PRAGMA table_info({quote(name)})").fetchall())
        insert = f"INSERT OR IGNORE INTO {quote(name)} VALUES ({','.join('?' * width)})"
        done.kept[name] = sum(target.execute(insert, row[-width:]).rowcount for row in rows)
    while orphans := target.execute("PRAGMA foreign_key_check").fetchall():
        for table, row_id, _, _ in orphans:
            if row_id is None:  # a table without row ids: the events of lost runs
                target.execute("DELETE FROM run_events WHERE run_id NOT IN (SELECT run_id FROM runs)")
            else:
                target.execute(f"DELETE FROM {quote(table)} WHERE rowid = ?", (row_id,))
            done.kept[table] -= 1


def read_rows(connection: sqlite3.Connection, table: str, done: Repair, name: str) -> Iterator[Row]:
    """Yield the readable rows of a table, each after its row id; around damage, smaller and smaller ranges are read."""
    highest, probes = MAX_ROW_ID, 0
    with suppress(sqlite3.DatabaseError):
        highest = connection.execute(f"SELECT max(rowid) FROM {quote(table)}").fetchone()[0] or 0
    ranges = [(1, highest)]  # row ids are positive
    query = f"SELECT rowid, * FROM {quote(table)} WHERE rowid BETWEEN ? AND ? ORDER BY rowid"
    while ranges and probes < MAX_PROBES:
        first, last = ranges.pop()
        try:
            for row in connection.execute(query, (first, last)):
                yield row
                first = row[0] + 1
        except (sqlite3.DatabaseError, UnicodeDecodeError):
            probes += 1
            middle = (first + last) // 2
            if first < last:
                ranges += [(middle + 1, last), (first, middle)]
    if probes:
        done.incomplete.append(name)


def read_run_events(connection: sqlite3.Connection, run_ids: Sequence[str], done: Repair) -> Iterator[Row]:
    """Yield the readable events of runs up to the first damaged one: a log must not have gaps."""
    is_damaged = False
    for run_id in run_ids:
        try:
            yield from connection.execute("SELECT * FROM run_events WHERE run_id = ? ORDER BY seq", (run_id,))
        except sqlite3.DatabaseError:
            is_damaged = True
    if is_damaged:
        done.incomplete.append("run_events")


def restore_markers(file: Path, target: sqlite3.Connection) -> None:
    """Set the schema version and the id of the database, should they be lost."""
    lost = {"alembic_version": SCHEMA_VERSION, "installation": locate_id_file(file).read()}
    for table, value in lost.items():
        if value and has_table(target, table) and not target.execute(f"SELECT count(*) FROM {table}").fetchone()[0]:
            target.execute(f"INSERT INTO {table} VALUES (?)", (value,))


def has_table(connection: sqlite3.Connection, name: str) -> bool:
    """Return whether the database has a table of that name."""
    found = connection.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (name,))
    return found.fetchone() is not None


def quote(name: str) -> str:
    """Return a table name quoted for SQL."""
    return '"' + name.replace('"', '""') + '"'
