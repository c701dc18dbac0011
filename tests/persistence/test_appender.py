"""Appending without waiting."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from deerflow.persistence.engine.sqlite import APPENDS_PER_CHECKPOINT, Appender

ROW = ("INSERT INTO log VALUES (?)", (1,))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    connection = sqlite3.connect(tmp_path / "d.db")
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("CREATE TABLE log (number)")
    connection.close()
    return tmp_path / "d.db"


@pytest.fixture
def other(file: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(file, isolation_level=None)
    yield connection
    connection.close()


def count_rows(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT count(*) FROM log").fetchone()[0])


def test_appended_rows_are_visible_to_other_connections(file: Path, other: sqlite3.Connection) -> None:
    appender = Appender(file)
    assert appender.append(ROW)
    assert count_rows(other) == 1
    appender.close()


def test_does_not_wait_for_a_lock(file: Path, other: sqlite3.Connection) -> None:
    appender = Appender(file)
    other.execute("BEGIN IMMEDIATE")
    assert not appender.append(ROW)
    other.execute("ROLLBACK")
    assert appender.append(ROW)
    appender.close()


def test_refuses_for_a_while_after_a_slow_append(file: Path, other: sqlite3.Connection) -> None:
    appender = Appender(file, slow_s=0)
    assert appender.append(ROW)
    assert not appender.append(ROW)
    assert count_rows(other) == 1
    appender.close()


def test_requests_checkpoints_periodically(file: Path) -> None:
    appender = Appender(file)
    assert sum(appender.is_checkpoint_due() for _ in range(3 * APPENDS_PER_CHECKPOINT)) == 3
    appender.close()
