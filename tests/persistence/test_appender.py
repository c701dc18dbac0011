"""Appending without waiting."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from deerflow.persistence.appender import CHECKPOINT_EVERY, Appender

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


def count(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT count(*) FROM log").fetchone()[0])


def test_what_is_appended_is_there_for_others_at_once(file: Path, other: sqlite3.Connection) -> None:
    appender = Appender(file)
    assert appender.append(ROW)
    assert count(other) == 1
    appender.close()


def test_a_locked_file_is_not_waited_for(file: Path, other: sqlite3.Connection) -> None:
    appender = Appender(file)
    other.execute("BEGIN IMMEDIATE")
    assert not appender.append(ROW)
    other.execute("ROLLBACK")
    assert appender.append(ROW)
    appender.close()


def test_a_slow_disk_is_left_to_the_thread_for_a_while(file: Path, other: sqlite3.Connection) -> None:
    appender = Appender(file, slow_s=0)
    assert appender.append(ROW)
    assert not appender.append(ROW)
    assert count(other) == 1
    appender.close()


def test_checkpoints_are_asked_for_now_and_then(file: Path) -> None:
    appender = Appender(file)
    assert sum(appender.is_checkpoint_due() for _ in range(3 * CHECKPOINT_EVERY)) == 3
    appender.close()
