"""Check and repair of damaged SQLite files."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from deerflow.domain.errors import StorageUnavailable
from deerflow.persistence.engine import open_database
from deerflow.persistence.engine.maintenance import check_file, repair_file


def fill(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE notes (number INTEGER PRIMARY KEY, text TEXT)")
        connection.executemany("INSERT INTO notes VALUES (?, ?)", [(n, f"note {n} " * 40) for n in range(1, 2001)])
        connection.execute("CREATE INDEX ix_notes_text ON notes (text)")
        connection.commit()


def scramble_page(file: Path, table: str, which: int) -> None:
    """Overwrite a leaf page of a table or index with nonsense."""
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        size = connection.execute("PRAGMA page_size").fetchone()[0]
        pages = [
            row[0]
            for row in connection.execute(
                "SELECT pageno FROM dbstat WHERE name = ? AND pagetype = 'leaf' ORDER BY path", (table,)
            )
        ]
    with file.open("r+b") as content:
        content.seek((pages[which] - 1) * size)
        content.write(b"\xa5" * size)


async def test_a_sound_file_has_no_problems(tmp_path: Path) -> None:
    file = tmp_path / "deerflow.db"
    async with open_database(file):
        pass
    assert check_file(file) == []
    assert check_file(tmp_path / "none.db") == [f"{tmp_path / 'none.db'} does not exist"]


@pytest.mark.slow
@pytest.mark.parametrize("which", [0, 7, -1])
async def test_a_repair_keeps_all_rows_outside_the_damaged_page(tmp_path: Path, which: int) -> None:
    file = tmp_path / "deerflow.db"
    async with open_database(file):
        pass
    fill(file)
    scramble_page(file, "notes", which)
    damaged = file.read_bytes()
    assert check_file(file)
    done = await asyncio.to_thread(repair_file, file)
    assert check_file(file) == [] and done.incomplete == ["notes"] and done.copy.read_bytes() == damaged
    with closing(sqlite3.connect(file)) as connection:
        rows = connection.execute("SELECT number, text FROM notes").fetchall()
    assert 1970 < len(rows) < 2000 and all(text == f"note {number} " * 40 for number, text in rows)
    async with open_database(file):  # it is still the database that was used before
        pass


async def test_a_damaged_index_loses_no_row(tmp_path: Path) -> None:
    file = tmp_path / "deerflow.db"
    async with open_database(file):
        pass
    fill(file)
    scramble_page(file, "ix_notes_text", 3)
    assert check_file(file)
    done = await asyncio.to_thread(repair_file, file)
    assert done.kept["notes"] == 2000 and done.incomplete == [] and check_file(file) == []


async def test_a_gap_in_the_log_of_a_run_is_found_and_the_search_index_survives_a_repair(tmp_path: Path) -> None:
    file = tmp_path / "deerflow.db"
    async with open_database(file):
        pass
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("INSERT INTO search_terms (rowid, terms) VALUES (5, 'blue whale')")
        connection.executemany(
            "INSERT INTO run_events (run_id, seq, event, data, created_at) VALUES ('r', ?, 'custom', '{}', 0)",
            [(1,), (2,), (4,)],
        )
        connection.commit()
    assert "1 events of run r are missing" in check_file(file)
    repair_file(file)
    assert check_file(file) == []  # the run does not exist, so its events are gone
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("SELECT rowid FROM search_terms WHERE terms MATCH 'whale'").fetchall() == [(5,)]


@pytest.mark.parametrize("content", [b"no database" * 1000, b"SQLite format 3\0" + b"\xff" * 9000])
def test_a_file_of_which_nothing_can_be_read_stays_as_it_is(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "deerflow.db"
    file.write_bytes(content)
    assert check_file(file)
    with pytest.raises(StorageUnavailable, match="restore a backup"):
        repair_file(file)
    assert file.read_bytes() == content and not list(tmp_path.glob("*.repair-*"))


async def test_opening_a_damaged_file_names_the_command_that_repairs_it(tmp_path: Path) -> None:
    file = tmp_path / "deerflow.db"
    file.write_bytes(b"no database" * 1000)
    with pytest.raises(StorageUnavailable, match="is damaged .*; run: deerflow db repair"):
        async with open_database(file):
            pass
