"""Deleted content is removed from the files of a database, and everything else is kept."""

import asyncio
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from deerflow.domain.errors import StorageUnavailable
from deerflow.persistence.engine import open_database
from deerflow.persistence.engine.maintenance import Purger
from deerflow.persistence.engine.sqlite import locate_checkpoints

CANARY = "CANARY-"
TABLES = """
CREATE TABLE threads (id TEXT PRIMARY KEY, title TEXT);
CREATE TABLE events (thread TEXT REFERENCES threads ON DELETE CASCADE, seq INTEGER, data BLOB,
                     PRIMARY KEY (thread, seq)) WITHOUT ROWID;
CREATE INDEX titles ON threads (title);
"""


def read_files(file: Path) -> bytes:
    return b"".join(each.read_bytes() for each in sorted(file.parent.glob(f"{file.name}*")))


def connect(file: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
    for setting in (
        "journal_mode=WAL",
        "foreign_keys=ON",
        "secure_delete=ON",
        "synchronous=NORMAL",
        "wal_autocheckpoint=0",
    ):
        connection.execute(f"PRAGMA {setting}")
    return connection


def fill(connection: sqlite3.Connection, random: Random) -> list[tuple[bytes, ...]]:
    """Insert threads of all sizes with and without the canary, mixed; return the rows without it."""
    connection.executescript(TABLES)
    for number in range(30):
        word = f"{CANARY if number % 3 == 0 else 'other-'}{random.randbytes(random.choice([4, 40, 400])).hex()}"
        name = random.randbytes(8).hex()
        connection.execute("INSERT INTO threads VALUES (?, ?)", (name, word))
        events = [(name, seq, (word * random.choice([1, 1, 2, 10, 300])).encode()) for seq in range(60)]
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO events VALUES (?, ?, ?)", random.sample(events, len(events)))
        connection.execute("COMMIT")
    return read_others(connection)


def read_others(connection: sqlite3.Connection) -> list[tuple[bytes, ...]]:
    query = "SELECT thread, seq, data FROM events JOIN threads ON id = thread WHERE title LIKE 'other-%' ORDER BY 1, 2"
    return connection.execute(query).fetchall()


def delete_canary(connection: sqlite3.Connection) -> None:
    connection.execute(f"DELETE FROM threads WHERE title LIKE '{CANARY}%'")


@pytest.mark.parametrize("seed", range(3))
async def test_leaves_no_deleted_byte_and_keeps_everything_else(tmp_path: Path, seed: int) -> None:
    file = tmp_path / "d.db"
    with closing(connect(file)) as connection, closing(connect(file)) as reader:
        others = fill(connection, Random(seed))
        assert read_others(reader) == others  # its page cache is filled
        delete_canary(connection)
        assert CANARY.encode() in read_files(file)
        assert await Purger(file).purge()

        assert CANARY.encode() not in read_files(file)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert read_others(connection) == read_others(reader) == others
        # No connection writes back deleted content from its page cache.
        for each in (connection, reader):
            each.execute("UPDATE events SET data = data || x'00' WHERE seq % 7 = 0")
            each.execute("INSERT INTO threads VALUES (?, 'new')", (str(id(each)),))
        assert CANARY.encode() not in read_files(file)


async def test_purges_the_checkpoint_database_too(tmp_path: Path) -> None:
    for file in (tmp_path / "d.db", locate_checkpoints(tmp_path / "d.db")):
        with closing(connect(file)) as connection:
            fill(connection, Random(3))
            delete_canary(connection)
    assert await Purger(tmp_path / "d.db").purge()
    assert CANARY.encode() not in read_files(tmp_path / "d.db") + read_files(tmp_path / "checkpoints.db")


async def test_returns_false_while_a_reader_holds_an_old_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deerflow.persistence.engine.maintenance.TRUNCATE_TIMEOUT_S", 0.01)
    file = tmp_path / "d.db"
    purger = Purger(file)
    with closing(connect(file)) as connection, closing(connect(file)) as reader:
        fill(connection, Random(1))
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM events").fetchone()
        delete_canary(connection)
        assert not await purger.purge()
        reader.execute("COMMIT")
        assert await purger.purge()
        assert CANARY.encode() not in read_files(file)


async def test_returns_false_while_another_connection_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deerflow.persistence.engine.maintenance.PURGE_LOCK_TIMEOUT_S", 0.01)
    monkeypatch.setattr("deerflow.persistence.engine.maintenance.TRUNCATE_TIMEOUT_S", 0.01)
    file = tmp_path / "d.db"
    with closing(connect(file)) as connection, closing(connect(file)) as writer:
        fill(connection, Random(1))
        writer.execute("BEGIN IMMEDIATE")
        assert not await Purger(file).purge()
        writer.execute("COMMIT")
        assert await Purger(file).purge()


async def test_large_files_are_not_rewritten_while_there_is_other_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, work = tmp_path / "d.db", [1]
    purger = Purger(file, is_busy=lambda: bool(work))
    with closing(connect(file)) as connection:
        fill(connection, Random(1))
        delete_canary(connection)
        monkeypatch.setattr("deerflow.persistence.engine.maintenance.MAX_BUSY_BYTES", 4096)
        assert not await purger.purge()
        work.clear()
        assert await purger.purge()
        assert CANARY.encode() not in read_files(file)


async def test_a_rewrite_is_not_postponed_forever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "d.db"
    purger = Purger(file, is_busy=lambda: True)
    with closing(connect(file)) as connection:
        fill(connection, Random(1))
        delete_canary(connection)
        monkeypatch.setattr("deerflow.persistence.engine.maintenance.MAX_BUSY_BYTES", 4096)
        assert not await purger.purge()
        monkeypatch.setattr("deerflow.persistence.engine.maintenance.MAX_POSTPONED_S", 0.0)
        assert await purger.purge()
        assert CANARY.encode() not in read_files(file)


async def test_small_files_are_rewritten_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "d.db"
    monkeypatch.setattr("deerflow.persistence.engine.maintenance.MAX_BUSY_BYTES", 2**30)
    with closing(connect(file)) as connection:
        fill(connection, Random(1))
        delete_canary(connection)
        assert await Purger(file, is_busy=lambda: True).purge()
        assert CANARY.encode() not in read_files(file)


@pytest.mark.slow
async def test_concurrent_writes_succeed(tmp_path: Path) -> None:
    file = tmp_path / "d.db"
    purger = Purger(file)
    with closing(connect(file)) as connection, closing(connect(file)) as writer:
        fill(connection, Random(2))
        delete_canary(connection)
        stop, written = threading.Event(), 0

        def write() -> None:
            nonlocal written
            while not stop.is_set():
                writer.execute("INSERT INTO threads VALUES (?, 'busy')", (str(written),))
                written += 1

        busy = threading.Thread(target=write)
        busy.start()
        try:
            purged = any([await purger.purge() for _ in range(5)])
        finally:
            stop.set()
            await asyncio.to_thread(busy.join, timeout=10)
        assert purged and CANARY.encode() not in read_files(file)
        assert connection.execute("SELECT count(*) FROM threads WHERE title = 'busy'").fetchone() == (written,)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


async def test_concurrent_calls_share_one_rewrite(tmp_path: Path) -> None:
    file = tmp_path / "d.db"
    purger = Purger(file)
    with closing(connect(file)) as connection:
        fill(connection, Random(1))
        delete_canary(connection)
        version = connection.execute("PRAGMA schema_version").fetchone()[0]
        assert all(await asyncio.gather(*(purger.purge() for _ in range(6))))
        # VACUUM raises the schema version by one: the first call, and one rewrite for all that came during it.
        assert connection.execute("PRAGMA schema_version").fetchone()[0] - version <= 2


async def test_does_nothing_for_postgresql() -> None:
    assert await Purger("postgresql://db.example/deerflow").purge()


async def test_connections_overwrite_deleted_content(tmp_path: Path) -> None:
    def setting(connection) -> int:
        return connection.exec_driver_sql("PRAGMA secure_delete").scalar()

    async with open_database(tmp_path / "d.db") as database, asyncio.timeout(10):
        assert await database.write(setting) == 1


async def test_keeps_the_locks_of_the_server(tmp_path: Path) -> None:
    file = tmp_path / "d.db"
    visit = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('SELECT * FROM threads'); c.close()"
    with closing(connect(file)) as connection:
        fill(connection, Random(1))
        assert await Purger(file).purge()
        # The last connection to close a database deletes its log. Without our locks, a visitor would believe it is.
        await asyncio.to_thread(subprocess.run, [sys.executable, "-c", visit, file], check=True, timeout=30)
        assert file.with_name("d.db-wal").exists()


async def test_raises_for_a_file_that_is_not_a_database(tmp_path: Path) -> None:
    (tmp_path / "d.db").write_bytes(b"no database " * 1000)
    with pytest.raises(StorageUnavailable, match="not a database"):
        await Purger(tmp_path / "d.db").purge()
