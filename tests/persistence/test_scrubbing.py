"""What was deleted is nowhere in the files, and nothing else is touched."""

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
from deerflow.persistence.database import open_database
from deerflow.persistence.scrubber import scrub_file
from deerflow.persistence.scrubbing import scrub

CANARY = "CANARY-"
TABLES = """
CREATE TABLE threads (id TEXT PRIMARY KEY, title TEXT);
CREATE TABLE events (thread TEXT REFERENCES threads ON DELETE CASCADE, seq INTEGER, data BLOB,
                     PRIMARY KEY (thread, seq)) WITHOUT ROWID;
CREATE INDEX titles ON threads (title);
"""


def bytes_of(file: Path) -> bytes:
    return b"".join(each.read_bytes() for each in sorted(file.parent.glob(f"{file.name}*")))


def open_like_us(file: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
    for setting in ("journal_mode=WAL", "foreign_keys=ON", "secure_delete=ON", "wal_autocheckpoint=0"):
        connection.execute(f"PRAGMA {setting}")
    return connection


def fill(connection: sqlite3.Connection, random: Random) -> list[tuple[bytes, ...]]:
    """Threads with and without the canary, in all sizes and mixed with each other; what the others hold."""
    connection.executescript(TABLES)
    for number in range(30):
        word = f"{CANARY if number % 3 == 0 else 'other-'}{random.randbytes(random.choice([4, 40, 400])).hex()}"
        name = random.randbytes(8).hex()
        connection.execute("INSERT INTO threads VALUES (?, ?)", (name, word))
        events = [(name, seq, (word * random.choice([1, 1, 2, 10, 300])).encode()) for seq in range(60)]
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO events VALUES (?, ?, ?)", random.sample(events, len(events)))
        connection.execute("COMMIT")
    return rest(connection)


def rest(connection: sqlite3.Connection) -> list[tuple[bytes, ...]]:
    query = "SELECT thread, seq, data FROM events JOIN threads ON id = thread WHERE title LIKE 'other-%' ORDER BY 1, 2"
    return connection.execute(query).fetchall()


@pytest.mark.parametrize("seed", range(3))
def test_no_byte_is_left_and_everything_else_is_as_it_was(tmp_path: Path, seed: int) -> None:
    file = tmp_path / "d.db"
    with closing(open_like_us(file)) as connection, closing(open_like_us(file)) as reader:
        others = fill(connection, Random(seed))
        assert rest(reader) == others  # now it knows the pages
        connection.execute(f"DELETE FROM threads WHERE title LIKE '{CANARY}%'")
        assert CANARY.encode() in bytes_of(file)
        assert scrub_file(file)

        assert CANARY.encode() not in bytes_of(file)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert rest(connection) == rest(reader) == others
        # Nobody brings back what they still had in memory.
        for each in (connection, reader):
            each.execute("UPDATE events SET data = data || x'00' WHERE seq % 7 = 0")
            each.execute("INSERT INTO threads VALUES (?, 'new')", (str(id(each)),))
        assert CANARY.encode() not in bytes_of(file)


def test_whoever_reads_an_old_state_puts_it_off(tmp_path: Path) -> None:
    file = tmp_path / "d.db"
    with closing(open_like_us(file)) as connection, closing(open_like_us(file)) as reader:
        fill(connection, Random(1))
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM events").fetchone()
        connection.execute(f"DELETE FROM threads WHERE title LIKE '{CANARY}%'")
        assert not scrub_file(file)
        reader.execute("COMMIT")
        assert scrub_file(file)
        assert CANARY.encode() not in bytes_of(file)


def test_it_does_not_disturb_those_who_write_at_the_same_time(tmp_path: Path) -> None:
    file = tmp_path / "d.db"
    with closing(open_like_us(file)) as connection, closing(open_like_us(file)) as writer:
        fill(connection, Random(2))
        connection.execute(f"DELETE FROM threads WHERE title LIKE '{CANARY}%'")
        stop, written = threading.Event(), 0

        def write() -> None:
            nonlocal written
            while not stop.is_set():
                writer.execute("INSERT INTO threads VALUES (?, 'busy')", (str(written),))
                written += 1

        busy = threading.Thread(target=write)
        busy.start()
        try:
            scrubbed = any(scrub_file(file) for _ in range(5))
        finally:
            stop.set()
            busy.join(timeout=10)
        assert scrubbed and CANARY.encode() not in bytes_of(file)
        assert connection.execute("SELECT count(*) FROM threads WHERE title = 'busy'").fetchone() == (written,)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


async def test_our_own_connections_zero_what_they_delete(tmp_path: Path) -> None:
    def setting(connection) -> int:
        return connection.exec_driver_sql("PRAGMA secure_delete").scalar()

    async with open_database(tmp_path / "d.db") as database, asyncio.timeout(10):
        assert await database.write(setting) == 1


async def test_the_locks_of_a_server_are_there_when_its_files_have_been_scrubbed(tmp_path: Path) -> None:
    file = tmp_path / "d.db"
    visit = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('SELECT * FROM threads'); c.close()"
    with closing(open_like_us(file)) as connection:
        fill(connection, Random(1))
        assert await scrub(file)
        # Whoever closes a database that nobody else has locked takes its log away, from under those who write to it.
        await asyncio.to_thread(subprocess.run, [sys.executable, "-c", visit, file], check=True, timeout=30)
        assert file.with_name("d.db-wal").exists()


async def test_what_is_no_database_is_told(tmp_path: Path) -> None:
    (tmp_path / "d.db").write_bytes(b"no database " * 1000)
    with pytest.raises(StorageUnavailable, match="not a database"):
        await scrub(tmp_path / "d.db")
